//! The metrics of Velero's API (docs/metrics.md), registered once when the server starts: what only the leader knows,
//! and what public dashboards for Velero read, with Velero's names, labels and buckets. The label is the schedule's
//! name, empty for backups without a schedule. Counters start at zero with the process, as upstream's.

mod leader;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use lifeboat_web::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use leader::{LocationMetrics, PasswordMetrics};

/// Upstream's buckets of durations, in seconds.
const BUCKETS: [f64; 9] = [60., 300., 600., 900., 1800., 3600., 7200., 10800., 14400.];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScheduleLabel {
    schedule: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(non_snake_case)] // upstream's label
struct SnapshotLabel {
    schedule: String,
    backupName: String,
}

#[derive(Clone, Debug)]
struct Durations;

impl MetricConstructor<Histogram> for Durations {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS)
    }
}

type Counters = Family<ScheduleLabel, Counter>;
type Gauges = Family<ScheduleLabel, Gauge<f64, AtomicU64>>;

/// How a backup or a restore ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Completed,
    PartiallyFailed,
    Failed,
    FailedValidation,
}

/// The values that are recorded for a finished backup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackupEnd {
    pub(crate) ending: Ending,
    pub(crate) duration: Duration,
    pub(crate) items: u64,
    pub(crate) errors: u64,
    pub(crate) warnings: u64,
    /// Bytes of the archive in storage.
    pub(crate) archive_bytes: Option<u64>,
    /// Seconds since 1970 at its end.
    pub(crate) ended_at: i64,
}

/// Steps that are attempted and then succeed or fail.
#[derive(Clone, Debug, Default)]
struct Attempts {
    begun: Counters,
    successes: Counters,
    failures: Counters,
}

impl Attempts {
    fn register(registry: &mut Registry, name: &str, what: &str) -> Self {
        let all = Self::default();
        registry.register(
            format!("{name}_attempt"),
            format!("{what} that were attempted"),
            all.begun.clone(),
        );
        registry.register(format!("{name}_success"), format!("{what} that succeeded"), all.successes.clone());
        registry.register(format!("{name}_failure"), format!("{what} that failed"), all.failures.clone());
        all
    }

    fn init(&self, label: &ScheduleLabel) {
        for family in [&self.begun, &self.successes, &self.failures] {
            drop(family.get_or_create(label));
        }
    }
}

/// Handles to the metrics of Velero's API; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct VeleroMetrics {
    locations: LocationMetrics,
    password: PasswordMetrics,
    backups: Attempts,
    partial: Counters,
    invalid: Counters,
    warnings: Counters,
    deletions: Attempts,
    last_success: Gauges,
    last_status: Gauges,
    archive_bytes: Gauges,
    items: Gauges,
    item_errors: Gauges,
    durations: Family<ScheduleLabel, Histogram, Durations>,
    backup_total: Gauge<i64, AtomicI64>,
    restore_attempts: Counters,
    restore_successes: Counters,
    restore_partial: Counters,
    restore_failures: Counters,
    restore_invalid: Counters,
    restore_total: Gauge<i64, AtomicI64>,
    snapshots: Attempts,
    csi: [Family<SnapshotLabel, Counter>; 3],
}

/// A new metric under this name.
fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

impl VeleroMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Self {
        metrics.register(|registry| {
            let locations = LocationMetrics::register(registry);
            let password = PasswordMetrics::register(registry);
            Self::under_veleros_names(registry.sub_registry_with_prefix("velero"), locations, password)
        })
    }

    fn under_veleros_names(
        registry: &mut Registry,
        locations: LocationMetrics,
        password: PasswordMetrics,
    ) -> Self {
        let backups = Attempts::register(registry, "backup", "Backups");
        let deletions = Attempts::register(registry, "backup_deletion", "Deletions of backups");
        let snapshots = Attempts::register(registry, "volume_snapshot", "Volume snapshots");
        let csi = ["attempt", "success", "failure"].map(|step| {
            let family = Family::<SnapshotLabel, Counter>::default();
            registry.register(format!("csi_snapshot_{step}"), "CSI snapshots by step", family.clone());
            family
        });
        let durations = Family::new_with_constructor(Durations);
        registry.register("backup_duration_seconds", "Duration of backups, in seconds", durations.clone());
        Self {
            locations,
            password,
            backups,
            partial: registered(registry, "backup_partial_failure", "Backups that partially failed"),
            invalid: registered(registry, "backup_validation_failure", "Backups that failed validation"),
            warnings: registered(registry, "backup_warning", "Backups with warnings"),
            deletions,
            last_success: registered(
                registry,
                "backup_last_successful_timestamp",
                "Time of the last successful backup, in seconds since 1970",
            ),
            last_status: registered(
                registry,
                "backup_last_status",
                "1 if the last backup succeeded, 0 otherwise",
            ),
            archive_bytes: registered(
                registry,
                "backup_tarball_size_bytes",
                "Size of a backup's archive, in bytes",
            ),
            items: registered(registry, "backup_items_total", "Number of items in the last backup"),
            item_errors: registered(registry, "backup_items_errors", "Number of errors in the last backup"),
            durations,
            backup_total: registered(registry, "backup_total", "Number of existing backups"),
            restore_attempts: registered(registry, "restore_attempt", "Restores that were attempted"),
            restore_successes: registered(registry, "restore_success", "Restores that succeeded"),
            restore_partial: registered(
                registry,
                "restore_partial_failure",
                "Restores that partially failed",
            ),
            restore_failures: registered(registry, "restore_failed", "Restores that failed"),
            restore_invalid: registered(
                registry,
                "restore_validation_failed",
                "Restores that failed validation",
            ),
            restore_total: registered(registry, "restore_total", "Number of existing restores"),
            snapshots,
            csi,
        }
    }

    /// Called when this replica is no longer the leader: removes the metrics that only a leader can know, so that outdated
    /// values are not read as current ones.
    pub(crate) fn end_term(&self) {
        self.locations.retain(&BTreeSet::new());
        self.password.set(None);
        self.set_backup_total(0);
        self.set_restore_total(0);
    }

    pub(crate) fn set_location(&self, name: &str, available: bool) {
        self.locations.set(name, available);
    }

    /// Forgets every location that is not among `existing`.
    pub(crate) fn retain_locations(&self, existing: &BTreeSet<String>) {
        self.locations.retain(existing);
    }

    pub(crate) fn set_password(&self, exported: bool, public_default: bool) {
        self.password.set(Some((exported, public_default)));
    }

    /// Adds a schedule with zeros before its first backup, so that rates can be computed from the first backup on.
    pub(crate) fn init_schedule(&self, schedule: &str) {
        let label = label(schedule);
        self.backups.init(&label);
        self.deletions.init(&label);
        self.snapshots.init(&label);
        for family in [
            &self.partial,
            &self.invalid,
            &self.warnings,
            &self.restore_attempts,
            &self.restore_successes,
            &self.restore_partial,
            &self.restore_failures,
            &self.restore_invalid,
        ] {
            drop(family.get_or_create(&label));
        }
        drop(self.durations.get_or_create(&label));
        for family in [&self.items, &self.item_errors] {
            drop(family.get_or_create(&label));
        }
        let of_no_backup = SnapshotLabel { schedule: schedule.to_owned(), backupName: String::new() };
        for family in &self.csi {
            drop(family.get_or_create(&of_no_backup));
        }
    }

    /// Removes the gauges of a deleted schedule; otherwise they would keep their last values for ever.
    pub(crate) fn forget_schedule(&self, schedule: &str) {
        let label = label(schedule);
        for family in
            [&self.last_success, &self.last_status, &self.archive_bytes, &self.items, &self.item_errors]
        {
            family.remove(&label);
        }
    }

    pub(crate) fn backup_started(&self, schedule: &str) {
        self.backups.begun.get_or_create(&label(schedule)).inc();
    }

    pub(crate) fn backup_ended(&self, schedule: &str, end: &BackupEnd) {
        let label = label(schedule);
        let succeeded = end.ending == Ending::Completed;
        let family = match end.ending {
            Ending::Completed => &self.backups.successes,
            Ending::PartiallyFailed => &self.partial,
            Ending::Failed => &self.backups.failures,
            Ending::FailedValidation => &self.invalid,
        };
        family.get_or_create(&label).inc();
        self.last_status.get_or_create(&label).set(f64::from(u8::from(succeeded)));
        if succeeded {
            self.last_success.get_or_create(&label).set(number(end.ended_at.unsigned_abs()));
        }
        if end.warnings > 0 {
            self.warnings.get_or_create(&label).inc();
        }
        if end.ending == Ending::FailedValidation {
            return;
        }
        self.durations.get_or_create(&label).observe(end.duration.as_secs_f64());
        self.items.get_or_create(&label).set(number(end.items));
        self.item_errors.get_or_create(&label).set(number(end.errors));
        if let Some(bytes) = end.archive_bytes {
            self.archive_bytes.get_or_create(&label).set(number(bytes));
        }
    }

    /// The number of Backup objects.
    pub(crate) fn set_backup_total(&self, total: usize) {
        self.backup_total.set(i64::try_from(total).unwrap_or(i64::MAX));
    }

    pub(crate) fn deletion_started(&self, schedule: &str) {
        self.deletions.begun.get_or_create(&label(schedule)).inc();
    }

    pub(crate) fn deletion_ended(&self, schedule: &str, succeeded: bool) {
        let family = if succeeded { &self.deletions.successes } else { &self.deletions.failures };
        family.get_or_create(&label(schedule)).inc();
    }

    pub(crate) fn restore_started(&self, schedule: &str) {
        self.restore_attempts.get_or_create(&label(schedule)).inc();
    }

    pub(crate) fn restore_ended(&self, schedule: &str, ending: Ending) {
        let family = match ending {
            Ending::Completed => &self.restore_successes,
            Ending::PartiallyFailed => &self.restore_partial,
            Ending::Failed => &self.restore_failures,
            Ending::FailedValidation => &self.restore_invalid,
        };
        family.get_or_create(&label(schedule)).inc();
    }

    /// The number of Restore objects.
    pub(crate) fn set_restore_total(&self, total: usize) {
        self.restore_total.set(i64::try_from(total).unwrap_or(i64::MAX));
    }

    /// Counts the snapshots of a backup that plugins were to take.
    pub(crate) fn volume_snapshots(&self, schedule: &str, attempted: u64, succeeded: u64) {
        let label = label(schedule);
        self.snapshots.begun.get_or_create(&label).inc_by(attempted);
        self.snapshots.successes.get_or_create(&label).inc_by(succeeded);
        self.snapshots.failures.get_or_create(&label).inc_by(attempted.saturating_sub(succeeded));
    }

    /// Counts the CSI snapshots of a backup.
    pub(crate) fn csi_snapshots(&self, schedule: &str, backup: &str, attempted: u64, succeeded: u64) {
        let label = SnapshotLabel { schedule: schedule.to_owned(), backupName: backup.to_owned() };
        let counts = [attempted, succeeded, attempted.saturating_sub(succeeded)];
        for (family, count) in self.csi.iter().zip(counts) {
            family.get_or_create(&label).inc_by(count);
        }
    }

    /// Removes the metrics of a deleted backup.
    pub(crate) fn forget_backup(&self, schedule: &str, backup: &str) {
        let label = SnapshotLabel { schedule: schedule.to_owned(), backupName: backup.to_owned() };
        for family in &self.csi {
            family.remove(&label);
        }
    }
}

fn label(schedule: &str) -> ScheduleLabel {
    ScheduleLabel { schedule: schedule.to_owned() }
}

/// Counts and seconds are far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn number(value: u64) -> f64 {
    value as f64
}
