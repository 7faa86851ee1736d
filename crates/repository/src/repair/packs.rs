//! `repair packs`: saves every intact blob of damaged packs into new packs, then removes the damaged ones from the
//! index and from the store.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{is_lost, rewrite_index};
use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, Id, PackId};
use crate::index::{Index, Location};
use crate::lock::{Lock, LockKind, LockOptions};
use crate::pack::PackedBlob;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::saver::Saver;

/// Which packs to repair, and how.
#[derive(Debug, Clone, Default)]
pub struct RepairPacksOptions {
    pub packs: Vec<PackId>,
    /// A copy of each pack is written here first, as `pack-ID`; an existing file is never overwritten.
    pub copies: Option<PathBuf>,
}

/// The result of repairing packs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairPacksOutcome {
    /// Intact blobs that are in new packs now.
    pub salvaged: u64,
    /// Blobs of which these packs had no intact copy, and no other pack has one either.
    pub lost: Vec<(BlobKind, BlobId)>,
    pub removed_packs: Vec<PackId>,
}

/// Repairs packs under an exclusive lock. Afterwards `repair snapshots` removes what was lost from snapshots.
pub async fn repair_packs(
    repository: &Repository,
    options: &RepairPacksOptions,
    lock: &LockOptions,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<RepairPacksOutcome> {
    if options.packs.is_empty() {
        return Err(Error::invalid("packs to repair", "there are none"));
    }
    let repository = &repository.without_cache();
    Lock::hold(repository, LockKind::Exclusive, lock, async |lock| {
        run(repository, options, &lock, progress, cancel).await
    })
    .await
}

async fn run(
    repository: &Repository,
    options: &RepairPacksOptions,
    lock: &Arc<Lock>,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<RepairPacksOutcome> {
    let packs: BTreeSet<PackId> = options.packs.iter().copied().collect();
    progress.begin("reading the index");
    let index = Arc::new(repository.load_index().await?);
    let known = indexed_blobs(repository, &index, &packs).await?;
    let source = BlobReader::new(repository, Arc::clone(&index));
    // Threads that share the saver stop when this future is dropped.
    let saving = cancel.child_token();
    let _stop = saving.clone().drop_guard();
    let saver = Arc::new(Saver::start(repository, Arc::clone(&index), Some(Arc::clone(lock)), saving));
    progress.begin("saving intact blobs");
    progress.add_total(packs.len() as u64, 0);
    progress.total_is_known();
    let (mut wanted, mut salvaged) = (HashSet::new(), HashSet::new());
    for (id, indexed) in known {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let Some(reads) = load(repository, options, id).await? else {
            wanted.extend(indexed.iter().map(|blob| (blob.kind, blob.id)));
            continue;
        };
        let blobs = with_header(repository, id, indexed, &reads).await?;
        wanted.extend(blobs.iter().map(|blob| (blob.kind, blob.id)));
        let (source, target) = (source.clone(), Arc::clone(&saver));
        let work = move || salvage(&source, &target, id, &blobs, &reads);
        salvaged.extend(tokio::task::spawn_blocking(work).await.map_err(|_| Error::Cancelled)??);
        progress.add_done(1, 0);
    }
    let saver = Arc::into_inner(saver).ok_or(Error::Cancelled)?;
    saver.finish().await?;

    let lost = lost_blobs(&index, &packs, wanted.difference(&salvaged))?;
    let mut outcome = RepairPacksOutcome { salvaged: salvaged.len() as u64, lost, removed_packs: Vec::new() };
    progress.begin("writing the index");
    let packs: HashSet<PackId> = packs.into_iter().collect();
    rewrite_index::remove_packs(repository, lock, &packs).await?;
    lock.verify().await?;
    for id in packs {
        repository.remove_file(FileKind::Pack, id.0).await?;
        outcome.removed_packs.push(id);
    }
    outcome.removed_packs.sort_unstable();
    Ok(outcome)
}

/// The content of each of the packs according to the index.
async fn indexed_blobs(
    repository: &Repository,
    index: &Index,
    packs: &BTreeSet<PackId>,
) -> Result<BTreeMap<PackId, Vec<PackedBlob>>> {
    let mut known: BTreeMap<PackId, Vec<PackedBlob>> = packs.iter().map(|id| (*id, Vec::new())).collect();
    index.for_each(&mut |entry| {
        if let Some(blobs) = known.get_mut(&entry.location.pack) {
            let Location { offset, length, uncompressed_length, .. } = entry.location;
            let (kind, id) = (entry.kind, entry.id);
            blobs.push(PackedBlob { kind, id, offset, length, uncompressed_length });
        }
        Ok(())
    })?;
    // An ID that is neither in the index nor in the store was mistyped; the other packs are not changed either.
    for (id, _) in known.iter().filter(|(_, indexed)| indexed.is_empty()) {
        let looking = repository.store().exists(&FileKind::Pack.key(id.0)).await;
        if !looking.map_err(Error::store(format!("look for {}", FileKind::Pack.describe(id.0))))? {
            return Err(Error::NothingFound {
                what: format!("there is no pack '{id}'; nothing was changed"),
            });
        }
    }
    Ok(known)
}

/// The blobs of a pack by the index and by its own header: each may be wrong, so both are tried.
async fn with_header(
    repository: &Repository,
    id: PackId,
    indexed: Vec<PackedBlob>,
    reads: &[Bytes],
) -> Result<Vec<PackedBlob>> {
    let mut blobs = indexed;
    for read in reads {
        match repository.load_pack_header(id, read.len() as u64).await {
            Ok(listed) => {
                blobs.extend(listed);
                break;
            }
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
    }
    if blobs.is_empty() {
        return Err(Error::Refused {
            reason: format!("neither the index nor its own header lists the blobs of pack {id}"),
            hint: "nothing was removed; restore the pack or the index from a copy, or let `prune` remove packs that no index names",
        });
    }
    Ok(blobs)
}

/// The `missing` blobs of which no other pack has a copy, sorted.
fn lost_blobs<'a>(
    index: &Index,
    packs: &BTreeSet<PackId>,
    missing: impl Iterator<Item = &'a (BlobKind, BlobId)>,
) -> Result<Vec<(BlobKind, BlobId)>> {
    let mut lost = Vec::new();
    for (kind, id) in missing {
        let elsewhere = index.find_all(*kind, id)?.iter().any(|copy| !packs.contains(&copy.location.pack));
        if !elsewhere {
            lost.push((*kind, *id));
        }
    }
    lost.sort_unstable();
    Ok(lost)
}

/// The content of a pack; `None` if it does not exist. A pack that does not match its ID is read twice, because a
/// blob that is not found in it is lost: what was corrupted during one read may be intact in the other.
async fn load(
    repository: &Repository,
    options: &RepairPacksOptions,
    id: PackId,
) -> Result<Option<Vec<Bytes>>> {
    let read = || async {
        match repository.load_raw(FileKind::Pack, id.0).await {
            Ok(content) => Ok(Some(content)),
            Err(Error::Store { source, .. }) if source.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    };
    let Some(mut content) = read().await? else { return Ok(None) };
    let mut reads = vec![content.clone()];
    if Id::of(&content) != id.0
        && let Some(again) = read().await?
    {
        content = again;
        reads.push(content.clone());
    }
    if let Some(directory) = &options.copies {
        let path = directory.join(format!("pack-{id}"));
        let write = move || {
            let mut file = std::fs::File::create_new(&path).map_err(Error::file("create", &path))?;
            std::io::Write::write_all(&mut file, &content).map_err(Error::file("write", &path))
        };
        tokio::task::spawn_blocking(write).await.unwrap_or(Err(Error::Cancelled))?;
    }
    Ok(Some(reads))
}

/// Saves every blob that can be read in any of the `reads`; returns those that were saved.
fn salvage(
    reader: &BlobReader,
    target: &Saver,
    pack: PackId,
    blobs: &[PackedBlob],
    reads: &[Bytes],
) -> Result<Vec<(BlobKind, BlobId)>> {
    let mut saved = Vec::new();
    let mut plain = Vec::new();
    for blob in blobs {
        let PackedBlob { kind, id, offset, length, uncompressed_length } = *blob;
        let location = Location { pack, offset, length, uncompressed_length };
        let whole = reads.iter().any(|content| {
            let sealed = content.get(offset as usize..).and_then(|rest| rest.get(..length as usize));
            plain.clear();
            sealed.is_some_and(|sealed| {
                reader.decode(kind, &id, &location, &mut sealed.to_vec(), &mut plain).is_ok()
            })
        });
        if whole {
            target.save_again(kind, id, &plain)?;
            saved.push((kind, id));
        }
    }
    Ok(saved)
}
