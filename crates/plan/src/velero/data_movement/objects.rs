//! DataUpload and DataDownload: the objects that the actions create, and the progress they report.

use jiff::Timestamp;
use lifeboat_api::common::Time;
use lifeboat_api::velero::{
    DataDownload, DataMoveOperationProgress, DataMovePhase, DataUpload, DataUploadStatus,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{SELECTOR, text};
use crate::label;
use crate::transfer::attempts::CONSISTENCY;
use crate::transfer::snapshots::SNAPSHOT;
use crate::velero::uploader::{self, UploaderSettings};

/// The operation ID for moving a claim's data; also the object's label. `prefix`: `du-` or `dd-`, as upstream.
pub fn operation(prefix: &str, owner_uid: &str, claim_uid: &str) -> String {
    label::value(&format!("{prefix}{owner_uid}.{claim_uid}"))
}

/// A DataUpload for the snapshot of a claim. Its name is the same in every attempt of the backup.
pub fn upload(backup: &Value, claim: &Value, snapshot: &Value, content: &Value, operation: &str) -> Value {
    let (name, uid) = (text(backup, "/metadata/name"), text(backup, "/metadata/uid"));
    let digest = &label::digest(operation)[..10];
    let mut spec = json!({
        "snapshotType": "CSI",
        "csiSnapshot": {
            "volumeSnapshot": text(snapshot, "/metadata/name"),
            "storageClass": text(claim, "/spec/storageClassName"),
            "snapshotClass": text(snapshot, "/spec/volumeSnapshotClassName"),
            "driver": text(content, "/spec/driver"),
        },
        "sourcePVC": text(claim, "/metadata/name"),
        "backupStorageLocation": text(backup, "/spec/storageLocation"),
        "sourceNamespace": text(claim, "/metadata/namespace"),
        "operationTimeout": given(backup, "/spec/csiSnapshotTimeout", "10m0s"),
    });
    let mover = text(backup, "/spec/datamover");
    if !mover.is_empty() {
        spec["datamover"] = json!(mover);
    }
    configure(&mut spec, &uploader::for_backup(config(backup).as_ref()));
    json!({
        "apiVersion": "velero.io/v2alpha1",
        "kind": "DataUpload",
        "metadata": {
            "name": format!("{}-{digest}", shortened(name)),
            "namespace": text(backup, "/metadata/namespace"),
            "labels": {
                "velero.io/backup-name": label::value(name),
                "velero.io/backup-uid": uid,
                "velero.io/pvc-uid": text(claim, "/metadata/uid"),
                "velero.io/async-operation-id": operation,
            },
            "ownerReferences": [owner("Backup", name, uid)],
            "annotations": {CONSISTENCY: SNAPSHOT},
        },
        "spec": spec,
    })
}

/// A DataUpload that stored nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backup does not hold its data: its DataUpload ended as '{phase}'")]
pub struct NotMoved {
    pub phase: String,
}

/// The content of the result ConfigMap that a restore needs from a DataUpload.
pub fn result_of(upload: &DataUpload, location: &str) -> Result<Value, NotMoved> {
    let DataUploadStatus { snapshot_id, phase, progress, .. } = upload.status.clone().unwrap_or_default();
    let Some(snapshot) = snapshot_id.filter(|snapshot| !snapshot.is_empty()) else {
        return Err(NotMoved { phase: phase.map(|phase| phase.to_string()).unwrap_or_default() });
    };
    Ok(json!({
        "backupStorageLocation": location,
        "datamover": upload.spec.datamover.as_deref().unwrap_or_default(),
        "snapshotID": snapshot,
        "snapshotSize": progress.and_then(|progress| progress.total_bytes).unwrap_or_default(),
        "sourceNamespace": upload.spec.source_namespace,
    }))
}

/// A DataDownload that fills a claim. `target`: the namespace into which the claim is restored.
pub fn download(
    restore: &Value,
    result: &Value,
    claim: &str,
    target: &str,
    operation: &str,
    timeout: &str,
) -> Value {
    let (name, uid) = (text(restore, "/metadata/name"), text(restore, "/metadata/uid"));
    let mut spec = json!({
        "targetVolume": {"pvc": claim, "pv": "", "namespace": target},
        "backupStorageLocation": result["backupStorageLocation"],
        "snapshotID": result["snapshotID"],
        "snapshotSize": result["snapshotSize"],
        "sourceNamespace": result["sourceNamespace"],
        "operationTimeout": timeout,
    });
    let mover = text(result, "/datamover");
    if !mover.is_empty() {
        spec["datamover"] = json!(mover);
    }
    configure(&mut spec, &uploader::for_restore(config(restore).as_ref()));
    json!({
        "apiVersion": "velero.io/v2alpha1",
        "kind": "DataDownload",
        "metadata": {
            "name": format!("{}-{}", shortened(name), &label::digest(operation)[..10]),
            "namespace": text(restore, "/metadata/namespace"),
            "labels": {
                "velero.io/restore-name": label::value(name),
                "velero.io/restore-uid": uid,
                "velero.io/async-operation-id": operation,
            },
            "ownerReferences": [owner("Restore", name, uid)],
        },
        "spec": spec,
    })
}

/// The `uploaderConfig` of a Backup or Restore. None if the spec has none or it cannot be parsed.
fn config<T: DeserializeOwned>(owner: &Value) -> Option<T> {
    owner.pointer("/spec/uploaderConfig").and_then(|config| T::deserialize(config).ok())
}

/// Passes the settings to the data mover, the built-in or another one.
fn configure(spec: &mut Value, settings: &UploaderSettings) {
    if !settings.is_empty() {
        spec["dataMoverConfig"] = json!(settings);
    }
}

/// A claim that waits for its data: no volume is bound to it before.
pub fn moved_claim(mut claim: Value, target: &str, operation: &str) -> Value {
    let name = text(&claim, "/metadata/name").to_owned();
    if let Some(spec) = claim["spec"].as_object_mut() {
        for field in ["volumeName", "dataSource", "dataSourceRef"] {
            spec.remove(field);
        }
        let mut selector = spec.get("selector").and_then(Value::as_object).cloned().unwrap_or_default();
        let labels = selector.entry("matchLabels").or_insert_with(|| Value::Object(Map::new()));
        let digest = &label::digest(operation)[..5];
        labels[SELECTOR] = json!(label::value(&format!("{target}.{name}.{digest}")));
        spec.insert("selector".to_owned(), Value::Object(selector));
    }
    claim
}

/// The progress of a DataUpload or DataDownload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub completed: bool,
    pub error: String,
    pub done: i64,
    pub total: i64,
    pub phase: String,
    pub started: Option<Timestamp>,
    pub updated: Option<Timestamp>,
}

/// The fields of the status that both kinds have.
struct Reported {
    phase: Option<DataMovePhase>,
    message: Option<String>,
    progress: Option<DataMoveOperationProgress>,
    started: Option<Time>,
    ended: Option<Time>,
}

impl From<&DataUpload> for Progress {
    fn from(upload: &DataUpload) -> Self {
        let status = upload.status.clone().unwrap_or_default();
        Self::from(Reported {
            phase: status.phase,
            message: status.message,
            progress: status.progress,
            started: status.start_timestamp,
            ended: status.completion_timestamp,
        })
    }
}

impl From<&DataDownload> for Progress {
    fn from(download: &DataDownload) -> Self {
        let status = download.status.clone().unwrap_or_default();
        Self::from(Reported {
            phase: status.phase,
            message: status.message,
            progress: status.progress,
            started: status.start_timestamp,
            ended: status.completion_timestamp,
        })
    }
}

impl From<Reported> for Progress {
    fn from(reported: Reported) -> Self {
        let phase = reported.phase.as_ref().map_or("", DataMovePhase::as_str);
        let message = reported.message.unwrap_or_default();
        let (completed, error) = match &reported.phase {
            Some(DataMovePhase::Completed) => (true, String::new()),
            Some(DataMovePhase::Failed) if message.is_empty() => {
                (true, "it failed without a message".to_owned())
            }
            Some(DataMovePhase::Canceled) if message.is_empty() => (true, "it was cancelled".to_owned()),
            Some(DataMovePhase::Failed | DataMovePhase::Canceled) => (true, message.clone()),
            _ => (false, String::new()),
        };
        // `describe` shows users what the operation waits for.
        let shown =
            if completed || message.is_empty() { phase.to_owned() } else { format!("{phase}: {message}") };
        let moved = reported.progress.unwrap_or_default();
        Self {
            completed,
            error,
            done: moved.bytes_done.unwrap_or_default(),
            total: moved.total_bytes.unwrap_or_default(),
            phase: shown,
            started: reported.started.map(|time| time.0),
            updated: reported.ended.map(|time| time.0),
        }
    }
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "velero.io/v1", "kind": kind, "name": name, "uid": uid, "controller": true})
}

fn given<'a>(object: &'a Value, pointer: &str, otherwise: &'a str) -> &'a str {
    let text = text(object, pointer);
    if matches!(text, "" | "0s") { otherwise } else { text }
}

/// Shortens a name so that a hash can be appended.
fn shortened(name: &str) -> &str {
    let end = (0..=name.len().min(200)).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    name[..end].trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::velero::typed::read;

    #[test]
    fn an_upload_names_its_snapshot_its_claim_and_its_backup_always_the_same_way() {
        let backup = json!({"metadata": {"name": "nightly", "namespace": "lifeboat", "uid": "bu"},
            "spec": {"storageLocation": "default", "csiSnapshotTimeout": "0s", "uploaderConfig": {"parallelFilesUpload": 9}}});
        let claim = json!({"metadata": {"name": "data", "namespace": "shop", "uid": "cu"}, "spec": {"storageClassName": "fast"}});
        let snapshot = json!({"metadata": {"name": "s"}, "spec": {"volumeSnapshotClassName": "c"}});
        let content = json!({"spec": {"driver": "d"}});
        let operation = operation("du-", "bu", "cu");
        let made = upload(&backup, &claim, &snapshot, &content, &operation);
        assert_eq!(made, upload(&backup, &claim, &snapshot, &content, &operation));
        assert_eq!(made["metadata"]["labels"]["velero.io/async-operation-id"], "du-bu.cu");
        assert_eq!(made["spec"]["csiSnapshot"]["volumeSnapshot"], "s");
        assert_eq!(made["spec"]["operationTimeout"], "10m0s");
        assert_eq!(made["spec"]["dataMoverConfig"], json!({"ParallelFilesUpload": "9"}));
        assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "bu");
        assert_eq!(made["metadata"]["annotations"]["lifeboat.io/consistency"], "Snapshot");
    }

    #[test]
    fn a_download_follows_from_the_upload_in_the_backup() {
        let upload = json!({"spec": {"sourceNamespace": "shop"}, "status": {"phase": "Completed", "snapshotID": "abc",
            "progress": {"totalBytes": 7}}});
        let upload: DataUpload = read(&upload).unwrap();
        let result = result_of(&upload, "default").unwrap();
        let restore = json!({"metadata": {"name": "r", "namespace": "lifeboat", "uid": "ru"},
            "spec": {"uploaderConfig": {"writeSparseFiles": false, "parallelFilesDownload": 2}}});
        let made = download(&restore, &result, "data", "copy", "dd-ru.cu", "10m0s");
        let config = json!({"WriteSparseFiles": "false", "ParallelFilesDownload": "2"});
        assert_eq!(made["spec"]["dataMoverConfig"], config);
        assert_eq!(made["spec"]["targetVolume"], json!({"pvc": "data", "pv": "", "namespace": "copy"}));
        assert_eq!((&made["spec"]["snapshotID"], &made["spec"]["snapshotSize"]), (&json!("abc"), &json!(7)));
        let failed: DataUpload = read(&json!({"status": {"phase": "Failed"}})).unwrap();
        assert!(result_of(&failed, "default").unwrap_err().to_string().contains("'Failed'"));
    }

    #[test]
    fn nothing_is_bound_to_a_claim_that_waits_for_its_data() {
        let claim = json!({"metadata": {"name": "data"}, "spec": {"volumeName": "pv", "dataSource": {}, "storageClassName": "fast"}});
        let made = moved_claim(claim, "shop", "dd-1");
        let selector = made["spec"]["selector"]["matchLabels"][SELECTOR].as_str().unwrap().to_owned();
        assert!(selector.starts_with("shop.data."), "{selector}");
        assert!(made["spec"].get("volumeName").is_none() && made["spec"].get("dataSource").is_none());
    }

    #[rstest]
    #[case(json!({}), false, "")]
    #[case(json!({"phase": "InProgress", "progress": {"bytesDone": 1, "totalBytes": 2}}), false, "")]
    #[case(json!({"phase": "Completed"}), true, "")]
    #[case(json!({"phase": "Failed", "message": "no room"}), true, "no room")]
    #[case(json!({"phase": "Canceled"}), true, "it was cancelled")]
    fn progress_is_read_from_the_phase(#[case] status: Value, #[case] completed: bool, #[case] error: &str) {
        let object = json!({"status": status});
        let progress = Progress::from(&read::<DataUpload>(&object).unwrap());
        assert_eq!((progress.completed, progress.error.as_str()), (completed, error));
        assert_eq!(Progress::from(&read::<DataDownload>(&object).unwrap()), progress);
    }
}
