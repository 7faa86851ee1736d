//! A BackupSession, RestoreSession or RestoreBatch as it is shown: its phase, its hosts with their bytes, and why it waits or failed.
//! Takes the object as JSON. Pure.

use comfy_table::Table;
use serde_json::Value;

use crate::printer;
use crate::units::bytes;

/// Conditions that call for attention when they are True; all others when they are False.
const NOTICES: [&str; 17] = [
    "BackupSkipped",
    "BackupDisrupted",
    "DeadlineExceeded",
    "Interrupted",
    "RestoreQueued",
    "TargetInUse",
    "OtherReplicasNotBackedUp",
    "PodsMissing",
    "MountBelowPath",
    "VolumeReadLive",
    "VolumesWithoutSnapshot",
    "ClaimsAwaitPods",
    "RulesMoved",
    "HostsWithoutRule",
    "RestoreRemarks",
    "OwnersNotRestored",
    "BackupsBlocked",
];

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub(super) phase: String,
    pub(super) hosts: Vec<HostView>,
    /// The conditions that call for attention.
    pub(super) notices: Vec<String>,
}

/// A host of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostView {
    /// The target, such as `Deployment web`.
    target: String,
    name: String,
    phase: String,
    /// Bytes done, and all bytes as far as they are known.
    bytes: Option<(u64, u64)>,
    /// Why it failed, or what it waits for.
    message: String,
}

impl View {
    pub(super) fn of(session: &Value) -> Self {
        let status = &session["status"];
        let members: Vec<(String, &Value)> = match text(&session["kind"]) {
            "BackupSession" => list(&status["targets"]).map(of_member).collect(),
            "RestoreBatch" => list(&status["members"]).map(of_member).collect(),
            _ => vec![(target(&session["spec"]["target"]["ref"]), status)],
        };
        let mut notices = notices(&status["conditions"]);
        let mut hosts = Vec::new();
        for (target, member) in members {
            hosts.extend(list(&member["stats"]).map(|host| HostView::of(&target, host)));
            // The conditions of a RestoreSession and of its only member are in one list.
            if !std::ptr::eq(member, status) {
                let found = self::notices(&member["conditions"]).into_iter();
                notices.extend(
                    found.map(
                        |notice| {
                            if target.is_empty() { notice } else { format!("{target}: {notice}") }
                        },
                    ),
                );
            }
        }
        let phase = text(&status["phase"]);
        Self { phase: if phase.is_empty() { "Pending" } else { phase }.to_owned(), hosts, notices }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed" | "Skipped" | "Invalid" | "Unknown")
    }

    /// The state as one line.
    pub(super) fn line(&self) -> String {
        let (done, total) = self.hosts.iter().filter_map(|host| host.bytes).fold((0, 0), |sum, next| {
            (u64::saturating_add(sum.0, next.0), u64::saturating_add(sum.1, next.1.max(next.0)))
        });
        let ended = self.hosts.iter().filter(|host| host.has_ended()).count();
        let mut parts = Vec::new();
        if !self.hosts.is_empty() {
            parts.push(format!("{ended} of {} hosts", self.hosts.len()));
        }
        if total > 0 {
            parts.push(format!("{} of {}", bytes(done), bytes(total)));
        }
        parts.extend(self.notices.iter().cloned());
        if parts.is_empty() { self.phase.clone() } else { format!("{}: {}", self.phase, parts.join("; ")) }
    }

    /// Why the session ended as it did: of its hosts, and of its conditions.
    pub(super) fn reasons(&self) -> Vec<String> {
        let of_hosts = self.hosts.iter().filter(|host| host.phase == "Failed" && !host.message.is_empty());
        let mut reasons: Vec<String> =
            of_hosts.map(|host| format!("host {}: {}", host.name, host.message)).collect();
        reasons.extend(self.notices.iter().cloned());
        reasons
    }

    pub(super) fn table(&self) -> Table {
        let rows = self.hosts.iter().map(|host| {
            let (done, total) = host.bytes.map_or((String::new(), String::new()), |(done, total)| {
                (bytes(done), if total > 0 { bytes(total) } else { String::new() })
            });
            vec![
                host.target.clone(),
                host.name.clone(),
                host.phase.clone(),
                done,
                total,
                short(&host.message),
            ]
        });
        printer::table(&["TARGET", "HOST", "PHASE", "DONE", "TOTAL", "MESSAGE"], rows)
    }
}

impl HostView {
    fn of(target: &str, host: &Value) -> Self {
        let number = |field: &str| host[field].as_u64();
        let error = text(&host["error"]);
        let message = if error.is_empty() { text(&host["message"]) } else { error };
        let phase = text(&host["phase"]);
        // The last count before the end may be old: a host that succeeded has done all of it.
        let total = number("bytesTotal").unwrap_or_default();
        let done = number("bytesDone").map(|done| if phase == "Succeeded" { done.max(total) } else { done });
        Self {
            target: target.to_owned(),
            name: text(&host["hostname"]).to_owned(),
            phase: if phase.is_empty() { "Pending" } else { phase }.to_owned(),
            bytes: done.map(|done| (done, total)),
            message: message.to_owned(),
        }
    }

    fn has_ended(&self) -> bool {
        !matches!(self.phase.as_str(), "Pending" | "Running")
    }

    pub(super) fn is_running(&self) -> bool {
        self.phase == "Running"
    }

    /// What tells it from the other hosts of its session.
    pub(super) fn key(&self) -> String {
        if self.target.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.target) }
    }

    pub(super) fn bytes(&self) -> (u64, u64) {
        self.bytes.unwrap_or_default()
    }

    /// Its bytes and what it waits for.
    pub(super) fn state(&self) -> String {
        let counted = self.bytes.map(|(done, total)| match total {
            0 => bytes(done),
            total => format!("{} of {}", bytes(done), bytes(total.max(done))),
        });
        let message = Some(short(&self.message)).filter(|message| !message.is_empty());
        let parts: Vec<String> = [Some(self.phase.clone()), counted, message].into_iter().flatten().collect();
        parts.join(", ")
    }
}

/// The conditions that call for attention: their messages, or their types where they have none.
pub(super) fn notices(conditions: &Value) -> Vec<String> {
    let found = list(conditions).filter(|condition| {
        let kind = text(&condition["type"]);
        let when = if NOTICES.contains(&kind) { "True" } else { "False" };
        text(&condition["status"]) == when
    });
    let shown = found.map(|condition| match text(&condition["message"]) {
        "" => format!("{} is {}", text(&condition["type"]), text(&condition["status"])),
        message => message.to_owned(),
    });
    shown.collect()
}

fn of_member(member: &Value) -> (String, &Value) {
    (target(&member["ref"]), member)
}

/// `Deployment web`. A member without target has a name that only the API knows.
fn target(reference: &Value) -> String {
    match (text(&reference["kind"]), text(&reference["name"])) {
        ("" | "EmptyTarget", _) => String::new(),
        (kind, name) => format!("{kind} {name}"),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A message that fits into a row.
fn short(message: &str) -> String {
    const LONGEST: usize = 120;
    let line = message.lines().next().unwrap_or_default();
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    let start: String = line.chars().take(LONGEST - 1).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn backup() -> Value {
        json!({"kind": "BackupSession", "status": {"phase": "Running",
        "conditions": [{"type": "RetentionPolicyApplied", "status": "True"}],
        "targets": [
            {"ref": {"kind": "StatefulSet", "name": "db"}, "phase": "Running", "stats": [
                {"hostname": "db-0", "phase": "Succeeded", "bytesDone": 2048, "bytesTotal": 2048},
                {"hostname": "db-1", "phase": "Running", "bytesDone": 1024, "bytesTotal": 4096, "message": "second mover"}]},
            {"ref": {"kind": "EmptyTarget", "name": "na"}, "stats": [{"hostname": "host-0"}],
                "conditions": [{"type": "BackupExecutorEnsured", "status": "False", "message": "no Task \"x\""}]},
        ]}})
    }

    #[test]
    fn a_session_shows_hosts_bytes_and_what_is_wrong() {
        let view = View::of(&backup());
        assert_eq!(view.line(), "Running: 1 of 3 hosts; 3.000 KiB of 6.000 KiB; no Task \"x\"");
        assert_eq!(view.hosts[1].state(), "Running, 1.000 KiB of 4.000 KiB, second mover");
        assert_eq!(view.hosts[1].key(), "db-1 (StatefulSet db)");
        assert_eq!(view.hosts[2].key(), "host-0");
        insta::assert_snapshot!(view.table().trim_fmt(), @"
        TARGET           HOST     PHASE       DONE        TOTAL       MESSAGE
        StatefulSet db   db-0     Succeeded   2.000 KiB   2.000 KiB
        StatefulSet db   db-1     Running     1.000 KiB   4.000 KiB   second mover
                         host-0   Pending
        ");
    }

    #[test]
    fn a_restore_session_is_its_only_member() {
        let session = json!({"kind": "RestoreSession", "spec": {"target": {"ref": {"kind": "Deployment", "name": "web"}}},
            "status": {"phase": "Failed", "stats": [{"hostname": "web", "phase": "Failed", "error": "disk full"}],
                "conditions": [{"type": "WorkloadStarted", "status": "False", "message": "Deployment web stays stopped"},
                    {"type": "RestoreQueued", "status": "False"}]}});
        let view = View::of(&session);
        assert!(view.has_ended());
        assert_eq!(view.reasons(), ["host web: disk full", "Deployment web stays stopped"]);
        assert!(!View::of(&json!({"kind": "RestoreSession"})).has_ended());
        let waiting = json!({"type": "ClaimsAwaitPods", "status": "True", "message": "claims data get their data when pods use them"});
        let unknown = View::of(
            &json!({"kind": "RestoreSession", "status": {"phase": "Unknown", "conditions": [waiting]}}),
        );
        assert!(unknown.has_ended(), "nothing more is done for it");
        assert_eq!(unknown.reasons(), ["claims data get their data when pods use them"]);
        let allowed =
            json!({"type": "BackupsBlocked", "status": "False", "message": "all data was restored"});
        let succeeded = View::of(
            &json!({"kind": "RestoreSession", "status": {"phase": "Succeeded", "conditions": [allowed]}}),
        );
        assert!(succeeded.reasons().is_empty(), "{succeeded:?}");
    }

    #[test]
    fn a_host_that_succeeded_has_all_of_its_bytes() {
        let host = |phase: &str| {
            json!({"kind": "RestoreSession", "status": {"phase": phase,
                "stats": [{"hostname": "web", "phase": phase, "bytesDone": 0, "bytesTotal": 4096}]}})
        };
        let succeeded = View::of(&host("Succeeded"));
        assert_eq!(succeeded.hosts[0].state(), "Succeeded, 4.000 KiB of 4.000 KiB");
        assert_eq!(succeeded.line(), "Succeeded: 1 of 1 hosts; 4.000 KiB of 4.000 KiB");
        assert_eq!(View::of(&host("Failed")).hosts[0].state(), "Failed, 0 B of 4.000 KiB");
    }

    #[test]
    fn a_long_message_is_cut_in_a_row() {
        assert_eq!(short(&"ä".repeat(200)).chars().count(), 120);
        assert_eq!(short("one\ntwo"), "one");
    }
}
