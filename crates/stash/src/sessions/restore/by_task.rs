//! Members that a task restores: databases, and targets with a task of the user. The place where `tasks` joins restores.

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hosts::{HostName, TargetKind};
use lifeboat_plan::stash::invoker::ValidRestoreMember;
use tokio_util::sync::CancellationToken;

use super::work::RestoreWork;
use crate::sessions::engine::NoHosts;

/// Whether a task restores the member.
pub(super) fn is_for(member: &ValidRestoreMember) -> bool {
    let target = member.target.as_ref();
    let kind = target.and_then(|target| target.reference.as_ref()).map(|(_, kind)| *kind);
    let has_task = member.task.as_ref().is_some_and(|task| !task.name.is_empty());
    has_task || target.is_none() || kind == Some(TargetKind::AppBinding)
}

/// Finds the host of the member, and puts it on record.
#[allow(clippy::unused_async, reason = "tasks read their objects here")]
pub(super) async fn find_hosts(work: &RestoreWork, member: usize) -> Result<Vec<HostName>, NoHosts> {
    let task = work.member(member).and_then(|member| member.task.as_ref()).map(|task| task.name.clone());
    let task = task.filter(|name| !name.is_empty()).map(|name| format!(" {name:?}")).unwrap_or_default();
    Err(NoHosts::Failed(format!("this version does not restore by a task{task}, as for databases")))
}

/// Runs the task of the member's host.
#[allow(clippy::unused_async, reason = "tasks send their movers here")]
pub(super) async fn run(
    _work: &RestoreWork,
    _member: usize,
    _cancel: &CancellationToken,
) -> Result<(), ApiError> {
    Ok(())
}
