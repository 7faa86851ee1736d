//! What was made for movers of objects that are gone: an object that is deleted while no server runs clears up nothing.
//! Looked for when a term begins and now and then.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::velero::{DataDownload, DataUpload};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_plan::json::text;
use lifeboat_plan::velero::data_movement::{MADE_FOR, made_for};
use lifeboat_transfer::attempts::WorkContext;
use lifeboat_transfer::claims::Claims;
use lifeboat_transfer::snapshots::Snapshots;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::exposing;
use crate::context::Context;
use crate::transfers::work_context;

/// The pause between two looks.
const NEXT_LOOK: Duration = Duration::from_mins(10);

/// Looks until `shutdown` is cancelled.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let work = work_context(context);
    let sweeping = async {
        loop {
            if let Err(error) = sweep(&work).await {
                tracing::warn!(error = error.chain(), "cannot look for what data movements left");
            }
            tokio::time::sleep(NEXT_LOOK).await;
        }
    };
    let _: Option<()> = shutdown.run_until_cancelled(sweeping).await;
}

pub(super) async fn sweep(work: &WorkContext) -> Result<(), ApiError> {
    let (core, namespace) = (&work.core, &work.settings.namespace);
    let made = Claims::new(&core.client);
    let claims = made.made_for(namespace, MADE_FOR).await?;
    let parts = Snapshots::new(&core.client).made_for(namespace, MADE_FOR).await?;
    let uid = |object: &Value| made_for(object, &core.namespace).map(str::to_owned);
    let uids: BTreeSet<String> = claims.iter().chain(&parts).filter_map(uid).collect();
    if uids.is_empty() {
        return Ok(());
    }
    // The objects after what was made for them: one that begins meanwhile is among them.
    let mut known = BTreeSet::new();
    for api in [core.objects::<DataUpload>(), core.objects::<DataDownload>()] {
        let listed = api.list_metadata(&ListParams::default()).await.attempt("list data movements")?;
        known.extend(listed.items.iter().filter_map(ResourceExt::uid));
    }
    for gone in uids.difference(&known) {
        tracing::warn!(uid = gone, "what was made for a data movement that is gone is taken away");
        exposing::hide(work, gone).await?;
        for claim in claims.iter().filter(|claim| uid(claim).as_ref() == Some(gone)) {
            made.delete_with_volume(namespace, text(claim, "/metadata/name")).await?;
        }
    }
    Ok(())
}
