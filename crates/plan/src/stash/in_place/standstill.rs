//! The standstill of a workload: the record of the stopped workload and of the progress of the restore, and the next
//! action. The engine writes the record, carries out the action and reads the state again; each action may be
//! repeated after a crash.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::decide::StopPlan;
use super::uses::VolumeUser;
use crate::stash::hosts::TargetKind;

/// The progress of a standstill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// The scale is recorded; nothing was done yet.
    Recorded,
    /// The scale is being set to zero, and pods end.
    Stopping,
    /// No pod uses the volumes any more.
    Stopped,
    /// The data that will be overwritten is being copied into the repository.
    SafetyCopy,
    /// Data is being written.
    Restoring,
    /// All of it was written and verified.
    Verified,
    /// The scale is being set back.
    Starting,
    /// The scale is as before; the standstill is over.
    Started,
    /// The restore failed after it started to write: the workload stays stopped.
    HeldDown,
    /// The restore failed before it wrote, and the workload stays stopped, as an earlier restore left it.
    LeftDown,
}

impl Step {
    /// Whether the standstill is over, so that nothing is done to the workload any more.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Started | Self::HeldDown | Self::LeftDown)
    }

    /// Whether the restore left the workload stopped.
    pub fn is_down(self) -> bool {
        matches!(self, Self::HeldDown | Self::LeftDown)
    }

    /// Whether the data of a workload that carries this record may be half restored.
    pub fn may_have_written(self) -> bool {
        matches!(self, Self::Restoring | Self::Verified | Self::HeldDown)
    }
}

/// The record of a stopped workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standstill {
    /// The workload.
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// Its scale before.
    pub replicas: u32,
    pub step: Step,
    /// Whether this restore makes a safety copy.
    pub safety_copy: bool,
    /// The restore whose safety copy has the data from before, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_of: Option<RestoreName>,
    /// The restore that stopped it.
    pub restore: RestoreName,
    /// An earlier restore that left the workload down on half-restored data: only a restore that succeeds starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<RestoreName>,
    /// Why the restore failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A RestoreSession or RestoreBatch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreName {
    /// RestoreSession or RestoreBatch.
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl RestoreName {
    /// As commands name it.
    pub fn argument(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }
}

impl fmt::Display for RestoreName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// What is seen of a workload and of the work on its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandstillFacts {
    /// UID and scale of the workload; None if it does not exist.
    pub workload: Option<(String, u32)>,
    /// The pods that use the volumes, without the restore's own movers.
    pub users: Vec<VolumeUser>,
    /// The movers of the present step: of the safety copy, or of the restore.
    pub work: Work,
    /// Why the restore has to end: its deadline passed, it was deleted, pods did not end in time.
    pub give_up: Option<String>,
}

/// The state of the movers of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// No mover was ever requested.
    NotBegun,
    Running,
    Done,
    Failed(String),
    /// Failed, and it is certain that no mover wrote anything.
    Untouched(String),
}

impl Work {
    fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed(reason) | Self::Untouched(reason) => Some(reason),
            Self::NotBegun | Self::Running | Self::Done => None,
        }
    }
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write this record, then read the state again.
    Write(Box<Standstill>),
    /// Set the scale, then read the state again.
    Scale { replicas: u32 },
    /// Start or continue the movers of this step.
    Work,
    /// End the movers, then read the state again.
    Cancel { reason: String },
    /// Look again later.
    Wait { message: String },
    /// The standstill is over; the failure, if the restore failed.
    End { failure: Option<String> },
}

/// Why a restore has to end whose object was deleted.
pub const DELETED: &str = "the restore was deleted";

impl Action {
    fn write(record: Standstill) -> Self {
        Self::Write(Box::new(record))
    }
}

impl Standstill {
    /// The record of a workload that is about to be stopped. `workload`: its name and UID.
    pub fn new(kind: TargetKind, workload: (&str, &str), plan: &StopPlan, restore: RestoreName) -> Self {
        Self {
            kind: kind.as_str().to_owned(),
            name: workload.0.to_owned(),
            uid: workload.1.to_owned(),
            replicas: plan.replicas,
            step: Step::Recorded,
            safety_copy: plan.safety_copy,
            safety_of: plan.safety_of.clone(),
            restore,
            held_by: plan.held_by.clone(),
            failure: None,
        }
    }

    /// Whether this restore made the safety copy to which a rollback goes.
    pub fn has_own_copy(&self) -> bool {
        self.safety_of.as_ref() == Some(&self.restore)
    }

    /// The next action.
    pub fn next(&self, seen: &StandstillFacts) -> Action {
        match self.step {
            Step::Recorded => self.to(Step::Stopping),
            Step::Stopping => self.stopping(seen),
            Step::Stopped => match self.disturbed(seen) {
                Some(reason) => self.as_before(reason),
                None if self.safety_copy => self.to(Step::SafetyCopy),
                None => self.to(Step::Restoring),
            },
            Step::SafetyCopy => self.copying(seen),
            Step::Restoring => self.restoring(seen),
            Step::Verified => self.to(Step::Starting),
            Step::Starting => self.starting(seen),
            Step::Started | Step::HeldDown | Step::LeftDown => Action::End { failure: self.failure.clone() },
        }
    }

    fn to(&self, step: Step) -> Action {
        Action::write(Self { step, ..self.clone() })
    }

    /// The safety copy is in the repository. Copies that were added to those of an earlier restore belong to that one.
    fn copied(&self) -> Action {
        let safety_of = self.safety_of.clone().or_else(|| Some(self.restore.clone()));
        Action::write(Self { step: Step::Restoring, safety_of, ..self.clone() })
    }

    /// UID of the restore to which the safety copies belong that this one makes.
    pub fn copies_of(&self) -> &str {
        self.safety_of.as_ref().map_or(&self.restore.uid, |earlier| &earlier.uid)
    }

    /// Nothing was written: the restore is Failed, and the workload gets its scale back. One that an earlier restore left down on
    /// half-restored data stays as it was found.
    pub(super) fn as_before(&self, failure: String) -> Action {
        let (step, failure) = match &self.held_by {
            Some(earlier) => (Step::LeftDown, self.left_message(&failure, earlier)),
            None => (Step::Starting, failure),
        };
        Action::write(Self { step, failure: Some(failure), ..self.clone() })
    }

    /// Something may have been written: the workload stays down.
    pub(super) fn held(&self, reason: &str, running: u32) -> Action {
        Action::write(Self {
            step: Step::HeldDown,
            failure: Some(self.held_message(reason, running)),
            ..self.clone()
        })
    }

    /// The same, where the restore was deleted: commands that name it find it no more.
    fn held_by_deleted(&self, reason: &str, running: u32) -> Action {
        let failure = Some(self.deleted_message(reason, running));
        Action::write(Self { step: Step::HeldDown, failure, ..self.clone() })
    }

    /// The record of a workload whose restore was removed while it wrote.
    #[must_use]
    pub fn removed(&self) -> Self {
        let reason = format!("{} was removed while it restored", self.restore);
        Self { step: Step::HeldDown, failure: Some(self.deleted_message(&reason, 0)), ..self.clone() }
    }

    /// Why the restore ends before the workload was stopped, or before anything was written, and how to go on. A workload that an earlier
    /// restore left down gets a message of its own.
    #[must_use]
    pub fn not_stopped(&self, reason: &str) -> String {
        match &self.held_by {
            Some(_) => reason.to_owned(),
            None => format!("{}. Try again: {}", reason.trim_end_matches('.'), self.again()),
        }
    }

    /// The command that carries the restore out again.
    pub(super) fn again(&self) -> String {
        let RestoreName { kind, namespace, name, .. } = &self.restore;
        let object = kind.to_lowercase();
        format!("kubectl -n {namespace} get {object} {name} -o yaml | kubectl replace --force -f -")
    }

    /// The workload could not be given its scale back: it stays down, and the restore is Failed.
    #[must_use]
    pub fn not_started(&self, refusal: &str) -> Self {
        let Self { kind, name, replicas, restore, .. } = self;
        let before = match &self.failure {
            None => "all data was restored",
            Some(failure) => failure.trim_end_matches('.'),
        };
        let failure = format!(
            "{before}. {kind} {name} stays stopped, because it could not be started: {refusal}. Remove what refuses that, then start it: \
             kubectl -n {} scale {}/{name} --replicas={replicas}",
            restore.namespace,
            kind.to_lowercase(),
        );
        Self { step: Step::HeldDown, failure: Some(failure), ..self.clone() }
    }

    fn stopping(&self, seen: &StandstillFacts) -> Action {
        let reason = seen.give_up.clone().or_else(|| self.gone(seen));
        if let Some(reason) = reason {
            return self.as_before(reason);
        }
        match &seen.workload {
            // A person started what an earlier restore left down: that is not undone.
            Some((_, replicas)) if *replicas != 0 && self.held_by.is_some() => {
                self.as_before(self.scaled_message(*replicas))
            }
            Some((_, replicas)) if *replicas != 0 => Action::Scale { replicas: 0 },
            _ if seen.users.is_empty() => self.to(Step::Stopped),
            _ => Action::Wait { message: format!("waits until {} ended", pods(&seen.users)) },
        }
    }

    fn copying(&self, seen: &StandstillFacts) -> Action {
        let failed = seen.work.failure().map(|reason| format!("the safety copy failed: {reason}"));
        let reason = self.disturbed(seen).or(failed);
        match (reason, &seen.work) {
            (Some(reason), Work::Running) => Action::Cancel { reason },
            (Some(reason), _) => self.as_before(reason),
            (None, Work::Done) => self.copied(),
            (None, _) => Action::Work,
        }
    }

    fn restoring(&self, seen: &StandstillFacts) -> Action {
        if seen.work == Work::Done {
            return self.to(Step::Verified);
        }
        let failed = seen.work.failure().map(str::to_owned);
        match (failed.or_else(|| self.disturbed(seen)), &seen.work) {
            (Some(reason), Work::Running) => Action::Cancel { reason },
            (Some(reason), Work::NotBegun | Work::Untouched(_)) => self.as_before(reason),
            (Some(reason), _) => {
                let running = seen.workload.as_ref().map_or(0, |(_, now)| *now);
                let is_deleted = seen.give_up.as_deref() == Some(DELETED);
                if is_deleted { self.held_by_deleted(&reason, running) } else { self.held(&reason, running) }
            }
            (None, _) => Action::Work,
        }
    }

    fn starting(&self, seen: &StandstillFacts) -> Action {
        match &seen.workload {
            Some((uid, 0)) if *uid == self.uid && self.replicas != 0 => {
                Action::Scale { replicas: self.replicas }
            }
            _ => self.to(Step::Started),
        }
    }

    /// Why the restore cannot continue, apart from its movers.
    fn disturbed(&self, seen: &StandstillFacts) -> Option<String> {
        let scaled = match &seen.workload {
            Some((_, replicas)) if *replicas != 0 => Some(self.scaled_message(*replicas)),
            _ => None,
        };
        let used = (!seen.users.is_empty())
            .then(|| format!("{} came to use the volumes while they were being restored", pods(&seen.users)));
        seen.give_up.clone().or_else(|| self.gone(seen)).or(scaled).or(used)
    }

    fn gone(&self, seen: &StandstillFacts) -> Option<String> {
        let what = match &seen.workload {
            None => "was deleted",
            Some((uid, _)) if *uid != self.uid => "was deleted and created again",
            _ => return None,
        };
        Some(format!("{} {} {what} during the restore", self.kind, self.name))
    }

    fn scaled_message(&self, replicas: u32) -> String {
        format!("{} {} was scaled to {replicas} while its volumes were being restored", self.kind, self.name)
    }
}

fn pods(users: &[VolumeUser]) -> String {
    let names: Vec<String> = users.iter().map(VolumeUser::to_string).collect();
    names.join(", ")
}
