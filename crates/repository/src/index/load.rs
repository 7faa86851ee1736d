//! Reads all index files: several concurrently, each parsed into the sorter.

use futures::{StreamExt, stream};

use super::file::IndexFile;
use super::table::{Record, Sorter};
use super::{Index, PackNumbers};
use crate::cache::Cached;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::IndexId;
use crate::repository::Repository;

/// How many index files are read and decoded concurrently; each may have some megabytes.
const CONCURRENT: usize = 4;
/// Pack numbers have 31 bits; a real repository has a few million packs at most.
const MAX_PACKS: usize = 1 << 30;

impl Repository {
    /// The content of all index files.
    pub async fn load_index(&self) -> Result<Index> {
        Index::load(self).await
    }
}

impl Index {
    /// Reads every index file of the repository. A file that cannot be read fails the whole operation.
    pub async fn load(repository: &Repository) -> Result<Self> {
        let files: Vec<IndexId> =
            repository.list(FileKind::Index).await?.iter().map(|file| IndexId(file.id)).collect();
        Self::load_files(repository, files, &mut |_, file| file.map(Some)).await
    }

    /// Reads these index files and passes each, or the error from reading it, to `each`, which decides what is used:
    /// for check and repair, which continue where others must stop.
    pub async fn load_files(
        repository: &Repository,
        files: Vec<IndexId>,
        each: &mut (dyn FnMut(IndexId, Result<IndexFile>) -> Result<Option<IndexFile>> + Send),
    ) -> Result<Self> {
        let temporary = repository.options().temporary.clone();
        let mut sorter = Sorter::new(&temporary);
        let mut numbers = PackNumbers::default();
        let load = |id: IndexId| {
            let repository = repository.clone();
            // A separate task, so that decrypting and parsing uses every core.
            let task = tokio::spawn(async move {
                let plain = repository.load_file(FileKind::Index, id.0).await?;
                IndexFile::parse(&plain).map_err(|error| match error {
                    Error::Damaged { detail, .. } => Error::damaged(FileKind::Index.describe(id.0), detail),
                    other => other,
                })
            });
            async move { (id, task.await.unwrap_or(Err(Error::Cancelled))) }
        };
        let mut loading = stream::iter(files.clone()).map(load).buffer_unordered(CONCURRENT);
        while let Some((id, file)) = loading.next().await {
            if let Some(file) = each(id, file)? {
                insert(&file, &mut numbers, &mut sorter)?;
            }
        }
        drop(loading);
        let table = sorter.finish()?;
        repository.tidy_cache(Cached::Index, files.iter().map(|id| id.0));
        repository.tidy_cache(Cached::Segment(0), numbers.packs.iter().map(|id| id.0));
        Ok(Self { table, packs: numbers.packs, ends: numbers.ends, files })
    }

    /// An index of known packs, for repair and tests.
    pub fn of_packs(file: &IndexFile, temporary: &std::path::Path) -> Result<Self> {
        let mut numbers = PackNumbers::default();
        let mut sorter = Sorter::new(temporary);
        insert(file, &mut numbers, &mut sorter)?;
        Ok(Self { table: sorter.finish()?, packs: numbers.packs, ends: numbers.ends, files: Vec::new() })
    }
}

fn insert(file: &IndexFile, numbers: &mut PackNumbers, sorter: &mut Sorter<'_>) -> Result<()> {
    for pack in &file.packs {
        let number = numbers.number(pack.id);
        if numbers.packs.len() > MAX_PACKS {
            return Err(Error::damaged("the index", "it names more packs than a repository can have"));
        }
        for blob in pack.blobs() {
            let end = &mut numbers.ends[number as usize];
            *end = (*end).max(blob.offset.saturating_add(blob.length));
            let place = [blob.offset, blob.length, blob.uncompressed_length];
            sorter.push(Record::new(blob.kind, blob.id, number, place))?;
        }
    }
    Ok(())
}
