//! Snapshots of volumes in a pass: a PersistentVolume that goes into the backup is offered to the snapshotters of the
//! backup's locations; the first that knows it takes the snapshot, before the item counts as finished. Nothing that goes
//! wrong here stops the pass: it is an error of that volume.
//!
//! The journal knows of a snapshot before the call and its name after it, so that a second attempt makes none twice.

pub(in crate::backup) mod follow;
pub(in crate::backup) mod open;
mod take;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lifeboat_archive::documents::{NativeSnapshot, NativeSnapshotInfo};
use lifeboat_plan::velero::backup::volumes::VolumeBook;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};

use crate::snapshot_locations::{OpenSnapshotter, SnapshotterError};

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
    pub(crate) fn add(&mut self, location: &str, opened: Result<OpenSnapshotter, SnapshotterError>) {
        match opened {
            Ok(snapshotter) => {
                self.open.push((snapshotter, Semaphore::new(usize::try_from(AT_ONCE).unwrap_or(1))));
            }
            Err(error) => self.unusable.push((location.to_owned(), error.chain())),
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

/// What the pods of a namespace mount, or why they cannot be listed.
type Pods = Result<Arc<VolumeBook>, String>;

/// Why no snapshot is taken.
pub(in crate::backup) enum Unwanted {
    Because(String),
    /// It cannot be decided.
    Unknown(String),
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
