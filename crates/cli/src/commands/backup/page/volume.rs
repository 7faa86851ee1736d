//! One entry of a backup's volume file as `describe` shows it: the volume's name, and the method, consistency, size and
//! rate of its backup.

use jiff::SignedDuration;
use lifeboat_api::common::Time;
use serde::{Deserialize, Serialize};

use crate::units::bytes;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    #[serde(skip_serializing_if = "String::is_empty")]
    pvc_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pvc_namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pv_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    backup_method: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    restore_method: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    snapshot_data_moved: bool,
    /// `Snapshot`, `Quiesced` or `Live`.
    #[serde(skip_serializing_if = "String::is_empty")]
    consistency: String,
    pub(super) skipped: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    skipped_reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_timestamp: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    csi_snapshot_info: Option<Taken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_data_movement_info: Option<Taken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pvb_info: Option<Taken>,
}

/// The result of one backup method (snapshot, data movement or file copy).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Taken {
    size: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    volume_group_snapshot_handle: String,
}

impl Volume {
    /// `shop/data (volume pvc-1)`.
    fn name(&self) -> String {
        match (self.pvc_name.is_empty(), self.pv_name.is_empty()) {
            (false, false) => format!("{}/{} (volume {})", self.pvc_namespace, self.pvc_name, self.pv_name),
            (false, true) => format!("{}/{}", self.pvc_namespace, self.pvc_name),
            (true, _) => format!("volume {}", self.pv_name),
        }
    }

    /// `shop/data (volume pvc-1): CSISnapshot, data moved, succeeded, consistency Snapshot, 2.000 GiB, 20.000 MiB/s`.
    pub(super) fn text(&self) -> String {
        if self.skipped {
            let reason =
                if self.skipped_reason.is_empty() { "no reason given" } else { &self.skipped_reason };
            return format!("{}: {reason}", self.name());
        }
        let method = if self.backup_method.is_empty() { &self.restore_method } else { &self.backup_method };
        let mut known = vec![method.clone()];
        known.extend(self.snapshot_data_moved.then(|| "data moved".to_owned()));
        known.push(self.result.clone());
        if !self.consistency.is_empty() {
            known.push(format!("consistency {}", self.consistency));
        }
        let group = self.csi_snapshot_info.as_ref().map(|taken| taken.volume_group_snapshot_handle.as_str());
        known.extend(group.filter(|handle| !handle.is_empty()).map(|handle| format!("group {handle}")));
        known.extend(self.size().map(bytes));
        known.extend(self.rate().map(|rate| format!("{}/s", bytes(rate))));
        known.retain(|word| !word.is_empty());
        format!("{}: {}", self.name(), known.join(", "))
    }

    fn size(&self) -> Option<u64> {
        let ways = [&self.snapshot_data_movement_info, &self.pvb_info, &self.csi_snapshot_info];
        ways.into_iter().flatten().map(|taken| taken.size).find(|size| *size > 0)
    }

    /// Copied bytes per second; None for a snapshot, which copies nothing.
    fn rate(&self) -> Option<u64> {
        let copied = self.snapshot_data_movement_info.as_ref().or(self.pvb_info.as_ref())?;
        let (Time(from), Time(to)) = (self.start_timestamp.as_ref()?, self.completion_timestamp.as_ref()?);
        let took: SignedDuration = to.duration_since(*from);
        let seconds = u64::try_from(took.as_secs()).ok().filter(|seconds| *seconds > 0)?;
        Some(copied.size / seconds).filter(|rate| *rate > 0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::snapshot(json!({"backupMethod": "CSISnapshot", "consistency": "Snapshot",
        "csiSnapshotInfo": {"size": 1_073_741_824, "volumeGroupSnapshotHandle": "g-1"}}),
        "CSISnapshot, succeeded, consistency Snapshot, group g-1, 1.000 GiB")]
    #[case::moved(json!({"backupMethod": "CSISnapshot", "snapshotDataMoved": true, "consistency": "Quiesced",
        "startTimestamp": "2026-11-16T03:00:00Z", "completionTimestamp": "2026-11-16T03:00:50Z",
        "snapshotDataMovementInfo": {"size": 52_428_800}}),
        "CSISnapshot, data moved, succeeded, consistency Quiesced, 50.000 MiB, 1.000 MiB/s")]
    #[case::of_an_older_version(json!({"backupMethod": "CSISnapshot"}), "CSISnapshot, succeeded")]
    fn a_volume_says_how_its_data_was_taken(#[case] mut info: Value, #[case] expected: &str) {
        (info["pvcNamespace"], info["pvcName"], info["result"]) =
            (json!("shop"), json!("data"), json!("succeeded"));
        let volume: Volume = serde_json::from_value(info).unwrap();
        assert_eq!(volume.text(), format!("shop/data: {expected}"));
    }
}
