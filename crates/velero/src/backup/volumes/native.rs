//! Plugin snapshots in a pass: a PersistentVolume that is backed up is offered to the snapshotters of the backup's
//! snapshot locations; the first that knows the volume takes the snapshot, before the item counts as finished. A
//! failure here does not stop the pass: it is an error of that volume.
//!
//! The journal records a snapshot before the call and its provider ID after it, so that a second attempt takes none
//! twice.

pub(in crate::backup) mod follow;
pub(in crate::backup) mod open;
mod take;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lifeboat_archive::documents::{NativeSnapshot, NativeSnapshotInfo};
use lifeboat_cluster::ApiError;
use lifeboat_plan::velero::backup::volumes::VolumeBook;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};

use crate::snapshot_locations::{OpenSnapshotter, SnapshotterError};

/// How many snapshots a plugin that supports parallel calls takes at once.
const AT_ONCE: u32 = 4;

/// The snapshotters of a backup, in the order of its snapshot locations, and what they made.
#[derive(Default)]
pub(crate) struct Snapshotters {
    open: Vec<(OpenSnapshotter, Semaphore)>,
    /// Snapshot locations that cannot be used, and why.
    unusable: Vec<(String, String)>,
    /// Snapshots that an earlier attempt took or began, by volume.
    earlier: BTreeMap<String, SnapshotEntry>,
    /// Whether volumes of CSI drivers are left to their driver.
    leave_csi: bool,
    /// Lifeboat's namespace.
    namespace: String,
}

impl Snapshotters {
    pub(crate) fn new(namespace: &str, leave_csi: bool, earlier: Vec<SnapshotEntry>) -> Self {
        let earlier = earlier.into_iter().map(|entry| (entry.volume().to_owned(), entry)).collect();
        Self { namespace: namespace.to_owned(), leave_csi, earlier, ..Self::default() }
    }

    /// Adds a snapshot location, or the reason why it cannot be used.
    pub(crate) fn add(&mut self, location: &str, opened: Result<OpenSnapshotter, SnapshotterError>) {
        match opened {
            Ok(snapshotter) => {
                self.open.push((snapshotter, Semaphore::new(usize::try_from(AT_ONCE).unwrap_or(1))));
            }
            Err(error) => self.unusable.push((location.to_owned(), error.chain())),
        }
    }

    /// Whether there is no snapshot location.
    pub(in crate::backup) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn names(&self) -> String {
        self.open.iter().map(|(one, _)| one.location.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// A snapshot in the journal: without the provider's ID while its call runs.
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

    /// The provider's ID of the snapshot, if it is known.
    pub(crate) fn id(&self) -> Option<&str> {
        Some(self.snapshot.status.provider_snapshot_id.as_str()).filter(|id| !id.is_empty())
    }
}

/// The results of the plugin snapshots of a pass.
#[derive(Default)]
pub(in crate::backup) struct Taken {
    /// The snapshots, by volume.
    pub(in crate::backup) snapshots: BTreeMap<String, NativeSnapshot>,
    /// Failed snapshots of earlier attempts: listed, so that they are deleted with the backup.
    failed_before: Vec<NativeSnapshot>,
    /// Why no snapshotter took a snapshot of a volume, by volume.
    pub(in crate::backup) unclaimed: BTreeMap<String, String>,
    /// The VolumePluginBackups.
    pub(in crate::backup) objects: Vec<Value>,
    pub(in crate::backup) open: usize,
}

impl Taken {
    pub(in crate::backup) fn volumes(&self) -> BTreeSet<String> {
        self.snapshots.keys().cloned().collect()
    }

    /// All snapshots that the provider may hold, those that can be restored first.
    pub(in crate::backup) fn listed(self) -> (Vec<NativeSnapshot>, Vec<Value>) {
        (self.snapshots.into_values().chain(self.failed_before).collect(), self.objects)
    }

    pub(in crate::backup) fn failed(&self) -> usize {
        self.snapshots.values().filter(|snapshot| snapshot.status.phase != COMPLETED).count()
    }
}

const COMPLETED: &str = "Completed";
const FAILED: &str = "Failed";

/// The pods of namespaces, listed once each.
#[derive(Default)]
pub(in crate::backup) struct PodsByNamespace(std::sync::Mutex<BTreeMap<String, Arc<OnceCell<Pods>>>>);

/// What the pods of a namespace mount.
type Pods = Result<Arc<VolumeBook>, PodsUnknown>;

/// Why the pods of a namespace cannot be listed. Shared by all volumes of the namespace.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.message())]
pub(in crate::backup) struct PodsUnknown(Arc<ApiError>);

/// Why no snapshot is taken.
pub(in crate::backup) enum Unwanted {
    Because(String),
    /// It cannot be decided whether a snapshot is wanted.
    Unknown(String),
}

/// The entry of a snapshot in the list of volumes.
pub(in crate::backup) fn info(snapshot: &NativeSnapshot) -> NativeSnapshotInfo {
    NativeSnapshotInfo {
        snapshot_handle: snapshot.status.provider_snapshot_id.clone(),
        volume_type: snapshot.spec.volume_type.clone(),
        volume_az: snapshot.spec.volume_az.clone(),
        iops: snapshot.spec.volume_iops.unwrap_or_default().to_string(),
        phase: snapshot.status.phase.clone(),
    }
}
