//! The end of a pass: makes the archive visible and sums up what was made.

use std::sync::Arc;

use lifeboat_archive::{ArchiveSize, SpoolLimits};
use lifeboat_plan::velero::backup::phase::Counts;
use lifeboat_plan::velero::volume_plugin::stored;
use serde_json::Value;

use super::{About, Outcome, Pass, PassError, PassFailure, PassResults, Report};

impl Pass {
    /// Completes the archive and sums up.
    pub(super) async fn finish(pass: Arc<Self>) -> Result<Outcome, PassError> {
        pass.keep_unused_snapshots();
        pass.clear_unused_csi().await;
        let volumes = pass.volumes();
        pass.made().volumes = volumes;
        for (kind, count) in &pass.made().per_type {
            pass.report.info(&format!("Backed up {count} items of {kind}"), &[]);
        }
        let Some(pass) = Arc::into_inner(pass) else {
            return Err(PassFailure::Unfinished.into());
        };
        pass.seal().await
    }

    /// Completes the archive, which makes it visible.
    async fn seal(self) -> Result<Outcome, PassError> {
        let made = self.made.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (fence, writer) = (self.fence, self.writer);
        let finishing = async {
            if let Some(fence) = fence
                && !fence.holds().await
            {
                return Err(PassError::Stopped);
            }
            let written = writer.finish().await.map_err(PassFailure::Archive)?;
            restorable(&written, &SpoolLimits::default()).map_err(PassFailure::TooLarge)?;
            Ok(written)
        };
        let sealed = tokio::select! {
            biased;
            written = finishing => written,
            () = self.stop.cancelled() => Err(PassError::Stopped),
        };
        match sealed {
            Ok(size) => {
                let copies = self.copying.objects().values().map(stored).collect();
                Ok(outcome(made, size, copies, &self.report, self.velero_compatible))
            }
            Err(error) => {
                super::actions::cancel(&self.actions, &self.backup, &self.journal, &made.operations).await;
                Err(error)
            }
        }
    }
}

/// Sums up what a pass made.
fn outcome(
    mut made: PassResults,
    size: ArchiveSize,
    copies: Vec<Value>,
    report: &Report,
    velero_compatible: bool,
) -> Outcome {
    made.resources.sort();
    let items = made.resources.count();
    report.info(&format!("Backed up a total of {items} items"), &[]);
    let (counts, results) = (counts(&made, items, report), report.results());
    if velero_compatible && !copies.is_empty() {
        let message = "The copies of volumes are also listed in the file that Velero reads (--velero-compatible-volumes): Velero 1.19 and later do not show a backup with such a list at all";
        report.warning(&About::Server, message, None);
    }
    let (snapshots, volume_plugin_backups) = made.taken.listed();
    Outcome {
        counts,
        size,
        resources: made.resources,
        operations: made.operations,
        volumes: made.volumes,
        snapshots,
        volume_plugin_backups,
        copies,
        velero_compatible,
        results,
    }
}

fn counts(made: &PassResults, items: usize, report: &Report) -> Counts {
    let log = report.log().counts();
    let open = made.operations.iter().filter(|operation| !operation.status.phase.has_ended()).count();
    Counts {
        items,
        warnings: usize::try_from(log.warnings).unwrap_or(usize::MAX),
        errors: usize::try_from(log.errors).unwrap_or(usize::MAX),
        hooks_attempted: made.hooks_attempted,
        hooks_failed: made.hooks_failed,
        operations: made.operations.len(),
        operations_open: open,
        operations_failed: 0,
        snapshots: made.taken.snapshots.len(),
        snapshots_failed: made.taken.failed(),
        snapshots_open: made.taken.open,
        csi_snapshots: made.csi.attempted(),
        csi_ready: made.csi.ready(),
    }
}

/// A limit of restores that an archive exceeds.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TooLarge {
    #[error("the archive has {entries} entries, more than {limit}, {exceeds}", exceeds = EXCEEDS)]
    Entries { entries: u64, limit: u64 },
    #[error("the archive has {bytes} bytes, more than {limit}, {exceeds}", exceeds = EXCEEDS)]
    Bytes { bytes: u64, limit: u64 },
    #[error(
        "the archive has {bytes} bytes in {compressed}, more than {limit} for each, {exceeds}",
        exceeds = EXCEEDS
    )]
    Ratio { bytes: u64, compressed: u64, limit: u64 },
}

/// The end of the messages of [`TooLarge`].
const EXCEEDS: &str = "which exceeds the limits of a restore: back up fewer namespaces or types at once";

/// Checks that a restore would accept the archive: one that exceeds the limits of restores is not a backup.
fn restorable(size: &ArchiveSize, limits: &SpoolLimits) -> Result<(), TooLarge> {
    // An item has two entries, and the file with the format's version is one more.
    let entries = size.items * 2 + 1;
    if entries > limits.entries {
        return Err(TooLarge::Entries { entries, limit: limits.entries });
    }
    if size.plain > limits.plain_bytes {
        return Err(TooLarge::Bytes { bytes: size.plain, limit: limits.plain_bytes });
    }
    if size.plain > limits.ratio_from && size.plain / limits.ratio > size.compressed {
        return Err(TooLarge::Ratio { bytes: size.plain, compressed: size.compressed, limit: limits.ratio });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::ordinary(10, 1 << 20, 1 << 17, true)]
    #[case::too_many(50, 1 << 20, 1 << 17, false)]
    #[case::too_long(10, 1 << 31, 1 << 28, false)]
    #[case::too_dense(10, 1 << 28, 1 << 10, false)]
    #[case::dense_and_small(10, 1 << 20, 1 << 10, true)]
    fn an_archive_that_no_restore_would_read_is_no_backup(
        #[case] items: u64,
        #[case] plain: u64,
        #[case] compressed: u64,
        #[case] expected: bool,
    ) {
        let limits = SpoolLimits { entries: 100, plain_bytes: 1 << 30, ..SpoolLimits::default() };
        assert_eq!(restorable(&ArchiveSize { compressed, plain, items }, &limits).is_ok(), expected);
    }
}
