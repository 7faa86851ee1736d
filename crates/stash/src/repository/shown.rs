//! Publishes the result of an inspection of a repository: in the status of its Repository, in Snapshot objects, and
//! in the metrics. Called after each inspection, whether by the server or by a mover, and at the end of sessions.

use lifeboat_api::stash::{Repository, RepositoryStatus};
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::backend::{BackendAccess, BackendStorage};
use lifeboat_plan::stash::repository::status::{self, Content, Observed};
use lifeboat_plan::stash::state::conditions::ConditionType;

use super::{object, snapshot_objects};
use crate::context::Context;
use crate::looks::Looked;
use crate::metrics::{RepositoryLabels, RepositoryValues};

/// Publishes the state of a repository that could be opened.
pub(super) async fn show(
    context: &Context,
    repository: &Repository,
    backend: &BackendAccess,
    looked: &Looked,
) -> Result<(), ApiError> {
    let reachable = ConditionType::RepositoryReachable.yes("");
    let observed = Observed { conditions: vec![reachable], ..Observed::default() };
    with(context, repository, backend, looked, &observed, |_| {}).await
}

/// Publishes the result of an inspection together with other observations. `more` makes further changes to the
/// status.
pub(super) async fn with(
    context: &Context,
    repository: &Repository,
    backend: &BackendAccess,
    looked: &Looked,
    observed: &Observed,
    more: impl Fn(&mut RepositoryStatus),
) -> Result<(), ApiError> {
    let (namespace, name) = object::parts(repository);
    let shown = Some(Content::of(&looked.snapshots, looked.bytes));
    let (observed, now) = (Observed { content: shown, ..observed.clone() }, context.now());
    let changed = |repository: &Repository| {
        let mut status = status::status(&repository.status.clone().unwrap_or_default(), &observed, now);
        more(&mut status);
        status
    };
    object::change_status(context, namespace, name, changed).await?;
    show_metrics(context, repository, backend, &changed(repository), looked.bytes);
    if let Err(error) = snapshot_objects::show(context, repository, &looked.snapshots).await {
        let message = error.chain();
        tracing::warn!(namespace, repository = name, message, "Snapshot objects may be out of date");
    }
    Ok(())
}

/// Shows a Repository in the metrics.
fn show_metrics(
    context: &Context,
    repository: &Repository,
    backend: &BackendAccess,
    status: &RepositoryStatus,
    bytes: Option<u64>,
) {
    let values = RepositoryValues {
        integrity: status.integrity,
        bytes,
        snapshots: status.snapshot_count,
        removed: status.snapshots_removed_on_last_cleanup,
    };
    context.metrics.repositories.set(&labels(repository, backend), values);
}

fn labels(repository: &Repository, backend: &BackendAccess) -> RepositoryLabels {
    let (namespace, name) = object::parts(repository);
    let (bucket, prefix) = match &backend.storage {
        BackendStorage::Bucket(bucket) => (bucket.name.clone(), bucket.prefix.clone()),
        BackendStorage::Rest(_) | BackendStorage::Volume(_) => Default::default(),
    };
    let spec = &repository.spec.backend;
    let kinds = [
        ("local", spec.local.is_some()),
        ("s3", spec.s3.is_some()),
        ("gcs", spec.gcs.is_some()),
        ("azure", spec.azure.is_some()),
        ("b2", spec.b2.is_some()),
        ("rest", spec.rest.is_some()),
    ];
    let kind = kinds.into_iter().find_map(|(kind, is_set)| is_set.then_some(kind)).unwrap_or_default();
    RepositoryLabels {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        backend: kind.to_owned(),
        bucket,
        prefix,
    }
}
