//! Requests of members and hosts that fail: they are sent again for a time ([`Interruption`]), and then the host or member is given up.

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::state::WorkPhase;
use tokio_util::sync::CancellationToken;

use super::{SessionWork, Stopped, on_record};
use crate::sessions::host_record::HostRecord;
use crate::sessions::interruption::{Interruption, Next};
use crate::sessions::record::SessionRecord;

/// A request that is not sent again.
pub(super) struct GivenUp {
    /// For people.
    pub(super) message: String,
    pub(super) error: ApiError,
}

/// Waits before another try, or gives the request up. Fails if another server writes the status, because it must then be read again.
pub(super) async fn again_later(
    record: &SessionRecord,
    error: ApiError,
    interruption: &mut Interruption,
) -> Result<Option<GivenUp>, Stopped> {
    if error.is_conflict() {
        return Err(error.into());
    }
    match interruption.failed(record, &error.chain()).await? {
        Next::GivenUp(message) => Ok(Some(GivenUp { message, error })),
        Next::Again(pause) => {
            tracing::warn!(
                session = record.name,
                error = error.chain(),
                "a session is interrupted; trying again"
            );
            tokio::time::sleep(pause).await;
            Ok(None)
        }
    }
}

/// Ends the mover of a host, as far as possible, and fails the host. A Job that stays is removed when movers are swept.
pub(super) async fn give_up(
    work: &dyn SessionWork,
    record: &HostRecord,
    message: &str,
) -> Result<(), Stopped> {
    let host = record.state().await;
    if !host.phase.has_ended() && host.run.attempt.is_some() {
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        if let Err(error) = work.run_host(record.clone(), &cancelled).await {
            tracing::warn!(
                host = record.host.as_str(),
                error = error.chain(),
                "the mover of a host may be left for a while"
            );
        }
    }
    if host.phase.has_ended() || record.state().await.phase == WorkPhase::Succeeded {
        return Ok(());
    }
    on_record(record.failed(message).await?)
}
