//! Confirms the reservation of a session: its invoker must hold the reservation of the repository that is in storage
//! now. A session does not rely on the status of its invoker, because the reservation may have been lost since, or
//! the backend or its Secret may now point to another repository. Checked before the first mover, and again before
//! snapshots are forgotten.

use lifeboat_api::stash::Driver;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::invoker::ValidDriver;
use lifeboat_plan::stash::reservation::{Claim, RepositoryName, Standing};
use lifeboat_plan::stash::state::SessionState;
use lifeboat_plan::stash::state::conditions::ConditionType;

use super::{finish, skip, written};
use crate::context::Context;
use crate::invokers::{Invoker, claim, nodes, not_allowed, read_repository};
use crate::metrics::SessionLabels;
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
    driver: &ValidDriver,
) -> Result<Reservation, Stopped> {
    let ValidDriver::Restic(repository) = driver else { return Ok(Reservation::Held) };
    let kind = ConditionType::BackendRepositoryInitialized;
    let reserved = Box::pin(Reserved::of(context, invoker, repository)).await;
    let now = record.now();
    let has_begun = record.read(has_begun).await;
    match reserved {
        Ok(_) => {
            written(record.change(|state| state.observe(&kind.yes(""), now)).await?)?;
            Ok(Reservation::Held)
        }
        Err(NotReserved::Api(error)) => Err(error.into()),
        Err(NotReserved::NotHeld(message)) if has_begun => Ok(Reservation::Lost(message)),
        Err(NotReserved::NotHeld(message)) => {
            skip(record, &message).await?;
            Ok(Reservation::Ended)
        }
        // If storage is unreachable, the movers of the session wait for it.
        Err(NotReserved::NotOpened(_)) if has_begun => Ok(Reservation::Held),
        Err(NotReserved::NotOpened(message)) => {
            written(record.change(|state| state.observe(&kind.no(&*message), now)).await?)?;
            finish::end(record, &message).await?;
            context.metrics.sessions.failed(&SessionLabels {
                invoker_kind: invoker.id.kind.to_string(),
                invoker_name: invoker.id.name.clone(),
                namespace: invoker.id.namespace.clone(),
                driver: Driver::Restic.to_string(),
                repository: repository.name.clone(),
            });
            Ok(Reservation::Ended)
        }
    }
}

/// Whether a hook or a member of the batch has started.
fn has_begun(state: &SessionState) -> bool {
    ConditionType::GlobalPreBackupHookSucceeded.status_in(&state.conditions).is_some()
        || state.members.iter().any(|member| member.total_hosts.is_some())
}

/// Confirms that a claim is granted at this moment.
async fn confirmed(context: &Context, id: &ReservedId, claim: &Claim) -> Result<(), NotReserved> {
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
