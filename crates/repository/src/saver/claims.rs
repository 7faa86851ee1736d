//! The blobs that this run saves: the first thread to claim a blob saves it. The newest claims are in memory, in
//! shards, so that threads rarely contend and no table gets large enough for its growth to be noticed; the others are
//! in temporary files like those of a large index, which are merged when there are many.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::error::Result;
use crate::id::{BlobId, BlobKind};
use crate::index::table::{Record, Sorter, Table};

const SHARDS: usize = 64;
/// The number of claims in memory: up to 35 MiB.
const IN_MEMORY: usize = 512 * 1024;
/// The most files, because each is searched for each new blob.
const FILES: usize = 8;

#[derive(Debug)]
pub(super) struct Claims {
    shards: [Mutex<HashSet<(BlobKind, BlobId)>>; SHARDS],
    /// The number of claims in the shards.
    count: AtomicUsize,
    /// Read-locked during a claim, so that no claim moves from a shard to a file meanwhile.
    files: RwLock<Vec<Table>>,
    temporary: PathBuf,
    in_memory: usize,
}

impl Claims {
    /// Files are created in `temporary` when they are needed.
    pub(super) fn new(temporary: &Path) -> Self {
        Self::with_limit(temporary, IN_MEMORY)
    }

    fn with_limit(temporary: &Path, in_memory: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            count: AtomicUsize::new(0),
            files: RwLock::default(),
            temporary: temporary.to_owned(),
            in_memory,
        }
    }

    /// Whether the caller is the first to claim this blob.
    pub(super) fn claim(&self, kind: BlobKind, id: BlobId) -> Result<bool> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let first = !is_in(&files, kind, &id)? && self.shard(&id).insert((kind, id));
        drop(files);
        if first && self.count.fetch_add(1, Ordering::Relaxed) + 1 >= self.in_memory {
            self.move_to_file()?;
        }
        Ok(first)
    }

    pub(super) fn has(&self, kind: BlobKind, id: &BlobId) -> Result<bool> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        Ok(self.shard(id).contains(&(kind, *id)) || is_in(&files, kind, id)?)
    }

    fn shard(&self, id: &BlobId) -> MutexGuard<'_, HashSet<(BlobKind, BlobId)>> {
        self.shards[usize::from(id.0.0[0]) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties the shards. If it fails, claims may be lost, so the caller must end the run.
    fn move_to_file(&self) -> Result<()> {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        if self.count.load(Ordering::Relaxed) < self.in_memory {
            return Ok(());
        }
        // Half of them at a time, so that they are written and not kept in memory.
        let mut sorter = Sorter::with_run(&self.temporary, self.in_memory.div_ceil(2));
        for shard in &self.shards {
            let claims = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            claims.into_iter().try_for_each(|(kind, id)| sorter.push(Record::new(kind, id, 0, [0; 3])))?;
        }
        self.count.store(0, Ordering::Relaxed);
        files.push(sorter.finish()?);
        if files.len() >= FILES {
            let mut sorter = Sorter::with_run(&self.temporary, self.in_memory.div_ceil(2));
            for file in std::mem::take(&mut *files) {
                file.for_each(&mut |record| sorter.push(*record))?;
            }
            files.push(sorter.finish()?);
        }
        Ok(())
    }
}

fn is_in(files: &[Table], kind: BlobKind, id: &BlobId) -> Result<bool> {
    for file in files {
        let (_, records) = file.find(id)?;
        if records.iter().any(|record| record.kind_and_pack().0 == kind) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;

    fn blob(number: u32) -> (BlobKind, BlobId) {
        let kind = if number.is_multiple_of(3) { BlobKind::Tree } else { BlobKind::Data };
        (kind, BlobId(Id::of(&(number / 2).to_le_bytes())))
    }

    #[test]
    fn each_blob_is_claimed_once_by_all_threads_together_in_memory_and_in_files() {
        let temporary = tempfile::tempdir().unwrap();
        let claims = Claims::with_limit(temporary.path(), 100);
        let won = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (claims, won) = (&claims, &won);
                scope.spawn(move || {
                    for number in 0..3000_u32 {
                        let blob = blob((number + thread * 700) % 3000);
                        if claims.claim(blob.0, blob.1).unwrap() {
                            won.lock().unwrap().push(blob);
                        }
                    }
                });
            }
        });
        let won = won.into_inner().unwrap();
        let all: HashSet<_> = (0..3000).map(blob).collect();
        assert_eq!(won.iter().copied().collect::<HashSet<_>>(), all);
        assert_eq!(won.len(), all.len());
        let files = claims.files.read().unwrap();
        assert!(!files.is_empty() && files.len() < FILES, "{}", files.len());
        assert!(files.iter().all(|file| matches!(file, Table::File { .. })));
        assert!(all.iter().all(|(kind, id)| claims.has(*kind, id).unwrap()));
        assert!(!claims.has(BlobKind::Data, &BlobId(Id::of(b"another"))).unwrap());
    }
}
