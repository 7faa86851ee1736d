//! The metrics of restores, from the status of their objects: the server that leads next shows them again. Under upstream's names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use lifeboat_control::locked;
use prometheus_client::registry::Registry;

use super::sessions::{
    EndedSession, HostLabels, Names, Seconds, SessionLabels, TargetLabels, Whole, count, host_labels,
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
    shown: Arc<Mutex<BTreeMap<SessionLabels, Series>>>,
}

/// The label sets that are shown of one restore.
#[derive(Clone, Debug, Default)]
struct Series {
    targets: BTreeSet<TargetLabels>,
    hosts: BTreeSet<HostLabels>,
}

impl RestoreMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let made = Self::default();
        let mut add = Names { registry, older: OLDER, newer: NEWER };
        add.pair("session_success", "success", "1 if the restore succeeded", &made.success);
        let help = "How long the restore took, if it succeeded";
        add.pair("session_duration_seconds", "duration_seconds", help, &made.duration);
        add.one("target_count_total", "Targets of the restore", &made.target_count);
        add.one("target_success", "1 if the restore of the target succeeded", &made.target_success);
        add.one("target_host_count_total", "Hosts of the target", &made.target_hosts);
        add.one("host_restore_success", "1 if the restore of the host succeeded", &made.host_success);
        add.one("host_restore_duration_seconds", "How long the host took", &made.host_duration);
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
        let mut series = Series::default();
        for target in &restore.targets {
            let of_target = target_labels(labels, target);
            self.target_success.get_or_create(&of_target).set(i64::from(target.succeeded));
            self.target_hosts.get_or_create(&of_target).set(count(target.hosts.len()));
            for host in &target.hosts {
                let of_host = host_labels(&of_target, host);
                self.host_success.get_or_create(&of_host).set(i64::from(host.succeeded));
                if let Some(seconds) = host.seconds.filter(|_| host.succeeded) {
                    self.host_duration.get_or_create(&of_host).set(seconds);
                }
                series.hosts.insert(of_host);
            }
            series.targets.insert(of_target);
        }
        // A restore that was made again may have other hosts.
        let before = locked(&self.shown).insert(labels.clone(), series.clone());
        let Series { targets, hosts } = before.unwrap_or_default();
        self.remove(targets.difference(&series.targets), hosts.difference(&series.hosts));
    }

    /// Removes the series of restores that are gone. `is_there` gets kind, namespace and name.
    pub(crate) fn retain(&self, is_there: impl Fn(&str, &str, &str) -> bool) {
        let known: Vec<SessionLabels> = locked(&self.shown).keys().cloned().collect();
        for labels in known {
            if is_there(&labels.invoker_kind, &labels.namespace, &labels.invoker_name) {
                continue;
            }
            let gone = locked(&self.shown).remove(&labels).unwrap_or_default();
            self.remove(gone.targets.iter(), gone.hosts.iter());
            self.success.remove(&labels);
            self.target_count.remove(&labels);
            self.duration.remove(&labels);
        }
    }

    fn remove<'a>(
        &self,
        targets: impl Iterator<Item = &'a TargetLabels>,
        hosts: impl Iterator<Item = &'a HostLabels>,
    ) {
        for labels in targets {
            self.target_success.remove(labels);
            self.target_hosts.remove(labels);
        }
        for labels in hosts {
            self.host_success.remove(labels);
            self.host_duration.remove(labels);
        }
    }

    pub(super) fn clear(&self) {
        self.retain(|_, _, _| false);
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_web::Metrics;

    use super::super::sessions::{EndedHost, EndedTarget};
    use super::*;

    fn restore(hosts: &[&str]) -> EndedSession {
        let labels = SessionLabels {
            invoker_kind: "RestoreSession".into(),
            invoker_name: "back".into(),
            namespace: "shop".into(),
            driver: "Restic".into(),
            repository: "r".into(),
        };
        let host = |name: &&str| EndedHost {
            hostname: (*name).to_owned(),
            succeeded: true,
            seconds: Some(2.5),
            numbers: None,
        };
        let target = EndedTarget {
            kind: "StatefulSet".into(),
            group: "apps".into(),
            name: "web".into(),
            succeeded: true,
            hosts: hosts.iter().map(host).collect(),
        };
        EndedSession { labels, succeeded: true, seconds: 4.0, end: 1000, targets: vec![target] }
    }

    #[test]
    fn a_restore_is_shown_under_both_names_until_its_object_is_gone() {
        let metrics = Metrics::new("0");
        let restores = metrics.register(RestoreMetrics::register);
        restores.ended(&restore(&["web-0", "web-1"]));
        let text = metrics.render();
        for line in [
            "stash_restore_session_success{",
            "stash_appscode_com_restoresession_success{",
            "stash_restore_target_count_total{",
            "stash_appscode_com_restoresession_target_success{",
            "stash_restore_host_restore_success{",
            "stash_appscode_com_restoresession_host_restore_duration_seconds{",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        restores.ended(&restore(&["web-0"]));
        assert!(!metrics.render().contains("web-1"), "{}", metrics.render());
        restores.retain(|kind, _, _| kind != "RestoreBatch");
        assert!(metrics.render().contains("web-0"), "{}", metrics.render());
        restores.retain(|_, _, name| name != "back");
        assert!(!metrics.render().contains("back"), "{}", metrics.render());
    }
}
