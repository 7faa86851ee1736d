//! Removes what was made for movers of objects that are gone: an object that is deleted while no server runs is not
//! cleaned up. Runs when a term begins and every ten minutes.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::velero::{DataDownload, DataUpload};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_transfer::attempts::WorkContext;
use lifeboat_web::Outcome;
use tokio_util::sync::CancellationToken;

use super::exposures;
use crate::context::Context;
use crate::transfers::work_context;

/// The pause between two sweeps.
const PAUSE: Duration = Duration::from_mins(10);

/// Sweeps until `shutdown` is cancelled.
pub(crate) async fn run(context: &Context, shutdown: &CancellationToken) {
    let work = work_context(context);
    let sweeping = async {
        loop {
            let swept = sweep(&work).await;
            let outcome = Outcome::of(&swept, ApiError::category);
            context.core.metrics.count_sweep("data-movements", outcome);
            if let Err(error) = swept {
                tracing::warn!(error = error.chain(), "cannot remove what deleted data movements left");
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _: Option<()> = shutdown.run_until_cancelled(sweeping).await;
}

pub(super) async fn sweep(work: &WorkContext) -> Result<(), ApiError> {
    let exposures = exposures(work);
    let made = exposures.made().await?;
    if made.is_empty() {
        return Ok(());
    }
    let mut known = BTreeSet::new();
    for api in [work.core.objects::<DataUpload>(), work.core.objects::<DataDownload>()] {
        let listed = api.list_metadata(&ListParams::default()).await.attempt("list data movements")?;
        known.extend(listed.items.iter().filter_map(ResourceExt::uid));
    }
    exposures.remove_left(&made, &known).await
}
