//! The results of the measurement as rows, tables and verdicts: medians over the rounds, ratios to other products, aims.
//! No effects; `repository` prints and stores them.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde::Serialize;

use super::case::{Case, Work};
use super::product::Product;
use crate::bench::measure::Sample;

/// The measurement of one work by one product. In a report each number is the median of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) work: String,
    pub(super) data: String,
    pub(super) place: String,
    pub(super) cache: String,
    pub(super) product: String,
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
    pub(super) peak_rss_mb: f64,
    pub(super) repository_mb: f64,
    /// The number of measured rounds.
    pub(super) rounds: usize,
}

impl Row {
    pub(super) fn new(work: Work, case: Case, product: Product, sample: Sample, bytes: u64) -> Self {
        Self {
            work: name(&work),
            data: name(&case.set),
            place: case.place.name(),
            cache: name(&case.cache),
            product: product.name(),
            wall_s: sample.wall_s,
            cpu_s: sample.cpu_s,
            peak_rss_mb: sample.peak_rss_mb,
            repository_mb: megabytes(bytes),
            rounds: 1,
        }
    }

    /// The row as one line, printed while the benchmark runs.
    pub(super) fn line(&self) -> String {
        format!(
            "{:<18} {:<9} {:>7.2} s wall {:>7.2} s CPU {:>6.0} MB memory {:>6.0} MB repository",
            self.product, self.work, self.wall_s, self.cpu_s, self.peak_rss_mb, self.repository_mb
        )
    }

    fn key(&self) -> [&str; 5] {
        [&self.data, &self.place, &self.cache, &self.work, &self.product]
    }
}

/// One row for each work and product, in the order in which they were first measured.
pub(super) fn medians(rows: &[Row]) -> Vec<Row> {
    let mut found: Vec<Row> = Vec::new();
    for row in rows {
        if found.iter().any(|known| known.key() == row.key()) {
            continue;
        }
        let same: Vec<&Row> = rows.iter().filter(|other| other.key() == row.key()).collect();
        let middle = |value: fn(&Row) -> f64| median(same.iter().map(|row| value(row)).collect());
        found.push(Row {
            wall_s: middle(|row| row.wall_s),
            cpu_s: middle(|row| row.cpu_s),
            peak_rss_mb: middle(|row| row.peak_rss_mb),
            repository_mb: middle(|row| row.repository_mb),
            rounds: same.len(),
            ..row.clone()
        });
    }
    found
}

/// The tables in Markdown: for each case one table per number, with the ratios of the other products to Lifeboat.
pub(super) fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut cases: Vec<[&str; 3]> = rows.iter().map(case).collect();
    cases.dedup();
    for wanted in cases {
        let rows: Vec<&Row> = rows.iter().filter(|row| case(row) == wanted).collect();
        let [data, place, cache] = wanted;
        let _ = writeln!(text, "\n### {data} data, {place} repository, {cache} page cache"); // a String takes everything
        for (title, value) in NUMBERS {
            text += &table(title, value, &rows);
        }
    }
    text
}

type Number = fn(&Row) -> f64;
const NUMBERS: [(&str, Number); 4] = [
    ("wall, s", |row| row.wall_s),
    ("CPU, s", |row| row.cpu_s),
    ("peak memory, MB", |row| row.peak_rss_mb),
    ("repository, MB", |row| row.repository_mb),
];

fn table(title: &str, value: Number, rows: &[&Row]) -> String {
    let products: Vec<String> =
        all::<Product>().filter(|product| rows.iter().any(|row| row.product == *product)).collect();
    let head = [products.clone(), vec!["restic ÷ lifeboat".into(), "kopia-zstd ÷ lifeboat".into()]].concat();
    let mut text = format!("\n| {title} | {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len() + 1));
    for work in all::<Work>().filter(|work| rows.iter().any(|row| row.work == *work)) {
        let of = |product: &str| find(rows, &work, product).map(value);
        let mut cells: Vec<String> = products.iter().map(|product| shown(of(product))).collect();
        cells.push(times(ratio(better_restic(&of), of("lifeboat"))));
        cells.push(times(ratio(of("kopia-zstd"), of("lifeboat"))));
        let _ = writeln!(text, "| {work} | {} |", cells.join(" | "));
    }
    text
}

/// An aim of the project, the measured value, and whether the aim is met.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) aim: String,
    pub(super) found: String,
    pub(super) met: bool,
}

/// The verdicts on all aims for which there are rows.
pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut cases: Vec<[&str; 3]> = rows.iter().map(case).collect();
    cases.dedup();
    cases
        .into_iter()
        .flat_map(|wanted| {
            let rows: Vec<&Row> = rows.iter().filter(|row| case(row) == wanted).collect();
            verdicts_of(wanted, &rows)
        })
        .collect()
}

fn verdicts_of([data, place, cache]: [&str; 3], rows: &[&Row]) -> Vec<Verdict> {
    let wall = |work: &'static str| move |product: &str| find(rows, work, product).map(|row| row.wall_s);
    let size = |product: &str| find(rows, "first", product).map(|row| row.repository_mb);
    let mut found = Vec::new();
    let mut speed = |aim: &str, least: f64, peer: Option<f64>, ours: Option<f64>| {
        if let Some(times) = ratio(peer, ours) {
            let aim = format!("{data}, {place}, {cache}: {aim}");
            found.push(Verdict { aim, found: format!("{times:.2}x"), met: times >= least });
        }
    };
    if (data, place, cache) == ("mixed", "local", "warm") {
        let (first, again, restore) = (wall("first"), wall("unchanged"), wall("restore"));
        speed("first backup 2x the better restic", 2.0, better_restic(&first), first("lifeboat"));
        speed("first backup 1.5x kopia-zstd", 1.5, first("kopia-zstd"), first("lifeboat"));
        speed("unchanged 2x the better restic", 2.0, better_restic(&again), again("lifeboat"));
        speed("restore 1.5x the better restic", 1.5, better_restic(&restore), restore("lifeboat"));
        speed("repository no larger than restic's", 1.0, better_restic(&size), size("lifeboat"));
        speed("repository no larger than kopia-zstd's", 1.0, size("kopia-zstd"), size("lifeboat"));
    }
    for work in all::<Work>() {
        let row = |product: &str| find(rows, &work, product);
        let memory = |product: &str| row(product).map(|row| row.peak_rss_mb);
        speed(&format!("{work}: memory no more than restic's"), 1.0, memory("restic"), memory("lifeboat"));
        if place == "slow-s3" {
            let best = all::<Product>()
                .filter(|product| product != "lifeboat")
                .filter_map(|product| row(&product).map(|row| row.wall_s))
                .min_by(f64::total_cmp);
            speed(
                &format!("{work}: no slower than the best"),
                1.0,
                best,
                row("lifeboat").map(|row| row.wall_s),
            );
        }
    }
    found
}

fn better_restic(value: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
    ["restic", "restic-tuned"].into_iter().filter_map(value).min_by(f64::total_cmp)
}

fn find<'a>(rows: &[&'a Row], work: &str, product: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.work == work && row.product == product).copied()
}

fn case(row: &Row) -> [&str; 3] {
    [&row.data, &row.place, &row.cache]
}

fn ratio(peer: Option<f64>, ours: Option<f64>) -> Option<f64> {
    Some(peer? / ours.filter(|ours| *ours > 0.0)?)
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x"))
}

fn shown(number: Option<f64>) -> String {
    match number {
        None => String::new(),
        Some(number) if number < 100.0 => format!("{number:.2}"),
        Some(number) => format!("{number:.0}"),
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => 0.0,
        count if count % 2 == 0 => f64::midpoint(numbers[middle - 1], numbers[middle]),
        _ => numbers[middle],
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The names of all values, in the order of the tables.
fn all<T: ValueEnum + 'static>() -> impl Iterator<Item = String> {
    T::value_variants().iter().filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()))
}

#[allow(clippy::cast_precision_loss)] // for people
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::case::Cache;
    use super::super::data::Set;
    use super::super::place::StorageKind;
    use super::*;

    fn row(work: Work, product: Product, wall_s: f64) -> Row {
        let case = Case { set: Set::Mixed, place: StorageKind::Local, cache: Cache::Warm };
        let sample = Sample { wall_s, cpu_s: wall_s * 2.0, peak_rss_mb: 100.0 };
        Row::new(work, case, product, sample, 800_000_000)
    }

    #[test]
    fn a_report_has_the_median_of_the_rounds() {
        let rows = [8.0, 30.0, 9.0].map(|wall| row(Work::First, Product::Restic, wall));
        let found = medians(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].wall_s, found[0].cpu_s, found[0].rounds), (9.0, 18.0, 3));
        assert!((median(vec![1.0, 2.0]) - 1.5).abs() < 1e-9);
    }

    #[test]
    fn ratios_are_to_the_better_restic() {
        let rows = [
            row(Work::First, Product::Lifeboat, 4.0),
            row(Work::First, Product::Restic, 9.0),
            row(Work::First, Product::ResticTuned, 8.0),
        ];
        let text = tables(&rows);
        assert!(text.contains("### mixed data, local repository, warm page cache"), "{text}");
        assert!(text.contains("| first | 4.00 | 9.00 | 8.00 | 2.00x |  |"), "{text}");
    }

    #[test]
    fn a_verdict_has_the_measured_value_and_whether_the_aim_is_met() {
        let rows = [row(Work::First, Product::Lifeboat, 4.0), row(Work::First, Product::Restic, 7.0)];
        let found = verdicts(&rows);
        let speed = &found[0];
        assert_eq!((speed.found.as_str(), speed.met), ("1.75x", false));
        assert!(
            found.iter().any(|verdict| verdict.aim.ends_with("memory no more than restic's") && verdict.met)
        );
    }

    #[test]
    fn without_ours_there_are_no_verdicts_and_the_table_is_still_there() {
        let rows = [row(Work::Check, Product::KopiaZstd, 4.0)];
        assert_eq!(verdicts(&rows), []);
        assert!(tables(&rows).contains("| check | 4.00 |  |  |"), "{}", tables(&rows));
    }
}
