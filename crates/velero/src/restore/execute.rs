//! One run of a Restore: the items, then operations, new volumes and the final phase. A failure before the items ends
//! the Restore as Failed. A run that another server started continues at the stage that its phase names.

use std::sync::Arc;

use kube::api::DynamicObject;
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::velero::{Restore, RestorePhase};
use lifeboat_archive::RunLog;
use lifeboat_control::{Backoff, WorkEnd};
use lifeboat_plan::time;
use serde_json::{Value, json};

use super::after::{FinishingRestore, csi, finalize, operations, volumes};
use super::error::RestoreError;
use super::item_stage::items;
use super::prepare::{journal, log};
use super::status::Written;
use super::{Order, handler, status};
use crate::context::Context;
use crate::metrics::Ending;
use crate::plugins::{Acting, PluginLines};
use crate::volume_plugin::{self, DatedClient, Kind};

/// Runs a Restore and records its end. The work has failed if a stage of the run ended with an error.
pub(super) async fn execute(context: &Context, order: Order) -> WorkEnd {
    let api = context.objects::<Restore>();
    let (name, about) = (order.restore.name_any(), order.restore.object_ref(&()));
    let schedule = order.restore.spec.schedule_name.clone().unwrap_or_default();
    let ended = attempt(context, &api, &order).await;
    let work_end = WorkEnd::of(&ended, RestoreError::category);
    let (patch, ending, note) = match ended {
        Ok(ended) => (ended.patch, ended.ending, ended.note),
        Err(error) => {
            let reason = error.to_string();
            tracing::warn!(restore = name, category = error.category(), error = reason, "a restore failed");
            let status = json!({"phase": "Failed", "failureReason": reason,
                "completionTimestamp": time::seconds(context.now())});
            (json!({"status": status}), Ending::Failed, reason)
        }
    };
    let (patch, mut backoff) = (status::without_waits(patch), Backoff::default());
    loop {
        match status::write(&api, &order.restore, &patch).await {
            Ok(Written::Done) => break,
            // The run that owns the Restore now reports its end.
            Ok(Written::NotOurs) => return work_end,
            Err(error) => {
                tracing::warn!(restore = name, error = error.chain(), "cannot write the end of a restore");
                if error.is_invalid() {
                    break;
                }
            }
        }
        tokio::time::sleep(backoff.failed()).await;
    }
    let (namespace, uid) = (&context.namespace, order.restore.uid().unwrap_or_default());
    let message = if matches!(ending, Ending::Failed) { &note } else { "its restore has ended" };
    volume_plugin::end_open(DatedClient::of(context), Kind::Restore, namespace, &uid, message).await;
    handler::end_open(context, &uid).await;
    journal(context, &order.restore).remove().await;
    context.metrics.restore_ended(&schedule, ending);
    match ending {
        Ending::Completed => context.events.normal(&about, "Completed", &note).await,
        _ => context.events.warning(&about, "NotCompleted", &note).await,
    }
    work_end
}

/// The end of a run.
pub(super) struct RunEnd {
    pub(super) patch: Value,
    pub(super) ending: Ending,
    pub(super) note: String,
}

/// Runs all stages. Plugins live as long as the run: its items, operations and end share their processes.
async fn attempt(context: &Context, api: &Api<DynamicObject>, order: &Order) -> Result<RunEnd, RestoreError> {
    let later = matches!(
        order.restore.phase(),
        RestorePhase::WaitingForPluginOperations
            | RestorePhase::WaitingForPluginOperationsPartiallyFailed
            | RestorePhase::Finalizing
            | RestorePhase::FinalizingPartiallyFailed
    );
    // The log of a run that continues after its items is in storage.
    let log = if later { None } else { Some(log(context, &order.restore)?) };
    let acting = match &log {
        Some(log) => context.acting(Arc::new(PluginLines(log.clone()))),
        None => context.acting_quietly(),
    };
    let ended = Box::pin(stages(context, api, order, log, &acting)).await;
    acting.close().await;
    ended
}

async fn stages(
    context: &Context,
    api: &Api<DynamicObject>,
    order: &Order,
    log: Option<RunLog>,
    acting: &Acting,
) -> Result<RunEnd, RestoreError> {
    let mut rest = match log {
        Some(log) => Box::pin(items(context, api, order, log, acting)).await?,
        None => match FinishingRestore::reopen(context, api, &order.restore, &order.cancel, acting).await {
            Ok(rest) => rest,
            Err(error) if order.cancel.is_cancelled() => return Err(error),
            Err(error) => return Ok(unfinished(context, &error)),
        },
    };
    let ended = async {
        operations::follow(&mut rest).await?;
        volumes::follow(&mut rest).await?;
        csi::await_volumes(&mut rest).await?;
        finalize::finalize(&mut rest).await
    };
    let ended = ended.await;
    if let Err(error) = &ended {
        rest.results.errors.velero.push(error.to_string());
        rest.changed = true;
    }
    if let Err(error) = rest.keep().await {
        rest.results.errors.velero.push(error.to_string());
    }
    ended.map(|()| rest.over())
}

/// The end of a run whose objects were restored and whose later stages cannot be read.
fn unfinished(context: &Context, error: &RestoreError) -> RunEnd {
    let message = format!("the objects were restored; the results of the later stages are unknown: {error}");
    let status = json!({"phase": "PartiallyFailed", "failureReason": message,
        "completionTimestamp": time::seconds(context.now())});
    RunEnd { patch: json!({"status": status}), ending: Ending::PartiallyFailed, note: message }
}
