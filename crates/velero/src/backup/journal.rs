//! The journal of a backup: effects that were started and not ended, in a ConfigMap of Lifeboat's namespace. An entry
//! is written before the effect and removed after it; the ConfigMap is deleted at the end. It has no owner reference,
//! so that it outlives a Backup that is deleted while no server runs; the next leader finds it by its label.
//!
//! Operations of actions are in a ConfigMap of their own: an object holds at most a megabyte, and entries of hooks
//! must fit however many operations there are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, ObjectMeta};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::Backup;
use lifeboat_api::velero::names::EXCLUDE_FROM_BACKUP;
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::{ConfigMapJournal, JournalError};
use lifeboat_plan::label;
use lifeboat_plan::velero::backup::JOURNAL;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::pass::OpenPod;
use super::volumes::native::SnapshotEntry;

/// The journal of one backup. The ConfigMap is created with its first entry.
#[derive(Clone)]
pub(crate) struct Journal {
    api: Api<ConfigMap>,
    /// The UID of its Backup.
    uid: BackupUid,
    name: String,
    /// The name of the ConfigMap with the operations.
    operations: String,
    /// The ConfigMap of operations is full, and that was reported.
    full: Arc<AtomicBool>,
    /// Whether repositories were recorded.
    has_repositories: Arc<AtomicBool>,
}

/// An operation that an action started and that no list in storage names yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperationEntry {
    pub(crate) backup: String,
    pub(crate) action: String,
    pub(crate) operation: String,
    /// The item, for people.
    pub(crate) item: String,
}

/// A repository into which movers of the backup may store snapshots. Snapshots are found there by the Backup's UID,
/// also when the objects that name them are gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RepositoryEntry {
    #[serde(default)]
    pub(crate) backup: String,
    pub(crate) location: LocationName,
    /// The namespace of the volumes.
    pub(crate) namespace: NamespaceName,
}

/// An effect that was not started, because its entry could not be written to the journal first.
#[derive(Debug, thiserror::Error)]
#[error("it was not started, because the journal cannot be written: {0}")]
pub(crate) struct NotStarted(pub(crate) JournalError);

/// Prefix of the journals' names.
const PREFIX: &str = "lifeboat-journal-";
const OPERATIONS_PREFIX: &str = "lifeboat-operations-";

/// Key of the entry which records that the pass has ended.
const PASSED: &str = "passed";

/// Prefix of the keys of repositories.
const REPOSITORY: &str = "repository.";

/// The UIDs of all Backups that have a journal.
pub(crate) async fn all(client: &Client, namespace: &str) -> Result<Vec<BackupUid>, ApiError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let labelled =
        api.list_metadata(&ListParams::default().labels(JOURNAL)).await.attempt("list journals")?;
    let uid = |name: String| {
        name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(OPERATIONS_PREFIX)).map(BackupUid::new)
    };
    let uids: BTreeSet<BackupUid> = labelled.iter().map(ResourceExt::name_any).filter_map(uid).collect();
    Ok(uids.into_iter().collect())
}

impl Journal {
    pub(crate) fn new(client: Client, namespace: &str, backup: &Backup) -> Self {
        Self::of(client, namespace, &backup.backup_uid())
    }

    /// The journal of the Backup with this UID, which may be gone.
    pub(crate) fn of(client: Client, namespace: &str, uid: &BackupUid) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            uid: uid.clone(),
            name: format!("{PREFIX}{uid}"),
            operations: format!("{OPERATIONS_PREFIX}{uid}"),
            full: Arc::default(),
            has_repositories: Arc::default(),
        }
    }

    /// The UID of its Backup.
    pub(crate) fn uid(&self) -> &BackupUid {
        &self.uid
    }

    /// Whether the pod of an entry still exists, and not another one with its name. If the server may not read the
    /// pod, it counts as the same. An error is worth another try.
    pub(crate) async fn has_its_pod(&self, pod: &OpenPod) -> Result<bool, ApiError> {
        let pods: Api<Pod> = Api::namespaced(self.api.clone().into_client(), &pod.namespace);
        match pods.get_opt(&pod.name).await.attempt("read the pod of an open hook") {
            Ok(found) => Ok(found.is_some_and(|found| found.uid().as_deref() == Some(&pod.uid))),
            Err(error) if error.is_transient() => Err(error),
            Err(_) => Ok(true),
        }
    }

    /// Records that the pre hooks of a pod are about to run.
    pub(crate) async fn open(&self, pod: &OpenPod) -> Result<(), JournalError> {
        let entry = serde_json::to_string(pod)?;
        self.write(&self.name, json!({key(pod): entry})).await
    }

    /// Removes the entry of a pod. If that fails, the post hooks run once more after a restart, which is reported
    /// then.
    pub(crate) async fn close(&self, pod: &OpenPod) {
        if let Err(error) = self.write(&self.name, json!({key(pod): null})).await {
            tracing::warn!(%error, journal = self.name, "cannot remove an entry");
        }
    }

    /// Records a snapshot: without the provider's ID before the call, with it afterwards.
    pub(crate) async fn note_snapshot(&self, entry: &SnapshotEntry) -> Result<(), JournalError> {
        let text = serde_json::to_string(entry)?;
        self.write(&self.name, json!({snapshot_key(entry): text})).await
    }

    /// Removes the entry of a snapshot that was deleted.
    pub(crate) async fn forget_snapshot(&self, entry: &SnapshotEntry) {
        if let Err(error) = self.write(&self.name, json!({snapshot_key(entry): null})).await {
            tracing::warn!(%error, journal = self.name, "cannot remove an entry");
        }
    }

    /// Records an operation as soon as it has an ID. If that fails, it is reported once per backup.
    pub(crate) async fn note_operation(&self, entry: &OperationEntry) -> Result<(), JournalError> {
        if self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = serde_json::to_string(entry)?;
        let noted = self.write(&self.operations, json!({operation_key(entry): text})).await;
        match noted {
            Err(_) if self.full.swap(true, Ordering::Relaxed) => Ok(()),
            noted => noted,
        }
    }

    /// Records a repository before the first mover writes into it.
    pub(crate) async fn note_repository(&self, entry: &RepositoryEntry) -> Result<(), JournalError> {
        let text = serde_json::to_string(entry)?;
        self.write(&self.name, json!({repository_key(entry): text})).await?;
        self.has_repositories.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The recorded repositories, and messages about entries that cannot be read. An error is worth another try.
    pub(crate) async fn repositories(&self) -> Result<(Vec<RepositoryEntry>, Vec<String>), ApiError> {
        self.read(
            &self.name,
            REPOSITORY,
            "snapshots of this backup may be left in repositories whose names are unknown",
        )
        .await
    }

    /// Records that CSI snapshots are about to be taken. They have the backup's UID in a label, by which the server
    /// that ends this journal finds them.
    pub(crate) async fn note_csi(&self) -> Result<(), JournalError> {
        self.write(&self.name, json!({"csi": "true"})).await
    }

    /// Removes the entry of an operation that was cancelled.
    pub(crate) async fn forget_operation(&self, entry: &OperationEntry) {
        if let Err(error) = self.write(&self.operations, json!({operation_key(entry): null})).await {
            tracing::warn!(%error, journal = self.operations, "cannot remove an entry");
        }
    }

    /// The recorded operations, and messages about entries that cannot be read. An error is worth another try.
    pub(crate) async fn operations(&self) -> Result<(Vec<OperationEntry>, Vec<String>), ApiError> {
        self.read(
            &self.operations,
            "operation.",
            "operations of this backup may still run, and their IDs are unknown",
        )
        .await
    }

    /// Records that the list of snapshots is in storage: from here on they belong to the backup, even if its object
    /// is deleted.
    pub(crate) async fn note_passed(&self) {
        if let Err(error) = self.write(&self.name, json!({PASSED: "true"})).await {
            tracing::warn!(%error, journal = self.name, "cannot write an entry");
        }
    }

    /// Whether the list of snapshots is in storage. An error is worth another try.
    pub(crate) async fn has_passed(&self) -> Result<bool, ApiError> {
        let found = self.api.get_opt(&self.name).await.attempt("read the journal")?;
        let data = found.and_then(|found| found.data);
        Ok(data.is_some_and(|data| data.contains_key(PASSED)))
    }

    /// The recorded snapshots, and messages about entries that cannot be read. An error is worth another try.
    pub(crate) async fn snapshots(&self) -> Result<(Vec<SnapshotEntry>, Vec<String>), ApiError> {
        self.read(
            &self.name,
            "snapshot.",
            "snapshots of this backup may be left behind, and their IDs are unknown",
        )
        .await
    }

    /// The pods whose post hooks have not run, and messages about entries that cannot be read. An error is worth
    /// another try.
    pub(crate) async fn entries(&self) -> Result<(Vec<OpenPod>, Vec<String>), ApiError> {
        self.read(
            &self.name,
            "hook.",
            "pods of this backup may still be quiesced, because their post hooks cannot be run",
        )
        .await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        name: &str,
        kind: &str,
        otherwise: &str,
    ) -> Result<(Vec<T>, Vec<String>), ApiError> {
        let found = match self.api.get_opt(name).await.attempt("read the journal") {
            Ok(found) => found,
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                let message = format!("{otherwise}: {}", error.chain());
                return Ok((Vec::new(), vec![message]));
            }
        };
        let data = found.and_then(|found| found.data).unwrap_or_default();
        let (mut open, mut unreadable) = (Vec::new(), Vec::new());
        for (key, text) in data.iter().filter(|(key, _)| key.starts_with(kind)) {
            match serde_json::from_str(text) {
                Ok(entry) => open.push(entry),
                Err(error) => {
                    unreadable.push(format!("entry {key} of {name} is unreadable: {error}"));
                }
            }
        }
        Ok((open, unreadable))
    }

    /// Removes the entries of a pass that has ended and whose lists are in storage. Repositories stay recorded until
    /// the backup's end, because the Backup may be deleted before it, with all objects that name snapshots.
    pub(crate) async fn end_pass(&self) {
        if !self.has_repositories.load(Ordering::Relaxed) {
            match self.repositories().await {
                Ok((known, unreadable)) if known.is_empty() && unreadable.is_empty() => {
                    return self.remove().await;
                }
                Ok(_) => {}
                // The next term deletes the journal.
                Err(error) => {
                    let error = error.chain();
                    return tracing::warn!(error, journal = self.name, "cannot remove the journal");
                }
            }
        }
        self.delete(&self.operations).await;
        let Ok(Some(found)) = self.api.get_opt(&self.name).await else { return };
        let data = found.data.unwrap_or_default();
        let over = data.keys().filter(|key| !key.starts_with(REPOSITORY) && *key != PASSED);
        let mut patch: serde_json::Map<_, _> =
            over.map(|key| (key.clone(), serde_json::Value::Null)).collect();
        patch.insert(PASSED.to_owned(), json!("true"));
        if let Err(error) = self.write(&self.name, patch.into()).await {
            tracing::warn!(%error, journal = self.name, "cannot remove entries");
        }
    }

    /// Deletes the journal of a backup that has ended.
    pub(crate) async fn remove(&self) {
        for name in [&self.name, &self.operations] {
            self.delete(name).await;
        }
    }

    async fn delete(&self, name: &str) {
        match self.api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            // The next term deletes the journal.
            Err(error) => tracing::warn!(%error, journal = name, "cannot remove the journal"),
        }
    }

    async fn write(&self, name: &str, data: serde_json::Value) -> Result<(), JournalError> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            // It holds commands of hooks and is of no use to another cluster.
            labels: Some(
                [(JOURNAL, "backup"), (EXCLUDE_FROM_BACKUP, "true")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        };
        let map = ConfigMapJournal::new(self.api.clone(), metadata);
        map.write(&data).await
    }
}

fn operation_key(entry: &OperationEntry) -> String {
    let OperationEntry { action, operation, item, .. } = entry;
    format!("operation.{}", label::digest(&format!("{action}\n{operation}\n{item}")))
}

fn repository_key(entry: &RepositoryEntry) -> String {
    let RepositoryEntry { location, namespace, .. } = entry;
    format!("{REPOSITORY}{}", label::digest(&format!("{location}\n{namespace}")))
}

fn snapshot_key(entry: &SnapshotEntry) -> String {
    format!("snapshot.{}", label::value(entry.volume()))
}

fn key(pod: &OpenPod) -> String {
    format!("hook.{}", pod.uid)
}
