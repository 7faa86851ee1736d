//! The server's metrics: with Velero's names where Velero has them, so that existing dashboards and alerts keep
//! working, and with the prefix `lifeboat_` for our own. The number of label values is bounded by the number of
//! objects that users create.

mod movers;
mod velero;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use movers::MoverMetrics;
pub use velero::{BackupEnd, Ending, VeleroMetrics};

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

/// A gauge that only the leader exports. On other replicas it is absent, not zero, because they do not know its
/// value.
#[derive(Clone, Debug, Default)]
struct LeadersGauge(Arc<Mutex<Option<bool>>>);

impl LeadersGauge {
    fn set(&self, value: Option<bool>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl EncodeMetric for LeadersGauge {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let value = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        value.map_or(Ok(()), |value| ConstGauge::new(i64::from(value)).encode(encoder))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// Handles to all metrics; clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    location_status: Family<LocationLabel, Gauge<i64, AtomicI64>>,
    /// The labels of `location_status`.
    locations: Arc<Mutex<BTreeSet<String>>>,
    reconciles: Family<ReconcileLabels, Counter>,
    leader: Gauge<i64, AtomicI64>,
    password_exported: LeadersGauge,
    password_public: LeadersGauge,
    movers: MoverMetrics,
    velero: VeleroMetrics,
}

impl Metrics {
    pub fn new(version: &str) -> Self {
        let mut registry = Registry::default();
        let location_status = Family::default();
        let reconciles = Family::default();
        let leader = Gauge::default();
        let (password_exported, password_public) = (LeadersGauge::default(), LeadersGauge::default());
        registry.register(
            "velero_backup_location_status_gauge",
            "1 if the backup location is Available, 0 otherwise",
            location_status.clone(),
        );
        registry.register("lifeboat_reconciles", "Reconciles by controller and outcome", reconciles.clone());
        registry.register("lifeboat_leader", "1 if this replica is the leader", leader.clone());
        registry.register(
            "lifeboat_repository_password_exported",
            "1 if the repository password was exported; until then volume data cannot be restored without this cluster",
            password_exported.clone(),
        );
        registry.register(
            "lifeboat_repository_password_public_default",
            "1 if existing repositories use Velero's public default password",
            password_public.clone(),
        );
        let movers = MoverMetrics::register(&mut registry);
        let velero = VeleroMetrics::register(&mut registry);
        registry.register(
            "lifeboat_build",
            "The version of this server",
            Info::new(vec![("version", version.to_owned())]),
        );
        Self {
            registry: Arc::new(registry),
            location_status,
            locations: Arc::default(),
            reconciles,
            leader,
            password_exported,
            password_public,
            movers,
            velero,
        }
    }

    /// The metrics of movers.
    pub fn movers(&self) -> &MoverMetrics {
        &self.movers
    }

    /// The metrics with Velero's names.
    pub fn velero(&self) -> &VeleroMetrics {
        &self.velero
    }

    pub fn set_location(&self, name: &str, available: bool) {
        let mut locations = self.locations.lock().unwrap_or_else(PoisonError::into_inner);
        locations.insert(name.to_owned());
        let label = LocationLabel { backup_location_name: name.to_owned() };
        self.location_status.get_or_create(&label).set(i64::from(available));
    }

    /// Removes the locations that are not in `existing`.
    pub fn retain_locations(&self, existing: &BTreeSet<String>) {
        let mut locations = self.locations.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in locations.difference(existing) {
            self.location_status.remove(&LocationLabel { backup_location_name: gone.clone() });
        }
        locations.retain(|name| existing.contains(name));
    }

    pub fn count_reconcile(&self, controller: &'static str, outcome: Outcome) {
        self.reconciles.get_or_create(&ReconcileLabels { controller, outcome }).inc();
    }

    /// Called when this replica becomes the leader.
    pub fn begin_term(&self) {
        self.leader.set(1);
    }

    /// Called when this replica is no longer the leader: removes the metrics that only a leader can know, so that
    /// outdated values are not read as current ones.
    pub fn end_term(&self) {
        self.leader.set(0);
        self.retain_locations(&BTreeSet::new());
        self.password_exported.set(None);
        self.password_public.set(None);
        self.movers.set(0, 0);
        self.velero.set_backup_total(0);
        self.velero.set_restore_total(0);
    }

    pub fn set_password(&self, exported: bool, public_default: bool) {
        self.password_exported.set(Some(exported));
        self.password_public.set(Some(public_default));
    }

    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
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
    fn a_location_shows_under_upstreams_name_until_it_is_gone() {
        let metrics = Metrics::new("0.1.0");
        metrics.set_location("default", true);
        let line = "velero_backup_location_status_gauge{backup_location_name=\"default\"} 1";
        assert!(metrics.render().contains(line), "{}", metrics.render());
        metrics.retain_locations(&BTreeSet::from(["other".to_owned()]));
        assert!(!metrics.render().contains("backup_location_name"));
    }

    #[test]
    fn what_only_a_leader_knows_ends_with_its_term() {
        let metrics = Metrics::new("0.1.0");
        metrics.begin_term();
        metrics.set_location("default", true);
        metrics.set_password(true, false);
        let text = metrics.render();
        assert!(text.contains("\nlifeboat_repository_password_exported 1\n"), "{text}");
        assert!(text.contains("\nlifeboat_leader 1\n"), "{text}");
        metrics.end_term();
        let text = metrics.render();
        assert!(text.contains("\nlifeboat_leader 0\n"), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
        assert!(
            samples.iter().all(|line| !line.contains("password") && !line.contains("location")),
            "{samples:?}"
        );
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

    #[test]
    fn movers_are_counted_until_the_term_ends() {
        let metrics = Metrics::new("0.1.0");
        metrics.movers().set(2, 3);
        metrics.movers().ended("evicted");
        let text = metrics.render();
        for line in [
            "lifeboat_movers_running 2",
            "lifeboat_movers_waiting 3",
            "lifeboat_movers_ended_total{cause=\"evicted\"} 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
        metrics.end_term();
        assert!(metrics.render().contains("lifeboat_movers_waiting 0"));
    }

    #[test]
    fn backups_and_restores_are_counted_under_veleros_names() {
        let metrics = Metrics::new("0.1.0");
        let velero = metrics.velero();
        velero.init_schedule("");
        velero.backup_started("nightly");
        let end = BackupEnd {
            ending: Ending::Completed,
            duration: std::time::Duration::from_secs(70),
            items: 12,
            errors: 0,
            warnings: 1,
            archive_bytes: Some(1000),
            ended_at: 1_800_000_000,
        };
        velero.backup_ended("nightly", &end);
        velero.restore_started("nightly");
        velero.restore_ended("nightly", Ending::Failed);
        velero.deletion_started("");
        velero.deletion_ended("", true);
        velero.set_backup_total(7);
        velero.volume_snapshots("", 2, 1);
        velero.csi_snapshots("", "b", 1, 1);
        let text = metrics.render();
        for line in [
            "velero_backup_attempt_total{schedule=\"nightly\"} 1",
            "velero_backup_success_total{schedule=\"nightly\"} 1",
            "velero_backup_success_total{schedule=\"\"} 0",
            "velero_csi_snapshot_attempt_total{schedule=\"\",backupName=\"\"} 0",
            "velero_backup_warning_total{schedule=\"nightly\"} 1",
            "velero_backup_last_status{schedule=\"nightly\"} 1.0",
            "velero_backup_last_successful_timestamp{schedule=\"nightly\"} 1800000000.0",
            "velero_backup_tarball_size_bytes{schedule=\"nightly\"} 1000.0",
            "velero_backup_items_total{schedule=\"nightly\"} 12.0",
            "velero_backup_items_errors{schedule=\"nightly\"} 0.0",
            "velero_backup_duration_seconds_bucket{le=\"300.0\",schedule=\"nightly\"} 1",
            "velero_backup_total 7",
            "velero_backup_deletion_attempt_total{schedule=\"\"} 1",
            "velero_backup_deletion_success_total{schedule=\"\"} 1",
            "velero_restore_attempt_total{schedule=\"nightly\"} 1",
            "velero_restore_failed_total{schedule=\"nightly\"} 1",
            "velero_volume_snapshot_failure_total{schedule=\"\"} 1",
            "velero_csi_snapshot_success_total{schedule=\"\",backupName=\"b\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
