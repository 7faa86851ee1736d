//! A PersistentVolume whose data the backup holds as a snapshot of a volume plugin: a volume is made from it, unless the
//! cluster has the PersistentVolume; the object is restored with that volume in it. Upstream's rules; called by
//! [`super::volumes`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lifeboat_archive::documents::{NativeSnapshotInfo, RestoreVolumeInfo};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::restore::existing::is_ours;
use lifeboat_plan::restore::native::{Snapshot, moves, other_name, rename};
use lifeboat_plan::restore::sanitise;
use lifeboat_plugin::actions::Lookup;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::maker::OpenVolume;
use super::report::Notes;
use crate::items::existing::is_new;
use crate::items::item::Subject;
use crate::items::pace::Pace;
use crate::items::run::{Run, locked};

/// What came of the volumes with snapshots.
#[derive(Default)]
pub(crate) struct Volumes {
    /// Those that have another name now, by the one that they had.
    pub(crate) renamed: BTreeMap<String, String>,
    /// Those that could not be made.
    pub(crate) failed: BTreeSet<String>,
    pub(crate) infos: Vec<RestoreVolumeInfo>,
    /// Claims that are filled from CSI snapshots, by their places in the cluster.
    pub(crate) filled: BTreeSet<(String, String)>,
    /// What plugins go on with.
    pub(crate) open: Vec<OpenVolume>,
}

/// Whether the object goes on; `object` then has the volume that was made.
pub(crate) async fn volume(run: &Arc<Run>, subject: &Subject, object: &mut Value, notes: &mut Notes) -> bool {
    match make(run, subject, object, notes).await {
        Ok(()) => true,
        Err(words) => {
            locked(&run.native).failed.insert(subject.id.name.clone());
            notes.error(format!("error executing PVAction for {}: {words}", subject.resource_id()));
            false
        }
    }
}

async fn make(
    run: &Arc<Run>,
    subject: &Subject,
    object: &mut Value,
    notes: &mut Notes,
) -> Result<(), String> {
    let own = &subject.id.name;
    let found = settled(run, subject, own).await?;
    let ours = |found: &Value| is_ours(found, run.name()) && is_new(run, found);
    let mut name = own.clone();
    let mut there = found.as_ref();
    let other;
    if found.as_ref().is_some_and(|found| !ours(found)) && moves(object, &run.valid.mapping) {
        name = other_name(run.restore.metadata.uid.as_deref().unwrap_or_default(), own);
        other = settled(run, subject, &name).await?;
        there = other.as_ref();
    }
    sanitise::move_claim(object, &run.valid.mapping);
    sanitise::unbind(object);
    if let Some(there) = there {
        // An earlier attempt of this restore made it, or it is somebody else's and stays.
        if !ours(there) {
            notes.warn(format!(
                "{} is in the cluster already: no volume was made from its snapshot",
                subject.resource_id()
            ));
        }
        keep_name(run, object, own, &name);
        return Ok(());
    }
    let Some(maker) = &run.maker else { return Err("no volume snapshotters can be used here".to_owned()) };
    let snapshot = maker.snapshot_of(own)?;
    run.report.info("Restoring persistent volume from snapshot.", &subject.id);
    // It may take hours: others go on.
    run.wait(subject.work);
    let made = maker.make(object, snapshot, &name).await?;
    *object = made.volume;
    if let Some(words) = made.doubt {
        notes.error(words);
    }
    let given = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(own).to_owned();
    // A snapshotter may give the volume another name itself.
    let name = if given == *own { name } else { given };
    keep_name(run, object, own, &name);
    let mut native = locked(&run.native);
    native.infos.push(info(object, snapshot, &name));
    native.open.extend(made.open);
    Ok(())
}

fn keep_name(run: &Run, object: &mut Value, own: &str, name: &str) {
    if own != name {
        rename(object, own, name);
        locked(&run.native).renamed.insert(own.to_owned(), name.to_owned());
    }
}

/// The volume of this name in the cluster. One that is going is waited for.
async fn settled(run: &Arc<Run>, subject: &Subject, name: &str) -> Result<Option<Value>, String> {
    let id = ItemId::cluster(GroupResource::new("", "persistentvolumes"), name);
    let (start, mut pace) = (Instant::now(), Pace::default());
    loop {
        let found = run.lookup.get(&id).await.map_err(|error| error.to_string())?;
        if !found.as_ref().is_some_and(is_going) {
            return Ok(found);
        }
        if start.elapsed() >= run.times.terminating {
            return Err(format!(
                "timeout reached waiting for persistent volume {name} to delete (--terminating-resource-timeout)"
            ));
        }
        run.wait(subject.work);
        sleep(pace.next()).await;
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
