//! Statistics about snapshots: the size of a restore, the number of different files, the size of the data in the
//! repository. The fields are those of restic's JSON.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::config::Version;
use crate::crypto::OVERHEAD;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind, Hasher, SnapshotId};
use crate::lock::{LockKind, LockOptions};
use crate::locked::locked;
use crate::node::Node;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::used::used_blobs;
use crate::walk::{Step, Walk};

/// The counting mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatsMode {
    /// Every file of every snapshot, hard links once.
    #[default]
    RestoreSize,
    /// Files with the same content once.
    FilesByContents,
    /// The blobs of each file.
    BlobsPerFile,
    /// Blobs as they are stored, each once.
    RawData,
}

impl FromStr for StatsMode {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "restore-size" => Ok(Self::RestoreSize),
            "files-by-contents" => Ok(Self::FilesByContents),
            "blobs-per-file" => Ok(Self::BlobsPerFile),
            "raw-data" => Ok(Self::RawData),
            other => Err(Error::invalid(
                "mode",
                format!("'{other}' is not one of restore-size, files-by-contents, blobs-per-file, raw-data"),
            )),
        }
    }
}

/// The figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    pub total_size: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub total_uncompressed_size: u64,
    #[serde(skip_serializing_if = "is_none")]
    pub compression_ratio: f64,
    /// The share of the data that is compressed, in percent.
    #[serde(skip_serializing_if = "is_none")]
    pub compression_progress: f64,
    #[serde(skip_serializing_if = "is_none")]
    pub compression_space_saving: f64,
    #[serde(skip_serializing_if = "is_zero")]
    pub total_file_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub total_blob_count: u64,
    pub snapshots_count: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    clippy::float_cmp,
    reason = "serde gives a reference; 0 is exact"
)]
fn is_none(number: &f64) -> bool {
    *number == 0.0
}

/// Counts the content of these snapshots, under a shared lock or without a lock.
pub async fn stats(
    repository: &Repository,
    snapshots: &[SnapshotId],
    mode: StatsMode,
    lock: Option<&LockOptions>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Stats> {
    locked(repository, LockKind::Shared, lock, async |_| {
        progress.begin("reading the index");
        let index = Arc::new(repository.load_index().await?);
        let reader = BlobReader::new(repository, index);
        let mut trees = Vec::new();
        for id in snapshots {
            trees.push((*id, repository.load_snapshot(*id).await?.tree));
        }
        progress.begin("counting");
        let mut stats = match mode {
            StatsMode::RawData => raw_data(&reader, &trees, progress, cancel).await?,
            _ => by_files(&reader, &trees, mode, progress, cancel).await?,
        };
        stats.snapshots_count = snapshots.len() as u64;
        Ok(stats)
    })
    .await
}

async fn raw_data(
    reader: &BlobReader,
    trees: &[(SnapshotId, BlobId)],
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Stats> {
    let used = used_blobs(reader, trees.iter().copied(), progress, cancel).await?;
    let mut stats = Stats::default();
    let (mut compressed, mut compressed_plain) = (0_u64, 0_u64);
    let has_compression = reader.repository().config().version >= Version::V2;
    let mut last: Option<(BlobId, BlobKind)> = None;
    reader.index().for_each(&mut |entry| {
        // Copies of a blob are adjacent; only one counts.
        if !used.is_used(entry.number) || last == Some((entry.id, entry.kind)) {
            return Ok(());
        }
        last = Some((entry.id, entry.kind));
        let stored = u64::from(entry.location.length);
        let plain = u64::from(entry.location.plain_length()) + OVERHEAD as u64;
        stats.total_size += stored;
        stats.total_blob_count += 1;
        if has_compression {
            stats.total_uncompressed_size += plain;
            if entry.location.uncompressed_length != 0 {
                compressed += stored;
                compressed_plain += plain;
            }
        }
        Ok(())
    })?;
    #[allow(clippy::cast_precision_loss, reason = "these are ratios for people")]
    let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
    if compressed > 0 {
        stats.compression_ratio = ratio(compressed_plain, compressed);
    }
    if stats.total_uncompressed_size > 0 {
        let whole = stats.total_uncompressed_size;
        stats.compression_progress = ratio(compressed_plain, whole) * 100.0;
        stats.compression_space_saving = (1.0 - ratio(stats.total_size, whole)) * 100.0;
    }
    Ok(stats)
}

/// What was counted so far.
#[derive(Default)]
struct CountedBlobs {
    /// Hashes of the lists of blobs.
    contents: HashSet<[u8; 32]>,
    /// The blobs of each path.
    blobs: HashMap<Vec<u8>, HashSet<BlobId>>,
    /// Inode and device, within one snapshot.
    links: HashSet<(u64, u64)>,
}

async fn by_files(
    reader: &BlobReader,
    trees: &[(SnapshotId, BlobId)],
    mode: StatsMode,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<Stats> {
    let mut stats = Stats::default();
    let mut seen = CountedBlobs::default();
    progress.add_total(trees.len() as u64, 0);
    progress.total_is_known();
    for (_, tree) in trees {
        seen.links.clear();
        let mut walk = Walk::start(reader, b"/", tree, cancel).await?;
        while let Some(step) = walk.step().await? {
            match step {
                Step::Enter { node, .. } if mode == StatsMode::RestoreSize => {
                    count_restored(&node, &mut seen, &mut stats);
                }
                Step::Enter { path, node } => {
                    count_content(reader, mode, path, &node, &mut seen, &mut stats)?;
                }
                Step::Leave { .. } => {}
                Step::Unreadable { error, .. } => return Err(error),
            }
        }
        progress.add_done(1, 0);
    }
    Ok(stats)
}

fn count_restored(node: &Node, seen: &mut CountedBlobs, stats: &mut Stats) {
    stats.total_file_count += 1;
    let alone = node.links == 1 || node.is_directory() || node.inode == 0;
    if alone || seen.links.insert((node.inode, node.device_id)) {
        stats.total_size = stats.total_size.saturating_add(node.size);
    }
}

fn count_content(
    reader: &BlobReader,
    mode: StatsMode,
    path: Vec<u8>,
    node: &Node,
    seen: &mut CountedBlobs,
    stats: &mut Stats,
) -> Result<()> {
    let mut hash = Hasher::new();
    for blob in node.blobs() {
        hash.update(&blob.0.0);
    }
    if !seen.contents.insert(hash.finish().0) {
        return Ok(());
    }
    if mode == StatsMode::FilesByContents {
        stats.total_size = stats.total_size.saturating_add(node.size);
        stats.total_file_count += 1;
        return Ok(());
    }
    if node.blobs().is_empty() {
        return Ok(());
    }
    let blobs = seen.blobs.entry(path).or_insert_with(|| {
        stats.total_file_count += 1;
        HashSet::new()
    });
    for blob in node.blobs() {
        if blobs.insert(*blob) {
            let location = reader.index().find(BlobKind::Data, blob)?;
            let location = location.ok_or(Error::MissingBlob { kind: BlobKind::Data, id: *blob })?;
            stats.total_size = stats.total_size.saturating_add(u64::from(location.plain_length()));
            stats.total_blob_count += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{memory_repository, save_snapshot};

    #[rstest::rstest]
    // Two snapshots with a directory and two files, then three files.
    #[case(StatsMode::RestoreSize, 2500 + 1 + 2500 + 1 + 1, 7, 0)]
    // 2500 bytes, "x", "y", and the directory as the entry without content.
    #[case(StatsMode::FilesByContents, 2500 + 1 + 1, 4, 0)]
    #[case(StatsMode::BlobsPerFile, 1500 + 1 + 1, 3, 4)]
    #[tokio::test]
    async fn each_mode_counts_its_own(
        #[case] mode: StatsMode,
        #[case] size: u64,
        #[case] files: u64,
        #[case] blobs: u64,
    ) {
        let repository = memory_repository().await;
        let (one, _) = save_snapshot(&repository, 1, &[("a/b", &[1; 2500]), ("c", b"x")]).await;
        let (two, _) = save_snapshot(&repository, 2, &[("a/b", &[1; 2500]), ("c", b"x"), ("d", b"y")]).await;
        let cancel = CancellationToken::new();
        let stats = stats(&repository, &[one, two], mode, None, &Progress::default(), &cancel).await.unwrap();
        assert_eq!((stats.total_size, stats.total_file_count, stats.total_blob_count), (size, files, blobs));
        assert_eq!(stats.snapshots_count, 2);
    }

    #[tokio::test]
    async fn raw_data_is_what_is_stored_and_how_well_it_is_compressed() {
        let repository = memory_repository().await;
        let (id, _) = save_snapshot(&repository, 1, &[("a", &[1; 2500])]).await;
        let lock = LockOptions::default();
        let cancel = CancellationToken::new();
        let stats = stats(&repository, &[id], StatsMode::RawData, Some(&lock), &Progress::default(), &cancel)
            .await
            .unwrap();
        assert_eq!(stats.total_blob_count, 3);
        assert!(stats.compression_ratio > 1.0 && stats.total_size < stats.total_uncompressed_size);
        assert!((stats.compression_progress - 100.0).abs() < 1e-9);
    }
}
