//! PodVolumeBackup, PodVolumeRestore, DataUpload and DataDownload: every open object for Lifeboat's own movers gets a
//! task that runs its transfer to the end ([`crate::transfers`]). The next server continues what a server leaves
//! unfinished; objects for other data movers are left to those.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::controller::Action;
use lifeboat_api::velero::{DataDownload, DataMovePhase, DataUpload, PodVolumeBackup, PodVolumeRestore};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::{Backoff, Core, Known, LongWork, WorkEnd, unreadable};
use lifeboat_plan::json::text;
use lifeboat_plan::velero::pod_volumes::{has_ended, status};
use lifeboat_transfer::attempts::WorkContext;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::data_movement::sweep;
use crate::dynamic;
use crate::transfers::{TransferKind, work_context};

/// How often deleted objects are looked for.
const LOOK: Duration = Duration::from_secs(5);

struct State {
    resource: ApiResource,
    transfers: LongWork,
    work: WorkContext,
}

pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    tokio::join!(
        run_kind::<PodVolumeBackup>(context, shutdown),
        run_kind::<PodVolumeRestore>(context, shutdown),
        run_kind::<DataUpload>(context, shutdown),
        run_kind::<DataDownload>(context, shutdown),
        sweep::run(context, shutdown),
    );
}

async fn run_kind<K: TransferKind>(context: &Context, shutdown: &CancellationToken) {
    let resource = objects::resource_of::<K>();
    let watches = context.watches(&resource).until(shutdown);
    let there = watches.known();
    let transfers = LongWork::new(&context.core.metrics, K::CONTROLLER);
    let state = Arc::new(State { resource, transfers, work: work_context(context) });
    tokio::select! {
        () = dynamic::drive(K::CONTROLLER, watches, context.clone(), state.clone(), reconcile::<K>) => {}
        () = cancel_gone(&state, &there) => {}
    }
    state.transfers.leave().await;
}

/// Cancels the work on objects that are gone, which trigger no reconcile.
async fn cancel_gone(state: &State, there: &Known) {
    if !there.wait_until_ready().await {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK).await;
        let uids: Vec<String> = there.state().iter().filter_map(|object| object.uid()).collect();
        state.transfers.cancel_others(|uid| uids.iter().any(|known| known == uid));
    }
}

async fn reconcile<K: TransferKind>(
    object: Arc<DynamicObject>,
    context: Context,
    state: Arc<State>,
) -> Result<Action, ApiError> {
    if has_ended(&object.data) {
        return Ok(Action::await_change());
    }
    let Some(shown) = read::<K>(&object, &context, &state).await?.filter(K::is_ours) else {
        return Ok(Action::await_change());
    };
    let (uid, work) = (object.uid().unwrap_or_default(), state.work.clone());
    state.transfers.start(&uid, |cancel| async move {
        run_transfer(&work, &shown, &cancel).await;
        WorkEnd::Done
    });
    if object.metadata.deletion_timestamp.is_some() || object.data["spec"]["cancel"] == true {
        state.transfers.cancel(&uid);
        if matches!(
            DataMovePhase::from(text(&object.data, "/status/phase")),
            DataMovePhase::Accepted | DataMovePhase::Prepared | DataMovePhase::InProgress
        ) {
            // Only if the object has not changed, because its end may have been written in the meantime.
            objects::merge(&context.objects::<K>(), &object, status::canceling()).await?;
        }
    }
    Ok(Action::await_change())
}

/// Runs an object's transfer to its end; retries after API errors.
async fn run_transfer<K: TransferKind>(work: &WorkContext, shown: &K, cancel: &CancellationToken) {
    let (mut last, mut backoff) = (Box::new(shown.clone()), Backoff::default());
    loop {
        let ended = match fresh(&work.core, &*last).await {
            Ok(Fresh::Ended) => return,
            Ok(Fresh::Open(object)) => {
                last = object;
                last.run_transfer(work, cancel).await
            }
            Err(error) => Err(error),
        };
        let Err(error) = ended else { return };
        let name = shown.name_any();
        tracing::warn!(object = name, error = error.chain(), "cannot continue a transfer; trying again");
        tokio::time::sleep(backoff.failed()).await;
    }
}

/// An object as it is now.
enum Fresh<K> {
    Open(Box<K>),
    Ended,
}

/// Reads the object again, because the watch lags behind this server's own writes and work must not start on outdated
/// state. An object that is gone is returned as it was last seen, so that what was made for it is removed.
async fn fresh<K: TransferKind>(core: &Core, shown: &K) -> Result<Fresh<K>, ApiError> {
    let name = shown.name_any();
    let found = core.objects::<K>().get_opt(&name).await.attempt(format!("read {} {name}", K::kind(&())))?;
    let found = found.filter(|found| found.uid() == shown.uid());
    match found {
        Some(found) if has_ended(&found.data) => Ok(Fresh::Ended),
        Some(found) => Ok(Fresh::Open(Box::new(objects::typed(&found).unwrap_or_else(|_| shown.clone())))),
        None => Ok(Fresh::Open(Box::new(shown.clone()))),
    }
}

/// The typed form; an object that cannot be read ends at once with an error.
async fn read<K: TransferKind>(
    object: &DynamicObject,
    context: &Context,
    state: &State,
) -> Result<Option<K>, ApiError> {
    let error = match objects::typed::<K>(object) {
        Ok(typed) => return Ok(Some(typed)),
        Err(error) => error,
    };
    let message = unreadable::message(error, "start its backup or restore again");
    let patch = status::failed(&message, context.now());
    unreadable::report(context, &state.resource, object, patch, &message).await.map(|_| None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Cluster;

    fn object(phase: &str, uid: &str) -> Value {
        json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": {"name": "o", "uid": uid},
            "spec": {"node": "a", "pod": {}, "volume": "v", "backupStorageLocation": "default", "repoIdentifier": ""},
            "status": {"phase": phase}})
    }

    #[tokio::test]
    async fn an_object_that_has_ended_is_not_begun_again_on_old_news() {
        let cluster = Cluster::new().await;
        let shown: PodVolumeBackup = serde_json::from_value(object("InProgress", "o-1")).unwrap();
        cluster.put("podvolumebackups", &object("Completed", "o-1"));
        assert!(matches!(fresh(&cluster.context, &shown).await.unwrap(), Fresh::Ended));
        // Another object with the same name does not count.
        cluster.put("podvolumebackups", &object("Completed", "o-2"));
        assert!(matches!(fresh(&cluster.context, &shown).await.unwrap(), Fresh::Open(_)));
    }
}
