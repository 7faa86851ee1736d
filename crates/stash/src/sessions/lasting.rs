//! Works on a session until it has ended, for backups and restores. Requests that fail are sent again; if they fail for too long
//! ([`Interruption`]), the session is cancelled, which ends its movers, starts workloads that were stopped and runs the hooks that are
//! due. If that fails as well, the session is ended from its record alone. If not even the status can be written, nothing of the session
//! is left running, and other sessions do not wait for it ([`crate::abandoned`]), until its end can be written.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_control::Backoff;
use tokio_util::sync::CancellationToken;

use super::engine::Stopped;
use super::finalizer;
use super::interruption::{Interruption, InterruptionRecord, LIMIT, Next};
use super::kind::SessionKind;
use super::record::SessionRecord;
use crate::context::Context;
use crate::patience::{is_refusal, is_webhook};

/// The interval at which a waiting session is checked.
const PAUSE: Duration = Duration::from_secs(5);
/// Why a host has no end although its work has ended and this server goes on.
const NOT_RECORDED: &str = "the end of a host could not be recorded";

/// How far a session was brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advance {
    Waits,
    Ended,
}

/// A session of one kind.
#[async_trait]
pub(super) trait Lasting: Send + Sync {
    fn context(&self) -> &Context;

    fn kind(&self) -> SessionKind;

    /// Brings the session as far as possible now.
    async fn advance(
        &self,
        record: &Arc<SessionRecord>,
        cancel: &CancellationToken,
    ) -> Result<Advance, Stopped>;

    /// Reads the session again; None if nothing is to be done for it any more.
    async fn reread(&self, record: &SessionRecord) -> Result<Option<Arc<SessionRecord>>, ApiError>;

    /// Starts a workload that the session stopped, if no data was written, without a record of that.
    async fn release(&self, _record: &SessionRecord, _message: &str) {}

    /// Ends the session from its record alone, as failed.
    async fn end_now(&self, record: &SessionRecord, message: &str) -> Result<(), Stopped>;
}

/// Works on a session until it has ended, or its object no longer exists.
pub(super) async fn until_ended(
    session: &dyn Lasting,
    mut record: Arc<SessionRecord>,
    cancel: &CancellationToken,
) {
    let (given_up, mut interruption) = (cancel.child_token(), Interruption::new(LIMIT));
    let abandoned = &session.context().abandoned;
    loop {
        let pause = match session.advance(&record, &given_up).await {
            Ok(Advance::Ended) | Err(Stopped::Gone) => return abandoned.remove(&record.uid),
            Ok(Advance::Waits) => {
                interruption.passed(&*record).await;
                record.resumed().await;
                PAUSE
            }
            Err(stopped) => match after_failure(&record, &stopped, &mut interruption).await {
                Next::Again(pause) => pause,
                Next::GivenUp(message) if given_up.is_cancelled() => {
                    end(session, record.clone(), &message).await;
                    return abandoned.remove(&record.uid);
                }
                Next::GivenUp(message) => {
                    record.warn("GivenUp", &message).await;
                    given_up.cancel();
                    Duration::ZERO
                }
            },
        };
        // The work on a deleted session continues as long as a finalizer keeps its object.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = cancel.cancelled(), if !cancel.is_cancelled() => {}
        }
        match session.reread(&record).await {
            Ok(Some(again)) => record = again,
            Ok(None) => return abandoned.remove(&record.uid),
            Err(error) => tracing::debug!(error = error.chain(), "cannot read a session now"),
        }
    }
}

/// What follows an error. A conflict is no failure: the status is read again.
async fn after_failure(record: &SessionRecord, stopped: &Stopped, interruption: &mut Interruption) -> Next {
    let failure = match stopped {
        Stopped::Api(error) if error.is_conflict() => return Next::Again(PAUSE),
        Stopped::Api(error) => error.chain(),
        // A server that ends drops this work.
        Stopped::Gone | Stopped::Left => NOT_RECORDED.to_owned(),
    };
    tracing::warn!(session = record.name, failure, "a session is interrupted; trying again");
    interruption.failed(record, &failure).await.unwrap_or(Next::Again(PAUSE))
}

/// Ends a session that cannot be brought to its end. Its end is written as soon as the API server allows that.
async fn end(session: &dyn Lasting, mut record: Arc<SessionRecord>, message: &str) {
    let (context, mut backoff) = (session.context(), Backoff::default());
    // Movers count as those of the session only until its end is recorded; after it, what is left is swept.
    if let Err(error) = context.movers.end_all_of(&record.uid).await {
        tracing::warn!(
            session = record.name,
            error = error.chain(),
            "movers of a session may be left for a while"
        );
    }
    loop {
        let error = match session.end_now(&record, message).await {
            Err(Stopped::Api(error)) => error,
            Ok(()) | Err(Stopped::Gone | Stopped::Left) => return,
        };
        let why = format!("{message}; the end of the session cannot be recorded: {}", error.chain());
        tracing::warn!(session = record.name, why, "the end of a session is written later");
        if is_refusal(&error) || is_webhook(&error) {
            abandon(session, &record, &why).await;
        }
        tokio::time::sleep(backoff.failed()).await;
        match session.reread(&record).await {
            Ok(Some(again)) => record = again,
            Ok(None) => return,
            Err(error) => tracing::debug!(error = error.chain(), "cannot read a session now"),
        }
    }
}

/// Leaves nothing of a session running whose end cannot be recorded, and lets other sessions start. What fails is tried again by the caller.
async fn abandon(session: &dyn Lasting, record: &SessionRecord, why: &str) {
    let context = session.context();
    record.warn("StatusNotWritten", why).await;
    if let Err(error) = context.movers.end_all_of(&record.uid).await {
        tracing::warn!(session = record.name, error = error.chain(), "movers of a session may be left");
        return;
    }
    session.release(record, why).await;
    context.abandoned.add(&record.uid);
    // A deleted object is not kept for hooks that can no longer be run, nor for a workload that has a record
    // of its own.
    if let Err(error) = finalizer::release_deleted(&context.core, session.kind(), record).await {
        tracing::warn!(session = record.name, error = error.chain(), "a session keeps its finalizers");
    }
}
