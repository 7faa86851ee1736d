//! The state of a session, the same for backups and restores: members, their hosts and conditions. It is read from the status
//! of a BackupSession, RestoreSession or RestoreBatch and written back to it; the engine in crate `stash` works on this
//! form only.

use jiff::Timestamp;
use lifeboat_api::common::{Condition, GoDuration};
use lifeboat_api::stash::{HookPhase, HostRun, SnapshotStats, TargetRef};

use super::hosts::HostName;

/// The phase of a session. `Skipped` is for backups only, `Invalid` for restores only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Skipped,
    Invalid,
    Unknown,
}

/// The phase of a member or of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    /// The result is not known, for example of a claim that waits for its first pod.
    Unknown,
}

/// The state of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionState {
    pub phase: SessionPhase,
    pub deadline: Option<Timestamp>,
    pub duration: Option<GoDuration>,
    pub conditions: Vec<Condition>,
    /// One for each member of the invoker, in its order.
    pub members: Vec<MemberState>,
    /// Of a BackupSession: it failed and was retried; when the next retry starts.
    pub retried: Option<bool>,
    pub next_retry: Option<Timestamp>,
}

/// The state of one member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberState {
    /// None where the member has a task and no target.
    pub reference: Option<TargetRef>,
    pub phase: WorkPhase,
    pub total_hosts: Option<i32>,
    pub hosts: Vec<HostState>,
    pub conditions: Vec<Condition>,
    pub pre_actions: Vec<String>,
    pub post_actions: Vec<String>,
}

/// The state of one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostState {
    pub name: HostName,
    pub phase: WorkPhase,
    pub duration: Option<GoDuration>,
    pub error: Option<String>,
    /// Of a backup: the snapshots that were made, one for each path.
    pub snapshots: Vec<SnapshotStats>,
    pub run: HostRun,
}

impl HostState {
    /// Whether the hook before the host began, so that the one after it is owed.
    pub fn owes_post_hook(&self) -> bool {
        self.run.pre_hook.is_some()
            && !matches!(self.run.post_hook, Some(HookPhase::Succeeded | HookPhase::Failed | HookPhase::Skipped))
    }
}
