//! The end of a restore: new volumes of restored claims get the reclaim policy and the labels of the old ones, once
//! they are bound. Bounded by the server's `--resource-timeout`.

use std::time::Duration;

use kube::ResourceExt;
use lifeboat_archive::documents::OperationPhase;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::write::{Target, Throttle, Writer};
use lifeboat_plan::velero::restore::provisioned::{Look, OriginalVolume, ProvisionedFacts, look};
use serde_json::Value;
use tokio::time::Instant;

use super::{FinishingRestore, RestoreError};

/// How long to wait for a claim that no pod uses yet.
const UNUSED: Duration = Duration::from_secs(30);
pub(in crate::restore) const PAUSE: Duration = Duration::from_secs(2);

/// A claim whose new volume is to be patched.
struct UnpatchedClaim {
    namespace: String,
    name: String,
    wanted: OriginalVolume,
}

/// Patches the new volumes. The error means that the restore was cancelled.
pub(in crate::restore) async fn finalize(rest: &mut FinishingRestore<'_>) -> Result<(), RestoreError> {
    let mut open = candidates(rest);
    if open.is_empty() {
        return Ok(());
    }
    let writer = Writer::new(rest.context.client.clone(), Throttle::default().into());
    let (start, before) = (Instant::now(), rest.results.clone());
    loop {
        let mut waiting = Vec::new();
        for one in open {
            if is_waited_for(rest, &writer, &one, start).await {
                waiting.push(one);
            }
        }
        open = waiting;
        if open.is_empty() {
            break;
        }
        if start.elapsed() >= rest.context.settings.restore.resource_timeout {
            for one in open {
                let message = format!(
                    "the volume of claim {}/{} did not get its reclaim policy and labels back: the claim was not bound in time (--resource-timeout)",
                    one.namespace, one.name
                );
                rest.error(Some(&one.namespace), message);
            }
            break;
        }
        rest.pause(PAUSE).await?;
    }
    if rest.results != before {
        rest.show().await;
    }
    Ok(())
}

/// Claims that this restore created and whose volumes are newly provisioned, selected as upstream does.
fn candidates(rest: &FinishingRestore<'_>) -> Vec<UnpatchedClaim> {
    let mapping = rest.restore.spec.namespace_mapping.clone().unwrap_or_default();
    let mut found = Vec::new();
    for info in &rest.volumes {
        let Some(attributes) = &info.pv_info else { continue };
        if !matches!(info.backup_method.as_str(), "PodVolumeBackup" | "CSISnapshot") {
            continue;
        }
        let namespace = mapping.get(&info.pvc_namespace).unwrap_or(&info.pvc_namespace).clone();
        let name = info.pvc_name.clone();
        if !rest.created("v1/PersistentVolumeClaim", &namespace, &name)
            || is_unfinished(rest, &namespace, &name)
        {
            continue;
        }
        let wanted = OriginalVolume {
            reclaim_policy: attributes.reclaim_policy.clone(),
            labels: attributes.labels.clone().unwrap_or_default(),
        };
        found.push(UnpatchedClaim { namespace, name, wanted });
    }
    found
}

/// Whether an operation that fills the claim failed or is unfinished.
fn is_unfinished(rest: &FinishingRestore<'_>, namespace: &str, name: &str) -> bool {
    rest.operations.iter().any(|one| {
        let item = &one.spec.resource_identifier;
        item.resource == "persistentvolumeclaims"
            && item.namespace == namespace
            && item.name == name
            && one.status.phase != OperationPhase::Completed
    })
}

async fn is_waited_for(
    rest: &mut FinishingRestore<'_>,
    writer: &Writer,
    one: &UnpatchedClaim,
    start: Instant,
) -> bool {
    let problem = match step(writer, one).await {
        Ok(Look::Done) => return false,
        Ok(Look::Wait | Look::Patch { .. }) => return true,
        Ok(Look::Unused) if start.elapsed() < UNUSED => return true,
        Ok(Look::Unused) => {
            let message = format!(
                "nothing uses claim {}/{} yet: its volume will not get the reclaim policy and labels of the old one",
                one.namespace, one.name
            );
            rest.warn(Some(&one.namespace), message);
            return false;
        }
        Ok(Look::Wrong(message)) => message,
        // An installation that is limited to namespaces has no permissions on volumes.
        Err(error) if error.code() == Some(403) => {
            rest.warn(Some(&one.namespace), not_patched(one, &error.chain()));
            return false;
        }
        Err(error) if error.is_transient() => return true,
        Err(error) => error.chain(),
    };
    tracing::warn!(restore = rest.restore.name_any(), problem, "cannot patch a new volume");
    rest.error(Some(&one.namespace), not_patched(one, &problem));
    false
}

fn not_patched(one: &UnpatchedClaim, problem: &str) -> String {
    format!(
        "the volume of claim {}/{} did not get its reclaim policy and labels back: {problem}",
        one.namespace, one.name
    )
}

/// Reads claim, class and volume, and patches the volume once it is bound.
async fn step(writer: &Writer, one: &UnpatchedClaim) -> Result<Look, ApiError> {
    let claim = writer.get(&target("v1", "PersistentVolumeClaim", Some(&one.namespace), &one.name)).await?;
    let text = |object: Option<&Value>, pointer: &str| {
        let text = object.and_then(|object| object.pointer(pointer)).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let class = match text(claim.as_ref(), "/spec/storageClassName") {
        Some(name) => writer.get(&target("storage.k8s.io/v1", "StorageClass", None, &name)).await?,
        None => None,
    };
    let volume = match text(claim.as_ref(), "/spec/volumeName") {
        Some(name) => writer.get(&target("v1", "PersistentVolume", None, &name)).await?,
        None => None,
    };
    let seen = ProvisionedFacts { claim: claim.as_ref(), class: class.as_ref(), volume: volume.as_ref() };
    match look(&seen, &one.wanted) {
        Look::Patch { volume, patch } => {
            writer.merge(&target("v1", "PersistentVolume", None, &volume), None, &patch).await?;
            Ok(Look::Done)
        }
        other => Ok(other),
    }
}

pub(in crate::restore) fn target(
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> Target {
    let plural = if kind == "StorageClass" {
        "storageclasses".to_owned()
    } else {
        format!("{}s", kind.to_lowercase())
    };
    Target {
        api_version: api_version.to_owned(),
        plural,
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}
