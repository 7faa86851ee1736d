//! The results as rows, a table and the limits. No effects; `sessions` prints and stores them.

use std::fmt::{self, Write as _};

use serde::Serialize;

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Row {
    /// `batch`, `gateway`, `burst` or `rest`.
    pub(super) work: String,
    /// `restic`, `lifeboat`, `direct` or `gateway`.
    pub(super) product: String,
    pub(super) round: u16,
    pub(super) wall_s: Option<f64>,
    /// Each host, in the order of the members.
    pub(super) hosts_s: Vec<f64>,
    pub(super) cpu_s: Option<f64>,
    /// The peak memory of the server.
    pub(super) server_mb: Option<f64>,
    /// Its memory at the end of the time at rest.
    pub(super) rest_mb: Option<f64>,
    /// Sessions that were due, or BackupConfigurations at rest.
    pub(super) sessions: Option<u32>,
    pub(super) succeeded: Option<usize>,
    pub(super) movers_at_once: Option<usize>,
    pub(super) movers_limit: Option<usize>,
    /// Requests to the API server, beside those for leases and watches.
    pub(super) requests: Option<u64>,
    pub(super) lease_requests: Option<u64>,
    pub(super) watches: Option<u64>,
}

/// How much longer than plain restic a host of a batch may take, in seconds.
const MOST_OVERHEAD: f64 = 2.0;
/// How many times as long as with keys in place a batch through the gateway may take.
const MOST_SLOWER: f64 = 1.20;
/// How much more memory the server may use as a gateway for eight movers, in MB.
const MOST_GATEWAY_MB: f64 = 64.0;
/// The memory of a server at rest, in MB.
const MOST_REST_MB: f64 = 100.0;
/// Requests of a server at rest in ten minutes.
const MOST_REQUESTS: f64 = 60.0;

impl Row {
    pub(super) fn new(work: &str, product: &str, round: u16) -> Self {
        Self { work: work.to_owned(), product: product.to_owned(), round, ..Self::default() }
    }

    /// The row as one line, printed while the benchmark runs.
    pub(super) fn line(&self) -> String {
        format!(
            "{:<8} {:<9} {:>8} s wall, hosts {} s, server {} MB",
            self.work,
            self.product,
            shown(self.wall_s),
            self.hosts_shown(),
            shown(self.rest_mb.or(self.server_mb)),
        )
    }

    fn hosts_shown(&self) -> String {
        self.hosts_s.iter().map(|seconds| format!("{seconds:.2}")).collect::<Vec<_>>().join(" ")
    }
}

/// The table in Markdown.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "| work | product | wall, s | each host, s | server's peak, MB | at rest, MB | sessions | succeeded | movers at once | requests | \
         for leases | watches |\n|{}\n",
        " --- |".repeat(12)
    );
    let count = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let size = |number: Option<usize>| number.map_or_else(String::new, |number| number.to_string());
    for row in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.work,
            row.product,
            shown(row.wall_s),
            row.hosts_shown(),
            shown(row.server_mb),
            shown(row.rest_mb),
            count(row.sessions.map(u64::from)),
            size(row.succeeded),
            size(row.movers_at_once),
            count(row.requests),
            count(row.lease_requests),
            count(row.watches),
        );
    }
    text
}

/// A limit, and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    what: String,
    found: f64,
    /// The largest value that is allowed.
    most: f64,
    unit: &'static str,
}

impl Limit {
    pub(super) fn is_met(&self) -> bool {
        self.found <= self.most
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, found, most, unit } = self;
        let met = if self.is_met() { "met" } else { "not met" };
        write!(formatter, "{what}: {found:.2}{unit}, at most {most:.2}{unit} ({met})")
    }
}

/// The limits of what was measured.
pub(super) fn limits(rows: &[Row]) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut add = |what: &str, found: Option<f64>, most: f64, unit: &'static str| {
        limits.extend(found.map(|found| Limit { what: what.to_owned(), found, most, unit }));
    };
    add("each host of a batch, more than plain restic", overhead(rows), MOST_OVERHEAD, " s");
    let slower = ratio(median(rows, "gateway", "gateway", wall), median(rows, "gateway", "direct", wall));
    add("a batch through the gateway, times as long as with keys in place", slower, MOST_SLOWER, "x");
    let memory = median(rows, "gateway", "gateway", peak).zip(median(rows, "gateway", "direct", peak));
    let more = memory.map(|(gateway, direct)| gateway - direct);
    add("the server's memory as a gateway, more than without", more, MOST_GATEWAY_MB, " MB");
    for row in rows.iter().filter(|row| row.work == "burst") {
        let sessions = row.sessions.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        let failed = row.succeeded.map(|succeeded| number(sessions.saturating_sub(succeeded)));
        add("sessions due in one second that did not succeed", failed, 0.0, "");
        let most = row.movers_limit.map_or(0.0, number);
        add("movers at once", row.movers_at_once.map(number), most, "");
    }
    for row in rows.iter().filter(|row| row.work == "rest") {
        add("memory at rest", row.rest_mb, MOST_REST_MB, " MB");
        let requests = row.requests.and_then(|count| usize::try_from(count).ok()).map(number);
        let in_ten = requests.zip(row.wall_s).map(|(requests, seconds)| requests * 600.0 / seconds);
        add("requests at rest in ten minutes", in_ten, MOST_REQUESTS, "");
    }
    limits
}

/// How much longer the worst host of a round took than restic on its directory; the median of the rounds.
fn overhead(rows: &[Row]) -> Option<f64> {
    let of = |product: &str, round| {
        rows.iter().find(|row| row.work == "batch" && row.product == product && row.round == round)
    };
    let ours = rows.iter().filter(|row| row.work == "batch" && row.product == "lifeboat");
    let worst = ours.filter_map(|row| {
        let floor = of("restic", row.round)?;
        let more = row.hosts_s.iter().zip(&floor.hosts_s).map(|(ours, floor)| ours - floor);
        more.max_by(f64::total_cmp)
    });
    middle(worst.collect())
}

fn median(rows: &[Row], work: &str, product: &str, of: fn(&Row) -> Option<f64>) -> Option<f64> {
    middle(rows.iter().filter(|row| row.work == work && row.product == product).filter_map(of).collect())
}

fn wall(row: &Row) -> Option<f64> {
    row.wall_s
}

fn peak(row: &Row) -> Option<f64> {
    row.server_mb
}

fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.zip(other).map(|(one, other)| one / other)
}

/// The middle value; of an even number the larger one of the two.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[allow(clippy::cast_precision_loss)] // small counts
fn number(count: usize) -> f64 {
    count as f64
}

fn shown(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| format!("{number:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(product: &str, round: u16, hosts: &[f64]) -> Row {
        Row { hosts_s: hosts.to_vec(), wall_s: Some(9.0), ..Row::new("batch", product, round) }
    }

    fn through(product: &str, wall_s: f64, server_mb: f64) -> Row {
        Row { wall_s: Some(wall_s), server_mb: Some(server_mb), ..Row::new("gateway", product, 0) }
    }

    fn found(rows: &[Row]) -> Vec<String> {
        limits(rows).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_worst_host_of_the_median_round_counts() {
        let mut rows = Vec::new();
        for (round, more) in [(0, 9.0), (1, 1.0), (2, 1.5)] {
            rows.push(batch("restic", round, &[4.0, 5.0, 6.0]));
            rows.push(batch("lifeboat", round, &[4.1, 5.0 + more, 6.2]));
        }
        let limits = limits(&rows);
        assert_eq!(limits.len(), 1, "{limits:?}");
        assert!(limits[0].is_met() && (limits[0].found - 1.5).abs() < 1e-9, "{limits:?}");
        rows.retain(|row| row.round == 0);
        assert!(!super::limits(&rows)[0].is_met());
    }

    #[test]
    fn the_gateway_is_compared_with_keys_in_place() {
        let rows = [through("direct", 20.0, 80.0), through("gateway", 25.0, 120.0)];
        assert_eq!(
            found(&rows),
            [
                "a batch through the gateway, times as long as with keys in place: 1.25x, at most 1.20x (not met)",
                "the server's memory as a gateway, more than without: 40.00 MB, at most 64.00 MB (met)",
            ]
        );
    }

    #[test]
    fn a_session_that_failed_and_a_mover_too_many_are_over_the_limit() {
        let burst = |succeeded, movers| Row {
            sessions: Some(100),
            succeeded: Some(succeeded),
            movers_at_once: Some(movers),
            movers_limit: Some(6),
            ..Row::new("burst", "lifeboat", 0)
        };
        assert!(limits(&[burst(100, 6)]).iter().all(Limit::is_met));
        assert!(!limits(&[burst(99, 6)])[0].is_met());
        assert!(!limits(&[burst(100, 7)])[1].is_met());
    }

    #[test]
    fn requests_at_rest_count_for_ten_minutes() {
        let rest = Row {
            wall_s: Some(300.0),
            rest_mb: Some(99.0),
            requests: Some(31),
            ..Row::new("rest", "lifeboat", 0)
        };
        let limits = limits(&[rest]);
        assert!(limits[0].is_met(), "{limits:?}");
        assert!(!limits[1].is_met() && (limits[1].found - 62.0).abs() < 1e-9, "{limits:?}");
    }

    #[test]
    fn the_table_has_a_column_for_everything_and_what_was_not_measured_is_empty() {
        let text = table(&[batch("lifeboat", 0, &[1.0, 2.5])]);
        let lines: Vec<&str> = text.lines().collect();
        let columns = |line: &str| line.matches('|').count();
        assert_eq!((columns(lines[0]), columns(lines[1])), (columns(lines[2]), columns(lines[2])), "{text}");
        assert!(lines[2].starts_with("| batch | lifeboat | 9.0 | 1.00 2.50 |  |"), "{text}");
    }
}
