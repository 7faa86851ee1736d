//! The metrics of Repositories: integrity, size, number of snapshots, and how many the last retention removed.

use std::collections::HashSet;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

use lifeboat_control::locked;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Upstream's prefixes: the older and the newer.
const PREFIXES: [&str; 2] = ["stash_repository", "stash_appscode_com_repository"];

/// Identifies a Repository, with upstream's labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RepositoryLabels {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// As in `s3`.
    pub(crate) backend: String,
    pub(crate) bucket: String,
    pub(crate) prefix: String,
}

/// The values that are shown for a Repository; None if a value is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepositoryValues {
    pub(crate) integrity: Option<bool>,
    pub(crate) bytes: Option<u64>,
    pub(crate) snapshots: Option<i64>,
    pub(crate) removed: Option<i64>,
}

type Gauges = Family<RepositoryLabels, Gauge<i64, AtomicI64>>;

/// Handles to the metrics of Repositories; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryMetrics {
    integrity: Gauges,
    bytes: Gauges,
    snapshots: Gauges,
    removed: Gauges,
    /// The values that are shown, by Repository.
    shown: Arc<Mutex<HashSet<RepositoryLabels>>>,
}

impl RepositoryMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self {
            integrity: Gauges::default(),
            bytes: Gauges::default(),
            snapshots: Gauges::default(),
            removed: Gauges::default(),
            shown: Arc::default(),
        };
        for prefix in PREFIXES {
            let named = |name: &str| format!("{prefix}_{name}");
            let integrity = "1 if the last check of the repository found no problem";
            registry.register(named("integrity"), integrity, made.integrity.clone());
            registry.register(named("size_bytes"), "Size of the data in the backend", made.bytes.clone());
            registry.register(named("snapshot_count"), "Snapshots in the repository", made.snapshots.clone());
            let removed = "Snapshots that the last retention removed";
            registry.register(named("snapshot_cleaned"), removed, made.removed.clone());
        }
        made
    }

    pub(crate) fn set(&self, labels: &RepositoryLabels, values: RepositoryValues) {
        let is_same = |known: &&RepositoryLabels| {
            (&known.namespace, &known.name) == (&labels.namespace, &labels.name) && *known != labels
        };
        let before: Vec<RepositoryLabels> = locked(&self.shown).iter().filter(is_same).cloned().collect();
        for before in &before {
            self.remove(before);
        }
        locked(&self.shown).insert(labels.clone());
        let set = |gauges: &Gauges, value: Option<i64>| {
            if let Some(value) = value {
                gauges.get_or_create(labels).set(value);
            }
        };
        set(&self.integrity, values.integrity.map(i64::from));
        set(&self.bytes, values.bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)));
        set(&self.snapshots, values.snapshots);
        set(&self.removed, values.removed);
    }

    /// Removes the series of Repositories that no longer exist. `is_there` gets namespace and name.
    pub(crate) fn retain(&self, is_there: impl Fn(&str, &str) -> bool) {
        let known: Vec<RepositoryLabels> = locked(&self.shown).iter().cloned().collect();
        for labels in known.iter().filter(|labels| !is_there(&labels.namespace, &labels.name)) {
            self.remove(labels);
        }
    }

    /// Removes the series of a Repository that was deleted, or whose backend was changed.
    fn remove(&self, labels: &RepositoryLabels) {
        locked(&self.shown).remove(labels);
        for gauges in [&self.integrity, &self.bytes, &self.snapshots, &self.removed] {
            gauges.remove(labels);
        }
    }

    pub(super) fn clear(&self) {
        locked(&self.shown).clear();
        for gauges in [&self.integrity, &self.bytes, &self.snapshots, &self.removed] {
            gauges.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_web::Metrics;

    use super::*;

    #[test]
    fn a_repository_is_shown_under_both_names_until_it_is_gone() {
        let metrics = Metrics::new("0");
        let repositories = metrics.register(RepositoryMetrics::register);
        let labels =
            RepositoryLabels { namespace: "shop".into(), name: "r".into(), ..RepositoryLabels::default() };
        let values =
            RepositoryValues { integrity: Some(true), bytes: Some(7), snapshots: Some(2), removed: None };
        repositories.set(&labels, values);
        let text = metrics.render();
        for prefix in PREFIXES {
            assert!(text.contains(&format!("{prefix}_size_bytes{{namespace=\"shop\",name=\"r\"")), "{text}");
            assert!(!text.contains(&format!("{prefix}_snapshot_cleaned{{")), "{text}");
        }
        let moved = RepositoryLabels { bucket: "other".into(), ..labels.clone() };
        repositories.set(&moved, values);
        assert_eq!(
            metrics.render().matches("stash_repository_size_bytes{").count(),
            1,
            "one backend at a time"
        );
        repositories.retain(|namespace, name| (namespace, name) == ("shop", "r"));
        assert!(metrics.render().contains("shop"));
        repositories.retain(|_, _| false);
        assert!(!metrics.render().contains("shop"));
    }
}
