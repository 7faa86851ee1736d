//! Reads the data of targets: their claims, by which sessions take turns, and the record of a restore that has not
//! succeeded. Called before a member starts.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::Core;
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::in_place::{RestoreName, UNFINISHED, unfinished};
use lifeboat_plan::stash::session::{BackupTargetFacts, TargetKey, TargetVolumes};

use crate::target::{self, TargetName};

/// The claims of a namespace, with their records.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims(Vec<Claim>);

#[derive(Clone, Debug)]
struct Claim {
    name: String,
    unfinished: Option<RestoreName>,
}

impl Claims {
    pub(super) async fn read(core: &Core, namespace: &str) -> Result<Self, ApiError> {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(core.client.clone(), namespace);
        let listed = api.list_metadata(&ListParams::default()).await;
        let listed = listed.attempt(format!("list PersistentVolumeClaims of namespace {namespace}"))?;
        let claim = |found: &kube::core::PartialObjectMeta<PersistentVolumeClaim>| Claim {
            name: found.name_any(),
            unfinished: unfinished(found.annotations().get(UNFINISHED).map(String::as_str), namespace),
        };
        Ok(Self(listed.items.iter().map(claim).collect()))
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|claim| claim.name.clone()).collect()
    }

    /// The claims that carry the record of a restore, with it.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (&str, &RestoreName)> {
        self.0.iter().filter_map(|claim| Some((claim.name.as_str(), claim.unfinished.as_ref()?)))
    }
}

/// The data of a target. A target that does not exist, or may not be read, has none; the problem is reported when its
/// hosts are searched.
pub(super) async fn of_target(
    core: &Core,
    claims: &Claims,
    key: &TargetKey,
    kind: TargetKind,
) -> Result<BackupTargetFacts, ApiError> {
    let name = TargetName { kind, namespace: &key.namespace, name: &key.name };
    let object = match target::workload(core, name).await {
        Err(error) if error.code() == Some(403) => None,
        found => found?,
    };
    let own = match &object {
        Some(object) if kind != TargetKind::AppBinding => {
            target::own_claims(core, kind, object, &claims.names()).await?
        }
        _ => BTreeSet::new(),
    };
    let on = TargetVolumes::new(&key.namespace, Some(key.clone()), own);
    let of_object = object.and_then(|object| {
        unfinished(object["metadata"]["annotations"][UNFINISHED].as_str(), &key.namespace)
    });
    let mut of_claims = claims.unfinished().filter(|(claim, _)| on.claims.contains(*claim));
    let unfinished = of_object.or_else(|| of_claims.next().map(|(_, restore)| restore.clone()));
    Ok(BackupTargetFacts { on, unfinished })
}
