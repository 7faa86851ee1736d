//! PodVolumeBackup, PodVolumeRestore, DataUpload and DataDownload as transfers: what the four kinds have in common
//! beside crate `transfer`, which runs them. What differs is in [`crate::pod_volumes`] and [`crate::data_movement`];
//! the controller of all four is [`crate::transfer_kinds`].

mod followed;
mod record;
mod reports;
mod tasks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Resource};
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{DataMovePhase, names};
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_control::Core;
use lifeboat_plan::transfer::limits::Counted;
use lifeboat_plan::velero::pod_volumes::{ATTEMPT, DEAD_OWNERS, attempt, dead_owners};
use lifeboat_transfer::attempts::{ServerEffects, Transfer, TransferSpec, WorkContext};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) use followed::FollowedTransfers;
pub(crate) use record::{ObjectRecord, Shows};
pub(crate) use tasks::VeleroTasks;

use crate::context::Context;
use crate::repositories::{LocationRepositories, RepositoryKey};
use reports::LocationReports;

/// A kind whose objects are transfers that movers carry out.
pub(crate) trait TransferKind:
    Resource<DynamicType = ()> + DeserializeOwned + Clone + Send + Sync + 'static
{
    /// The name of its controller in logs.
    const CONTROLLER: &'static str;

    /// Whether the object is for Lifeboat's movers; objects for other data movers are left to those.
    fn is_ours(&self) -> bool {
        true
    }

    /// Runs the object's transfer to its end. An error is an API error; the caller starts again from the beginning.
    fn run_transfer(
        &self,
        work: &WorkContext,
        cancel: &CancellationToken,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// Cancels a transfer: its controller ends the mover. One that is gone needs no cancelling.
pub(crate) async fn cancel(api: &Api<DynamicObject>, name: &str) -> Result<(), ApiError> {
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"spec": {"cancel": true}}));
    match api.patch(name, &params, &patch).await.attempt(format!("cancel {name}")) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// The context of the server's work on transfers.
pub(crate) fn work_context(context: &Context) -> WorkContext {
    let effects = ServerEffects {
        core: Core::clone(context),
        movers: context.movers.clone(),
        repositories: context.repositories.clone(),
        host: Arc::new(LocationRepositories(context.clone())),
        reports: Arc::new(LocationReports(context.clone())),
    };
    WorkContext::new(&context.core, context.movers.settings().clone(), Arc::new(effects))
}

/// How long one volume may take from the start of its mover: by the annotation, or else the server's setting.
pub(crate) fn limit(annotation: Option<&str>, setting: Duration) -> Duration {
    let noted = annotation.and_then(|text| text.parse::<GoDuration>().ok()).and_then(GoDuration::to_std);
    noted.filter(|limit| !limit.is_zero()).unwrap_or(setting)
}

/// What an object asks for.
pub(crate) struct TransferRequest<'a> {
    pub(crate) key: RepositoryKey,
    /// Whether a repository that does not exist is created.
    pub(crate) make: bool,
    /// The backup or restore that it is part of.
    pub(crate) group: String,
    pub(crate) phase: &'a DataMovePhase,
    /// When an earlier attempt started.
    pub(crate) started: Option<Timestamp>,
    /// The UID of the pod whose volume is copied.
    pub(crate) pod: Option<String>,
    pub(crate) shows: Shows,
}

/// The transfer of an object, and its record.
pub(crate) fn transfer<K: Resource<DynamicType = ()>>(
    work: &WorkContext,
    object: &K,
    request: TransferRequest<'_>,
) -> (Transfer, Arc<ObjectRecord>) {
    let meta = object.meta();
    let note = |name: &str| meta.annotations.as_ref()?.get(name).map(String::as_str);
    let record = ObjectRecord::new(&work.core, object, request.started, request.shows);
    let record = Arc::new(record);
    let spec = TransferSpec {
        task_base: record.uid.clone(),
        namespace: work.settings.namespace.clone(),
        repository: format!("the repository of namespace {}", request.key.name()),
        key: request.key,
        make: request.make,
        group: request.group,
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
        limit: limit(note(names::POD_VOLUME_TIMEOUT), work.settings.copy_timeout),
        counted: Counted::FromStart { queue: work.settings.queue_timeout },
        was_running: request.started.is_some(),
        pod: request.pod,
        is_new: matches!(request.phase, DataMovePhase::New),
        attempt: note(ATTEMPT).map(|text| attempt(Some(text))),
        dead_owners: dead_owners(note(DEAD_OWNERS)),
    };
    (Transfer::new(work, record.clone(), spec), record)
}

#[cfg(test)]
mod tests {
    use lifeboat_api::velero::PodVolumeBackup;

    use super::*;
    use crate::testing::Cluster;

    #[tokio::test]
    async fn a_transfer_that_is_gone_needs_no_cancelling() {
        let cluster = Cluster::new().await;
        let open =
            json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": {"name": "open"}});
        cluster.put("podvolumebackups", &open);
        let api = cluster.context.objects::<PodVolumeBackup>();
        for name in ["open", "gone"] {
            cancel(&api, name).await.unwrap();
        }
        assert_eq!(cluster.get("podvolumebackups", "open").unwrap()["spec"]["cancel"], true);
    }
}
