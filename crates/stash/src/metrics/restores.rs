//! The metrics of restores: RestoreSessions and RestoreBatches, their targets, and the hosts of these. The series of a restore go with its
//! object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use lifeboat_control::locked;
use prometheus_client::registry::{Metric, Registry};

use super::sessions::{
    EndedSession, EndedTarget, HostLabels, Seconds, SessionLabels, TargetLabels, Whole, count, host_labels,
    target_labels,
};

/// Upstream's prefixes: the older and the newer.
const OLDER: &str = "stash_restore";
const NEWER: &str = "stash_appscode_com_restoresession";

/// Handles to the metrics of restores; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreMetrics {
    success: Whole<SessionLabels>,
    duration: Seconds<SessionLabels>,
    target_count: Whole<SessionLabels>,
    target_success: Whole<TargetLabels>,
    target_hosts: Whole<TargetLabels>,
    host_success: Whole<HostLabels>,
    host_duration: Seconds<HostLabels>,
    shown: Arc<Mutex<BTreeMap<SessionLabels, Parts>>>,
}

/// The label sets that are shown of one restore.
#[derive(Debug, Default)]
struct Parts {
    targets: BTreeSet<TargetLabels>,
    hosts: BTreeSet<HostLabels>,
}

impl RestoreMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self::default();
        let help = "1 if the restore succeeded";
        pair(registry, "session_success", "success", help, &made.success);
        let help = "How long the restore took, if it succeeded";
        pair(registry, "session_duration_seconds", "duration_seconds", help, &made.duration);
        let help = "Targets of the restore";
        pair(registry, "target_count_total", "target_count_total", help, &made.target_count);
        let help = "1 if the restore of the target succeeded";
        pair(registry, "target_success", "target_success", help, &made.target_success);
        let help = "Hosts of the restore's target";
        pair(registry, "target_host_count_total", "target_host_count_total", help, &made.target_hosts);
        let help = "1 if the restore of the host succeeded";
        pair(registry, "host_restore_success", "host_restore_success", help, &made.host_success);
        let help = "How long the restore of the host took";
        pair(
            registry,
            "host_restore_duration_seconds",
            "host_restore_duration_seconds",
            help,
            &made.host_duration,
        );
        made
    }

    /// Shows a restore that has ended.
    pub(crate) fn ended(&self, restore: &EndedSession) {
        let labels = &restore.labels;
        self.success.get_or_create(labels).set(i64::from(restore.succeeded));
        self.target_count.get_or_create(labels).set(count(restore.targets.len()));
        if restore.succeeded {
            self.duration.get_or_create(labels).set(restore.seconds);
        }
        let mut parts = Parts::default();
        for target in &restore.targets {
            self.target(labels, target, &mut parts);
        }
        locked(&self.shown).insert(labels.clone(), parts);
    }

    fn target(&self, restore: &SessionLabels, target: &EndedTarget, parts: &mut Parts) {
        let labels = target_labels(restore, target);
        self.target_success.get_or_create(&labels).set(i64::from(target.succeeded));
        self.target_hosts.get_or_create(&labels).set(count(target.hosts.len()));
        for host in &target.hosts {
            let labels = host_labels(&labels, host);
            self.host_success.get_or_create(&labels).set(i64::from(host.succeeded));
            if let Some(seconds) = host.seconds.filter(|_| host.succeeded) {
                self.host_duration.get_or_create(&labels).set(seconds);
            }
            parts.hosts.insert(labels);
        }
        parts.targets.insert(labels);
    }

    /// Removes the series of restores of a kind that are gone. `is_there` gets namespace and name.
    pub(crate) fn retain(&self, kind: &str, is_there: impl Fn(&str, &str) -> bool) {
        let mut shown = locked(&self.shown);
        let is_gone = |labels: &&SessionLabels| {
            labels.invoker_kind == kind && !is_there(&labels.namespace, &labels.invoker_name)
        };
        let gone: Vec<SessionLabels> = shown.keys().filter(is_gone).cloned().collect();
        for labels in gone {
            let parts = shown.remove(&labels).unwrap_or_default();
            self.success.remove(&labels);
            self.duration.remove(&labels);
            self.target_count.remove(&labels);
            for labels in &parts.targets {
                self.target_success.remove(labels);
                self.target_hosts.remove(labels);
            }
            for labels in &parts.hosts {
                self.host_success.remove(labels);
                self.host_duration.remove(labels);
            }
        }
    }

    pub(super) fn clear(&self) {
        locked(&self.shown).clear();
        self.success.clear();
        self.duration.clear();
        self.target_count.clear();
        self.target_success.clear();
        self.target_hosts.clear();
        self.host_success.clear();
        self.host_duration.clear();
    }
}

/// Registers a metric under upstream's older and newer names.
fn pair(registry: &mut Registry, older: &str, newer: &str, help: &str, metric: &(impl Metric + Clone)) {
    registry.register(format!("{OLDER}_{older}"), help, metric.clone());
    registry.register(format!("{NEWER}_{newer}"), help, metric.clone());
}

#[cfg(test)]
mod tests {
    use lifeboat_web::Metrics;

    use super::super::sessions::EndedHost;
    use super::*;

    fn restore(kind: &str, succeeded: bool) -> EndedSession {
        let host = EndedHost { hostname: "app".into(), succeeded, seconds: Some(2.5), numbers: None };
        let target = EndedTarget {
            kind: "Deployment".into(),
            group: "apps".into(),
            name: "web".into(),
            succeeded,
            hosts: vec![host],
        };
        let labels = SessionLabels {
            invoker_kind: kind.into(),
            invoker_name: "back".into(),
            namespace: "shop".into(),
            driver: "Restic".into(),
            repository: "r".into(),
        };
        EndedSession { labels, succeeded, seconds: 4.0, end: 1000, targets: vec![target] }
    }

    #[test]
    fn a_restore_is_shown_under_both_names_until_it_is_gone() {
        let metrics = Metrics::new("0");
        let restores = metrics.register(RestoreMetrics::register);
        restores.ended(&restore("RestoreSession", true));
        let text = metrics.render();
        for line in [
            "stash_restore_session_success{",
            "stash_restore_session_duration_seconds{",
            "stash_appscode_com_restoresession_duration_seconds{",
            "stash_appscode_com_restoresession_target_host_count_total{",
            "stash_restore_host_restore_success{",
            "stash_appscode_com_restoresession_host_restore_duration_seconds{",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.contains("hostname=\"app\"} 2.5"), "{text}");
        restores.retain("RestoreBatch", |_, _| false);
        assert!(metrics.render().contains("\"back\""), "restores of another kind");
        restores.retain("RestoreSession", |_, name| name != "back");
        assert!(!metrics.render().contains("\"back\""), "{}", metrics.render());
    }

    #[test]
    fn a_restore_that_failed_has_no_duration() {
        let metrics = Metrics::new("0");
        let restores = metrics.register(RestoreMetrics::register);
        restores.ended(&restore("RestoreBatch", false));
        let text = metrics.render();
        assert!(text.contains("repository=\"r\"} 0"), "{text}");
        assert!(!text.contains("stash_restore_session_duration_seconds{"), "{text}");
        restores.clear();
        assert!(!metrics.render().contains("\"back\""));
    }
}
