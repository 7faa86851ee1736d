//! What a session leaves in its Repository: status, Snapshot objects, the state in the backend, metrics, and the request for a prune. Called
//! by sessions when all of their members have ended.

use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_api::stash::{Repository, RepositoryStatus};
use lifeboat_plan::stash::backend::{BackendAccess, BackendStorage};
use lifeboat_plan::stash::repository::record;
use lifeboat_plan::stash::repository::status::{self, Content, Observed};
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::transfer::repository_notes::MAINTAIN_SINCE;
use lifeboat_transfer::repositories::{Access, RepositoryKey, RepositoryProblem};
use serde_json::{Value, json};

use super::host::{Found, access_of};
use super::key::parts_of;
use super::opened::{to_json, verified};
use super::state::{self, BackendState};
use super::{Looked, look, object, snapshot_objects};
use crate::context::Context;
use crate::metrics::{RepositoryLabels, RepositoryValues};

/// What is known at the end of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionEnd {
    /// The invoker, as an object.
    pub(crate) invoker: Value,
    pub(crate) hosts: Vec<String>,
    /// What a mover found in the repository, where the server cannot open it.
    pub(crate) looked: Option<Looked>,
    /// When the session was created, if it succeeded.
    pub(crate) backed_up_at: Option<Timestamp>,
    /// How many snapshots the retention policy removed, if it was applied.
    pub(crate) removed: Option<u64>,
    /// Whether the retention policy asks for a prune.
    pub(crate) prune: bool,
}

/// Records the end of a session. Only what people and later decisions need is an error; the rest is logged.
pub(crate) async fn after_session(
    context: &Context,
    key: &RepositoryKey,
    end: &SessionEnd,
) -> Result<(), RepositoryProblem> {
    let (namespace, name) = parts_of(key);
    let repository = object::read(context, namespace, name).await?;
    let Found { backend, access } = access_of(context, &repository).await?;
    let looked = match &end.looked {
        Some(looked) => looked.clone(),
        None => look::look(context, &access, true).await?,
    };
    verified(context, &repository, &record::location(&backend), &looked.id).await?;
    let status = write_status(context, &repository, &access, &looked, end).await?;
    show_metrics(context, &repository, &backend, &status, looked.bytes);
    if let Err(error) = snapshot_objects::show(context, &repository, &looked.snapshots).await {
        let message = error.chain();
        tracing::warn!(namespace, repository = name, message, "Snapshot objects may be out of date");
    }
    if access.is_opened_by_server()
        && let Err(problem) = write_state(context, &repository, &access, end).await
    {
        let message = problem.chain();
        tracing::warn!(namespace, repository = name, message, "the state in the backend was not written");
    }
    if end.prune {
        let since = lifeboat_plan::time::seconds(context.now());
        let patch = json!({"metadata": {"annotations": {MAINTAIN_SINCE: since}}});
        object::annotate(context, namespace, name, patch).await?;
    }
    Ok(())
}

async fn write_status(
    context: &Context,
    repository: &Repository,
    access: &Access,
    looked: &Looked,
    end: &SessionEnd,
) -> Result<RepositoryStatus, RepositoryProblem> {
    let (namespace, name) = object::parts(repository);
    let reachable = access.is_opened_by_server().then(|| ConditionType::RepositoryReachable.yes(""));
    let observed = Observed {
        conditions: reachable.into_iter().collect(),
        content: Some(Content::of(&looked.snapshots, looked.bytes)),
        ..Observed::default()
    };
    let now = context.now();
    let changed = |repository: &Repository| {
        let mut status = status::status(&repository.status.clone().unwrap_or_default(), &observed, now);
        let last =
            status.last_backup_time.take().map(|time| time.0).into_iter().chain(end.backed_up_at).max();
        status.last_backup_time = last.map(Time);
        status.snapshots_removed_on_last_cleanup = end
            .removed
            .map_or(status.snapshots_removed_on_last_cleanup, |removed| i64::try_from(removed).ok());
        status
    };
    object::change_status(context, namespace, name, changed).await?;
    Ok(changed(repository))
}

async fn write_state(
    context: &Context,
    repository: &Repository,
    access: &Access,
    end: &SessionEnd,
) -> Result<(), RepositoryProblem> {
    let opened = context.repositories.open(access).await?;
    let cluster = context.repositories.cluster(context).await?;
    let state = BackendState::new(&cluster, context.now(), &to_json(repository), &end.invoker, &end.hosts);
    state::write(&opened, &state).await?;
    Ok(())
}

/// Shows a Repository in the metrics.
pub(super) fn show_metrics(
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
