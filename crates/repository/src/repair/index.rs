//! `repair index`: makes the index match the packs. Packs that no index names are read and added, missing ones are
//! removed, index files that are damaged or name a pack twice are rewritten. Blobs are not kept in memory, only a few
//! bytes for each pack.

mod survey;

use std::collections::HashSet;

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
use crate::pack::PackedBlob;
use crate::progress::Progress;
use crate::repository::{ListedFile, Repository};
use survey::Survey;

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
    let files = repository.list(FileKind::Index).await?.iter().map(|file| IndexId(file.id)).collect();
    let survey = Survey::read(repository, files, &mut outcome).await?;
    progress.begin("listing the packs");
    let listed = repository.list(FileKind::Pack).await?;
    let lacking = survey.known.keys().filter(|id| size_in(&listed, id).is_none());
    listing::require_absent(repository, lacking.copied()).await?;
    let mut stale = HashSet::new();
    if !options.read_all_packs {
        stale = find_stale(&survey, &listed, &mut outcome);
    }
    let listed = listed.into_iter().map(|file| (PackId(file.id), file.size));
    let to_read: Vec<(PackId, u64)> = listed
        .filter(|(id, _)| options.read_all_packs || !survey.known.contains_key(id) || stale.contains(id))
        .collect();

    let mut writer = IndexWriter::new(repository, lock);
    let mut reading = Reading { repository, survey: &survey, writer: &mut writer, outcome: &mut outcome };
    reading.headers(&to_read, progress, cancel).await?;
    let mut obsolete: HashSet<IndexId> = survey.damaged.iter().copied().collect();
    if options.read_all_packs {
        obsolete.extend(&survey.files);
    } else {
        progress.begin("writing the index");
        keep_the_rest(repository, &survey, &stale, &mut obsolete, &mut writer).await?;
    }
    if cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    outcome.removed_indexes = obsolete.len() as u64;
    outcome.written_indexes = writer.finish(&obsolete).await?;
    Ok(outcome)
}

/// The size of a pack in a listing, which is sorted by ID.
fn size_in(listed: &[ListedFile], pack: &PackId) -> Option<u64> {
    let at = listed.binary_search_by_key(&pack.0, |file| file.id).ok()?;
    listed.get(at).map(|file| file.size)
}

/// The packs that are missing or that do not match their entries.
fn find_stale(survey: &Survey, listed: &[ListedFile], outcome: &mut RepairIndexOutcome) -> HashSet<PackId> {
    let mut stale: HashSet<PackId> = HashSet::new();
    for (id, entry) in &survey.known {
        match size_in(listed, id) {
            None => {
                stale.insert(*id);
                outcome.missing_packs.push(*id);
            }
            Some(size) if size != entry.size || !entry.alike => {
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

/// Reads headers of packs and adds what they say to the new index.
struct Reading<'a, 'b> {
    repository: &'a Repository,
    survey: &'a Survey,
    writer: &'a mut IndexWriter<'b>,
    outcome: &'a mut RepairIndexOutcome,
}

impl Reading<'_, '_> {
    async fn headers(
        &mut self,
        to_read: &[(PackId, u64)],
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<()> {
        progress.begin("reading the packs");
        progress.add_total(to_read.len() as u64, 0);
        progress.total_is_known();
        let repository = self.repository;
        let read = |(id, size): (PackId, u64)| async move {
            (id, size, repository.load_pack_header(id, size).await)
        };
        let mut reading = stream::iter(to_read.iter().copied()).map(read).buffered(repository.reads());
        while let Some((id, size, header)) = reading.next().await {
            if cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            progress.add_done(1, 0);
            match header {
                Ok(blobs) => {
                    if !self.survey.known.contains_key(&id) {
                        self.outcome.added_packs.push(id);
                    }
                    self.writer.add(IndexedPack::new(id, &blobs)).await?;
                }
                Err(error) if is_lost(&error) => self.unreadable(id, size, &error).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn unreadable(&mut self, id: PackId, size: u64, error: &Error) -> Result<()> {
        let Some(entry) = self.survey.entry(self.repository, id).await? else {
            self.outcome.unreadable_packs.push((id, error.to_string()));
            return Ok(());
        };
        let (kept, cut) = cut_to(&entry, size, error.to_string());
        self.outcome.cut_packs.push(cut);
        if kept.is_empty() { Ok(()) } else { self.writer.add(IndexedPack::new(id, &kept)).await }
    }
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

/// Rewrites index files that name a stale pack, or one that an earlier file already named. Only these are read again.
async fn keep_the_rest(
    repository: &Repository,
    survey: &Survey,
    stale: &HashSet<PackId>,
    obsolete: &mut HashSet<IndexId>,
    writer: &mut IndexWriter<'_>,
) -> Result<()> {
    let mut rewritten = survey.repeating.clone();
    rewritten.extend(stale.iter().filter_map(|id| survey.known.get(id)).map(|known| known.file));
    for number in rewritten {
        let Some(id) = survey.files.get(number as usize) else { continue };
        let mut seen = HashSet::new();
        for pack in load(repository, *id).await?.packs {
            let is_first = survey.known.get(&pack.id).is_some_and(|known| known.file == number);
            if is_first && !stale.contains(&pack.id) && seen.insert(pack.id) {
                writer.add(pack).await?;
            }
        }
        obsolete.insert(*id);
    }
    Ok(())
}
