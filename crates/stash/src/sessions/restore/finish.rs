//! Ends a restore: sets its last condition and its duration, and forgets safety copies that are old enough.

use std::collections::BTreeSet;

use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::state::SessionPhase;

use super::others::needed_copies;
use super::work::RestoreWork;
use crate::context::Context;
use crate::repository::{RepositoryKey, forget_safety_copies};
use crate::sessions::backup::written;
use crate::sessions::engine::Stopped;
use crate::sessions::record::SessionRecord;

/// Ends a restore whose members have ended.
pub(super) async fn finish(work: &RestoreWork) -> Result<(), Stopped> {
    let hosts: BTreeSet<HostName> = work
        .record
        .read(|state| {
            let hosts = state.members.iter().flat_map(|member| &member.hosts);
            hosts.map(|host| host.name.clone()).collect()
        })
        .await;
    // Slow storage does not lengthen the restore. What a server that ends here leaves is forgotten after the next session.
    written(work.record.complete(&[]).await?)?;
    if let Some(key) = &work.repository {
        if work.record.read(|state| state.phase == SessionPhase::Failed).await {
            work.context.repository_doubts.add(&key.to_string());
        }
        forget_old_copies(&work.context, &work.record.namespace, key, &hosts).await;
    }
    Ok(())
}

/// Forgets safety copies of these hosts that are old enough, except for those of workloads that a restore left down. A failure is only
/// logged.
pub(in crate::sessions) async fn forget_old_copies(
    context: &Context,
    namespace: &str,
    key: &RepositoryKey,
    hosts: &BTreeSet<HostName>,
) {
    let forgotten = match needed_copies(context, namespace).await {
        Ok(needed) => Box::pin(forget_safety_copies(context, key, hosts, &needed)).await,
        Err(error) => Err(error.into()),
    };
    if let Err(problem) = forgotten {
        tracing::warn!(repository = %key, message = problem.chain(), "old safety copies were not forgotten");
    }
}

/// Ends a restore that could not start.
pub(super) async fn end(record: &SessionRecord, message: &str) -> Result<(), Stopped> {
    written(record.fail(message).await?)
}
