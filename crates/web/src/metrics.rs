//! The server's metrics: upstream's names where upstream has them, so that existing dashboards and alerts go on
//! working; `lifeboat_` for what is ours. Labels are bounded by the number of objects that people make.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    Ok,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LocationLabel {
    backup_location_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    controller: &'static str,
    outcome: Outcome,
}

/// Handles to all metrics; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    location_status: Family<LocationLabel, Gauge<i64, AtomicI64>>,
    reconciles: Family<ReconcileLabels, Counter>,
    leader: Gauge<i64, AtomicI64>,
    password_exported: Gauge<i64, AtomicI64>,
    password_public: Gauge<i64, AtomicI64>,
}

impl Metrics {
    pub fn new(version: &str) -> Self {
        let mut registry = Registry::default();
        let location_status = Family::default();
        let reconciles = Family::default();
        let (leader, password_exported, password_public) =
            (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register(
            "velero_backup_location_status_gauge",
            "1 where the backup location is Available, 0 where it is not",
            location_status.clone(),
        );
        registry.register("lifeboat_reconciles", "Reconciles by controller and outcome", reconciles.clone());
        registry.register("lifeboat_leader", "1 in the replica that leads", leader.clone());
        registry.register(
            "lifeboat_repository_password_exported",
            "1 once someone exported the repository password; until then volume data depends on this cluster",
            password_exported.clone(),
        );
        registry.register(
            "lifeboat_repository_password_public_default",
            "1 where existing repositories use Velero's public default password",
            password_public.clone(),
        );
        registry.register(
            "lifeboat_build",
            "The version that runs",
            Info::new(vec![("version", version.to_owned())]),
        );
        Self {
            registry: Arc::new(registry),
            location_status,
            reconciles,
            leader,
            password_exported,
            password_public,
        }
    }

    pub fn set_location(&self, name: &str, available: bool) {
        let label = LocationLabel { backup_location_name: name.to_owned() };
        self.location_status.get_or_create(&label).set(i64::from(available));
    }

    pub fn forget_location(&self, name: &str) {
        self.location_status.remove(&LocationLabel { backup_location_name: name.to_owned() });
    }

    pub fn count_reconcile(&self, controller: &'static str, outcome: Outcome) {
        self.reconciles.get_or_create(&ReconcileLabels { controller, outcome }).inc();
    }

    pub fn set_leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub fn set_password(&self, exported: bool, public_default: bool) {
        self.password_exported.set(i64::from(exported));
        self.password_public.set(i64::from(public_default));
    }

    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => {
                tracing::error!(%error, "cannot write the metrics as text");
                String::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_shows_under_upstreams_name_until_it_is_gone() {
        let metrics = Metrics::new("0.1.0");
        metrics.set_location("default", true);
        let line = "velero_backup_location_status_gauge{backup_location_name=\"default\"} 1";
        assert!(metrics.render().contains(line), "{}", metrics.render());
        metrics.forget_location("default");
        assert!(!metrics.render().contains("backup_location_name"));
    }

    #[test]
    fn reconciles_are_counted_by_outcome() {
        let metrics = Metrics::new("0.1.0");
        metrics.count_reconcile("backup-storage-location", Outcome::Error);
        let text = metrics.render();
        assert!(
            text.contains(
                "lifeboat_reconciles_total{controller=\"backup-storage-location\",outcome=\"Error\"} 1"
            ),
            "{text}"
        );
    }
}
