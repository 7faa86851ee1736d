//! A PersistentVolume whose data the backup has as a plugin snapshot: a volume is created from the snapshot, unless
//! the PersistentVolume exists in the cluster; the object is restored with the new volume in it. Follows upstream's
//! rules; called by [`super::volumes`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use lifeboat_archive::documents::{NativeSnapshotInfo, RestoreVolumeInfo};
use lifeboat_cluster::lookup;
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::items::sanitise;
use lifeboat_plan::velero::restore::native::{NoSnapshot, Snapshot, moves, other_name, rename, snapshot_of};
use serde_json::Value;
use tokio::time::Instant;

use super::VeleroHandler;
use super::maker::OpenVolume;
use crate::volume_plugin::CallError;
use lifeboat_control::locked;
use lifeboat_items::effects::Awaited;
use lifeboat_items::outcome::{ItemOutcome, Notes};
use lifeboat_items::pace::Pace;
use lifeboat_items::pipeline::item::WorkItem;
use lifeboat_items::pipeline::run::Run;

/// Why no volume was created from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NativeError {
    #[error("no volume snapshotters can be used here")]
    NoSnapshotters,
    #[error(transparent)]
    NoSnapshot(#[from] NoSnapshot),
    #[error(transparent)]
    Call(#[from] CallError),
    /// The cluster, the location or the plugin refused it.
    #[error("{0}")]
    Refused(String),
    #[error("timeout reached waiting for persistent volume {0} to delete (--terminating-resource-timeout)")]
    Terminating(String),
}

impl From<String> for NativeError {
    fn from(message: String) -> Self {
        Self::Refused(message)
    }
}

/// Creates volumes from plugin snapshots.
#[async_trait]
pub(crate) trait NativeVolumes: Send + Sync {
    /// The snapshot of a volume.
    fn snapshot_of(&self, volume: &str) -> Result<&Snapshot, NativeError>;
    /// Creates a volume for the PersistentVolume `volume`, which will be called `name`.
    async fn make(&self, volume: &Value, snapshot: &Snapshot, name: &str) -> Result<MadeVolume, NativeError>;
}

/// A volume that was created from a snapshot.
pub(crate) struct MadeVolume {
    /// The PersistentVolume with it.
    pub(crate) volume: Value,
    /// Set if the plugin has not finished the volume.
    pub(crate) open: Option<OpenVolume>,
    /// A warning about something that is unknown about the volume.
    pub(crate) doubt: Option<String>,
}

/// The volumes of a dry run: the snapshot must exist, and nothing is created from it.
pub(crate) struct PreviewedVolumes(pub(crate) Result<Vec<Snapshot>, NativeError>);

#[async_trait]
impl NativeVolumes for PreviewedVolumes {
    fn snapshot_of(&self, volume: &str) -> Result<&Snapshot, NativeError> {
        Ok(snapshot_of(self.0.as_ref().map_err(Clone::clone)?, volume)?)
    }

    async fn make(&self, volume: &Value, _: &Snapshot, _: &str) -> Result<MadeVolume, NativeError> {
        Ok(MadeVolume { volume: volume.clone(), open: None, doubt: None })
    }
}

/// The results of volumes with plugin snapshots.
#[derive(Default)]
pub(crate) struct Volumes {
    /// Volumes that were renamed, by their old names.
    pub(crate) renamed: BTreeMap<String, String>,
    /// Volumes that could not be created.
    pub(crate) failed: BTreeSet<String>,
    pub(crate) infos: Vec<RestoreVolumeInfo>,
    /// Claims that are restored from CSI snapshots, by namespace and name in the cluster.
    pub(crate) filled: BTreeSet<(String, String)>,
    /// Volumes that plugins have not finished.
    pub(crate) open: Vec<OpenVolume>,
}

/// Creates the volume, and puts it into `object`.
pub(super) async fn volume(
    handler: &VeleroHandler,
    run: &Arc<Run>,
    item: &WorkItem,
    object: &mut Value,
    notes: &mut Notes,
) -> Result<(), ItemOutcome> {
    make(handler, run, item, object, notes).await.map_err(|error| {
        locked(&handler.native).failed.insert(item.id.name.clone());
        notes.fail(format!("error executing PVAction for {}: {error}", item.resource_id()))
    })
}

async fn make(
    handler: &VeleroHandler,
    run: &Arc<Run>,
    item: &WorkItem,
    object: &mut Value,
    notes: &mut Notes,
) -> Result<(), NativeError> {
    let own = &item.id.name;
    let found = settled(run, item, own).await?;
    let mut name = own.clone();
    let mut there = found.as_ref();
    let other;
    if found.as_ref().is_some_and(|found| !handler.made(found)) && moves(object, &run.rules.mapping) {
        name = other_name(handler.restore.metadata.uid.as_deref().unwrap_or_default(), own);
        other = settled(run, item, &name).await?;
        there = other.as_ref();
    }
    sanitise::move_claim(object, &run.rules.mapping);
    sanitise::unbind(object);
    if let Some(there) = there {
        // An earlier attempt of this restore created it, or it is foreign and is not touched.
        if !handler.made(there) {
            notes.warn(format!(
                "{} exists in the cluster already: no volume was created from its snapshot",
                item.resource_id()
            ));
        }
        keep_name(handler, object, own, &name);
        return Ok(());
    }
    from_snapshot(handler, run, item, object, name, notes).await
}

async fn from_snapshot(
    handler: &VeleroHandler,
    run: &Run,
    item: &WorkItem,
    object: &mut Value,
    name: String,
    notes: &mut Notes,
) -> Result<(), NativeError> {
    let own = &item.id.name;
    let maker = handler.maker.as_ref().ok_or(NativeError::NoSnapshotters)?;
    let snapshot = maker.snapshot_of(own)?;
    run.recorder.info("Restoring persistent volume from snapshot.", Some(&item.id));
    // This may take hours, so the item leaves its barrier.
    run.wait(item.work);
    let made = maker.make(object, snapshot, &name).await?;
    *object = made.volume;
    if let Some(doubt) = made.doubt {
        notes.error(doubt);
    }
    let given = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(own).to_owned();
    // A snapshotter may rename the volume itself.
    let name = if given == *own { name } else { given };
    keep_name(handler, object, own, &name);
    let mut native = locked(&handler.native);
    native.infos.push(info(object, snapshot, &name));
    native.open.extend(made.open);
    Ok(())
}

fn keep_name(handler: &VeleroHandler, object: &mut Value, own: &str, name: &str) {
    if own != name {
        rename(object, own, name);
        locked(&handler.native).renamed.insert(own.to_owned(), name.to_owned());
    }
}

/// The volume with this name in the cluster. If it is being deleted, waits until it is gone.
async fn settled(run: &Run, item: &WorkItem, name: &str) -> Result<Option<Value>, NativeError> {
    let id = ItemId::cluster(GroupResource::new("", "persistentvolumes"), name);
    let Some(target) = lookup::target(&run.catalogue, &id) else { return Ok(None) };
    let (start, mut pace) = (Instant::now(), Pace::default());
    loop {
        let found = run.effects.get(&target).await.map_err(|error| error.chain())?;
        if !found.as_ref().is_some_and(is_going) {
            return Ok(found);
        }
        if start.elapsed() >= run.limits.terminating {
            return Err(NativeError::Terminating(name.to_owned()));
        }
        run.wait(item.work);
        run.effects.wait(Awaited::Gone(&target), pace.pause()).await;
    }
}

/// Whether a volume is being deleted, or will be because its claim is gone.
fn is_going(volume: &Value) -> bool {
    let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    !text("/metadata/deletionTimestamp").is_empty()
        || (text("/status/phase") == "Released" && text("/spec/persistentVolumeReclaimPolicy") == "Delete")
}

fn info(volume: &Value, snapshot: &Snapshot, name: &str) -> RestoreVolumeInfo {
    let text = |pointer: &str| volume.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    RestoreVolumeInfo {
        pvc_name: text("/spec/claimRef/name"),
        pvc_namespace: text("/spec/claimRef/namespace"),
        pv_name: name.to_owned(),
        restore_method: "NativeSnapshot".to_owned(),
        native_snapshot_info: Some(NativeSnapshotInfo {
            snapshot_handle: snapshot.id.clone(),
            volume_type: snapshot.volume_type.clone(),
            volume_az: snapshot.zone.clone(),
            iops: snapshot.iops.unwrap_or_default().to_string(),
            phase: String::new(),
        }),
        ..RestoreVolumeInfo::default()
    }
}
