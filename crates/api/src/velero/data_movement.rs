//! Types shared by the kinds that copy volume data: PodVolumeBackup, PodVolumeRestore, DataUpload and
//! DataDownload.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::string_enum;

string_enum! {
    /// Phases of a transfer of volume data, for all four kinds.
    pub enum DataMovePhase {
        /// Created; the server has not processed it yet.
        New = "New",
        /// The server accepted it and prepares the volume.
        Accepted = "Accepted",
        /// The volume is ready; copying is about to start.
        Prepared = "Prepared",
        /// Data is being copied.
        InProgress = "InProgress",
        /// Cancellation was requested; the mover has not stopped yet.
        Canceling = "Canceling",
        /// Cancelled before it was complete.
        Canceled = "Canceled",
        /// All data was copied.
        Completed = "Completed",
        /// Ended without a usable result; see `message`.
        Failed = "Failed",
    }
}

impl DataMovePhase {
    /// Whether the transfer has ended, successfully or not.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Canceled | Self::Completed | Self::Failed)
    }
}

string_enum! {
    /// Program that reads or writes a repository.
    pub enum UploaderType {
        /// Kopia.
        Kopia = "kopia",
        /// restic.
        Restic = "restic",
        /// Not set; in old objects this means restic.
        Unset = "",
    }
}

string_enum! {
    /// Operating system of a node.
    #[derive(Default)]
    pub enum NodeOs {
        /// Any operating system.
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
    /// Bytes to copy, as known so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<i64>,
    /// Bytes copied so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_done: Option<i64>,
}
