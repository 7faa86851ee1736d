//! Rewrites index files: without some packs, with some others. New files are complete in the store before an old one
//! is removed.

use std::collections::HashSet;

use crate::error::Result;
use crate::files::FileKind;
use crate::id::{IndexId, PackId};
use crate::index::{IndexFile, IndexedPack};
use crate::lock::Lock;
use crate::repository::Repository;

/// The number of blobs in an index file, as in restic.
const MAX_BLOBS: usize = 50_000;

/// Collects packs into new index files.
#[derive(Debug)]
pub(super) struct IndexWriter<'a> {
    repository: &'a Repository,
    lock: &'a Lock,
    file: IndexFile,
    blobs: usize,
    pub(super) written: Vec<IndexId>,
}

impl<'a> IndexWriter<'a> {
    pub(super) fn new(repository: &'a Repository, lock: &'a Lock) -> Self {
        Self { repository, lock, file: IndexFile::default(), blobs: 0, written: Vec::new() }
    }

    pub(super) async fn add(&mut self, pack: IndexedPack) -> Result<()> {
        self.blobs += pack.blobs().len();
        self.file.packs.push(pack);
        if self.blobs >= MAX_BLOBS { self.write().await } else { Ok(()) }
    }

    async fn write(&mut self) -> Result<()> {
        let file = std::mem::take(&mut self.file);
        self.blobs = 0;
        if file.packs.is_empty() {
            return Ok(());
        }
        self.lock.verify().await?;
        let id = self.repository.save_file(FileKind::Index, &file.json()?).await?;
        self.written.push(IndexId(id));
        Ok(())
    }

    /// Writes the remaining packs, then removes the `obsolete` files.
    pub(super) async fn finish(mut self, obsolete: &HashSet<IndexId>) -> Result<Vec<IndexId>> {
        self.write().await?;
        self.lock.verify().await?;
        for id in obsolete {
            // Sealed files have random IDs, so this should never match; it protects a file that was just written.
            if !self.written.contains(id) {
                self.repository.remove_file(FileKind::Index, id.0).await?;
            }
        }
        Ok(self.written)
    }
}

/// Reads an index file.
pub(super) async fn load(repository: &Repository, id: IndexId) -> Result<IndexFile> {
    IndexFile::parse(&repository.load_file(FileKind::Index, id.0).await?)
}

/// Removes `packs` from every index file.
pub(super) async fn remove_packs(
    repository: &Repository,
    lock: &Lock,
    packs: &HashSet<PackId>,
) -> Result<Vec<IndexId>> {
    let mut writer = IndexWriter::new(repository, lock);
    let mut obsolete = HashSet::new();
    for listed in repository.list(FileKind::Index).await? {
        let id = IndexId(listed.id);
        let file = load(repository, id).await?;
        if !file.packs.iter().any(|pack| packs.contains(&pack.id)) {
            continue;
        }
        obsolete.insert(id);
        for pack in file.packs.into_iter().filter(|pack| !packs.contains(&pack.id)) {
            writer.add(pack).await?;
        }
    }
    writer.finish(&obsolete).await
}
