//! Metrics of Backups that start and end. Called where the phase is written.

use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::velero::{Backup, BackupPhase, names};

use crate::context::Context;
use crate::metrics::{BackupEnd, Ending};

/// The schedule that created a backup; empty for others.
pub(super) fn schedule(backup: &Backup) -> &str {
    backup.labels().get(names::SCHEDULE_NAME).map_or("", String::as_str)
}

/// Counts a backup that failed validation.
pub(super) fn count_refused(context: &Context, backup: &Backup) {
    let end = BackupEnd {
        ending: Ending::FailedValidation,
        duration: Duration::ZERO,
        items: 0,
        errors: 0,
        warnings: 0,
        archive_bytes: None,
        ended_at: context.now().as_second(),
    };
    context.metrics.backup_ended(schedule(backup), &end);
}

/// Counts a backup that ended, and its snapshots.
pub(super) fn count(context: &Context, ended: &Backup, archive_bytes: Option<u64>) {
    let status = ended.status.clone().unwrap_or_default();
    let ending = match status.phase {
        Some(BackupPhase::Completed) => Ending::Completed,
        Some(BackupPhase::PartiallyFailed) => Ending::PartiallyFailed,
        _ => Ending::Failed,
    };
    let number = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default();
    let now = context.now();
    let start = status.start_timestamp.map_or(now, |time| time.0);
    let end = BackupEnd {
        ending,
        duration: Duration::try_from(now.duration_since(start)).unwrap_or_default(),
        items: number(status.progress.and_then(|progress| progress.items_backed_up)),
        errors: number(status.errors),
        warnings: number(status.warnings),
        archive_bytes,
        ended_at: now.as_second(),
    };
    context.metrics.backup_ended(schedule(ended), &end);
    let taken = number(status.volume_snapshots_completed);
    context.metrics.volume_snapshots(schedule(ended), number(status.volume_snapshots_attempted), taken);
    // A backup without CSI snapshots has no series of its own.
    let attempted = number(status.csi_volume_snapshots_attempted);
    if attempted > 0 {
        let taken = number(status.csi_volume_snapshots_completed);
        context.metrics.csi_snapshots(schedule(ended), &ended.name_any(), attempted, taken);
    }
}
