//! The PodVolumeRestores of a restore: created, followed and cancelled. A dry run creates none.

use std::collections::BTreeMap;

use async_trait::async_trait;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_api::velero::{PodVolumeRestore, names};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::pod_volumes::has_ended;
use serde_json::Value;

use crate::context::Context;
use crate::transfers::{self, FollowedTransfers};

/// The message for a PodVolumeRestore that was deleted before its end.
pub(super) const DELETED: &str = "its PodVolumeRestore was deleted";

/// What a restore does with its PodVolumeRestores.
#[async_trait]
pub(super) trait PodVolumeRestores: Send + Sync {
    async fn create(&self, name: &str, object: Value) -> Result<(), ApiError>;
    /// Follows the objects with these names; None in a dry run.
    fn follow(&self, names: &[String]) -> Option<FollowedTransfers>;
    /// Cancels one. A failure is only logged.
    async fn cancel(&self, name: &str);
}

/// The PodVolumeRestores in the cluster.
pub(super) struct PodVolumeApi(Api<DynamicObject>);

impl PodVolumeApi {
    pub(super) fn new(context: &Context) -> Self {
        Self(context.objects::<PodVolumeRestore>())
    }

    /// All PodVolumeRestores of a Restore, by its UID; the keys are their names.
    async fn of_restore(&self, uid: &str) -> Result<BTreeMap<String, Value>, ApiError> {
        let params = ListParams::default().labels(&format!("{}={uid}", names::RESTORE_UID));
        let listed = self.0.list(&params).await.attempt("list PodVolumeRestores")?;
        // Labels are compared here as well, in case the server ignores the selector.
        let own = |one: &&DynamicObject| one.labels().get(names::RESTORE_UID).is_some_and(|own| own == uid);
        let own = listed.items.iter().filter(own);
        Ok(own.map(|one| (one.name_any(), objects::to_json(one))).collect())
    }
}

#[async_trait]
impl PodVolumeRestores for PodVolumeApi {
    async fn create(&self, name: &str, object: Value) -> Result<(), ApiError> {
        let attempt = || format!("create PodVolumeRestore {name}");
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError).attempt(attempt())?;
        self.0.create(&PostParams::default(), &object).await.attempt(attempt()).map(drop)
    }

    fn follow(&self, names: &[String]) -> Option<FollowedTransfers> {
        let followed = FollowedTransfers::new(self.0.clone(), DELETED);
        for name in names {
            followed.add(name, Value::Null);
        }
        Some(followed)
    }

    async fn cancel(&self, name: &str) {
        if let Err(error) = transfers::cancel(&self.0, name).await {
            tracing::warn!(error = error.chain(), object = name, "cannot cancel a PodVolumeRestore");
        }
    }
}

/// The PodVolumeRestores of a dry run: none is created.
pub(super) struct NoPodVolumeRestores;

#[async_trait]
impl PodVolumeRestores for NoPodVolumeRestores {
    async fn create(&self, _: &str, _: Value) -> Result<(), ApiError> {
        Ok(())
    }

    fn follow(&self, _: &[String]) -> Option<FollowedTransfers> {
        None
    }

    async fn cancel(&self, _: &str) {}
}

/// Cancels all open PodVolumeRestores of a Restore that has ended, by its UID.
pub(crate) async fn end_open(context: &Context, uid: &str) {
    let api = PodVolumeApi::new(context);
    let found = match api.of_restore(uid).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(uid, error = error.chain(), "cannot cancel the PodVolumeRestores of a restore");
            return;
        }
    };
    for (name, object) in found {
        if !has_ended(&object) {
            api.cancel(&name).await;
        }
    }
}
