//! Takes snapshots of volumes with volume plugins, and adopts those of an interrupted attempt. Called by the pass for
//! each PersistentVolume.

use kube::ResourceExt;
use lifeboat_archive::documents::{NativeSnapshot, NativeSnapshotSpec, NativeSnapshotStatus};
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::velero::backup::snapshots::{tags, zone};
use lifeboat_plan::velero::volume_plugin::stored;
use lifeboat_plugin::ActionError;
use lifeboat_plugin::volume::{ProgressOf, SnapshotRequest};
use serde_json::Value;

use super::{AT_ONCE, COMPLETED, FAILED, SnapshotEntry, Unwanted};
use crate::backup::journal::NotStarted;
use crate::backup::pass::{About, Pass, longest};
use crate::snapshot_locations::OpenSnapshotter;
use crate::volume_plugin::{
    self, CallError, Called, DatedClient, Kind, Operation, OperationState, PACE, Subject,
};

/// Why a volume has no snapshot.
#[derive(Debug, thiserror::Error)]
enum NotTaken {
    #[error("cannot ask for the volume's type: {0}")]
    Type(ActionError),
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
    #[error(transparent)]
    Call(CallError),
    /// The plugin gave the snapshot up after the call.
    #[error("snapshot {snapshot}: {message}")]
    Operation { snapshot: String, message: String },
}

impl Pass {
    /// Takes the snapshot of a volume, if it is requested and a snapshotter recognises the volume.
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
                Unwanted::Unknown(message) => {
                    self.report.error(&About::Item(id), "Cannot decide about a snapshot", Some(&message));
                }
            }
            return;
        }
        let Some((chosen, volume_id)) = self.claimed(id, volume).await else { return };
        if let Err(error) = self.take_snapshot(id, volume, chosen, volume_id).await {
            let message = "Error taking a snapshot of the volume";
            self.report.error(&About::Item(id), message, Some(&error.to_string()));
        }
    }

    /// The first snapshotter that recognises the volume, and the ID that it gives the volume.
    async fn claimed(&self, id: &ItemId, volume: &Value) -> Option<(usize, String)> {
        let all = &self.snapshotters;
        for (place, (open, _)) in all.open.iter().enumerate() {
            match open.snapshotter.volume_id(volume).await {
                Ok(Some(volume_id)) if !volume_id.is_empty() => return Some((place, volume_id)),
                Ok(_) => {}
                Err(error) => {
                    let message =
                        format!("Volume snapshot location {}: cannot ask for the volume", open.location);
                    self.report.error(&About::Item(id), &message, Some(&error.to_string()));
                }
            }
        }
        let mut reason =
            format!("no snapshotter of the volume snapshot locations ({}) knows it", all.names());
        for (_, message) in &all.unusable {
            reason = format!("{reason}; {message}");
        }
        if all.unusable.is_empty() {
            self.report.info_about(id, &format!("No snapshot is taken: {reason}"));
        } else {
            // One of those may be responsible for the volume: upstream counts an error as well.
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
    ) -> Result<(), NotTaken> {
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
        // A plugin that reports progress accepts parallel calls; one of upstream's SDK gets one call after the other.
        let several = matches!(open.snapshotter.reports_progress().await, Ok(true));
        let turn = places.acquire_many(if several { 1 } else { AT_ONCE });
        let Some(Ok(_turn)) = self.unless_stopped(turn).await else { return Ok(()) };
        let zone = zone(volume);
        let mut snapshot = self.new_snapshot(open, &name, &volume_id, &zone).await?;
        let begun = SnapshotEntry { snapshot: snapshot.clone(), object: subject.name() };
        self.journal.note_snapshot(&begun).await.map_err(NotStarted)?;
        self.report.info_about(id, &format!("Taking a snapshot in location {}", open.location));
        let request = SnapshotRequest { volume_id, zone, tags: tags(self.backup.labels(), &backup, &name) };
        let operation = Operation {
            client: DatedClient { client: &self.client, clock: &self.clock },
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
                let message = format!("Snapshot {made} was taken, but could not be recorded in the journal");
                self.report.warning(&About::Item(id), &message, Some(&error.to_string()));
            }
        }
        self.keep(id, snapshot, &called)
    }

    /// The record of a snapshot before the plugin is called.
    async fn new_snapshot(
        &self,
        open: &OpenSnapshotter,
        name: &str,
        volume_id: &str,
        zone: &str,
    ) -> Result<NativeSnapshot, NotTaken> {
        let info = open.snapshotter.volume_info(volume_id, zone).await;
        let info = info.map_err(NotTaken::Type)?;
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

    /// Records the result of a call. The error says why the volume has no snapshot.
    fn keep(&self, id: &ItemId, mut snapshot: NativeSnapshot, called: &Called) -> Result<(), NotTaken> {
        let outcome = match (&called.made, &called.standing) {
            (Err(error), _) => Err(NotTaken::Call(error.clone())),
            (Ok(made), OperationState::Failed(message)) => {
                Err(NotTaken::Operation { snapshot: made.clone(), message: message.clone() })
            }
            (Ok(made), standing) => {
                let rest =
                    if *standing == OperationState::Open { "; its plugin has not finished it" } else { "" };
                self.report.info_about(id, &format!("Took snapshot {made}{rest}"));
                Ok(())
            }
        };
        if outcome.is_err() {
            FAILED.clone_into(&mut snapshot.status.phase);
        }
        let mut made = self.made();
        made.taken.open += usize::from(called.standing == OperationState::Open);
        made.taken.objects.extend(called.object.as_ref().map(stored));
        made.taken.snapshots.insert(id.name.clone(), snapshot);
        outcome
    }

    /// Keeps snapshots in the list that an interrupted attempt took of volumes which no longer exist, so that they
    /// are deleted with the backup.
    pub(in crate::backup) fn keep_unused_snapshots(&self) {
        for (volume, entry) in &self.snapshotters.earlier {
            let (Some(id), false) = (entry.id(), self.made().taken.snapshots.contains_key(volume)) else {
                continue;
            };
            let message = format!(
                "An interrupted attempt of this backup took snapshot {id} of volume {volume}, which is no longer part of it; the snapshot is deleted with the backup"
            );
            self.report.warning(&About::Server, &message, None);
            self.made().taken.snapshots.insert(volume.clone(), entry.snapshot.clone());
        }
    }

    /// Adopts the snapshot that an interrupted attempt took. If it is unknown whether the snapshot exists, that is
    /// reported.
    async fn adopt(&self, id: &ItemId, subject: &Subject) -> bool {
        let Some(entry) = self.snapshotters.earlier.get(&id.name) else { return false };
        let mut entry = entry.clone();
        let api = volume_plugin::api(&self.client, Kind::Backup, &self.snapshotters.namespace);
        let object = api.get_opt(&entry.object).await.ok().flatten();
        let mut object = object.map(|object| lifeboat_cluster::objects::to_json(&object));
        if entry.id().is_none() {
            let client = DatedClient { client: &self.client, clock: &self.clock };
            // The VolumePluginBackup may have more recent information than the journal, and the plugin's own record
            // more than both.
            let since = self.backup.status.as_ref().and_then(|status| status.start_timestamp.as_ref());
            if let Some(since) = since
                && let Some(own) =
                    volume_plugin::left_by_plugin(client, subject, &entry.object, since.0).await
            {
                object = Some(own);
            }
            let known = object.as_ref().and_then(|object| object.pointer("/status/snapshotID")?.as_str());
            if let Some(known) = known.filter(|known| !known.is_empty()) {
                known.clone_into(&mut entry.snapshot.status.provider_snapshot_id);
                COMPLETED.clone_into(&mut entry.snapshot.status.phase);
                entry.object = object.as_ref().map(name_of).unwrap_or_default();
                if let Err(error) = self.journal.note_snapshot(&entry).await {
                    let message =
                        "The snapshot of an interrupted attempt could not be recorded in the journal";
                    self.report.warning(&About::Item(id), message, Some(&error.to_string()));
                }
            }
        }
        let Some(made) = entry.id().map(str::to_owned) else {
            let message = format!(
                "An interrupted attempt of this backup began a snapshot of volume {} in location {} and it is unknown whether that snapshot exists; look for one with the tags velero.io/backup={} and velero.io/pv={} beside the one that is taken now",
                id.name, entry.snapshot.spec.location, entry.snapshot.spec.backup_name, id.name
            );
            self.report.warning(&About::Item(id), &message, None);
            return false;
        };
        let standing = object
            .as_ref()
            .map_or(OperationState::Completed, lifeboat_plan::velero::volume_plugin::operation_state);
        if let OperationState::Failed(_) = standing {
            FAILED.clone_into(&mut entry.snapshot.status.phase);
            self.made().taken.failed_before.push(entry.snapshot);
            return false;
        }
        self.report.info_about(id, &format!("Snapshot {made} of an interrupted attempt is adopted"));
        let called = Called { made: Ok(made), standing, object };
        // A snapshot that did not fail cannot return an error here.
        let _ = self.keep(id, entry.snapshot, &called);
        true
    }
}

fn name_of(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}
