//! The results of the measurement as rows, tables and verdicts. No effects; `cluster` prints and stores them.

use std::fmt::Write as _;

use serde::Serialize;

use crate::bench::baseline::{Build, Figure};

/// The measurement of one backup or restore, or of an idle server, by one product.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// `backup`, `restore` or `rest`.
    pub(super) work: String,
    pub(super) data: String,
    pub(super) product: String,
    pub(super) wall_s: f64,
    pub(super) items: u64,
    pub(super) items_per_s: f64,
    pub(super) cpu_s: f64,
    pub(super) peak_rss_mb: f64,
    /// The memory at the end of the measurement.
    pub(super) rss_mb: f64,
    pub(super) requests: u64,
    /// How long a plugin's action ran.
    pub(super) action_s: Option<f64>,
    pub(super) get_p50_ms: Option<f64>,
    pub(super) get_p99_ms: Option<f64>,
}

/// The most memory that a server of Lifeboat may use, in MB.
const MOST_MEMORY: f64 = 130.0;
/// Memory counts as flat if the ratio between 50,000 and 10,000 objects is at most this.
const FLAT: f64 = 1.25;

impl Row {
    /// The row as one line, printed while the benchmark runs.
    pub(super) fn line(&self) -> String {
        format!(
            "{:<8} {:<13} {:<13} {:>7.2} s wall {:>6.0} items/s {:>7.2} s CPU {:>5.0} MB {:>7} requests, GETs {} ms",
            self.work,
            self.data,
            self.product,
            self.wall_s,
            self.items_per_s,
            self.cpu_s,
            self.peak_rss_mb,
            self.requests,
            shown(self.get_p99_ms)
        )
    }
}

/// The tables in Markdown: backups and restores, then idle servers.
pub(super) fn tables(rows: &[Row]) -> String {
    let rows = medians(rows);
    let (rest, works): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.work == "rest");
    let mut text = String::new();
    // Writing to a String cannot fail.
    if !works.is_empty() {
        let _ = writeln!(
            text,
            "| data | work | product | wall, s | times | items/s | CPU, s | peak memory, MB | requests | GETs' p99, ms | in the plugin, s |\n\
             |{}",
            " --- |".repeat(11)
        );
    }
    for row in works {
        let ours = find(&rows, &row.work, &row.data, "lifeboat").map_or(0.0, |ours| ours.wall_s);
        let times = if ours > 0.0 { format!("{:.1}x", row.wall_s / ours) } else { String::new() };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.2} | {times} | {:.0} | {:.2} | {:.0} | {} | {} | {} |",
            row.data,
            row.work,
            row.product,
            row.wall_s,
            row.items_per_s,
            row.cpu_s,
            row.peak_rss_mb,
            row.requests,
            shown(row.get_p99_ms),
            row.action_s.map_or_else(String::new, |spent| format!(
                "{spent:.2} ({:.0} %)",
                100.0 * spent / row.wall_s
            ))
        );
    }
    if !rest.is_empty() {
        let _ = writeln!(
            text,
            "\n| at rest | memory, MB | requests in a minute | CPU, s |\n| --- | --- | --- | --- |"
        );
    }
    for row in rest {
        let _ =
            writeln!(text, "| {} | {:.0} | {} | {:.2} |", row.product, row.rss_mb, row.requests, row.cpu_s);
    }
    text
}

/// Each aim, the measured value, and whether the aim is met.
pub(super) fn verdicts(rows: &[Row]) -> Vec<String> {
    let rows = medians(rows);
    let mut found = Vec::new();
    for ours in rows.iter().filter(|row| row.product == "lifeboat" && row.work != "rest") {
        let (tuned, default) = if ours.work == "backup" { (5.0, 10.0) } else { (10.0, 20.0) };
        for (product, aim) in [("velero-tuned", tuned), ("velero", default)] {
            if let Some(peer) = find(&rows, &ours.work, &ours.data, product) {
                let times = peer.wall_s / ours.wall_s;
                let what = format!("{} of {}: {aim:.0}x {product}", ours.work, ours.data);
                found.push(verdict(&what, &format!("{times:.1}x"), times >= aim));
            }
        }
        let what = format!("{} of {}: at most {MOST_MEMORY:.0} MB", ours.work, ours.data);
        found.push(verdict(&what, &format!("{:.0} MB", ours.peak_rss_mb), ours.peak_rss_mb <= MOST_MEMORY));
    }
    for work in ["backup", "restore"] {
        let memory = |data| find(&rows, work, data, "lifeboat").map(|row| row.peak_rss_mb);
        if let (Some(few), Some(many)) = (memory("config-10000"), memory("config-50000")) {
            let what = format!("{work}: memory flat between 10,000 and 50,000 objects");
            found.push(verdict(&what, &format!("{few:.0} and {many:.0} MB"), many <= few * FLAT));
        }
    }
    found
}

/// The figures by which two builds are compared: times and peak memory of backups and restores, memory of idle servers.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let of = |row: &Row| {
        let build = if row.product.starts_with(Build::Old.product()) { Build::Old } else { Build::New };
        let figure = |name: String, unit, value| Figure { build, name, unit, value };
        let Row { work, data, .. } = row;
        if work == "rest" {
            return vec![figure("memory of the server at rest".to_owned(), "MB", row.rss_mb)];
        }
        vec![
            figure(format!("time of the {work} of {data}"), "s", row.wall_s),
            figure(format!("peak memory of the server in the {work} of {data}"), "MB", row.peak_rss_mb),
        ]
    };
    rows.iter().flat_map(of).collect()
}

fn verdict(aim: &str, found: &str, met: bool) -> String {
    format!("{aim}: {found} ({})", if met { "met" } else { "not met" })
}

fn find<'a>(rows: &'a [Row], work: &str, data: &str, product: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.work == work && row.data == data && row.product == product)
}

/// One row for each work, data and product: of several rounds, the one with the median wall time.
fn medians(rows: &[Row]) -> Vec<Row> {
    let mut found: Vec<Row> = Vec::new();
    for row in rows {
        if find(&found, &row.work, &row.data, &row.product).is_some() {
            continue;
        }
        let same =
            |other: &&Row| [&other.work, &other.data, &other.product] == [&row.work, &row.data, &row.product];
        let mut rounds: Vec<&Row> = rows.iter().filter(same).collect();
        rounds.sort_by(|one, other| one.wall_s.total_cmp(&other.wall_s));
        found.push(rounds[rounds.len() / 2].clone());
    }
    found
}

fn shown(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| format!("{number:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(work: &str, data: &str, product: &str, wall_s: f64) -> Row {
        Row {
            work: work.into(),
            data: data.into(),
            product: product.into(),
            wall_s,
            items: 1000,
            items_per_s: 1000.0 / wall_s,
            cpu_s: 1.0,
            peak_rss_mb: 100.0,
            rss_mb: 90.0,
            requests: 7,
            action_s: None,
            get_p50_ms: Some(1.0),
            get_p99_ms: Some(9.0),
        }
    }

    #[test]
    fn a_verdict_has_the_measured_value_and_whether_the_aim_is_met() {
        let rows = [
            row("backup", "config-10000", "velero-tuned", 8.0),
            row("backup", "config-10000", "lifeboat", 2.0),
        ];
        let found = verdicts(&rows);
        assert_eq!(found[0], "backup of config-10000: 5x velero-tuned: 4.0x (not met)");
        assert_eq!(found[1], "backup of config-10000: at most 130 MB: 100 MB (met)");
    }

    #[test]
    fn of_several_rounds_the_middle_one_is_shown() {
        let rows = [5.0, 1.0, 3.0].map(|wall| row("backup", "mixed-10000", "lifeboat", wall));
        assert_eq!(medians(&rows), [row("backup", "mixed-10000", "lifeboat", 3.0)]);
        assert!(
            tables(&rows).contains("| mixed-10000 | backup | lifeboat | 3.00 | 1.0x | 333 |"),
            "{}",
            tables(&rows)
        );
    }

    #[test]
    fn servers_at_rest_have_a_table_of_their_own() {
        let text = tables(&[row("rest", "rest-6000", "velero", 60.0)]);
        assert!(text.contains("| velero | 90 | 7 | 1.00 |"), "{text}");
    }

    #[test]
    fn builds_are_compared_by_times_and_memory() {
        let rows = [
            row("backup", "config-500", "baseline", 2.0),
            row("backup", "config-500", "lifeboat", 3.0),
            row("rest", "rest-6000", "lifeboat", 60.0),
        ];
        let found: Vec<(Build, String, f64)> =
            figures(&rows).into_iter().map(|each| (each.build, each.name, each.value)).collect();
        let (time, memory) = (
            "time of the backup of config-500".to_owned(),
            "peak memory of the server in the backup of config-500".to_owned(),
        );
        assert_eq!(
            found,
            [
                (Build::Old, time.clone(), 2.0),
                (Build::Old, memory.clone(), 100.0),
                (Build::New, time, 3.0),
                (Build::New, memory, 100.0),
                (Build::New, "memory of the server at rest".to_owned(), 90.0),
            ]
        );
    }
}
