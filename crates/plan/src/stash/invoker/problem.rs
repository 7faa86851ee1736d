//! Problems in the spec of an invoker. Each problem names the field, the value and what was expected.

use std::fmt;

use crate::schedule::CronError;
use crate::stash::hooks::HookError;
use crate::stash::hosts::{Collision, KindError};
use crate::stash::restic::ResticError;
use crate::stash::rules::RuleError;
use crate::stash::session::ArgError;
use crate::stash::snapshotter::RestoredClaimError;
use crate::stash::targets::PathError;

/// The most AppBindings of other namespaces in one object: the admission policy checks so many.
pub(super) const MOST_ELSEWHERE: usize = crate::install::policies::MOST_ELSEWHERE;

/// One problem of a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("spec.schedule: {0}")]
    Schedule(CronError),
    #[error("spec.driver {value:?} is unknown; expected Restic or VolumeSnapshotter")]
    Driver { value: String },
    #[error("spec.repository is missing; driver Restic needs one")]
    NoRepository,
    #[error("spec.maintainOrder {maintain} contradicts spec.executionOrder {order}; remove one of the two")]
    Order { maintain: bool, order: String },
    #[error("spec.executionOrder {value:?} is unknown; expected Parallel or Sequential")]
    ExecutionOrder { value: String },
    #[error("spec.{field} {value} is negative; expected a positive value, or none")]
    Negative { field: &'static str, value: String },
    #[error("{member}.target is missing; only a member with task.name may have none")]
    NoTarget { member: String },
    #[error("{member}.target is missing; driver VolumeSnapshotter needs one")]
    NoSnapshotTarget { member: String },
    #[error(
        "{member}.target.ref.kind AppBinding has no claims; driver VolumeSnapshotter needs the workload or the PersistentVolumeClaim of the \
         database, or use driver Restic with a task"
    )]
    NoClaims { member: String },
    #[error("{member}.task.name {task:?} is for driver Restic; remove it, or use driver Restic")]
    SnapshotTask { member: String, task: String },
    #[error(
        "{member}.target.volumeClaimTemplates is missing; driver VolumeSnapshotter restores into new claims only: list them there, or restore \
         into the volumes of a workload with driver Restic"
    )]
    NoClaimTemplates { member: String },
    #[error("{member}: {source}")]
    SnapshotRestore { member: String, source: RestoredClaimError },
    #[error("{first} and {second} would both make claim {claim}; give one of them another name")]
    SameClaim { first: String, second: String, claim: String },
    #[error("{member}.{source}")]
    Kind { member: String, source: KindError },
    #[error(
        "{member}.target.ref.namespace {namespace:?} is another namespace than {own:?}; only an AppBinding may be elsewhere, and this is a {kind}"
    )]
    Namespace { member: String, namespace: String, own: String, kind: String },
    #[error(
        "{found} members have an AppBinding of another namespace; at most {MOST_ELSEWHERE} may, so that all are checked"
    )]
    Elsewhere { found: usize },
    #[error(
        "{member}: {fields} would decide about a pod of namespace {namespace}, in which its AppBinding is; remove what is set, or create the \
         object in {namespace} and not in {own}"
    )]
    PodElsewhere { member: String, fields: String, namespace: String, own: String },
    #[error("{member}: {source}")]
    Mounts { member: String, source: PathError },
    #[error("{member}.target.args: {source}")]
    Args { member: String, source: ArgError },
    #[error("{place}: {source}")]
    Hook { place: String, source: HookError },
    #[error("{place}.executionPolicy {value:?} is unknown")]
    Policy { place: String, value: String },
    #[error("{member}: {source}")]
    Rules { member: String, source: RuleError },
    #[error("{0}")]
    Hosts(Collision),
    #[error("{0}")]
    Restic(ResticError),
    #[error("spec.args: {0}")]
    ResticArgs(ArgError),
}

/// All problems of a spec; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The valid value, unless there are problems.
    pub(super) fn check<T>(valid: Option<T>, problems: Vec<Problem>) -> Result<T, Self> {
        match valid {
            Some(valid) if problems.is_empty() => Ok(valid),
            _ => Err(Self(problems)),
        }
    }

    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(formatter, "{separator}{problem}")?;
        }
        Ok(())
    }
}

/// Collects problems: gives the value of a result, or keeps its error.
pub(super) trait Collect<T> {
    fn kept(self, problems: &mut Vec<Problem>) -> Option<T>;
}

impl<T> Collect<T> for Result<T, Problem> {
    fn kept(self, problems: &mut Vec<Problem>) -> Option<T> {
        self.map_err(|problem| problems.push(problem)).ok()
    }
}
