//! What a Velero restore does to each item: volumes and claims, actions of plugins, hooks in pods, copies of volumes. Takes a
//! job that was validated, gives what happened; the controller makes the calls around it. The items run through
//! [`lifeboat_items`], for a restore and for a preview.

mod actions;
mod hooks;
mod idle;
mod journal;
mod maker;
mod native;
mod operations;
mod pod_volume_objects;
mod pod_volumes;
pub(crate) mod report;
mod source;
mod start;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lifeboat_api::velero::Restore;
use lifeboat_cluster::write::Target;
use lifeboat_plan::items::existing::{is_new, is_ours};
use lifeboat_plan::items::{sanitise, trust};
use lifeboat_plan::velero::pod_volumes as marks;
use lifeboat_plan::velero::restore::hooks::{RestoreHooks, is_in_annotations};
use lifeboat_plan::velero::restore::volumes::DataIn;
use lifeboat_plugin::actions::Intent;
use serde_json::Value;

use crate::lookup::ActionLookup;
use lifeboat_control::locked;
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

/// Treats the items of one Restore.
pub(crate) struct VeleroHandler {
    restore: Restore,
    archive: Arc<ArchiveItems>,
    /// How the backup holds the data of each volume, by its name.
    volumes: BTreeMap<String, DataIn>,
    /// Whether data of volumes is wanted.
    wants_data: bool,
    /// Hooks that run in restored pods.
    hooks: RestoreHooks,
    actions: Actions,
    lookup: ActionLookup,
    /// Operations that earlier attempts began.
    begun: Begun,
    /// Volumes that are made anew for their claims.
    provisioned: Mutex<BTreeSet<String>>,
    /// Claims that are filled from snapshots: namespace and name in the cluster.
    filled: Mutex<BTreeSet<(String, String)>>,
    /// Volumes that are made from snapshots.
    native: Mutex<Volumes>,
    maker: Option<Arc<dyn NativeVolumes>>,
    filler: Option<Arc<Filler>>,
    /// What a restore does besides objects; None in a preview.
    live: Option<Live>,
    times: Times,
}

/// What a restore writes and runs besides the objects of its items. A preview has none of it.
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

    /// A claim gets its data from a snapshot.
    fn fills(&self, item: &WorkItem) {
        let claim = (item.target.clone().unwrap_or_default(), item.id.name.clone());
        locked(&self.filled).insert(claim);
    }

    /// Whether this restore made an object: it has its label, and is younger than the Restore.
    fn made(&self, found: &Value) -> bool {
        let begun = self.restore.metadata.creation_timestamp.as_ref().map(|begun| begun.0);
        is_ours(found, self.name()) && is_new(found, begun)
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
        let untrusted_pod = run.untrusted.as_deref().filter(|_| item.is("pods"));
        // Actions see the item as the backup has it.
        let from_backup = (!applicable.is_empty()).then(|| {
            let mut copy = original.clone();
            if untrusted_pod.is_some() {
                drop_hooks(&mut copy);
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
            // The data that an earlier restore had the pod wait for never comes.
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
        sanitise::mark(object, namespace, self.name(), backup);
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

/// Removes a pod's own restore hooks; gives whether there were some.
fn drop_hooks(pod: &mut Value) -> bool {
    let found = is_in_annotations(pod);
    if let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.contains("hook.restore.velero.io/"));
    }
    found
}
