//! Waits for the end of hosts whose data is fixed while the storage still works on it. The hooks after them have run by then, so that no pod
//! stays quiesced for as long as a storage system uploads a snapshot.

use lifeboat_plan::stash::hosts::HostName;
use tokio_util::sync::CancellationToken;

use super::{SessionWork, Stopped, again_later, is_refusal, on_record};
use crate::sessions::host_record::HostRecord;

/// Waits for the end of one host. One that has ended is left alone.
pub(super) async fn settle(
    work: &dyn SessionWork,
    member: usize,
    host: HostName,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let record = HostRecord { session: work.record().clone(), member, host };
    while !record.state().await.phase.has_ended() {
        match work.settle_host(&record, cancel).await {
            Ok(()) if work.record().is_gone().await => return Err(Stopped::Gone),
            Ok(()) if record.state().await.phase.has_ended() => {}
            Ok(()) => return Err(Stopped::Left),
            Err(error) if is_refusal(&error) => on_record(record.failed(error.chain()).await?)?,
            Err(error) => again_later(&work.record().name, error).await?,
        }
    }
    Ok(())
}
