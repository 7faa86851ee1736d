//! What the kinds that copy volume data have in common: PodVolumeBackup, PodVolumeRestore, DataUpload and
//! DataDownload.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::string_enum;

string_enum! {
    /// Where the copying of a volume stands. The same for all four kinds.
    pub enum DataMovePhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// A node has taken it on and prepares the volume.
        Accepted = "Accepted",
        /// The volume is ready; copying is about to start.
        Prepared = "Prepared",
        /// Data is being copied.
        InProgress = "InProgress",
        /// Someone asked for it to be cancelled; it has not stopped yet.
        Canceling = "Canceling",
        /// Stopped before its end because someone asked for it.
        Canceled = "Canceled",
        /// All data is copied.
        Completed = "Completed",
        /// Ended without a usable result; `message` says why.
        Failed = "Failed",
    }
}

impl DataMovePhase {
    /// Whether the copying has ended, well or not.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Canceled | Self::Completed | Self::Failed)
    }
}

string_enum! {
    /// Which program reads or wrote a repository.
    pub enum UploaderType {
        /// Kopia.
        Kopia = "kopia",
        /// restic.
        Restic = "restic",
        /// Not said; old objects mean restic by it.
        Unset = "",
    }
}

string_enum! {
    /// Operating system of a node.
    #[derive(Default)]
    pub enum NodeOs {
        /// Whichever node suits.
        #[default]
        Auto = "auto",
        /// Linux.
        Linux = "linux",
        /// Windows.
        Windows = "windows",
    }
}

/// How much of a volume has been copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataMoveOperationProgress {
    /// Bytes to copy, as known now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Bytes copied so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_done: Option<i64>,
}
