//! Confirms the reservation of a session: its invoker must hold the reservation of the repository that is in storage
//! now. A session does not rely on the status of its invoker, because the reservation may have been lost since, or
//! the backend or its Secret may now point to another repository. Checked before the first mover, and again before
//! snapshots are forgotten.

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::invoker::{ValidBackup, ValidDriver};
use lifeboat_plan::stash::reservation::{Claim, RepositoryName, Standing};
use lifeboat_plan::stash::state::SessionState;
use lifeboat_plan::stash::state::conditions::ConditionType;
use tokio_util::sync::CancellationToken;

use super::{finish, skip, written};
use crate::context::Context;
use crate::invokers::{Invoker, claim, may_not_use, nodes, not_allowed, read_repository};
use crate::patience::is_refusal;
use crate::repository::reservations::{self, ReservationError, ReservedId};
use crate::repository::{RepositoryProblem, key_of, ready};
use crate::sessions::engine::Stopped;
use crate::sessions::record::SessionRecord;

/// The repository that a session has reserved.
pub(super) struct Reserved {
    /// The ID of the restic repository that was opened.
    pub(super) repository: String,
}

/// Why a session may not use the repository.
#[derive(Debug)]
pub(super) enum NotReserved {
    /// It cannot be opened; the message for users.
    NotOpened(String),
    /// Another object has reserved it, or its Repository does not allow the namespace; the message for users.
    NotHeld(String),
    Api(ApiError),
}

impl From<ApiError> for NotReserved {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl Reserved {
    /// Opens or creates the repository of a session, and confirms that the invoker holds its reservation.
    pub(super) async fn of(
        context: &Context,
        invoker: &Invoker,
        repository: &RepositoryName,
    ) -> Result<Self, NotReserved> {
        if let Some(object) = read_repository(context, repository).await?
            && let Some(refusal) = not_allowed(context, &invoker.id.namespace, &object).await?
        {
            return Err(NotReserved::NotHeld(refusal));
        }
        let key = key_of(&repository.namespace, &repository.name);
        let opened = match Box::pin(ready(context, &key)).await {
            Ok(opened) => opened,
            Err(RepositoryProblem::Api(error)) => return Err(error.into()),
            Err(problem) => return Err(NotReserved::NotOpened(problem.chain())),
        };
        let id = ReservedId::new(&opened.access, &repository.namespace, &opened.id);
        let nodes = nodes(context, invoker).await?;
        confirmed(context, &id, &claim(invoker, repository, &nodes)).await?;
        Ok(Self { repository: opened.id })
    }
}

/// Whether a session may use its repository.
pub(super) enum Reservation {
    Held,
    /// The session had started, and another object holds the repository now, for this reason.
    Lost(String),
    /// The session has ended: it cannot use the repository.
    Ended,
}

/// Opens or creates the repository, and confirms that the invoker holds its reservation. If no part of the session
/// has started, the session is Skipped if another object holds the repository, and Failed if the repository cannot be
/// opened. Driver VolumeSnapshotter uses no repository.
pub(super) async fn reserve(
    context: &Context,
    record: &SessionRecord,
    invoker: &Invoker,
    valid: &ValidBackup,
    cancel: &CancellationToken,
) -> Result<Reservation, Stopped> {
    let ValidDriver::Restic(repository) = &valid.driver else { return Ok(Reservation::Held) };
    if valid.directories.is_some() {
        return Box::pin(may_use(context, record, invoker, valid)).await;
    }
    let kind = ConditionType::BackendRepositoryInitialized;
    let has_begun = record.read(has_begun).await;
    if has_begun && cancel.is_cancelled() {
        // It only ends what it began.
        return Ok(Reservation::Held);
    }
    let reserved = Box::pin(Reserved::of(context, invoker, repository)).await;
    let now = record.now();
    match reserved {
        Ok(_) => {
            written(record.change(|state| state.observe(&kind.yes(""), now)).await?)?;
            Ok(Reservation::Held)
        }
        // The record of reservations cannot be read or written: without it, another session may write into the repository.
        Err(NotReserved::Api(error)) if is_refusal(&error) && has_begun => {
            Ok(Reservation::Lost(error.message()))
        }
        Err(NotReserved::Api(error)) if is_refusal(&error) => {
            not_initialized(context, record, invoker, &error.message()).await
        }
        Err(NotReserved::Api(error)) => Err(error.into()),
        Err(NotReserved::NotHeld(message)) if has_begun => Ok(Reservation::Lost(message)),
        Err(NotReserved::NotHeld(message)) => {
            skip(record, &message).await?;
            Ok(Reservation::Ended)
        }
        // If storage is unreachable, the movers of the session wait for it.
        Err(NotReserved::NotOpened(_)) if has_begun => Ok(Reservation::Held),
        Err(NotReserved::NotOpened(message)) => not_initialized(context, record, invoker, &message).await,
    }
}

/// Whether a Restic may use its Repository. The repositories in its directories are opened and reserved for each host.
async fn may_use(
    context: &Context,
    record: &SessionRecord,
    invoker: &Invoker,
    valid: &ValidBackup,
) -> Result<Reservation, Stopped> {
    let ValidDriver::Restic(repository) = &valid.driver else { return Ok(Reservation::Held) };
    let has_begun = record.read(has_begun).await;
    let Some(object) = read_repository(context, repository).await? else {
        if has_begun {
            return Ok(Reservation::Held);
        }
        let message = format!(
            "Repository {}/{} does not exist; create it, or correct spec.repository",
            repository.namespace, repository.name
        );
        return not_initialized(context, record, invoker, &message).await;
    };
    match may_not_use(context, invoker, valid, &object).await? {
        Some(refusal) if has_begun => Ok(Reservation::Lost(refusal)),
        Some(refusal) => {
            skip(record, &refusal).await?;
            Ok(Reservation::Ended)
        }
        None => {
            let (now, found) = (record.now(), ConditionType::BackendRepositoryInitialized.yes(""));
            written(record.change(|state| state.observe(&found, now)).await?)?;
            Ok(Reservation::Held)
        }
    }
}

/// Ends a session that cannot use its repository.
async fn not_initialized(
    context: &Context,
    record: &SessionRecord,
    invoker: &Invoker,
    message: &str,
) -> Result<Reservation, Stopped> {
    let (now, failed) = (record.now(), ConditionType::BackendRepositoryInitialized.no(message));
    written(record.change(|state| state.observe(&failed, now)).await?)?;
    finish::end(context, Some(invoker), record, message).await?;
    Ok(Reservation::Ended)
}

/// Whether a hook or a member of the batch has started.
fn has_begun(state: &SessionState) -> bool {
    ConditionType::GlobalPreBackupHookSucceeded.status_in(&state.conditions).is_some()
        || state.members.iter().any(|member| member.total_hosts.is_some())
}

/// Confirms that a claim is granted at this moment.
pub(super) async fn confirmed(context: &Context, id: &ReservedId, claim: &Claim) -> Result<(), NotReserved> {
    match reservations::confirm(context, id, claim).await {
        Ok(Standing::Holds) => Ok(()),
        Ok(Standing::Waits(conflict)) => Err(NotReserved::NotHeld(conflict.to_string())),
        Ok(Standing::Absent) => {
            Err(NotReserved::NotHeld("its invoker has not reserved the repository".to_owned()))
        }
        Err(ReservationError::Api(error)) => Err(error.into()),
        Err(error) => Err(NotReserved::NotHeld(error.chain())),
    }
}
