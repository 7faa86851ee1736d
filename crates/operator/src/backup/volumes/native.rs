//! Snapshots of volumes in a pass: a PersistentVolume that goes into the backup is offered to the snapshotters of the
//! backup's locations; the first that knows it takes the snapshot, before the item counts as finished. Nothing that goes
//! wrong here stops the pass: it is an error of that volume.
//!
//! The journal knows of a snapshot before the call and its name after it, so that a second attempt makes none twice.

pub(in crate::backup) mod follow;
pub(in crate::backup) mod open;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use lifeboat_archive::documents::{
    NativeSnapshot, NativeSnapshotInfo, NativeSnapshotSpec, NativeSnapshotStatus,
};
use lifeboat_cluster::list::{ListQuery, Pager, get_raw};
use lifeboat_plan::backup::snapshots::{is_wanted, tags, zone};
use lifeboat_plan::backup::volumes::{VolumeBook, Wishes};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::volume_plugin::stored;
use lifeboat_plugin::volume::{ProgressOf, SnapshotRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};

use crate::backup::locked;
use crate::backup::pass::{About, Pass, longest};
use crate::snapshot_locations::OpenSnapshotter;
use crate::volume_plugin::{self, Called, Kind, Operation, PACE, Standing, Subject};

/// How many snapshots a program takes at once that can do several.
const AT_ONCE: u32 = 4;

/// The snapshotters of a backup, in the order of its locations, and what they made.
#[derive(Default)]
pub(crate) struct Snapshotters {
    open: Vec<(OpenSnapshotter, Semaphore)>,
    /// Locations that cannot be used, and why.
    unusable: Vec<(String, String)>,
    /// What an earlier attempt made or began, by volume.
    earlier: BTreeMap<String, SnapshotEntry>,
    /// Whether volumes of CSI drivers are left to others.
    leave_csi: bool,
    /// Lifeboat's.
    namespace: String,
}

impl Snapshotters {
    pub(crate) fn new(namespace: &str, leave_csi: bool, earlier: Vec<SnapshotEntry>) -> Self {
        let earlier = earlier.into_iter().map(|entry| (entry.volume().to_owned(), entry)).collect();
        Self { namespace: namespace.to_owned(), leave_csi, earlier, ..Self::default() }
    }

    /// One location; an error says why it cannot be used.
    pub(crate) fn add(&mut self, location: &str, opened: Result<OpenSnapshotter, String>) {
        match opened {
            Ok(snapshotter) => {
                self.open.push((snapshotter, Semaphore::new(usize::try_from(AT_ONCE).unwrap_or(1))));
            }
            Err(words) => self.unusable.push((location.to_owned(), words)),
        }
    }

    /// Whether there is any.
    pub(in crate::backup) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn names(&self) -> String {
        self.open.iter().map(|(one, _)| one.location.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// A snapshot in the journal: without a name of the provider's while its call runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SnapshotEntry {
    pub(crate) snapshot: NativeSnapshot,
    /// The VolumePluginBackup.
    #[serde(default)]
    pub(crate) object: String,
}

impl SnapshotEntry {
    pub(crate) fn volume(&self) -> &str {
        &self.snapshot.spec.persistent_volume_name
    }

    /// The provider's name for the snapshot, where it is known.
    pub(crate) fn id(&self) -> Option<&str> {
        Some(self.snapshot.status.provider_snapshot_id.as_str()).filter(|id| !id.is_empty())
    }
}

/// What came of snapshots in a pass.
#[derive(Default)]
pub(in crate::backup) struct Taken {
    /// By volume.
    pub(in crate::backup) snapshots: BTreeMap<String, NativeSnapshot>,
    /// Those of earlier attempts that failed: listed, so that they are deleted with the backup.
    failed_before: Vec<NativeSnapshot>,
    /// Why a volume was not snapshotted that snapshotters were asked for, by volume.
    pub(in crate::backup) unclaimed: BTreeMap<String, String>,
    /// The VolumePluginBackups.
    pub(in crate::backup) objects: Vec<Value>,
    pub(in crate::backup) open: usize,
}

impl Taken {
    pub(in crate::backup) fn volumes(&self) -> BTreeSet<String> {
        self.snapshots.keys().cloned().collect()
    }

    /// All that the provider may have; those that can be restored first.
    pub(in crate::backup) fn listed(self) -> (Vec<NativeSnapshot>, Vec<Value>) {
        (self.snapshots.into_values().chain(self.failed_before).collect(), self.objects)
    }

    pub(in crate::backup) fn failed(&self) -> usize {
        self.snapshots.values().filter(|snapshot| snapshot.status.phase != COMPLETED).count()
    }
}

const COMPLETED: &str = "Completed";
const FAILED: &str = "Failed";

/// Pods of namespaces, asked for once each.
#[derive(Default)]
pub(in crate::backup) struct PodsByNamespace(std::sync::Mutex<BTreeMap<String, Arc<OnceCell<Pods>>>>);

/// What the pods of a namespace mount, or why nobody knows.
type Pods = Result<Arc<VolumeBook>, String>;

impl Pass {
    /// Takes the snapshot of a volume, where somebody wants it and a snapshotter knows the volume.
    pub(in crate::backup) async fn snapshot(&self, id: &ItemId, volume: &Value) {
        let all = &self.snapshotters;
        if all.open.is_empty() && all.unusable.is_empty() {
            return;
        }
        if let Err(reason) = self.snapshot_wanted(volume).await {
            match reason {
                Unwanted::Because(reason) => {
                    self.report.info_about(id, &format!("No snapshot is taken: {reason}"));
                }
                Unwanted::Unknown(words) => {
                    self.report.error(&About::Item(id), "Cannot decide about a snapshot", Some(&words));
                }
            }
            return;
        }
        let Some((chosen, volume_id)) = self.claimed(id, volume).await else { return };
        if let Err(words) = self.take_snapshot(id, volume, chosen, volume_id).await {
            self.report.error(&About::Item(id), "Error taking a snapshot of the volume", Some(&words));
        }
    }

    async fn snapshot_wanted(&self, volume: &Value) -> Result<(), Unwanted> {
        if self.snapshotters.leave_csi && volume["spec"].get("csi").is_some() {
            let words = "volumes of CSI drivers are not for volume snapshotters while EnableCSI is on";
            return Err(Unwanted::Because(words.to_owned()));
        }
        if self.is_for_csi(volume).await.map_err(Unwanted::Unknown)? {
            return Err(Unwanted::Because("its CSI driver takes it with its claim".to_owned()));
        }
        self.wanted(volume).await
    }

    /// What policies, copies of files and the spec say about a snapshot, whoever takes it.
    pub(in crate::backup) async fn wanted(&self, volume: &Value) -> Result<(), Unwanted> {
        let wishes = Wishes::new(&self.backup.spec, self.valid.policies.as_ref());
        let text = |path: &str| volume.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name) = (text("/spec/claimRef/namespace"), text("/spec/claimRef/name"));
        let claim = match wishes.policies {
            Some(_) if !name.is_empty() => self.claim(&namespace, &name).await.map_err(Unwanted::Unknown)?,
            _ => None,
        };
        let pods = if name.is_empty() {
            Arc::default()
        } else {
            self.pods(&namespace).await.map_err(Unwanted::Unknown)?
        };
        is_wanted(volume, claim.as_ref(), &pods, &wishes).map_err(Unwanted::Because)
    }

    async fn claim(&self, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        let resource = GroupResource::new("", "persistentvolumeclaims");
        let Some(kind) = self.catalogue.get(&resource) else { return Ok(None) };
        let found =
            get_raw(&self.client, kind, Some(namespace), name).await.map_err(|error| error.chain())?;
        found.map(|item| serde_json::from_slice(&item.json).map_err(|error| error.to_string())).transpose()
    }

    /// What the pods of a namespace mount.
    async fn pods(&self, namespace: &str) -> Pods {
        let cell = locked(&self.pods.0).entry(namespace.to_owned()).or_default().clone();
        cell.get_or_init(|| self.list_pods(namespace)).await.clone()
    }

    async fn list_pods(&self, namespace: &str) -> Pods {
        let mut book = VolumeBook::default();
        let Some(kind) = self.catalogue.get(&GroupResource::new("", "pods")).cloned() else {
            return Ok(Arc::default());
        };
        let query = ListQuery {
            kind,
            namespace: Some(namespace.to_owned()),
            selector: String::new(),
            page_size: self.page_size,
        };
        let mut pager = Pager::new(self.client.clone(), query);
        while let Some(page) = pager.next().await.map_err(|error| error.chain())? {
            for item in &page.items {
                if let Ok(pod) = serde_json::from_slice::<Value>(&item.json) {
                    book.add_pod(&pod);
                }
            }
        }
        Ok(Arc::new(book))
    }

    /// The first snapshotter that knows the volume, and the volume's name there.
    async fn claimed(&self, id: &ItemId, volume: &Value) -> Option<(usize, String)> {
        let all = &self.snapshotters;
        for (place, (open, _)) in all.open.iter().enumerate() {
            match open.snapshotter.volume_id(volume).await {
                Ok(Some(volume_id)) if !volume_id.is_empty() => return Some((place, volume_id)),
                Ok(_) => {}
                Err(error) => {
                    let words =
                        format!("Volume snapshot location {}: cannot ask for the volume", open.location);
                    self.report.error(&About::Item(id), &words, Some(&error.to_string()));
                }
            }
        }
        let mut reason =
            format!("no snapshotter of the volume snapshot locations ({}) knows it", all.names());
        for (_, words) in &all.unusable {
            reason = format!("{reason}; {words}");
        }
        if all.unusable.is_empty() {
            self.report.info_about(id, &format!("No snapshot is taken: {reason}"));
        } else {
            // One of those may be its own: upstream counts an error as well.
            self.report.error(&About::Item(id), "No snapshot is taken", Some(&reason));
        }
        self.made().taken.unclaimed.insert(id.name.clone(), reason);
        None
    }

    async fn take_snapshot(
        &self,
        id: &ItemId,
        volume: &Value,
        chosen: usize,
        volume_id: String,
    ) -> Result<(), String> {
        let (open, places) = &self.snapshotters.open[chosen];
        let (backup, name) = (self.backup.name_any(), id.name.clone());
        let subject = Subject {
            kind: Kind::Backup,
            namespace: self.snapshotters.namespace.clone(),
            owner: (backup.clone(), self.backup.uid().unwrap_or_default()),
            backup: backup.clone(),
            plugin: open.snapshotter.name().to_owned(),
            location: open.location.clone(),
            volume: name.clone(),
            snapshot_id: String::new(),
        };
        if self.adopt(id, &subject).await {
            return Ok(());
        }
        // A program that reports progress takes several calls at once; a stock one does one after the other.
        let several = matches!(open.snapshotter.reports_progress().await, Ok(true));
        let turn = places.acquire_many(if several { 1 } else { AT_ONCE });
        let Some(Ok(_turn)) = self.unless_stopped(turn).await else { return Ok(()) };
        let zone = zone(volume);
        let mut snapshot = self.new_snapshot(open, &name, &volume_id, &zone).await?;
        let begun = SnapshotEntry { snapshot: snapshot.clone(), object: subject.name() };
        self.journal
            .note_snapshot(&begun)
            .await
            .map_err(|error| format!("it was not begun, because the journal cannot be written: {error}"))?;
        self.report.info_about(id, &format!("Taking a snapshot in location {}", open.location));
        let request = SnapshotRequest { volume_id, zone, tags: tags(self.backup.labels(), &backup, &name) };
        let operation = Operation {
            client: &self.client,
            subject: &subject,
            snapshotter: open.snapshotter.as_ref(),
            of: ProgressOf::Snapshotting(request.clone()),
            limit: longest(&self.backup),
            log: self.report.log(),
            pace: PACE,
        };
        let called = volume_plugin::run(&operation, open.snapshotter.create_snapshot(&request)).await;
        if let Ok(made) = &called.made {
            snapshot.status.provider_snapshot_id.clone_from(made);
            COMPLETED.clone_into(&mut snapshot.status.phase);
            let object = called.object.as_ref().map(name_of).unwrap_or_default();
            let entry = SnapshotEntry { snapshot: snapshot.clone(), object };
            if let Err(error) = self.journal.note_snapshot(&entry).await {
                let words = format!("The snapshot {made} is made; the journal does not have it");
                self.report.warning(&About::Item(id), &words, Some(&error));
            }
        }
        self.keep(id, snapshot, &called)
    }

    /// A snapshot before its call.
    async fn new_snapshot(
        &self,
        open: &OpenSnapshotter,
        name: &str,
        volume_id: &str,
        zone: &str,
    ) -> Result<NativeSnapshot, String> {
        let info = open.snapshotter.volume_info(volume_id, zone).await;
        let info = info.map_err(|error| format!("cannot ask for the volume's type: {error}"))?;
        Ok(NativeSnapshot {
            spec: NativeSnapshotSpec {
                backup_name: self.backup.name_any(),
                backup_uid: self.backup.uid().unwrap_or_default(),
                location: open.location.clone(),
                persistent_volume_name: name.to_owned(),
                provider_volume_id: volume_id.to_owned(),
                volume_type: info.volume_type,
                volume_az: zone.to_owned(),
                volume_iops: info.iops,
            },
            status: NativeSnapshotStatus { phase: "New".to_owned(), ..NativeSnapshotStatus::default() },
        })
    }

    /// Records what a call gave. An error says why the volume has no snapshot.
    fn keep(&self, id: &ItemId, mut snapshot: NativeSnapshot, called: &Called) -> Result<(), String> {
        let outcome = match (&called.made, &called.standing) {
            (Err(words), _) => Err(words.clone()),
            (Ok(made), Standing::Failed(words)) => Err(format!("snapshot {made}: {words}")),
            (Ok(made), standing) => {
                let rest = if *standing == Standing::Open { "; its plugin goes on with it" } else { "" };
                self.report.info_about(id, &format!("Took snapshot {made}{rest}"));
                Ok(())
            }
        };
        if outcome.is_err() {
            FAILED.clone_into(&mut snapshot.status.phase);
        }
        let mut made = self.made();
        made.taken.open += usize::from(called.standing == Standing::Open);
        made.taken.objects.extend(called.object.as_ref().map(stored));
        made.taken.snapshots.insert(id.name.clone(), snapshot);
        outcome
    }

    /// What an interrupted attempt made of volumes that are gone meanwhile stays in the list, so that it is deleted with
    /// the backup.
    pub(in crate::backup) fn keep_unused_snapshots(&self) {
        for (volume, entry) in &self.snapshotters.earlier {
            let (Some(id), false) = (entry.id(), self.made().taken.snapshots.contains_key(volume)) else {
                continue;
            };
            let words = format!(
                "An interrupted attempt of this backup took snapshot {id} of volume {volume}, which is no longer part of it; the snapshot is deleted with the backup"
            );
            self.report.warning(&About::Server, &words, None);
            self.made().taken.snapshots.insert(volume.clone(), entry.snapshot.clone());
        }
    }

    /// Takes over what an interrupted attempt made. What it began and nobody can tell the end of is named.
    async fn adopt(&self, id: &ItemId, subject: &Subject) -> bool {
        let Some(entry) = self.snapshotters.earlier.get(&id.name) else { return false };
        let mut entry = entry.clone();
        let api = volume_plugin::api(&self.client, Kind::Backup, &self.snapshotters.namespace);
        let object = api.get_opt(&entry.object).await.ok().flatten();
        let mut object = object.map(|object| lifeboat_cluster::objects::to_json(&object));
        if entry.id().is_none() {
            // The object may know more than the journal; so may the plugin's own.
            let since = self.backup.status.as_ref().and_then(|status| status.start_timestamp.as_ref());
            if let Some(since) = since
                && let Some(own) =
                    volume_plugin::left_by_plugin(&self.client, subject, &entry.object, since.0).await
            {
                object = Some(own);
            }
            let known = object.as_ref().and_then(|object| object.pointer("/status/snapshotID")?.as_str());
            if let Some(known) = known.filter(|known| !known.is_empty()) {
                known.clone_into(&mut entry.snapshot.status.provider_snapshot_id);
                COMPLETED.clone_into(&mut entry.snapshot.status.phase);
                entry.object = object.as_ref().map(name_of).unwrap_or_default();
                if let Err(error) = self.journal.note_snapshot(&entry).await {
                    let words = "The journal does not have the snapshot of an interrupted attempt";
                    self.report.warning(&About::Item(id), words, Some(&error));
                }
            }
        }
        let Some(made) = entry.id().map(str::to_owned) else {
            let words = format!(
                "An interrupted attempt of this backup began a snapshot of volume {} in location {} and nobody knows whether it exists; look for one with the tags velero.io/backup={} and velero.io/pv={} beside the one that is taken now",
                id.name, entry.snapshot.spec.location, entry.snapshot.spec.backup_name, id.name
            );
            self.report.warning(&About::Item(id), &words, None);
            return false;
        };
        let standing = object.as_ref().map_or(Standing::Completed, lifeboat_plan::volume_plugin::standing);
        if let Standing::Failed(_) = standing {
            FAILED.clone_into(&mut entry.snapshot.status.phase);
            self.made().taken.failed_before.push(entry.snapshot);
            return false;
        }
        self.report.info_about(id, &format!("Snapshot {made} of an interrupted attempt is taken over"));
        let called = Called { made: Ok(made), standing, object };
        // It did not fail.
        let _ = self.keep(id, entry.snapshot, &called);
        true
    }
}

/// Why no snapshot is taken.
pub(in crate::backup) enum Unwanted {
    Because(String),
    /// It cannot be decided.
    Unknown(String),
}

fn name_of(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A snapshot in the list of volumes.
pub(in crate::backup) fn info(snapshot: &NativeSnapshot) -> NativeSnapshotInfo {
    NativeSnapshotInfo {
        snapshot_handle: snapshot.status.provider_snapshot_id.clone(),
        volume_type: snapshot.spec.volume_type.clone(),
        volume_az: snapshot.spec.volume_az.clone(),
        iops: snapshot.spec.volume_iops.unwrap_or_default().to_string(),
        phase: snapshot.status.phase.clone(),
    }
}
