//! [`RetentionPolicy`]: which snapshots are kept after a backup.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::limits;

/// Which snapshots to keep, per host and path. A snapshot is kept if any of the `keep…` fields matches it;
/// if none is set, all are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetentionPolicy {
    /// Name of the policy, for fields that refer to it.
    #[schemars(length(min = 1, max = limits::NAME))]
    pub name: String,
    /// How many of the newest snapshots to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub keep_last: Option<i64>,
    /// For how many hours that have snapshots to keep the newest one of the hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub keep_hourly: Option<i64>,
    /// For how many days that have snapshots to keep the newest one of the day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub keep_daily: Option<i64>,
    /// For how many weeks that have snapshots to keep the newest one of the week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub keep_weekly: Option<i64>,
    /// For how many months that have snapshots to keep the newest one of the month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub keep_monthly: Option<i64>,
    /// For how many years that have snapshots to keep the newest one of the year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub keep_yearly: Option<i64>,
    /// Tags whose snapshots are always kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_tags: Vec<String>,
    /// Whether to remove data that no snapshot needs any more from the backend at once.
    pub prune: bool,
    /// Whether to only report which snapshots would be removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}
