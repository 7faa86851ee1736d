//! What happens to a snapshot that a mover stored after it was given up, depending on the state of its session.

use lifeboat_api::stash::{BackupSession, HostBackupPhase, HostBackupStats};

use crate::label;
use crate::transfer::repository_notes::TaskFate;

/// The parts of the UID of a task: `<session>.<member>.<digest of the host>-<attempt>`. More may stand between digest and attempt.
#[derive(Debug, PartialEq, Eq)]
struct TaskParts<'a> {
    session: &'a str,
    member: usize,
    host: &'a str,
    attempt: i64,
}

impl<'a> TaskParts<'a> {
    fn parse(task: &'a str) -> Option<Self> {
        let (session, rest) = task.split_once('.')?;
        let (member, rest) = rest.split_once('.')?;
        let (host, attempt) = rest.rsplit_once('-')?;
        let host = host.split('.').next()?;
        Some(Self { session, member: member.parse().ok()?, host, attempt: attempt.parse().ok()? })
    }
}

/// The digest of a host in the UID of a task.
pub fn host_digest(host: &str) -> String {
    label::digest(host).chars().take(8).collect()
}

/// Whether a session lists the snapshot among its results: such a snapshot is never forgotten here.
pub fn is_listed(snapshot: &str, sessions: &[BackupSession]) -> bool {
    let targets =
        sessions.iter().filter_map(|session| session.status.as_ref()).flat_map(|status| &status.targets);
    let listed = targets.flat_map(|target| &target.stats).flat_map(|host| &host.snapshots);
    listed.filter_map(|stats| stats.name.as_deref()).any(|name| name.len() >= 8 && snapshot.starts_with(name))
}

/// What happens to the snapshots of a task that was given up. `sessions`: all BackupSessions that may have requested
/// it. If the session no longer exists, nothing is deleted.
pub fn fate(task: &str, sessions: &[BackupSession]) -> TaskFate {
    let Some(parts) = TaskParts::parse(task) else { return TaskFate::Unknown };
    let session = sessions.iter().find(|session| session.metadata.uid.as_deref() == Some(parts.session));
    let Some(host) = session.and_then(|session| host_of(session, &parts)) else { return TaskFate::Unknown };
    if host.run.attempt.is_some_and(|last| parts.attempt < last) {
        return TaskFate::Unwanted;
    }
    match host.phase {
        Some(HostBackupPhase::Succeeded) => TaskFate::Wanted,
        // An incomplete snapshot stays: it is listed although its host failed.
        Some(HostBackupPhase::Failed) if !host.snapshots.is_empty() => TaskFate::Wanted,
        Some(HostBackupPhase::Failed) => TaskFate::Unwanted,
        _ => TaskFate::Unknown,
    }
}

fn host_of<'a>(session: &'a BackupSession, parts: &TaskParts<'_>) -> Option<&'a HostBackupStats> {
    let target = session.status.as_ref()?.targets.get(parts.member)?;
    target
        .stats
        .iter()
        .find(|host| host.hostname.as_deref().is_some_and(|name| host_digest(name) == parts.host))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "callers pass json! literals")]
    fn session(host: Value) -> BackupSession {
        let object = json!({
            "metadata": {"name": "s", "uid": "5f0c"},
            "spec": {"invoker": {"kind": "BackupConfiguration", "name": "c"}},
            "status": {"targets": [{"stats": [host]}]},
        });
        serde_json::from_value(object).unwrap()
    }

    #[rstest]
    #[case::succeeded("Succeeded", 1, json!([]), TaskFate::Wanted)]
    #[case::failed("Failed", 1, json!([]), TaskFate::Unwanted)]
    #[case::incomplete("Failed", 1, json!([{"name": "abc"}]), TaskFate::Wanted)]
    #[case::followed_by_another("Succeeded", 2, json!([]), TaskFate::Unwanted)]
    #[case::not_recorded_yet("Running", 1, json!([]), TaskFate::Unknown)]
    fn a_session_has_the_last_word_on_its_tasks(
        #[case] phase: &str,
        #[case] attempt: i64,
        #[case] snapshots: Value,
        #[case] expected: TaskFate,
    ) {
        let host = json!({"hostname": "app-1", "phase": phase, "attempt": attempt, "snapshots": snapshots});
        let task = format!("5f0c.0.{}-1", host_digest("app-1"));
        assert_eq!(fate(&task, &[session(host)]), expected);
    }

    #[rstest]
    #[case::of_another_session("aaaa.0.HOST-1")]
    #[case::of_another_member("5f0c.1.HOST-1")]
    #[case::of_another_host("5f0c.0.00000000-1")]
    #[case::no_task_of_ours("u-1")]
    #[case::no_attempt("5f0c.0.HOST")]
    fn of_what_is_not_known_nothing_is_deleted(#[case] task: &str) {
        let host = json!({"hostname": "app-1", "phase": "Failed", "attempt": 1});
        let task = task.replace("HOST", &host_digest("app-1"));
        assert_eq!(fate(&task, &[session(host)]), TaskFate::Unknown);
    }

    #[test]
    fn a_snapshot_that_a_session_lists_is_known_by_its_short_id_too() {
        let id = "0123456789abcdef";
        let host = json!({"hostname": "app-1", "phase": "Succeeded", "snapshots": [{"name": "01234567"}, {"name": "0"}]});
        let sessions = [session(host)];
        assert!(is_listed(id, &sessions));
        assert!(!is_listed("0fffffffffffffff", &sessions), "one digit names nothing");
    }
}
