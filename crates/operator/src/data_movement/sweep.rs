//! What was made for movers of objects that are gone: an object that is deleted while no server runs clears up nothing.
//! Looked for when a term begins.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::velero::{DataDownload, DataUpload};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_plan::data_movement::MADE_FOR;

use super::claims::Claims;
use super::exposing;
use crate::carrying::{Desk, api};

pub(crate) async fn sweep(desk: &Desk) -> Result<(), ApiError> {
    let context = &desk.context;
    let (made, namespace) = (Claims::new(&context.client), &context.settings.movers.namespace);
    let claims = made.made_for(namespace, MADE_FOR).await?;
    if claims.is_empty() {
        return Ok(());
    }
    // The objects after the claims: one that begins meanwhile is among them.
    let mut known = BTreeSet::new();
    for api in [api::<DataUpload>(context), api::<DataDownload>(context)] {
        let listed = api.list_metadata(&ListParams::default()).await.attempt("list data movements")?;
        known.extend(listed.items.iter().filter_map(ResourceExt::uid));
    }
    for claim in claims {
        let uid = claim["metadata"]["labels"][MADE_FOR].as_str().unwrap_or_default();
        if !uid.is_empty() && !known.contains(uid) {
            tracing::warn!(uid, "what was made for a data movement that is gone is taken away");
            exposing::hide(desk, uid).await?;
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            made.delete_with_volume(namespace, name).await?;
        }
    }
    Ok(())
}
