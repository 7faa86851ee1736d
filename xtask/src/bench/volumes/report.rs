//! The results of the measurement as rows, a table and verdicts. No effects; `volumes` prints and stores them.

use std::fmt::Write as _;

use serde::Serialize;

use crate::bench::baseline::{Build, Figure};

/// The measurement of one backup or restore by one product.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// `first`, `second` or `restore`.
    pub(super) work: String,
    pub(super) product: String,
    pub(super) volumes: u32,
    pub(super) size_mb: u32,
    pub(super) wall_s: f64,
    /// The CPU time of server, agents and movers.
    pub(super) cpu_s: f64,
    pub(super) server_mb: Option<f64>,
    pub(super) agent_mb: Option<f64>,
    /// The peak memory of the largest mover.
    pub(super) mover_mb: Option<f64>,
    /// None for restores.
    pub(super) uploaded_mb: Option<f64>,
}

/// The most memory that a mover may use, in MB.
const MOST_MEMORY: f64 = 192.0;
/// How much longer than restic Lifeboat may take for a volume, in seconds.
const MOST_OVERHEAD: f64 = 2.0;
/// The aim for the ratio of Velero's time to Lifeboat's.
const TIMES: f64 = 2.0;
const OURS: &str = "lifeboat";
/// The lower bound: restic with as many volumes at a time as Lifeboat.
const FLOOR: &str = "restic-parallel";

impl Row {
    /// The row as one line, printed while the benchmark runs.
    pub(super) fn line(&self) -> String {
        format!(
            "{:<8} {:<16} {:>7.2} s wall {:>7.2} s CPU, server {} MB, mover {} MB, {} MB uploaded",
            self.work,
            self.product,
            self.wall_s,
            self.cpu_s,
            shown(self.server_mb),
            shown(self.mover_mb),
            shown(self.uploaded_mb)
        )
    }
}

/// The table in Markdown.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "| work | product | wall, s | times | more than restic, s per volume | CPU, s | server, MB | node agent, MB | \
         largest mover, MB | uploaded, MB |\n|{}\n",
        " --- |".repeat(10)
    );
    for row in rows {
        let times = match find(rows, &row.work, OURS) {
            Some(ours) if row.product != OURS => format!("{:.1}x", row.wall_s / ours.wall_s),
            _ => String::new(),
        };
        let beyond = find(rows, &row.work, FLOOR)
            .filter(|_| !row.product.starts_with("restic"))
            .map_or_else(String::new, |floor| format!("{:.2}", overhead(row, floor)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {times} | {beyond} | {:.1} | {} | {} | {} | {} |",
            row.work,
            row.product,
            row.wall_s,
            row.cpu_s,
            shown(row.server_mb),
            shown(row.agent_mb),
            shown(row.mover_mb),
            shown(row.uploaded_mb)
        );
    }
    text
}

/// Each aim, the measured value, and whether the aim is met.
pub(super) fn verdicts(rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for ours in rows.iter().filter(|row| row.product == OURS) {
        for peer in rows.iter().filter(|row| row.work == ours.work && row.product.starts_with("velero")) {
            let times = peer.wall_s / ours.wall_s;
            let what = format!("{}: {TIMES:.0}x {}", ours.work, peer.product);
            found.push(verdict(&what, &format!("{times:.1}x"), times >= TIMES));
        }
        if let Some(floor) = find(rows, &ours.work, FLOOR) {
            let more = overhead(ours, floor);
            let what = format!("{}: at most {MOST_OVERHEAD:.0} s more than restic for a volume", ours.work);
            found.push(verdict(&what, &format!("{more:.2} s"), more <= MOST_OVERHEAD));
        }
        if let Some(memory) = ours.mover_mb {
            let what = format!("{}: a mover's memory at most {MOST_MEMORY:.0} MB", ours.work);
            found.push(verdict(&what, &format!("{memory:.0} MB"), memory <= MOST_MEMORY));
        }
    }
    found
}

/// The figures by which two builds are compared: times, peak memory of the server and of the largest mover.
pub(super) fn figures(rows: &[Row]) -> Vec<Figure> {
    let of = |row: &Row| {
        let build = if row.product == Build::Old.product() { Build::Old } else { Build::New };
        let what = match row.work.as_str() {
            "restore" => "restore".to_owned(),
            work => format!("{work} backup"),
        };
        let figure = |name: String, unit, value| Figure { build, name, unit, value };
        let memory = |who: &str, value: Option<f64>| {
            value.map(|value| figure(format!("peak memory of the {who} in the {what}"), "MB", value))
        };
        let time = figure(format!("time of the {what}"), "s", row.wall_s);
        [Some(time), memory("server", row.server_mb), memory("largest mover", row.mover_mb)]
    };
    rows.iter().flat_map(of).flatten().collect()
}

fn overhead(row: &Row, floor: &Row) -> f64 {
    (row.wall_s - floor.wall_s) / f64::from(row.volumes.max(1))
}

fn verdict(aim: &str, found: &str, met: bool) -> String {
    format!("{aim}: {found} ({})", if met { "met" } else { "not met" })
}

fn find<'a>(rows: &'a [Row], work: &str, product: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.work == work && row.product == product)
}

fn shown(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| format!("{number:.0}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(product: &str, wall_s: f64) -> Row {
        Row {
            work: "first".into(),
            product: product.into(),
            volumes: 20,
            size_mb: 100,
            wall_s,
            cpu_s: 12.0,
            server_mb: product.starts_with("velero").then_some(150.0),
            agent_mb: None,
            mover_mb: Some(200.0),
            uploaded_mb: Some(1300.0),
        }
    }

    #[test]
    fn peers_are_shown_as_multiples_and_overhead_for_each_volume() {
        let text = table(&[row("restic-parallel", 20.0), row("velero", 90.0), row("lifeboat", 30.0)]);
        assert!(
            text.contains("| first | restic-parallel | 20.00 | 0.7x |  | 12.0 |  |  | 200 | 1300 |"),
            "{text}"
        );
        assert!(text.contains("| first | velero | 90.00 | 3.0x | 3.50 | 12.0 | 150 |"), "{text}");
        assert!(text.contains("| first | lifeboat | 30.00 |  | 0.50 |"), "{text}");
    }

    #[test]
    fn a_verdict_has_the_measured_value_and_whether_the_aim_is_met() {
        let found = verdicts(&[row("restic-parallel", 20.0), row("velero", 45.0), row("lifeboat", 30.0)]);
        assert_eq!(
            found,
            [
                "first: 2x velero: 1.5x (not met)",
                "first: at most 2 s more than restic for a volume: 0.50 s (met)",
                "first: a mover's memory at most 192 MB: 200 MB (not met)",
            ]
        );
    }

    #[test]
    fn without_peers_nothing_is_compared() {
        let text = table(&[row("lifeboat", 30.0)]);
        assert!(text.contains("| first | lifeboat | 30.00 |  |  |"), "{text}");
    }

    #[test]
    fn builds_are_compared_by_times_and_memory_that_was_seen() {
        let found: Vec<(Build, String, f64)> = figures(&[row("baseline", 30.0), row("lifeboat", 31.0)])
            .into_iter()
            .map(|each| (each.build, each.name, each.value))
            .collect();
        let (time, memory) = (
            "time of the first backup".to_owned(),
            "peak memory of the largest mover in the first backup".to_owned(),
        );
        assert_eq!(
            found,
            [
                (Build::Old, time.clone(), 30.0),
                (Build::Old, memory.clone(), 200.0),
                (Build::New, time, 31.0),
                (Build::New, memory, 200.0),
            ]
        );
    }
}
