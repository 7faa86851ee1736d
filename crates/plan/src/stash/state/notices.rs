//! The events about a session that a change of its state causes: hosts and members that failed, and an end without success.
//! Takes the states before and after the change; called when the change was written.

use super::conditions::ConditionType::{
    BackupExecutorEnsured, BackupSkipped, RestoreExecutorEnsured, ValidationPassed,
};
use super::conditions::Truth;
use super::message::said;
use super::{MemberState, SessionPhase, SessionState, WorkPhase};

/// How many events about hosts and members a session gets at most.
const MOST: usize = 8;

/// A warning about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub reason: &'static str,
    pub message: String,
}

/// What a change of the state is worth telling. A session gets a limited number of events, however many hosts it has.
pub fn notices(before: &SessionState, after: &SessionState) -> Vec<Notice> {
    if after.members.len() < before.members.len() {
        // Members that succeeded were left out: nothing else changed.
        return end(before, after).into_iter().collect();
    }
    let (known, now) = (failed_parts(before), failed_parts(after));
    let room = MOST.saturating_sub(known.len());
    let new = now.into_iter().filter(|(part, _)| !known.iter().any(|(other, _)| other == part));
    let mut notices: Vec<Notice> = new.map(|(_, notice)| notice).take(room).collect();
    notices.extend(end(before, after));
    notices
}

/// The end of a session that did not succeed.
fn end(before: &SessionState, after: &SessionState) -> Option<Notice> {
    if before.phase == after.phase {
        return None;
    }
    let (reason, message) = match after.phase {
        SessionPhase::Skipped => ("Skipped", said(&after.conditions, BackupSkipped, Truth::True)),
        SessionPhase::Invalid => ("Invalid", said(&after.conditions, ValidationPassed, Truth::False)),
        SessionPhase::Failed => ("Failed", after.message.clone()),
        _ => return None,
    };
    let message = message.unwrap_or_else(|| "its conditions say why".to_owned());
    Some(Notice { reason, message })
}

/// A part of a session: a member, or one of its hosts.
type Part = (usize, Option<String>);

/// All parts that failed.
fn failed_parts(state: &SessionState) -> Vec<(Part, Notice)> {
    let mut parts = Vec::new();
    for (number, member) in state.members.iter().enumerate() {
        parts.extend(failed_member(member).map(|notice| ((number, None), notice)));
        let failed = member.hosts.iter().filter(|host| host.phase == WorkPhase::Failed);
        parts.extend(failed.map(|host| {
            let error = host.error.as_deref().unwrap_or("it failed");
            let notice = Notice { reason: "HostFailed", message: format!("host {}: {error}", host.name) };
            ((number, Some(host.name.to_string())), notice)
        }));
    }
    parts
}

/// A member that has no hosts, or whose work failed apart from its hosts.
fn failed_member(member: &MemberState) -> Option<Notice> {
    let kinds = [BackupExecutorEnsured, RestoreExecutorEnsured];
    let message = kinds.into_iter().find_map(|kind| said(&member.conditions, kind, Truth::False))?;
    let message = match &member.reference {
        Some(target) => format!("{} {}: {message}", target.kind, target.name),
        None => message,
    };
    Some(Notice { reason: "TargetFailed", message })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::stash::hosts::HostName;
    use crate::stash::state::HostState;

    fn session(hosts: Vec<HostState>) -> SessionState {
        let total_hosts = i32::try_from(hosts.len()).ok();
        let member = MemberState { total_hosts, hosts, ..MemberState::default() };
        SessionState { members: vec![member], phase: SessionPhase::Running, ..SessionState::default() }
    }

    fn host(name: &str, phase: WorkPhase, error: Option<&str>) -> HostState {
        let error = error.map(str::to_owned);
        HostState { name: HostName::from(name), phase, error, ..HostState::default() }
    }

    fn shown(notices: &[Notice]) -> Vec<String> {
        notices.iter().map(|notice| format!("{} {}", notice.reason, notice.message)).collect()
    }

    #[test]
    fn a_host_that_failed_is_told_once() {
        let before = session(vec![host("app", WorkPhase::Running, None)]);
        let after = session(vec![host("app", WorkPhase::Failed, Some("no such path"))]);
        assert_eq!(shown(&notices(&before, &after)), ["HostFailed host app: no such path"]);
        assert!(notices(&after, &after).is_empty());
    }

    #[test]
    fn members_that_are_left_out_at_the_end_of_a_long_session_cause_no_event() {
        let one = |phase| MemberState { phase, ..session(vec![host("app", phase, None)]).members.remove(0) };
        let mut long = SessionState { phase: SessionPhase::Failed, ..SessionState::default() };
        long.members = (0..=100)
            .map(|number| one(if number == 9 { WorkPhase::Failed } else { WorkPhase::Succeeded }))
            .collect();
        let mut short = long.clone();
        short.shorten();
        assert_eq!((short.members.len(), short.succeeded_members), (1, Some(100)));
        assert!(notices(&long, &short).is_empty());
        long.members.pop();
        let mut unchanged = long.clone();
        unchanged.shorten();
        assert_eq!(unchanged, long, "a status has room for a hundred targets");
        long.members.push(one(WorkPhase::Succeeded));
        long.phase = SessionPhase::Running;
        let mut running = long.clone();
        running.shorten();
        assert_eq!(running, long, "the engine needs all members until the end");
    }

    #[test]
    fn a_session_with_many_failed_hosts_gets_few_events() {
        let hosts = |phase, error: Option<&str>| {
            session((0..50).map(|number| host(&format!("h{number}"), phase, error)).collect())
        };
        let (before, after) = (hosts(WorkPhase::Running, None), hosts(WorkPhase::Failed, Some("no")));
        assert_eq!(notices(&before, &after).len(), MOST);
        assert!(notices(&after, &hosts(WorkPhase::Failed, Some("no"))).is_empty());
    }

    #[test]
    fn a_skipped_session_a_failed_one_and_a_target_without_hosts_are_told_with_the_cause() {
        let now = Timestamp::UNIX_EPOCH;
        let before = SessionState::default();
        let mut skipped = before.clone();
        skipped.observe(&BackupSkipped.yes("its invoker is paused"), now);
        skipped.settle();
        assert_eq!(shown(&notices(&before, &skipped)), ["Skipped its invoker is paused"]);
        let before = session(Vec::new());
        let mut failed = before.clone();
        failed.members[0].observe(&BackupExecutorEnsured.no("no Deployment web"), now);
        failed.observe(&super::super::conditions::ConditionType::MetricsPushed.yes(""), now);
        failed.settle();
        assert_eq!(
            shown(&notices(&before, &failed)),
            ["TargetFailed no Deployment web", "Failed no Deployment web"]
        );
    }
}
