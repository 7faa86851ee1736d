//! Checks key and index files: whether each can be read, and whether index files agree about a pack.

use std::collections::HashMap;

use super::report::{ErrorKind, HintKind, Report};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{Hasher, IndexId, PackId};
use crate::index::{Index, IndexFile, IndexedPack};
use crate::keys;
use crate::repository::Repository;

/// What the index files contain about a pack so far.
struct IndexedContent {
    /// A hash of its blobs.
    blobs: [u8; 32],
    first: IndexId,
    alike: bool,
    files: u32,
}

pub(super) async fn check_keys(repository: &Repository, report: &Report) -> Result<()> {
    for id in keys::list(repository.store()).await? {
        if let Err(error) = keys::load(repository.store(), id).await {
            report.error(ErrorKind::Key, format!("key {id}"), full_message(&error));
        }
    }
    Ok(())
}

/// The index, from every file that can be read.
pub(super) async fn load(repository: &Repository, report: &Report) -> Result<Index> {
    let listed = repository.list(FileKind::Index).await?;
    let files = listed.iter().map(|file| IndexId(file.id)).collect();
    let mut packs: HashMap<PackId, IndexedContent> = HashMap::new();
    let index = Index::load_files(repository, files, &mut |id, file| match file {
        Ok(file) => {
            for pack in &file.packs {
                note(&mut packs, id, pack);
            }
            Ok(Some(file))
        }
        Err(Error::Cancelled) => Err(Error::Cancelled),
        Err(error) => {
            report.error(ErrorKind::Index, format!("index {id}"), full_message(&error));
            Ok(None::<IndexFile>)
        }
    })
    .await?;
    for (pack, content) in packs {
        let object = format!("pack {pack}");
        if !content.alike {
            // Old versions of restic spread a pack over several files; today it counts as damage, in restic, too.
            report.broken_pack(pack);
            let message =
                format!("index {} and others contradict each other about it", content.first.short());
            report.error(ErrorKind::PackContent, object, message);
        } else if content.files > 1 {
            let message = format!("{} index files name it; `repair index` merges them", content.files);
            report.hint(HintKind::DuplicateIndex, object, message);
        }
    }
    Ok(index)
}

fn note(packs: &mut HashMap<PackId, IndexedContent>, file: IndexId, pack: &IndexedPack) {
    let blobs = fingerprint(pack);
    let content =
        packs.entry(pack.id).or_insert(IndexedContent { blobs, first: file, alike: true, files: 0 });
    content.files += 1;
    content.alike &= content.blobs == blobs;
}

/// The order of blobs in an index file has no meaning.
fn fingerprint(pack: &IndexedPack) -> [u8; 32] {
    let mut blobs: Vec<_> = pack.blobs().collect();
    blobs.sort_unstable_by_key(|blob| (blob.offset, blob.id, blob.kind));
    let mut hash = Hasher::new();
    for blob in blobs {
        hash.update(&blob.id.0.0);
        hash.update(&[u8::from(blob.kind == crate::id::BlobKind::Tree)]);
        for number in [blob.offset, blob.length, blob.uncompressed_length] {
            hash.update(&number.to_be_bytes());
        }
    }
    hash.finish().0
}

/// An error with its sources, on one line.
pub(crate) fn full_message(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}
