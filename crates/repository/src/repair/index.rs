//! `repair index`: makes the index match the packs. Packs that no index names are read and added, missing ones are
//! removed, index files that are damaged or name a pack twice are rewritten.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, stream};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::is_lost;
use super::rewrite_index::{IndexWriter, load};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{IndexId, PackId};
use crate::index::IndexedPack;
use crate::listing;
use crate::lock::{Lock, LockKind, LockOptions};
use crate::pack::{HEADER_OVERHEAD, PackedBlob, header_entry_length};
use crate::progress::Progress;
use crate::repository::Repository;

/// Options for repairing the index.
#[derive(Debug, Clone, Copy, Default)]
pub struct RepairIndexOptions {
    /// Read the header of every pack; index files are only trusted for the names of packs that must exist.
    pub read_all_packs: bool,
}

/// The result of repairing the index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairIndexOutcome {
    /// Index files that could not be read, and the errors.
    pub damaged_indexes: Vec<(IndexId, String)>,
    /// Packs that were added to the index.
    pub added_packs: Vec<PackId>,
    /// Packs whose entry did not match them; they were read again.
    pub reindexed_packs: Vec<PackId>,
    /// Packs that were in the index and do not exist: removed from the index.
    pub missing_packs: Vec<PackId>,
    /// Packs whose own header cannot be read, and the errors: they are in no index, and not touched.
    pub unreadable_packs: Vec<(PackId, String)>,
    /// Packs whose own header cannot be read and that were in the index.
    pub cut_packs: Vec<CutPack>,
    pub written_indexes: Vec<IndexId>,
    pub removed_indexes: u64,
}

impl RepairIndexOutcome {
    pub fn changed_anything(&self) -> bool {
        self.removed_indexes > 0 || !self.written_indexes.is_empty()
    }
}

/// A truncated pack, without its header. Blobs that are still within it stay in the index, so that they can be read
/// and `repair packs` can save them; the others are removed from it, so that backups store them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CutPack {
    pub id: PackId,
    pub problem: String,
    pub kept: u64,
    pub lost: u64,
}

/// The content of a pack according to the index files.
struct IndexedEntry {
    size: u64,
    entry: IndexedPack,
    alike: bool,
}

/// Repairs the index under an exclusive lock.
pub async fn repair_index(
    repository: &Repository,
    options: RepairIndexOptions,
    lock: &LockOptions,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<RepairIndexOutcome> {
    let repository = &repository.without_cache();
    Lock::hold(repository, LockKind::Exclusive, lock, async |lock| {
        run(repository, options, &lock, progress, cancel).await
    })
    .await
}

async fn run(
    repository: &Repository,
    options: RepairIndexOptions,
    lock: &Lock,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<RepairIndexOutcome> {
    let mut outcome = RepairIndexOutcome::default();
    progress.begin("reading the index");
    let files: Vec<IndexId> =
        repository.list(FileKind::Index).await?.iter().map(|file| IndexId(file.id)).collect();
    let mut obsolete = HashSet::new();
    let mut indexed = survey(repository, &files, &mut obsolete, &mut outcome).await?;
    progress.begin("listing the packs");
    let listed = repository.list(FileKind::Pack).await?;
    let present: HashMap<PackId, u64> = listed.iter().map(|file| (PackId(file.id), file.size)).collect();
    let lacking = indexed.keys().filter(|id| !present.contains_key(id));
    listing::require_absent(repository, lacking.copied()).await?;
    let mut old = HashMap::new();
    if options.read_all_packs {
        obsolete.extend(files.iter().copied());
        old = std::mem::take(&mut indexed);
    }
    let stale = find_stale(&indexed, &present, &mut outcome);
    let mut to_read: Vec<(PackId, u64)> = present.into_iter().collect();
    to_read.retain(|(id, _)| !indexed.contains_key(id) || stale.contains(id));
    to_read.sort_unstable();
    let before: HashMap<PackId, IndexedPack> = to_read
        .iter()
        .filter_map(|(id, _)| old.remove(id).or_else(|| indexed.remove(id)))
        .map(|known| (known.entry.id, known.entry))
        .collect();
    drop((old, indexed));

    let mut writer = IndexWriter::new(repository, lock);
    read_headers(repository, &to_read, &before, &mut writer, &mut outcome, progress, cancel).await?;
    if !options.read_all_packs {
        progress.begin("writing the index");
        keep_the_rest(repository, &files, &stale, &mut obsolete, &mut writer).await?;
    }
    if cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    outcome.removed_indexes = obsolete.len() as u64;
    outcome.written_indexes = writer.finish(&obsolete).await?;
    Ok(outcome)
}

/// The packs that are missing or that do not match their entries.
fn find_stale(
    indexed: &HashMap<PackId, IndexedEntry>,
    present: &HashMap<PackId, u64>,
    outcome: &mut RepairIndexOutcome,
) -> HashSet<PackId> {
    let mut stale: HashSet<PackId> = HashSet::new();
    for (id, entry) in indexed {
        match present.get(id) {
            None => {
                stale.insert(*id);
                outcome.missing_packs.push(*id);
            }
            Some(size) if *size != entry.size || !entry.alike => {
                stale.insert(*id);
                outcome.reindexed_packs.push(*id);
            }
            Some(_) => {}
        }
    }
    outcome.missing_packs.sort_unstable();
    outcome.reindexed_packs.sort_unstable();
    stale
}

/// The expected content of each pack, from all index files that can be read.
async fn survey(
    repository: &Repository,
    files: &[IndexId],
    obsolete: &mut HashSet<IndexId>,
    outcome: &mut RepairIndexOutcome,
) -> Result<HashMap<PackId, IndexedEntry>> {
    let mut indexed: HashMap<PackId, IndexedEntry> = HashMap::new();
    for id in files {
        let file = match load(repository, *id).await {
            Ok(file) => file,
            Err(error) if is_lost(&error) => {
                obsolete.insert(*id);
                outcome.damaged_indexes.push((*id, error.to_string()));
                continue;
            }
            Err(error) => return Err(error),
        };
        for pack in file.packs {
            if let Some(known) = indexed.get_mut(&pack.id) {
                known.alike &= known.entry == pack;
            } else {
                indexed.insert(pack.id, IndexedEntry { size: size_of(&pack), entry: pack, alike: true });
            }
        }
    }
    Ok(indexed)
}

fn size_of(pack: &IndexedPack) -> u64 {
    let blobs = pack
        .blobs()
        .map(|blob| u64::from(blob.length) + u64::from(header_entry_length(blob.uncompressed_length != 0)));
    u64::from(HEADER_OVERHEAD) + blobs.sum::<u64>()
}

async fn read_headers(
    repository: &Repository,
    to_read: &[(PackId, u64)],
    before: &HashMap<PackId, IndexedPack>,
    writer: &mut IndexWriter<'_>,
    outcome: &mut RepairIndexOutcome,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<()> {
    progress.begin("reading the packs");
    progress.add_total(to_read.len() as u64, 0);
    progress.total_is_known();
    let read =
        |(id, size): (PackId, u64)| async move { (id, size, repository.load_pack_header(id, size).await) };
    let at_once = repository.reads();
    let mut reading = stream::iter(to_read.iter().copied()).map(read).buffered(at_once);
    while let Some((id, size, header)) = reading.next().await {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        progress.add_done(1, 0);
        match header {
            Ok(blobs) => {
                if !before.contains_key(&id) {
                    outcome.added_packs.push(id);
                }
                writer.add(IndexedPack::new(id, &blobs)).await?;
            }
            Err(error) if is_lost(&error) => match before.get(&id) {
                Some(entry) => {
                    let (kept, cut) = cut_to(entry, size, error.to_string());
                    outcome.cut_packs.push(cut);
                    if !kept.is_empty() {
                        writer.add(IndexedPack::new(id, &kept)).await?;
                    }
                }
                None => outcome.unreadable_packs.push((id, error.to_string())),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The blobs that are still within a pack of `size` bytes.
fn cut_to(entry: &IndexedPack, size: u64, problem: String) -> (Vec<PackedBlob>, CutPack) {
    let blobs: Vec<PackedBlob> = entry.blobs().collect();
    let within = |blob: &PackedBlob| u64::from(blob.offset) + u64::from(blob.length) <= size;
    let kept: Vec<PackedBlob> = blobs.iter().filter(|blob| within(blob)).copied().collect();
    let lost = (blobs.len() - kept.len()) as u64;
    let cut = CutPack { id: entry.id, problem, kept: kept.len() as u64, lost };
    (kept, cut)
}

/// Rewrites index files that name a stale pack, or one that an earlier file already named.
async fn keep_the_rest(
    repository: &Repository,
    files: &[IndexId],
    stale: &HashSet<PackId>,
    obsolete: &mut HashSet<IndexId>,
    writer: &mut IndexWriter<'_>,
) -> Result<()> {
    let mut seen = HashSet::new();
    for id in files.iter().filter(|id| !obsolete.contains(*id)).copied().collect::<Vec<_>>() {
        let file = load(repository, id).await?;
        let mut kept = Vec::new();
        let count = file.packs.len();
        for pack in file.packs {
            if !stale.contains(&pack.id) && seen.insert(pack.id) {
                kept.push(pack);
            }
        }
        if kept.len() == count {
            continue;
        }
        obsolete.insert(id);
        for pack in kept {
            writer.add(pack).await?;
        }
    }
    Ok(())
}
