//! The metrics of the server's process, and those that every controller counts. The APIs and the movers register their own
//! with [`Metrics::register`]. Metrics that upstream has keep upstream's names, so that existing dashboards and alerts
//! continue to work; all others start with `lifeboat_`. The number of labels is bounded by the number of objects that users
//! create.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a reconcile or a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    /// It failed; the error's category is a word from a fixed list.
    Error(&'static str),
}

impl Outcome {
    /// `category` names the category of an error.
    pub fn of<T, E>(result: &Result<T, E>, category: impl FnOnce(&E) -> &'static str) -> Self {
        result.as_ref().map_or_else(|error| Self::Error(category(error)), |_| Self::Ok)
    }

    /// The values of the labels `outcome` and `category`.
    fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Ok => ("Ok", NO_CATEGORY),
            Self::Error(category) => ("Error", category),
        }
    }
}

/// How work that outlives a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkOutcome {
    Ended,
    /// It failed; the error's category is a word from a fixed list.
    Failed(&'static str),
    /// It panicked, which is a defect.
    Panicked,
}

impl WorkOutcome {
    /// The values of the labels `outcome` and `category`.
    fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Ended => ("Ended", NO_CATEGORY),
            Self::Failed(category) => ("Failed", category),
            Self::Panicked => ("Panicked", "defect"),
        }
    }
}

/// The category of an outcome without a failure. For Prometheus an empty label is an absent one.
const NO_CATEGORY: &str = "";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    outcome: &'static str,
    category: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkLabels {
    work: &'static str,
    outcome: &'static str,
    category: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SweepLabels {
    sweep: &'static str,
    outcome: &'static str,
    category: &'static str,
}

/// Handles to what every server counts, and the registry of all metrics; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    reconciles: Family<ReconcileLabels, Counter>,
    work: Family<WorkLabels, Counter>,
    sweeps: Family<SweepLabels, Counter>,
    leader: Gauge<i64, AtomicI64>,
}

impl Metrics {
    pub fn new(version: &str) -> Self {
        let mut registry = Registry::default();
        let (reconciles, leader) = (Family::default(), Gauge::default());
        let (work, sweeps) = (Family::default(), Family::default());
        registry.register(
            "lifeboat_reconciles",
            "Reconciles by controller, outcome and category of the error",
            reconciles.clone(),
        );
        registry.register(
            "lifeboat_work",
            "Work that outlives a reconcile, by kind of work, outcome and category of the error",
            work.clone(),
        );
        registry.register(
            "lifeboat_sweeps",
            "Searches for what interrupted servers left, by kind, outcome and category of the error",
            sweeps.clone(),
        );
        registry.register("lifeboat_leader", "1 if this replica is the leader", leader.clone());
        registry.register(
            "lifeboat_build",
            "The version of this server",
            Info::new(vec![("version", version.to_owned())]),
        );
        Self { registry: Arc::new(Mutex::new(registry)), reconciles, work, sweeps, leader }
    }

    /// Adds metrics, which are shown from then on. To be called once for each set of names.
    pub fn register<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn count_reconcile(&self, controller: &'static str, outcome: Outcome) {
        let (outcome, category) = outcome.labels();
        self.reconciles.get_or_create(&ReconcileLabels { controller, outcome, category }).inc();
    }

    /// Counts the end of work of one kind. `work` is the name of the kind, not of an object.
    pub fn count_work(&self, work: &'static str, outcome: WorkOutcome) {
        let (outcome, category) = outcome.labels();
        self.work.get_or_create(&WorkLabels { work, outcome, category }).inc();
    }

    /// Counts a search for what interrupted servers left.
    pub fn count_sweep(&self, sweep: &'static str, outcome: Outcome) {
        let (outcome, category) = outcome.labels();
        self.sweeps.get_or_create(&SweepLabels { sweep, outcome, category }).inc();
    }

    /// Called when this replica becomes the leader.
    pub fn begin_term(&self) {
        self.leader.set(1);
    }

    /// Called when this replica is no longer the leader. The code that registered other metrics of a leader removes them.
    pub fn end_term(&self) {
        self.leader.set(0);
    }

    /// All metrics as `/metrics` shows them.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        match encode(&mut text, &registry) {
            Ok(()) => text,
            Err(error) => {
                tracing::error!(%error, "cannot encode the metrics");
                String::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_counted_and_a_failure_with_its_category() {
        let metrics = Metrics::new("0.1.0");
        let failed: Result<(), &str> = Err("conflict");
        metrics.count_reconcile("schedule", Outcome::of(&failed, |category| *category));
        metrics.count_reconcile("schedule", Outcome::of(&Ok::<_, &str>(()), |category| *category));
        metrics.count_work("backup", WorkOutcome::Ended);
        metrics.count_work("backup", WorkOutcome::Failed("storage"));
        metrics.count_work("backup", WorkOutcome::Panicked);
        metrics.count_sweep("movers", Outcome::Error("forbidden"));
        let text = metrics.render();
        for line in [
            "lifeboat_reconciles_total{controller=\"schedule\",outcome=\"Error\",category=\"conflict\"} 1",
            "lifeboat_reconciles_total{controller=\"schedule\",outcome=\"Ok\",category=\"\"} 1",
            "lifeboat_work_total{work=\"backup\",outcome=\"Ended\",category=\"\"} 1",
            "lifeboat_work_total{work=\"backup\",outcome=\"Failed\",category=\"storage\"} 1",
            "lifeboat_work_total{work=\"backup\",outcome=\"Panicked\",category=\"defect\"} 1",
            "lifeboat_sweeps_total{sweep=\"movers\",outcome=\"Error\",category=\"forbidden\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_replica_shows_whether_it_leads() {
        let metrics = Metrics::new("0.1.0");
        metrics.begin_term();
        assert!(metrics.render().contains("\nlifeboat_leader 1\n"), "{}", metrics.render());
        metrics.end_term();
        assert!(metrics.render().contains("\nlifeboat_leader 0\n"), "{}", metrics.render());
    }

    #[test]
    fn what_others_register_later_is_shown_too() {
        let metrics = Metrics::new("0.1.0");
        let shown = metrics.clone();
        let counter = metrics.register(|registry| {
            let counter: Counter = Counter::default();
            registry.register("things", "Things", counter.clone());
            counter
        });
        counter.inc();
        assert!(shown.render().contains("\nthings_total 1\n"), "{}", shown.render());
    }
}
