//! Copies of volumes of a backup that will never be one, or that was interrupted: the first are ended and forgotten, because
//! nothing would ever name them again, as are those that the next attempt does not meet; the others lose their claim to a moment of rest, because post hooks run now.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::api::ListParams;
use lifeboat_api::velero::{PodVolumeBackup, names};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::pod_volumes::status;
use serde_json::Value;
use tokio::time::timeout;

use super::pass::TIDYING;
use crate::backup::copies::is_open;
use crate::backup::copies::{cancel, unquiet as without_rest};
use crate::carrying::api;
use crate::context::Context;
use crate::repositories;

/// Ends all copies of the Backup with this UID. `known`: those that a pass saw; they may be gone with their owner. Gives
/// what is left, in words.
pub(super) async fn discard(
    context: &Context,
    uid: &str,
    known: BTreeMap<String, Value>,
    words: &str,
) -> Vec<String> {
    end(context, uid, known, &BTreeMap::new(), words).await
}

/// Ends the copies that the pass did not meet: of an earlier attempt, whose pod is another by now.
pub(super) async fn discard_others(context: &Context, uid: &str, met: &BTreeMap<String, Value>) {
    end(context, uid, BTreeMap::new(), met, "the backup did not meet its pod again").await;
}

async fn end(
    context: &Context,
    uid: &str,
    mut known: BTreeMap<String, Value>,
    spared: &BTreeMap<String, Value>,
    words: &str,
) -> Vec<String> {
    let api = api::<PodVolumeBackup>(context);
    let (mut told, mut left) = (BTreeSet::new(), Vec::new());
    // The second look is for those that ended before they heard of it.
    for _ in 0..2 {
        left.clear();
        match all(context, uid).await {
            Ok(found) => known.extend(found.into_iter().filter(|(name, _)| !spared.contains_key(name))),
            Err(error) => left.push(format!("copies of volumes may be left behind: {}", error.chain())),
        }
        for (name, _) in known.iter().filter(|(_, object)| is_open(object)) {
            // Whoever works on it forgets what it made.
            if told.insert(name.clone()) {
                cancel(&api, name).await;
            }
        }
        if told.is_empty() && left.is_empty() {
            break;
        }
    }
    // Names and snapshots, by location and namespace.
    let mut made: BTreeMap<(String, String), Vec<(&str, String)>> = BTreeMap::new();
    for (name, object) in known.iter().filter(|(_, object)| !is_open(object)) {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if !text("/status/snapshotID").is_empty() {
            let place = (text("/spec/backupStorageLocation"), text("/spec/pod/namespace"));
            made.entry(place).or_default().push((name, text("/status/snapshotID")));
        }
    }
    for ((location, namespace), copies) in made {
        let ids: Vec<String> = copies.iter().map(|(_, id)| id.clone()).collect();
        let problem = match timeout(TIDYING, repositories::forget(context, &location, &namespace, &ids)).await
        {
            Ok(Ok(())) => {
                for (name, _) in copies {
                    let patch = status::failed(&format!("{words}: its snapshot was removed"), context.now());
                    let params = kube::api::PatchParams::default();
                    let _ = api.patch(name, &params, &kube::api::Patch::Merge(patch)).await;
                }
                continue;
            }
            Ok(Err(problem)) => problem.chain(),
            Err(_elapsed) => "storage did not answer in time".to_owned(),
        };
        left.push(format!(
            "snapshots {} are left in the repository of namespace {namespace}: {problem}",
            ids.join(", ")
        ));
    }
    for words in &left {
        tracing::warn!(words, "a copy of a volume is left behind");
    }
    left
}

/// Before post hooks of an interrupted attempt run: copies that go on show others at work from now on.
pub(super) async fn unquiet(context: &Context, uid: &str) {
    match all(context, uid).await {
        Ok(found) => {
            let api = api::<PodVolumeBackup>(context);
            for (name, object) in found {
                if is_open(&object) {
                    without_rest(&api, &name).await;
                }
            }
        }
        Err(error) => tracing::warn!(error = error.chain(), "cannot look at copies of volumes"),
    }
}

async fn all(context: &Context, uid: &str) -> Result<BTreeMap<String, Value>, ApiError> {
    let params = ListParams::default().labels(&format!("{}={uid}", names::BACKUP_UID));
    let listed = api::<PodVolumeBackup>(context).list(&params).await.attempt("list PodVolumeBackups")?;
    // Also by what the objects say: not every server selects.
    let own = |object: &kube::api::DynamicObject| {
        object.labels().get(names::BACKUP_UID).is_some_and(|own| own == uid)
    };
    Ok(listed
        .items
        .iter()
        .filter(|one| own(one))
        .map(|one| (one.name_any(), objects::to_json(one)))
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Cluster;
    use crate::testing::repositories::{PASSWORD, prepare, snapshot, snapshots};

    #[tokio::test]
    async fn copies_that_the_pass_did_not_meet_are_ended_and_forgotten() {
        let cluster = Cluster::new().await;
        prepare(&cluster, PASSWORD);
        let (met, other) = (snapshot(&cluster, "shop", "t-1").await, snapshot(&cluster, "shop", "t-2").await);
        let put = |name: &str, status: Value| {
            cluster.put(
                "podvolumebackups",
                &json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
                    "metadata": {"name": name, "labels": {names::BACKUP_UID: "b-1"}},
                    "spec": {"backupStorageLocation": "default", "pod": {"namespace": "shop"}}, "status": status}),
            );
        };
        put("met", json!({"phase": "Completed", "snapshotID": met}));
        put("other", json!({"phase": "Completed", "snapshotID": other}));
        put("open", json!({"phase": "InProgress"}));
        let seen = BTreeMap::from([("met".to_owned(), Value::Null)]);
        discard_others(&cluster.context, "b-1", &seen).await;
        assert_eq!(snapshots(&cluster, "shop").await, [met]);
        let object = |name: &str| cluster.get("podvolumebackups", name).unwrap();
        assert_eq!(object("met")["status"]["phase"], "Completed");
        assert_eq!(object("open")["spec"]["cancel"], true);
        let status = &object("other")["status"];
        assert_eq!(status["phase"], "Failed");
        assert!(status["message"].as_str().unwrap().ends_with("its snapshot was removed"), "{status}");
    }
}
