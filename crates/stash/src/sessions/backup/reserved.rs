//! The reservation of a session: its invoker holds the repository that is in the storage now. A session does not rely on the status of
//! its invoker, because the reservation may have been lost since, or the backend or its Secret may lead to another repository. Checked
//! before any mover, and again before snapshots are forgotten.

use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::reservation::{Claim, RepositoryName, Standing};

use crate::context::Context;
use crate::invokers::{Invoker, claim, nodes, not_allowed, read_repository};
use crate::repository::reservations::{self, ReservationError, ReservedId};
use crate::repository::{RepositoryProblem, key_of, ready};

/// The repository that a session has reserved.
pub(super) struct Reserved {
    /// The ID of the restic repository that was opened.
    pub(super) repository: String,
}

/// Why a session may not use the repository.
#[derive(Debug)]
pub(super) enum NotReserved {
    /// It cannot be opened. For people.
    NotOpened(String),
    /// It is somebody else's, or its Repository does not allow the namespace. For people.
    NotHeld(String),
    Api(ApiError),
}

impl From<ApiError> for NotReserved {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl Reserved {
    /// Opens the repository of a session, or makes it, and makes sure that the invoker holds it.
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

/// Makes sure that a claim holds at this moment.
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
