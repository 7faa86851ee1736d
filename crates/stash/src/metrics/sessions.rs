//! The metrics of backups: sessions, their targets, and the hosts of the targets. A failed session sets its success
//! to 0 and keeps the values of the last successful session, as upstream does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex};

use lifeboat_control::locked;
use lifeboat_mover::report::BackedUp;
use lifeboat_plan::transfer::attempts::{FileCounts, Snapshot};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

/// Upstream's prefixes: the older and the newer.
const OLDER: &str = "stash_backup";
const NEWER: &str = "stash_appscode_com_backupsession";

/// Identifies an invoker, with upstream's labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct SessionLabels {
    pub(crate) invoker_kind: String,
    pub(crate) invoker_name: String,
    pub(crate) namespace: String,
    /// As in `Restic`.
    pub(crate) driver: String,
    pub(crate) repository: String,
}

/// Identifies a target of an invoker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct TargetLabels {
    invoker_kind: String,
    invoker_name: String,
    namespace: String,
    driver: String,
    repository: String,
    kind: String,
    group: String,
    name: String,
}

/// Identifies a host of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct HostLabels {
    invoker_kind: String,
    invoker_name: String,
    namespace: String,
    driver: String,
    repository: String,
    kind: String,
    group: String,
    name: String,
    hostname: String,
}

/// What the movers of a host have copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostNumbers {
    bytes: u64,
    uploaded: u64,
    milliseconds: u64,
    files: FileCounts,
}

impl HostNumbers {
    /// The size of what is stored.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a snapshot, and what its mover reported of it.
    pub(crate) fn add(&mut self, stored: &Snapshot, reported: Option<&BackedUp>) {
        self.bytes += stored.bytes;
        self.uploaded += stored.bytes_added;
        self.milliseconds += reported.map_or(0, |reported| reported.milliseconds);
        let counted = stored.files.unwrap_or_else(|| FileCounts {
            total: reported.map_or(0, |reported| reported.files),
            ..FileCounts::default()
        });
        self.files.total += counted.total;
        self.files.new += counted.new;
        self.files.modified += counted.modified;
        self.files.unmodified += counted.unmodified;
    }
}

/// A session that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EndedSession {
    pub(crate) labels: SessionLabels,
    pub(crate) succeeded: bool,
    pub(crate) seconds: f64,
    /// When it ended.
    pub(crate) end: i64,
    pub(crate) targets: Vec<EndedTarget>,
}

/// A target of a session that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EndedTarget {
    pub(crate) kind: String,
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) succeeded: bool,
    pub(crate) hosts: Vec<EndedHost>,
}

/// A host of such a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EndedHost {
    pub(crate) hostname: String,
    pub(crate) succeeded: bool,
    pub(crate) seconds: Option<f64>,
    /// None if another server started the movers.
    pub(crate) numbers: Option<HostNumbers>,
}

pub(super) type Whole<L> = Family<L, Gauge<i64, AtomicI64>>;
pub(super) type Seconds<L> = Family<L, Gauge<f64, AtomicU64>>;

/// Handles to the metrics of backups; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionMetrics {
    success: Whole<SessionLabels>,
    duration: Seconds<SessionLabels>,
    target_count: Whole<SessionLabels>,
    last_success: Whole<SessionLabels>,
    target_success: Whole<TargetLabels>,
    target_hosts: Whole<TargetLabels>,
    target_last_success: Whole<TargetLabels>,
    host_success: Whole<HostLabels>,
    host_duration: Seconds<HostLabels>,
    host_bytes: Whole<HostLabels>,
    host_uploaded: Whole<HostLabels>,
    host_processing: Seconds<HostLabels>,
    host_files: HostFiles,
    shown: Arc<Mutex<ShownLabels>>,
}

/// The files of hosts, compared with the snapshots before.
#[derive(Clone, Debug, Default)]
struct HostFiles {
    total: Whole<HostLabels>,
    new: Whole<HostLabels>,
    modified: Whole<HostLabels>,
    unmodified: Whole<HostLabels>,
}

impl HostFiles {
    fn all(&self) -> [&Whole<HostLabels>; 4] {
        [&self.total, &self.new, &self.modified, &self.unmodified]
    }
}

/// The label sets that are shown, to be removed with their invokers.
#[derive(Debug, Default)]
struct ShownLabels {
    targets: BTreeMap<SessionLabels, BTreeSet<TargetLabels>>,
    hosts: BTreeMap<SessionLabels, BTreeSet<HostLabels>>,
}

/// Registers metrics under upstream's older and newer names.
pub(super) struct Names<'a> {
    pub(super) registry: &'a mut Registry,
    /// The prefixes.
    pub(super) older: &'static str,
    pub(super) newer: &'static str,
}

impl Names<'_> {
    pub(super) fn pair(&mut self, older: &str, newer: &str, help: &str, metric: &(impl Metric + Clone)) {
        self.registry.register(format!("{}_{older}", self.older), help, metric.clone());
        self.registry.register(format!("{}_{newer}", self.newer), help, metric.clone());
    }

    /// One whose names differ in the prefix only.
    pub(super) fn one(&mut self, name: &str, help: &str, metric: &(impl Metric + Clone)) {
        self.pair(name, name, help, metric);
    }
}

impl SessionMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self::default();
        let mut add = Names { registry, older: OLDER, newer: NEWER };
        let help = "1 if the last session of the invoker succeeded";
        add.pair("session_success", "success", help, &made.success);
        let help = "How long the last good session took";
        add.pair("session_duration_seconds", "duration_seconds", help, &made.duration);
        add.one("target_count_total", "Targets of the last session", &made.target_count);
        add.one("last_success_time_seconds", "When the last good session ended", &made.last_success);
        add.one("target_success", "1 if the last backup of the target succeeded", &made.target_success);
        add.one("target_host_count_total", "Hosts of the target", &made.target_hosts);
        let help = "When the last good backup of the target ended";
        add.one("target_last_success_time_seconds", help, &made.target_last_success);
        add.one("host_backup_success", "1 if the last backup of the host succeeded", &made.host_success);
        add.one("host_backup_duration_seconds", "How long the host took", &made.host_duration);
        add.one("host_data_size_bytes", "Bytes in the snapshots of the host", &made.host_bytes);
        add.one("host_data_uploaded_bytes", "Bytes that were added to the repository", &made.host_uploaded);
        let help = "How long the movers of the host read";
        add.one("host_data_processing_time_seconds", help, &made.host_processing);
        let files = &made.host_files;
        add.one("host_files_total", "Files in the snapshots of the host", &files.total);
        add.one("host_files_new", "Files that the snapshots before do not have", &files.new);
        add.one("host_files_modified", "Files that differ from the snapshots before", &files.modified);
        add.one("host_files_unmodified", "Files that are as in the snapshots before", &files.unmodified);
        made
    }

    /// Shows a session that has ended, instead of the previous session of its invoker.
    pub(crate) fn ended(&self, session: &EndedSession) {
        let labels = &session.labels;
        if session.succeeded {
            self.remove_targets(labels);
        }
        self.success.get_or_create(labels).set(i64::from(session.succeeded));
        self.target_count.get_or_create(labels).set(count(session.targets.len()));
        if session.succeeded {
            self.duration.get_or_create(labels).set(session.seconds);
            self.last_success.get_or_create(labels).set(session.end);
        }
        for target in &session.targets {
            self.target(session, target);
        }
    }

    /// Shows that the last session failed before it had members. The values of the last good one stay.
    pub(crate) fn failed(&self, labels: &SessionLabels) {
        self.success.get_or_create(labels).set(0);
        locked(&self.shown).targets.entry(labels.clone()).or_default();
    }

    fn target(&self, session: &EndedSession, target: &EndedTarget) {
        let labels = target_labels(&session.labels, target);
        self.target_success.get_or_create(&labels).set(i64::from(target.succeeded));
        self.target_hosts.get_or_create(&labels).set(count(target.hosts.len()));
        if target.succeeded {
            self.target_last_success.get_or_create(&labels).set(session.end);
        }
        for host in &target.hosts {
            let labels = host_labels(&labels, host);
            self.host(&labels, host);
            locked(&self.shown).hosts.entry(session.labels.clone()).or_default().insert(labels);
        }
        locked(&self.shown).targets.entry(session.labels.clone()).or_default().insert(labels);
    }

    fn host(&self, labels: &HostLabels, host: &EndedHost) {
        self.host_success.get_or_create(labels).set(i64::from(host.succeeded));
        if !host.succeeded {
            return;
        }
        if let Some(seconds) = host.seconds {
            self.host_duration.get_or_create(labels).set(seconds);
        }
        if let Some(numbers) = host.numbers {
            let set = |gauges: &Whole<HostLabels>, value: u64| {
                gauges.get_or_create(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
            };
            set(&self.host_bytes, numbers.bytes);
            set(&self.host_uploaded, numbers.uploaded);
            set(&self.host_files.total, numbers.files.total);
            set(&self.host_files.new, numbers.files.new);
            set(&self.host_files.modified, numbers.files.modified);
            set(&self.host_files.unmodified, numbers.files.unmodified);
            let processing = std::time::Duration::from_millis(numbers.milliseconds).as_secs_f64();
            self.host_processing.get_or_create(labels).set(processing);
        }
    }

    /// Removes the series of invokers that no longer exist. `is_there` gets kind, namespace and name.
    pub(crate) fn retain(&self, is_there: impl Fn(&str, &str, &str) -> bool) {
        let known: Vec<SessionLabels> = locked(&self.shown).targets.keys().cloned().collect();
        for labels in known {
            if !is_there(&labels.invoker_kind, &labels.namespace, &labels.invoker_name) {
                self.remove_targets(&labels);
                self.success.remove(&labels);
                self.target_count.remove(&labels);
                self.duration.remove(&labels);
                self.last_success.remove(&labels);
            }
        }
    }

    /// The whole numbers of hosts.
    fn of_hosts(&self) -> impl Iterator<Item = &Whole<HostLabels>> {
        [&self.host_success, &self.host_bytes, &self.host_uploaded].into_iter().chain(self.host_files.all())
    }

    /// Removes the series of targets and hosts.
    fn remove_targets(&self, labels: &SessionLabels) {
        let (targets, hosts) = {
            let mut shown = locked(&self.shown);
            (shown.targets.remove(labels).unwrap_or_default(), shown.hosts.remove(labels).unwrap_or_default())
        };
        for labels in targets {
            for gauges in [&self.target_success, &self.target_hosts, &self.target_last_success] {
                gauges.remove(&labels);
            }
        }
        for labels in hosts {
            for gauges in self.of_hosts() {
                gauges.remove(&labels);
            }
            self.host_duration.remove(&labels);
            self.host_processing.remove(&labels);
        }
    }

    pub(super) fn clear(&self) {
        *locked(&self.shown) = ShownLabels::default();
        for gauges in [&self.success, &self.target_count, &self.last_success] {
            gauges.clear();
        }
        self.duration.clear();
        for gauges in [&self.target_success, &self.target_hosts, &self.target_last_success] {
            gauges.clear();
        }
        for gauges in self.of_hosts() {
            gauges.clear();
        }
        self.host_duration.clear();
        self.host_processing.clear();
    }
}

pub(super) fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

pub(super) fn target_labels(session: &SessionLabels, target: &EndedTarget) -> TargetLabels {
    let SessionLabels { invoker_kind, invoker_name, namespace, driver, repository } = session.clone();
    TargetLabels {
        invoker_kind,
        invoker_name,
        namespace,
        driver,
        repository,
        kind: target.kind.clone(),
        group: target.group.clone(),
        name: target.name.clone(),
    }
}

pub(super) fn host_labels(target: &TargetLabels, host: &EndedHost) -> HostLabels {
    let TargetLabels { invoker_kind, invoker_name, namespace, driver, repository, kind, group, name } =
        target.clone();
    HostLabels {
        invoker_kind,
        invoker_name,
        namespace,
        driver,
        repository,
        kind,
        group,
        name,
        hostname: host.hostname.clone(),
    }
}

#[cfg(test)]
mod tests;
