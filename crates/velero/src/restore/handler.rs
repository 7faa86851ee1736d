//! What a Velero restore does with each item: volumes and claims, plugin actions, hooks in pods, copies of volumes.
//! Takes a validated job, returns the results; the controller calls it. The items run through [`lifeboat_items`], for
//! a restore and for a dry run.

mod actions;
mod hooks;
mod idle;
mod journal;
mod maker;
mod native;
mod operations;
mod pod_volume_objects;
mod pod_volumes;
mod readiness;
pub(crate) mod report;
mod source;
mod start;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lifeboat_api::velero::{Restore, names};
use lifeboat_cluster::write::Target;
use lifeboat_plan::items::existing::{is_new, is_ours};
use lifeboat_plan::items::{sanitise, trust};
use lifeboat_plan::velero::pod_volumes as marks;
use lifeboat_plan::velero::restore::hooks::{RestoreHooks, is_in_annotations};
use lifeboat_plan::velero::restore::volumes::DataIn;
use lifeboat_plugin::actions::Intent;
use serde_json::Value;

use crate::lookup::ActionLookup;
use lifeboat_control::{Clock, locked};
use lifeboat_items::outcome::{ItemOutcome, Notes};
use lifeboat_items::pipeline::handler::{ItemHandler, Transformed};
use lifeboat_items::pipeline::item::WorkItem;
use lifeboat_items::pipeline::run::Run;

use actions::{Acted, Actions};
use hooks::PodHooks;
use native::Volumes;

pub(crate) use journal::{Begun, Journal};
pub(crate) use maker::{OpenVolume, Owner, Processes, VolumeMaker};
pub(crate) use native::{NativeError, NativeVolumes, PreviewedVolumes};
pub(crate) use pod_volume_objects::end_open;
pub(crate) use pod_volumes::{Filler, VolumeKey};
pub(crate) use report::Report;
#[cfg(test)]
pub(crate) use report::RestoredItems;
pub(crate) use source::ArchiveItems;
pub(crate) use start::{Job, Previewed, Times, Tools, preview, restore};

/// Handles the items of one Restore.
pub(crate) struct VeleroHandler {
    restore: Restore,
    archive: Arc<ArchiveItems>,
    /// Where the backup has the data of each volume, by the volume's name.
    volumes: BTreeMap<String, DataIn>,
    /// Whether volume data is restored.
    wants_data: bool,
    /// Hooks that run in restored pods.
    hooks: RestoreHooks,
    actions: Actions,
    lookup: ActionLookup,
    /// Operations that earlier attempts started.
    begun: Begun,
    /// Volumes that are newly provisioned for their claims.
    provisioned: Mutex<BTreeSet<String>>,
    /// Claims that are restored from snapshots: namespace and name in the cluster.
    filled: Mutex<BTreeSet<(String, String)>>,
    /// Volumes that are created from plugin snapshots.
    native: Mutex<Volumes>,
    maker: Option<Arc<dyn NativeVolumes>>,
    filler: Option<Arc<Filler>>,
    /// What a restore does besides creating objects; None in a dry run.
    live: Option<Live>,
    times: Times,
    clock: Clock,
}

/// What a restore writes and runs besides the objects of its items. A dry run has none of it.
struct Live {
    report: Arc<Report>,
    journal: Arc<Journal>,
    hooks: Arc<PodHooks>,
}

impl VeleroHandler {
    fn name(&self) -> &str {
        self.restore.metadata.name.as_deref().unwrap_or_default()
    }

    fn intent(&self) -> Intent {
        if self.live.is_some() { Intent::Restore } else { Intent::Preview }
    }

    /// Records that a claim gets its data from a snapshot.
    fn fills(&self, item: &WorkItem) {
        let claim = (item.target.clone().unwrap_or_default(), item.id.name.clone());
        locked(&self.filled).insert(claim);
    }

    /// Whether this restore created an object: it has the restore's label, and is younger than the Restore.
    fn made(&self, found: &Value) -> bool {
        let begun = self.restore.metadata.creation_timestamp.as_ref().map(|begun| begun.0);
        is_ours(found, (names::RESTORE_NAME, self.name())) && is_new(found, begun)
    }
}

#[async_trait]
impl ItemHandler for VeleroHandler {
    async fn transform(
        &self,
        run: &Arc<Run>,
        item: &WorkItem,
        original: Value,
        notes: &mut Notes,
    ) -> Result<Transformed, ItemOutcome> {
        let applicable = self.actions.for_type(&item.id.resource);
        let untrusted = run.untrusted.as_ref().map(|untrusted| untrusted.location.as_str());
        let untrusted_pod = untrusted.filter(|_| item.is("pods"));
        // Actions get the item as it is in the backup.
        let from_backup = (!applicable.is_empty()).then(|| {
            let mut copy = original.clone();
            if untrusted_pod.is_some() {
                drop_hooks(&mut copy);
            }
            if untrusted.is_some() {
                volumes::drop_snapshot(item, &mut copy);
            }
            copy
        });
        let mut object = original;
        volumes::volume(self, run, item, &mut object, notes).await?;
        if let Some(location) = untrusted_pod
            && drop_hooks(&mut object)
        {
            notes.warn(trust::hooks_left_out(&item.resource_id(), location));
        }
        let taken = sanitise::strip(&mut object)
            .map_err(|error| notes.fail(format!("error restoring {}: {error}", item.resource_id())))?;
        match &self.filler {
            Some(filler) if item.is("pods") => filler.prepare(self, run, item, &mut object, notes).await,
            // The pod of an earlier restore waited for data that never arrives now.
            None if item.is("pods") => marks::mark(&mut object, None),
            _ => {}
        }
        if let Some(from_backup) = &from_backup {
            let acted = Acted { handler: self, run, item, from_backup };
            actions::run(&acted, &applicable, &mut object, notes).await?;
        }
        volumes::claim(self, run, item, &mut object, notes).await;
        Ok(Transformed { object, taken })
    }

    fn mark(&self, object: &mut Value, namespace: Option<&str>) {
        let backup = self.restore.spec.backup_name.as_deref().unwrap_or_default();
        let names = [(names::BACKUP_NAME, backup), (names::RESTORE_NAME, self.name())];
        sanitise::mark(object, namespace, &names);
    }

    fn is_ours(&self, found: &Value) -> bool {
        self.made(found)
    }

    async fn created(&self, item: &WorkItem, target: &Target, object: &Value, notes: &mut Notes) {
        if !item.is("pods") {
            return;
        }
        if let Some(filler) = &self.filler {
            filler.begin(target, object, notes).await;
        }
        if let Some(live) = &self.live {
            live.hooks.begin(self.hooks.exec(object, true), target, object);
        }
    }

    fn met_another(&self, item: &WorkItem, target: &Target, notes: &mut Notes) {
        if let Some(filler) = self.filler.as_ref().filter(|_| item.is("pods")) {
            filler.refuse(target, notes);
        }
    }
}

/// Removes a pod's own restore hooks; returns whether there were any.
fn drop_hooks(pod: &mut Value) -> bool {
    let found = is_in_annotations(pod);
    if let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.contains("hook.restore.velero.io/"));
    }
    found
}
