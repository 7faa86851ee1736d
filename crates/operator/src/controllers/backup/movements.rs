//! Data movements of a backup that will never be one: those that go on are cancelled, and what the others put into a
//! repository is forgotten, because nothing would ever name it again. Called where copies of volumes are discarded.

use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use lifeboat_api::velero::{DataMovePhase, DataUpload, names};
use lifeboat_cluster::{Attempt, MANAGER, objects};
use lifeboat_plan::data_movement::is_built_in;
use lifeboat_plan::pod_volumes::status;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::pass::TIDYING;
use crate::carrying::api;
use crate::context::Context;
use crate::repositories;

/// Ends all data movements of the Backup with this UID. Gives what is left, in words.
pub(super) async fn discard(context: &Context, uid: &str, words: &str) -> Vec<String> {
    if uid.is_empty() {
        return Vec::new();
    }
    let api = api::<DataUpload>(context);
    let params = ListParams::default().labels(&format!("{}={uid}", names::BACKUP_UID));
    let found = match api.list(&params).await.attempt("list DataUploads") {
        Ok(found) => found.items,
        Err(error) if error.is_not_found() => return Vec::new(),
        Err(error) => return told(vec![format!("moved data may be left behind: {}", error.chain())]),
    };
    let mut left = Vec::new();
    // By location and namespace: snapshots, and the objects that name them.
    let mut made: BTreeMap<(String, String), Vec<(String, String)>> = BTreeMap::new();
    for object in &found {
        // Also by what the objects say: not every server selects.
        if object.labels().get(names::BACKUP_UID).is_none_or(|own| own != uid) {
            continue;
        }
        let (name, value) = (object.name_any(), objects::to_json(object));
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        if !DataMovePhase::from(text("/status/phase").as_str()).is_terminal() {
            // Whoever works on it forgets what it made.
            let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
            let patch = Patch::Merge(json!({"spec": {"cancel": true}}));
            match api.patch(&name, &params, &patch).await.attempt(format!("cancel DataUpload {name}")) {
                Err(error) if !error.is_not_found() => left.push(format!("it may go on: {}", error.chain())),
                _ => {}
            }
        } else if !text("/status/snapshotID").is_empty() && is_built_in(Some(&text("/spec/datamover"))) {
            let place = (text("/spec/backupStorageLocation"), text("/spec/sourceNamespace"));
            made.entry(place).or_default().push((text("/status/snapshotID"), name));
        }
    }
    for ((location, namespace), both) in made {
        let (ids, names): (Vec<String>, Vec<String>) = both.into_iter().unzip();
        let told = match timeout(TIDYING, repositories::forget(context, &location, &namespace, &ids)).await {
            Ok(Ok(())) => {
                for name in names {
                    let mut patch =
                        status::failed(&format!("{words}: its snapshot was removed"), context.now());
                    patch["status"]["snapshotID"] = Value::Null;
                    let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                }
                continue;
            }
            Ok(Err(problem)) => problem.chain(),
            Err(_elapsed) => "storage did not answer in time".to_owned(),
        };
        left.push(format!(
            "snapshots {} are left in the repository of namespace {namespace}: {told}",
            ids.join(", ")
        ));
    }
    told(left)
}

fn told(left: Vec<String>) -> Vec<String> {
    for words in &left {
        tracing::warn!(words, "moved data is left behind");
    }
    left
}
