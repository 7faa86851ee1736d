//! Hosts whose data is fixed while the storage still works on it: a hook that always runs after its host releases the
//! pod at once, so that no pod stays quiesced for as long as a storage system uploads a snapshot. Hooks with other
//! policies depend on how the host ended, and wait for its end.

use lifeboat_plan::stash::hooks::PostPolicy;
use lifeboat_plan::stash::hosts::HostName;
use tokio_util::sync::CancellationToken;

use super::interrupted::again_later;
use super::{SessionWork, Stopped, all, on_record};
use crate::patience::is_refusal;
use crate::sessions::host_record::HostRecord;
use crate::sessions::interruption::{Interruption, LIMIT};

/// Whether the hook after the hosts of a member does not depend on their ends.
pub(super) fn may_release(work: &dyn SessionWork, member: usize) -> bool {
    let post = work.hooks(member).and_then(|hooks| hooks.post.as_ref());
    post.is_none_or(|(_, policy)| *policy == PostPolicy::Always)
}

/// Waits for the ends of all hosts of a member.
pub(super) async fn settle_all(
    work: &dyn SessionWork,
    member: usize,
    hosts: Vec<HostName>,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let record = |host| HostRecord { session: work.record().clone(), member, host };
    let records: Vec<HostRecord> = hosts.into_iter().map(record).collect();
    all(records.iter().map(|record| settle(work, record, cancel))).await
}

/// Waits for the end of one host, unless it has ended.
pub(super) async fn settle(
    work: &dyn SessionWork,
    record: &HostRecord,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let mut interruption = Interruption::new(LIMIT);
    while !record.state().await.phase.has_ended() {
        match work.settle_host(record, cancel).await {
            Ok(()) if work.record().is_gone().await => return Err(Stopped::Gone),
            Ok(()) if record.state().await.phase.has_ended() => {}
            Ok(()) => return Err(Stopped::Left),
            Err(error) if is_refusal(&error) => on_record(record.failed(error.chain()).await?)?,
            Err(error) => {
                if let Some(given_up) = again_later(work.record(), error, &mut interruption).await? {
                    on_record(record.failed(given_up.message).await?)?;
                }
            }
        }
    }
    interruption.passed(&**work.record()).await;
    Ok(())
}
