//! The state of a session, in one form for backups and restores: members, their hosts and conditions. It is read from
//! the status of a BackupSession, RestoreSession or RestoreBatch and written back to it; the engine in crate `stash`
//! uses only this form.

pub mod conditions;
mod data;
mod message;
mod notices;
mod of_backup;
mod of_restore;
mod phase;
#[cfg(test)]
mod tests;

pub use data::RestoredData;
pub use notices::{Notice, notices};
pub use of_backup::empty_target;

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use lifeboat_api::common::{Condition, GoDuration};
use lifeboat_api::stash::{HookPhase, HostRun, RestoredPath, SnapshotStats, TargetRef};

use self::conditions::{Observation, bounded};
use super::hosts::HostName;
use super::in_place::Standstill;

/// The phase of a session. `Skipped` is for backups only, `Invalid` for restores only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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

impl SessionPhase {
    /// Whether the session is over and its phase does not change any more.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Skipped | Self::Invalid)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Skipped => "Skipped",
            Self::Invalid => "Invalid",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for SessionPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
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

impl WorkPhase {
    /// Whether the work on it has ended. `Unknown` is an end: the claim of a restore waits for a pod that others
    /// create.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Unknown)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for WorkPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
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
    /// Of a BackupSession that has ended: how many members succeeded and are not in `members` any more.
    pub succeeded_members: Option<i32>,
    /// Of a BackupSession: it failed and was retried; when the next retry starts.
    pub retried: Option<bool>,
    pub next_retry: Option<Timestamp>,
    /// What it waits for, or why it was skipped or failed, in one sentence.
    pub message: Option<String>,
}

/// The state of one member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberState {
    /// None if the member has a task and no target.
    pub reference: Option<TargetRef>,
    pub phase: WorkPhase,
    pub total_hosts: Option<i32>,
    /// The claims of the target.
    pub claims: BTreeSet<String>,
    pub hosts: Vec<HostState>,
    pub conditions: Vec<Condition>,
    pub pre_actions: Vec<String>,
    pub post_actions: Vec<String>,
    /// Of a restore: the workload that it stops.
    pub standstill: Option<Standstill>,
}

/// The state of one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostState {
    pub name: HostName,
    pub phase: WorkPhase,
    pub duration: Option<GoDuration>,
    pub error: Option<String>,
    /// The snapshots that were created, one for each path. For a restore: its safety copies.
    pub snapshots: Vec<SnapshotStats>,
    /// Of a restore: the paths that the host gets.
    pub paths: Vec<RestoredPath>,
    pub run: HostRun,
}

/// The most members that the status of a session lists after its end, unless they did not succeed.
const MOST_LISTED: usize = 100;

/// The most bytes of the error or message of a host.
const LONGEST_TEXT: usize = 1024;

/// Upstream's actions of a session, which its first and last member show.
const PRE_ACTIONS: [&str; 1] = ["InitializeBackendRepository"];
const POST_ACTIONS: [&str; 3] =
    ["ApplyRetentionPolicy", "VerifyRepositoryIntegrity", "SendRepositoryMetrics"];

impl SessionState {
    /// The state of a backup that has not started: one member for each target, with upstream's actions at the first
    /// and the last.
    pub fn new_backup(targets: impl IntoIterator<Item = Option<TargetRef>>) -> Self {
        let mut state = Self::new_restore(targets);
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        if let Some(first) = state.members.first_mut() {
            first.pre_actions = texts(&PRE_ACTIONS);
        }
        if let Some(last) = state.members.last_mut() {
            last.post_actions = texts(&POST_ACTIONS);
        }
        state
    }

    /// A new backup with driver VolumeSnapshotter, which has no repository to create, check or measure.
    pub fn new_snapshot_backup(targets: impl IntoIterator<Item = Option<TargetRef>>) -> Self {
        let mut state = Self::new_restore(targets);
        if let Some(last) = state.members.last_mut() {
            last.post_actions = vec![POST_ACTIONS[0].to_owned()];
        }
        state
    }

    /// The state of a restore that has not started.
    pub fn new_restore(targets: impl IntoIterator<Item = Option<TargetRef>>) -> Self {
        let members =
            targets.into_iter().map(|reference| MemberState { reference, ..MemberState::default() });
        Self { members: members.collect(), ..Self::default() }
    }

    /// Whether the session has ended. Phase Unknown is an end only after the last step, when a claim waits for a pod
    /// that others create. Before the last step, it is the phase of another version.
    pub fn has_ended(&self) -> bool {
        self.phase.has_ended() || (self.phase == SessionPhase::Unknown && self.is_complete())
    }

    /// Leaves out the members that succeeded, if a session that has ended has many members: they are only counted.
    pub fn shorten(&mut self) {
        let all = self.members.len();
        if all <= MOST_LISTED || !self.has_ended() {
            return;
        }
        self.members.retain(|member| member.phase != WorkPhase::Succeeded);
        self.succeeded_members = i32::try_from(all - self.members.len()).ok();
    }

    /// Sets a condition of the session.
    pub fn observe(&mut self, observation: &Observation, now: Timestamp) {
        observation.set_in(&mut self.conditions, now);
    }
}

impl MemberState {
    /// Sets a condition of the member.
    pub fn observe(&mut self, observation: &Observation, now: Timestamp) {
        observation.set_in(&mut self.conditions, now);
    }

    /// Whether nothing is moved any more: hooks, and the start of a workload, may still be due.
    pub fn all_hosts_ended(&self) -> bool {
        self.hosts.iter().all(|host| host.phase.has_ended())
    }

    /// Whether all hosts of the member and their hooks have ended, or will never start.
    pub fn has_ended(&self) -> bool {
        self.current_phase().has_ended()
    }
}

impl HostState {
    /// Cuts texts that come from the cluster: a status with many hosts has room for short ones only.
    fn cut_texts(&mut self) {
        let cut = |text: &mut Option<String>| {
            *text = text.take().map(|text| bounded(text, LONGEST_TEXT));
        };
        cut(&mut self.error);
        cut(&mut self.run.message);
    }

    /// Whether the hook after the host is still due: the hook before the host was started, or the hook itself was
    /// started and has not ended.
    pub fn owes_post_hook(&self) -> bool {
        match &self.run.post_hook {
            Some(HookPhase::Succeeded | HookPhase::Failed | HookPhase::Skipped) => false,
            Some(HookPhase::Started) => true,
            _ => self.run.pre_hook.is_some(),
        }
    }
}
