//! Snapshots in repositories that movers stored for a backup that is undone, of both kinds: PodVolumeBackups (copies
//! of pod volumes) and DataUploads (moved data of CSI snapshots). Running transfers are cancelled; snapshots of ended
//! ones are forgotten, because no list would name them any more. The objects may be deleted with their owner: then
//! the backup's lists in storage and the snapshots' tags name them.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::{DataUpload, PodVolumeBackup, names};
use lifeboat_archive::documents::BackupVolumeInfo;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::json::text;
use lifeboat_plan::velero::data_movement::is_built_in;
use lifeboat_plan::velero::pod_volumes::{has_ended, status};
use lifeboat_plan::velero::typed::read;
use serde_json::Value;

use super::repositories::{forget, in_time};
use super::{Left, Undoing};
use crate::backup::storage::list;
use crate::backup::volumes::copies::unquiet;
use crate::context::Context;
use crate::repositories::{self, RepositoryKey};
use crate::transfers;

/// The two kinds of objects whose movers store snapshots in repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transfer {
    Copy,
    Movement,
}

/// One transfer, as the cluster or a list in storage shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FoundTransfer {
    repository: RepositoryKey,
    /// Empty if the mover stored none as far as the object shows.
    snapshot: String,
    has_ended: bool,
}

impl Transfer {
    fn api(self, context: &Context) -> Api<DynamicObject> {
        match self {
            Self::Copy => context.objects::<PodVolumeBackup>(),
            Self::Movement => context.objects::<DataUpload>(),
        }
    }

    /// The noun for messages.
    fn noun(self) -> &'static str {
        match self {
            Self::Copy => "copies of volumes",
            Self::Movement => "moved data",
        }
    }

    /// None for a DataUpload of another data mover, whose repositories Lifeboat does not know.
    fn shown(self, object: &Value) -> Result<Option<FoundTransfer>, serde_json::Error> {
        match self {
            Self::Copy => read(object).map(|copy| Some(FoundTransfer::of_copy(copy))),
            Self::Movement => read(object).map(|upload: DataUpload| {
                is_built_in(upload.spec.datamover.as_deref()).then(|| FoundTransfer::of_movement(upload))
            }),
        }
    }
}

impl FoundTransfer {
    fn of_copy(copy: PodVolumeBackup) -> Self {
        let has_ended = copy.phase().is_terminal();
        let namespace = copy.spec.pod.namespace.unwrap_or_default();
        Self {
            repository: repository(&copy.spec.backup_storage_location, &namespace),
            snapshot: copy.status.and_then(|status| status.snapshot_id).unwrap_or_default(),
            has_ended,
        }
    }

    fn of_movement(upload: DataUpload) -> Self {
        let has_ended = upload.phase().is_terminal();
        Self {
            repository: repository(&upload.spec.backup_storage_location, &upload.spec.source_namespace),
            snapshot: upload.status.and_then(|status| status.snapshot_id).unwrap_or_default(),
            has_ended,
        }
    }
}

fn repository(location: &str, namespace: &str) -> RepositoryKey {
    repositories::key(&LocationName::new(location), &NamespaceName::new(namespace))
}

impl Undoing<'_> {
    /// Undoes copies of pod volumes. `listed`: also those in the list in storage.
    pub(super) async fn discard_copies(&self, listed: bool, left: &mut Left) {
        let known = self.copies.iter().map(|(name, object)| (name.clone(), object.clone()));
        let mut known: BTreeMap<String, Value> = known.collect();
        if let Some(storage) = self.storage.filter(|_| listed) {
            match list::<Value>(storage.store(), &storage.files.volume_copies()).await {
                Ok(all) => {
                    let own = all.into_iter().filter(|one| is_of(one, self.uid()));
                    known.extend(own.map(|one| (text(&one, "/metadata/name").to_owned(), one)));
                }
                Err(problem) => left.keep(format!("copies of volumes may be left behind: {problem}")),
            }
        }
        let mut discard = self.discard(Transfer::Copy);
        for (name, object) in known {
            discard.meet(&name, &object);
        }
        discard.run(left).await;
    }

    /// Undoes moved data of CSI snapshots. `listed`: also that in the list of volumes in storage.
    pub(super) async fn discard_movements(&self, listed: bool, left: &mut Left) {
        let mut known = BTreeMap::new();
        if let (Some(storage), true) = (self.storage, listed) {
            match list::<BackupVolumeInfo>(storage.store(), &storage.files.volume_info()).await {
                Ok(volumes) => {
                    known.extend(volumes.iter().filter_map(|one| moved(&storage.location.name, one)));
                }
                Err(problem) => left.keep(format!("moved data may be left behind: {problem}")),
            }
        }
        let discard = Discard { known, ..self.discard(Transfer::Movement) };
        discard.run(left).await;
    }

    fn discard(&self, transfer: Transfer) -> Discard<'_> {
        Discard {
            context: self.context,
            transfer,
            uid: self.uid(),
            known: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            spared: BTreeSet::new(),
            reason: self.text(),
        }
    }
}

/// A volume whose data was moved, from an entry of the list of volumes.
fn moved(location: &str, volume: &BackupVolumeInfo) -> Option<(String, FoundTransfer)> {
    let moved = volume.snapshot_data_movement_info.as_ref().filter(|_| volume.snapshot_data_moved)?;
    let built_in = is_built_in(Some(&moved.data_mover)) && moved.uploader_type == "restic";
    let repository = repository(location, &volume.pvc_namespace);
    let shown = FoundTransfer { repository, snapshot: moved.snapshot_handle.clone(), has_ended: true };
    // A key that no object's name can have, because it contains a slash.
    built_in.then(|| (format!("{}/{}", volume.pvc_namespace, volume.pvc_name), shown))
}

/// Undoes the copies that this pass did not see: those of an earlier attempt whose pods are gone.
pub(in crate::backup) async fn discard_others(
    context: &Context,
    uid: &BackupUid,
    met: &BTreeMap<String, Value>,
) {
    let discard = Discard {
        context,
        transfer: Transfer::Copy,
        uid,
        known: BTreeMap::new(),
        unreadable: BTreeMap::new(),
        spared: met.keys().cloned().collect(),
        reason: "the next attempt of the backup did not find its pod",
    };
    let mut left = Left::default();
    discard.run(&mut left).await;
    for message in &left.messages {
        tracing::warn!(%uid, problem = message, "a copy of a volume is left behind");
    }
}

/// Called before the post hooks of an interrupted attempt run: copies that are still running lose their `Quiesced`
/// consistency.
pub(in crate::backup) async fn lower_consistency(context: &Context, uid: &BackupUid) {
    match objects_of(context, Transfer::Copy, uid).await {
        Ok(found) => {
            let api = context.objects::<PodVolumeBackup>();
            for (name, _) in found.iter().filter(|(_, object)| !has_ended(object)) {
                unquiet(&api, name).await;
            }
        }
        Err(error) => tracing::warn!(error = error.chain(), "cannot list the copies of volumes"),
    }
}

/// The transfers of one kind that are to be cancelled, and whose snapshots are to be forgotten.
struct Discard<'a> {
    context: &'a Context,
    transfer: Transfer,
    uid: &'a BackupUid,
    /// The known transfers by name; the objects may be gone.
    known: BTreeMap<String, FoundTransfer>,
    /// The objects that cannot be read, by name, and why: they are cancelled, and what their movers stored is not known.
    unreadable: BTreeMap<String, String>,
    /// Names of the objects that are kept.
    spared: BTreeSet<String>,
    reason: &'a str,
}

impl Discard<'_> {
    async fn run(mut self, left: &mut Left) {
        // An empty label value would select objects of no backup.
        if self.uid.is_empty() {
            return;
        }
        self.cancel_open(left).await;
        for (name, problem) in &self.unreadable {
            left.keep(format!(
                "{} may be left behind: {name} cannot be read: {problem}",
                self.transfer.noun()
            ));
        }
        left.repositories.extend(self.known.values().map(|shown| shown.repository.clone()));
        let mut made: BTreeMap<&RepositoryKey, Vec<(&str, String)>> = BTreeMap::new();
        for (name, shown) in
            self.known.iter().filter(|(_, shown)| shown.has_ended && !shown.snapshot.is_empty())
        {
            made.entry(&shown.repository).or_default().push((name, shown.snapshot.clone()));
        }
        for (repository, snapshots) in made {
            let ids: Vec<String> = snapshots.iter().map(|(_, id)| id.clone()).collect();
            match in_time(repository, left, forget(self.context, repository, &ids)).await {
                Ok(()) => {
                    for (name, _) in snapshots {
                        self.show_removed(name).await;
                    }
                }
                Err(problem) => left.keep(format!(
                    "snapshots {} are left in the repository of namespace {}: {problem}",
                    ids.join(", "),
                    repository.name()
                )),
            }
        }
    }

    /// Records an object as it is shown.
    fn meet(&mut self, name: &str, object: &Value) {
        match self.transfer.shown(object) {
            Ok(Some(shown)) => drop(self.known.insert(name.to_owned(), shown)),
            Ok(None) => {}
            Err(error) => drop(self.unreadable.insert(name.to_owned(), error.to_string())),
        }
    }

    /// The names of the transfers that may be running.
    fn open(&self) -> Vec<String> {
        let open = self.known.iter().filter(|(_, shown)| !shown.has_ended).map(|(name, _)| name);
        open.chain(self.unreadable.keys()).cloned().collect()
    }

    /// Lists the objects, and cancels the running ones: their controller forgets what their movers stored.
    async fn cancel_open(&mut self, left: &mut Left) {
        let (mut cancelled, mut problems) = (BTreeSet::new(), Vec::new());
        let api = self.transfer.api(self.context);
        // The second iteration finds transfers that ended before they were cancelled.
        for _ in 0..2 {
            problems.clear();
            match objects_of(self.context, self.transfer, self.uid).await {
                Ok(found) => {
                    for (name, object) in found {
                        if !self.spared.contains(&name) {
                            self.meet(&name, &object);
                        }
                    }
                }
                Err(error) => {
                    let noun = self.transfer.noun();
                    problems.push(format!("{noun} may be left behind: {}", error.chain()));
                }
            }
            for name in self.open() {
                if cancelled.insert(name.clone())
                    && let Err(error) = transfers::cancel(&api, &name).await
                {
                    left.keep(format!("{} may still run: {}", self.transfer.noun(), error.chain()));
                }
            }
            if cancelled.is_empty() && problems.is_empty() {
                break;
            }
        }
        left.is_worth_a_try |= !problems.is_empty();
        for problem in problems {
            left.keep(problem);
        }
    }

    /// Writes into the object, if it exists, that its snapshot was removed.
    async fn show_removed(&self, name: &str) {
        let message = format!("{}: its snapshot was removed", self.reason);
        let mut patch = status::failed(&message, self.context.now());
        patch["status"]["snapshotID"] = Value::Null;
        let api = self.transfer.api(self.context);
        let _ = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }
}

/// The objects of the Backup with this UID, by name.
async fn objects_of(
    context: &Context,
    transfer: Transfer,
    uid: &BackupUid,
) -> Result<BTreeMap<String, Value>, ApiError> {
    let params = ListParams::default().labels(&format!("{}={uid}", names::BACKUP_UID));
    let listed = match transfer.api(context).list(&params).await.attempt(format!("list {}", transfer.noun()))
    {
        Ok(listed) => listed.items,
        // If the kinds are not installed, no transfer was ever started.
        Err(error) if error.is_not_found() => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let all = listed.iter().map(|one| (one.name_any(), objects::to_json(one)));
    // Filtered here as well, in case the server ignores the selector.
    Ok(all.filter(|(_, object)| is_of(object, uid)).collect())
}

fn is_of(object: &Value, uid: &BackupUid) -> bool {
    !uid.is_empty() && object["metadata"]["labels"][names::BACKUP_UID] == uid.as_str()
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
        discard_others(&cluster.context, &BackupUid::new("b-1"), &seen).await;
        assert_eq!(snapshots(&cluster, "shop").await, [met]);
        let object = |name: &str| cluster.get("podvolumebackups", name).unwrap();
        assert_eq!(object("met")["status"]["phase"], "Completed");
        assert_eq!(object("open")["spec"]["cancel"], true);
        let status = &object("other")["status"];
        assert_eq!(status["phase"], "Failed");
        assert!(status["message"].as_str().unwrap().ends_with("its snapshot was removed"), "{status}");
    }
}
