//! The mover of one host of a backup: mounts the host's volumes, or volumes created from CSI snapshots of them, and
//! stores one snapshot for each path. Its report is trusted only for snapshots that exist in the repository, tagged
//! with the UIDs of the parts. If a snapshot has missing files, the host fails and the snapshot is kept.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lifeboat_api::stash::{FileStats, SnapshotStats};
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_mover::report::{BackedUp, Outcome};
use lifeboat_mover::task::{self, Part, Source, TaskWork};
use lifeboat_plan::stash::repo_dirs::{DirTags, VOLUME_TAG};
use lifeboat_plan::stash::rules::{DEVICE_TAG, SESSION_TAG};
use lifeboat_plan::stash::session::BackupArgs;
use lifeboat_plan::stash::targets::{HostPart, MoverParts, MoverSource, VolumeAccess};
use lifeboat_plan::transfer::attempts::{FileCounts, incomplete};
use lifeboat_plan::transfer::movers::{PodSettings, data, device};
use lifeboat_transfer::attempts::{NotPrepared, Prepared, Reported, Steps, Stored, Transfer, failed};
use lifeboat_transfer::movers::{Death, DeathCause};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::super::host_record::{HostRecord, end_host};
use super::super::places::{Writable, in_node_directory, place, rates};
use super::super::reported::{NotDone, grouped, of_part};
use super::super::sizes::{human_size, minutes};
use super::snapshots::HostSnapshots;
use super::work::BackupWork;
use crate::metrics::HostNumbers;

/// One mover of one host.
pub(in crate::sessions) struct Copying<'a> {
    /// The backup, which finds the pod of the host again if it has moved; None for a safety copy.
    pub(in crate::sessions) work: Option<&'a BackupWork>,
    pub(in crate::sessions) transfer: Transfer,
    /// The common prefix of the tasks of all attempts.
    pub(in crate::sessions) base: String,
    pub(in crate::sessions) record: HostRecord,
    pub(in crate::sessions) parts: MoverParts<HostPart>,
    pub(in crate::sessions) pod: PodSettings,
    pub(in crate::sessions) options: CopyOptions,
    /// The amounts that the movers of the host have copied, for metrics.
    pub(in crate::sessions) numbers: Arc<Mutex<HostNumbers>>,
}

/// The options of the spec, apart from the paths.
#[derive(Clone, Debug, Default)]
pub(in crate::sessions) struct CopyOptions {
    /// UID of the session, for the tag of its snapshots.
    pub(in crate::sessions) session: String,
    pub(in crate::sessions) exclude: Vec<String>,
    pub(in crate::sessions) args: BackupArgs,
    /// The task whose output is stored instead of the volumes of the host.
    pub(in crate::sessions) source: Option<Source>,
    /// Of a Restic: what the tags of its snapshots say, beside their volume.
    pub(in crate::sessions) directory: Option<DirTags>,
}

#[async_trait]
impl Steps for Copying<'_> {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    async fn prepare(&self, cancel: &CancellationToken) -> Result<Prepared, NotPrepared> {
        let source = match self.work {
            Some(work) => work.current_source(&self.record, &self.parts).await?,
            None => self.parts.source.clone(),
        };
        let source = self.snapshots().exposed(&source, &self.record, cancel).await?;
        let parts = self.parts.parts.iter().enumerate().map(|(number, part)| Part {
            uid: self.transfer.part(number),
            work: TaskWork::Backup(self.part_work(part)),
        });
        Ok(Prepared {
            parts: parts.collect(),
            place: place(&source, Writable::No),
            pod: self.pod.clone(),
            rates: rates(self.options.args.limits),
            threads: None,
            shown: Value::Null,
        })
    }

    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        self.stored(|uid, number| reported(&outcome, uid, number)).await
    }

    async fn unreported(&self, message: &str) -> Result<(), ApiError> {
        self.stored(|_, _| Err(NotDone::Failed(message.to_owned()))).await
    }

    async fn is_undone(&self) -> bool {
        self.transfer.stored_nothing().await
    }

    fn volume_owner(&self) -> Option<String> {
        Some(format!("host {}", self.record.host))
    }

    /// A mover that waits on the node that the pod has left cannot get the volume: another mover is started on the
    /// pod's new node.
    async fn has_moved(&self, death: &Death) -> bool {
        let waits_for_volume = matches!(death.cause, DeathCause::Volume | DeathCause::Unschedulable);
        match (self.work, &self.parts.source) {
            (Some(work), MoverSource::Volumes { node: Some(node), .. }) if waits_for_volume => {
                work.has_moved(&self.record, node).await.unwrap_or(false)
            }
            _ => false,
        }
    }

    /// Adds why the volume of a mover that never started could not be created.
    async fn complaint(&self, message: String) -> String {
        match self.snapshots().complaint(&self.parts.source).await {
            Some(why) => format!("{message}; its volume could not be made from the CSI snapshot: {why}"),
            None => message,
        }
    }

    /// Snapshots that were stored are valid and are kept, even if others failed.
    async fn clean(&self) -> Result<String, ApiError> {
        self.clear().await?;
        Ok(String::new())
    }
}

/// What the mover reported about a part: the snapshot, or why there is none.
fn reported(outcome: &Outcome, uid: &str, number: usize) -> Result<BackedUp, NotDone> {
    match of_part(outcome, uid, number)? {
        Outcome::BackedUp(stored) => Ok(stored.clone()),
        other => Err(NotDone::of(other)),
    }
}

impl Copying<'_> {
    fn snapshots(&self) -> HostSnapshots<'_> {
        let (core, namespace) = (&self.transfer.work.core, self.transfer.namespace.as_str());
        HostSnapshots { core, namespace, base: &self.base }
    }

    /// Removes the movers of all attempts and the objects that were created for them.
    async fn clear(&self) -> Result<(), ApiError> {
        self.transfer.clear().await?;
        self.snapshots().remove(&self.parts.source).await
    }

    fn part_work(&self, part: &HostPart) -> task::BackupWork {
        let CopyOptions { session, exclude, args, source, directory } = &self.options;
        let source = source.clone().unwrap_or_else(|| self.source(part));
        let mut tags = vec![format!("{SESSION_TAG}{session}")];
        if let Some(directory) = directory {
            tags.extend(directory.tags());
            tags.push(format!("{VOLUME_TAG}{}", part.volume));
        }
        tags.extend(args.tags.iter().cloned());
        let at = match &source {
            // Devices and the output of programs are one file, with a name of its own.
            Source::Command { .. } | Source::Agent { .. } => None,
            Source::BlockDevice { .. } => {
                tags.push(DEVICE_TAG.to_owned());
                None
            }
            Source::Path { .. } | Source::Snapshot { .. } => Some(part.path.to_string()),
        };
        task::BackupWork {
            tags,
            excludes: exclude.iter().chain(&args.excludes).cloned().collect(),
            sub_path: part.sub_path.clone(),
            at,
            incomplete_tag: true,
            ..task::BackupWork::new(source, self.record.host.to_string())
        }
    }

    fn source(&self, part: &HostPart) -> Source {
        match &self.parts.source {
            MoverSource::NodeDirectory { directory, .. } => {
                let (path, proof) = in_node_directory(directory);
                Source::Path { path, proof: Some(proof) }
            }
            MoverSource::Volumes { volumes, .. } => {
                let found = volumes.iter().enumerate().find(|(_, volume)| volume.name == part.volume);
                let (number, access) =
                    found.map_or((0, None), |(number, volume)| (number, Some(&volume.access)));
                match access {
                    Some(
                        VolumeAccess::Claim { block: true, .. } | VolumeAccess::Snapshot { block: true, .. },
                    ) => {
                        // The file of the snapshot that has the path of the volume.
                        let name = part.path.as_str().trim_start_matches('/').to_owned();
                        Source::BlockDevice { path: PathBuf::from(device(number)), name }
                    }
                    Some(VolumeAccess::Snapshot { .. }) => {
                        Source::Snapshot { path: PathBuf::from(data(number)) }
                    }
                    _ => Source::Path {
                        path: PathBuf::from(data(number)),
                        proof: Some(task::Proof::MountPoint),
                    },
                }
            }
        }
    }

    /// Compares the mover's report with the repository, and records the host's snapshots.
    async fn stored(
        &self,
        reported: impl Fn(&str, usize) -> Result<BackedUp, NotDone>,
    ) -> Result<(), ApiError> {
        let mut found = match self.transfer.stored_parts().await {
            Ok(found) => found,
            Err(error) => return failed(self, &error.to_string()).await,
        };
        let (mut snapshots, mut problems) = (Vec::new(), Vec::new());
        for (number, part) in self.parts.parts.iter().enumerate() {
            let uid = self.transfer.part(number);
            let report = reported(&uid, number).map_err(|why| why.to_string());
            let said = match &report {
                Ok(stored) => Reported::Snapshot(stored.clone()),
                Err(message) => Reported::Nothing(message),
            };
            match said.of(found.remove(&uid)) {
                Ok(stored) => {
                    if stored.snapshot.unreadable > 0 {
                        problems.push((part.path.to_string(), incomplete(&stored.snapshot)));
                    }
                    locked(&self.numbers).add(&stored.snapshot, report.as_ref().ok());
                    let volume = self.options.directory.as_ref().map(|_| part.volume.clone());
                    let stats = stats(part, &stored, report.ok().as_ref());
                    snapshots.push(SnapshotStats { volume, ..stats });
                }
                Err(error) => problems.push((part.path.to_string(), error.to_string())),
            }
        }
        self.transfer.forget_earlier().await;
        self.finish(snapshots, problems).await
    }

    /// Snapshots and problems are recorded in one write, because a host whose snapshots have missing files must not
    /// look complete after a crash.
    async fn finish(
        &self,
        snapshots: Vec<SnapshotStats>,
        problems: Vec<(String, String)>,
    ) -> Result<(), ApiError> {
        let now = self.record.session.now();
        let error = (!problems.is_empty()).then(|| grouped(&problems));
        let bytes = self.work.is_some().then(|| locked(&self.numbers).bytes());
        let written = self.record.change(|host| {
            let is_new = |known: &SnapshotStats| {
                snapshots.iter().any(|new| new.path == known.path && new.volume == known.volume)
            };
            host.snapshots.retain(|known| !is_new(known));
            host.snapshots.extend(snapshots);
            // If the host needs another mover, that mover starts with its own first attempt.
            host.run.attempt = None;
            HostRecord::show_bytes(host, bytes);
            if error.is_some() {
                end_host(host, error, now);
            }
        });
        written.await?;
        self.clear().await
    }
}

/// The numbers of files. A mover of an earlier version reports only how many there are.
fn file_stats(counted: Option<FileCounts>, reported: Option<&BackedUp>) -> Option<FileStats> {
    let count = |value: u64| i64::try_from(value).ok();
    match (counted, reported) {
        (Some(files), _) => Some(FileStats {
            total_files: count(files.total),
            new_files: count(files.new),
            modified_files: count(files.modified),
            unmodified_files: count(files.unmodified),
        }),
        (None, Some(reported)) => {
            Some(FileStats { total_files: count(reported.files), ..FileStats::default() })
        }
        (None, None) => None,
    }
}

fn stats(part: &HostPart, stored: &Stored, reported: Option<&BackedUp>) -> SnapshotStats {
    SnapshotStats {
        name: Some(stored.snapshot.id.clone()),
        path: Some(part.path.to_string()),
        volume: None,
        total_size: Some(human_size(stored.snapshot.bytes)),
        uploaded: Some(human_size(stored.snapshot.bytes_added)),
        processing_time: reported.map(|reported| minutes(reported.milliseconds)),
        file_stats: file_stats(stored.snapshot.files, reported),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_shown_as_compared_with_the_snapshot_before() {
        let counted = FileCounts { total: 10, new: 1, modified: 2, unmodified: 7 };
        let reported = BackedUp { files: 4, ..BackedUp::default() };
        let expected = FileStats {
            total_files: Some(10),
            new_files: Some(1),
            modified_files: Some(2),
            unmodified_files: Some(7),
        };
        assert_eq!(file_stats(Some(counted), Some(&reported)), Some(expected.clone()));
        assert_eq!(file_stats(Some(counted), None), Some(expected), "the snapshot itself has them");
        let only_total = FileStats { total_files: Some(4), ..FileStats::default() };
        assert_eq!(file_stats(None, Some(&reported)), Some(only_total), "a mover of an earlier version");
        assert_eq!(file_stats(None, None), None);
    }
}
