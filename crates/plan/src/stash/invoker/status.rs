//! Conditions and phase of an invoker, from its spec's problems and the gathered facts.

use jiff::Timestamp;
use lifeboat_api::common::Condition;
use lifeboat_api::stash::{InvokerPhase, MemberConditions, TargetRef};

use super::problem::Problems;
use crate::stash::reservation::Standing;
use crate::stash::state::conditions::ConditionType::{
    self, BackendSecretFound, BackupTargetFound, BackupTargetIncomplete, CronJobCreated, RepositoryFound,
    RestoreTargetFound, ValidationPassed,
};
use crate::stash::state::conditions::{Observation, Truth};
use crate::stash::state::{SessionState, empty_target};

/// Whether an object that an invoker needs exists. The texts say what is missing, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Yes,
    No(String),
    /// Whether it exists could not be determined.
    Unknown(String),
}

impl Presence {
    fn is_yes(&self) -> bool {
        *self == Self::Yes
    }

    fn observed(&self, kind: ConditionType, what: &str) -> Observation {
        match self {
            Self::Yes => kind.yes(format!("{what} is available")),
            Self::No(message) => kind.no(message.clone()),
            Self::Unknown(message) => kind.observed(Truth::Unknown, message.clone()),
        }
    }
}

/// What was gathered about an invoker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// None with driver VolumeSnapshotter.
    pub repository: Option<Presence>,
    /// None with driver VolumeSnapshotter, and while the Repository is not found.
    pub secret: Option<Presence>,
    /// For each member; None for one without target.
    pub targets: Vec<Option<Presence>>,
    /// For each member whose target exists: what the next session will not find of what the member names.
    pub not_found: Vec<Option<String>>,
    /// The invoker's place in the repository's record; None with driver VolumeSnapshotter, and while there is no record.
    pub standing: Option<Standing>,
    /// Why the server refuses the object although its spec is valid: the admission policy is missing, or it may not be used.
    pub refusal: Option<String>,
    /// Why the server does not act on a restore for now: the admission policy is missing, and it may have been checked or not.
    pub unenforced: Option<String>,
}

impl Gathered {
    /// Whether Repository and Secret are there, as far as they are needed.
    fn has_repository(&self) -> bool {
        [&self.repository, &self.secret].into_iter().flatten().all(Presence::is_yes)
            && (self.repository.is_none() || self.secret.is_some())
    }

    /// Whether a target exists, or none is needed. A batch runs with the members whose targets exist; the others are
    /// Failed.
    fn has_targets(&self) -> bool {
        self.targets.is_empty()
            || self.targets.iter().any(|found| found.as_ref().is_none_or(Presence::is_yes))
    }

    /// Whether the repository is reserved, or none is needed.
    fn may_write(&self) -> bool {
        self.repository.is_none() || self.standing == Some(Standing::Holds)
    }

    fn validation(&self, problems: Option<&Problems>) -> Observation {
        match (problems, &self.refusal, &self.standing) {
            (Some(problems), ..) => ValidationPassed.no(problems.to_string()),
            (None, Some(refusal), _) => ValidationPassed.no(refusal.clone()),
            (None, None, _) if self.unenforced.is_some() => {
                ValidationPassed.observed(Truth::Unknown, self.unenforced.clone().unwrap_or_default())
            }
            (None, None, Some(Standing::Waits(conflict))) => {
                Observation::repository_in_use(conflict.to_string())
            }
            (None, None, _) => ValidationPassed.yes("the spec is valid"),
        }
    }

    fn repository_observations(&self) -> Vec<Observation> {
        let of =
            |found: &Option<Presence>, kind, what| found.as_ref().map(|found| found.observed(kind, what));
        let repository = of(&self.repository, RepositoryFound, "the Repository");
        let secret = of(&self.secret, BackendSecretFound, "the Secret of the backend");
        repository.into_iter().chain(secret).collect()
    }
}

/// The status of a BackupConfiguration or BackupBatch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InvokerStatus {
    pub phase: Option<InvokerPhase>,
    pub conditions: Vec<Condition>,
    /// Of a BackupBatch only.
    pub members: Vec<MemberConditions>,
}

impl InvokerStatus {
    /// The new status, from the old one and the current facts. `targets`: of the members, in their order. `is_batch`:
    /// the conditions of targets are in `members`.
    pub fn of(
        old: &Self,
        problems: Option<&Problems>,
        gathered: &Gathered,
        targets: &[Option<TargetRef>],
        is_batch: bool,
        now: Timestamp,
    ) -> Self {
        let validation = gathered.validation(problems);
        let schedule = schedule(gathered, &validation);
        let phase = phase(gathered, &validation, &schedule);
        let mut observed = gathered.repository_observations();
        observed.push(validation);
        let of_target = |(number, found): (usize, &Option<Presence>)| -> Vec<Observation> {
            let target = found.as_ref().map(|found| found.observed(BackupTargetFound, "the target"));
            let incomplete = gathered.not_found.get(number).cloned().flatten();
            target.into_iter().chain(incomplete.map(|message| BackupTargetIncomplete.yes(message))).collect()
        };
        let found: Vec<_> = gathered.targets.iter().enumerate().map(of_target).collect();
        let mut members = Vec::new();
        if is_batch {
            members = member_conditions(&old.members, targets, &found, now);
        } else {
            observed.extend(found.into_iter().flatten());
        }
        observed.push(schedule);
        Self { phase: Some(phase), conditions: merged(&old.conditions, &observed, now), members }
    }

    /// The reason and text of an event, if an invoker became unusable, or for other causes than before. `passing`: a message
    /// about which there was no event, because it did not last.
    pub fn warning(&self, before: &Self, passing: &str) -> Option<(&'static str, String)> {
        let reason = match self.phase {
            Some(InvokerPhase::Invalid) => "Invalid",
            Some(InvokerPhase::NotReady) => "NotReady",
            _ => {
                let message = self.incomplete()?;
                return before.incomplete().is_none().then(|| ("TargetIncomplete", message.to_owned()));
            }
        };
        let kinds = |status: &Self| -> Vec<String> {
            status.causes().map(|cause| format!("{}={}", cause.type_, cause.status)).collect()
        };
        let was_passing = before.causes().any(|cause| cause.message == passing);
        if self.phase == before.phase && !was_passing && kinds(self) == kinds(before) {
            return None;
        }
        let messages: Vec<&str> = self.causes().map(|cause| cause.message.as_str()).collect();
        Some((reason, messages.join("; ")))
    }

    /// The conditions that keep it from being Ready. That of the schedule only repeats them.
    fn causes(&self) -> impl Iterator<Item = &Condition> {
        self.all().filter(|known| {
            let is_own = ConditionType::named(&known.type_).is_some_and(|kind| kind != CronJobCreated);
            is_own && known.status != "True"
        })
    }

    /// What the first member with such a condition names and does not have.
    fn incomplete(&self) -> Option<&str> {
        let found = self.all().find(|known| known.type_ == BackupTargetIncomplete.name())?;
        Some(&found.message)
    }

    fn all(&self) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().chain(self.members.iter().flat_map(|member| &member.conditions))
    }
}

fn schedule(gathered: &Gathered, validation: &Observation) -> Observation {
    let missing = if gathered.refusal.is_some() {
        "the server does not act on this object"
    } else if validation.truth != Truth::True {
        "the spec is not valid"
    } else if !gathered.has_repository() {
        "the repository is not available"
    } else if !gathered.may_write() {
        "the repository is not reserved yet"
    } else if !gathered.has_targets() {
        "no target is available"
    } else {
        return CronJobCreated.yes("the schedule is in force");
    };
    CronJobCreated.no(format!("the schedule is not in force: {missing}"))
}

/// Upstream's order: what is missing comes before what is invalid.
fn phase(gathered: &Gathered, validation: &Observation, schedule: &Observation) -> InvokerPhase {
    let missing = [&gathered.repository, &gathered.secret].into_iter().flatten().any(|found| !found.is_yes());
    if missing {
        InvokerPhase::NotReady
    } else if validation.truth == Truth::False {
        InvokerPhase::Invalid
    } else if schedule.truth == Truth::True {
        InvokerPhase::Ready
    } else {
        InvokerPhase::NotReady
    }
}

fn member_conditions(
    old: &[MemberConditions],
    targets: &[Option<TargetRef>],
    found: &[Vec<Observation>],
    now: Timestamp,
) -> Vec<MemberConditions> {
    let member = |(target, observed): (&Option<TargetRef>, &Vec<Observation>)| {
        let target = target.clone().unwrap_or_else(empty_target);
        let known = old.iter().find(|known| known.target == target);
        let known = known.map(|known| known.conditions.as_slice()).unwrap_or_default();
        MemberConditions { target, conditions: merged(known, observed, now) }
    };
    targets.iter().zip(found).map(member).collect()
}

/// What was observed, in that order, with the transition times of the old conditions. Conditions of types that are not ours stay.
fn merged(old: &[Condition], observed: &[Observation], now: Timestamp) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for observation in observed {
        let before = old.iter().find(|condition| condition.type_ == observation.kind.name());
        conditions.extend(before.cloned());
        observation.set_in(&mut conditions, now);
    }
    let others = old.iter().filter(|condition| ConditionType::named(&condition.type_).is_none());
    conditions.extend(others.cloned());
    conditions
}

/// Writes the conditions of a restore: whether its spec is valid, and what is there. A restore with problems becomes Invalid;
/// one that lacks something stays Pending.
pub fn observe_restore(
    state: &mut SessionState,
    problems: Option<&Problems>,
    gathered: &Gathered,
    now: Timestamp,
) {
    for observation in gathered.repository_observations() {
        state.observe(&observation, now);
    }
    state.observe(&gathered.validation(problems), now);
    for (member, found) in state.members.iter_mut().zip(&gathered.targets) {
        if let Some(found) = found {
            member.observe(&found.observed(RestoreTargetFound, "the target"), now);
        }
    }
    state.settle();
}
