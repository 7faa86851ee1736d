//! Lists, reads, writes and removes the files of a repository, except packs; and reads the headers of packs. Every
//! operation uses it.

use bytes::Bytes;
use futures::TryStreamExt;
use jiff::Timestamp;

use super::Repository;
use crate::cache::Cached;
use crate::compress::{self, Compression};
use crate::config::Version;
use crate::crypto::Key;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{Id, PackId};
use crate::pack::{self, PackedBlob};

/// The largest decompressed size of a file. A user who knows the password can store a small file that decompresses to
/// a large one.
const fn largest(kind: FileKind) -> usize {
    match kind {
        FileKind::Lock => 64 * 1024,
        FileKind::Snapshot => 8 * 1024 * 1024,
        FileKind::Config | FileKind::Key | FileKind::Index | FileKind::Pack => 512 * 1024 * 1024,
    }
}

/// How much of a pack's end is read at first.
const EAGER_HEADER: u64 = 16 * 1024;

/// An object of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedFile {
    pub id: Id,
    pub size: u64,
    /// By the store's clock.
    pub modified: Timestamp,
}

/// The error for a repository that has more than its caller has memory for.
pub(super) fn too_many(what: &str) -> Error {
    Error::Refused {
        reason: format!("the repository has more than {what}, the most that are read here"),
        hint: "forget snapshots, or use several repositories",
    }
}

impl Repository {
    /// Every file of a kind, sorted by ID. Fails if any part of the listing fails: deletions are decided by it
    /// (restic#4612).
    pub async fn list(&self, kind: FileKind) -> Result<Vec<ListedFile>> {
        let prefix = format!("{}/", kind.directory());
        let action = || format!("list {}", kind.plural());
        let mut listing = self.store().list(&prefix);
        let mut files = Vec::new();
        while let Some(info) = listing.try_next().await.map_err(Error::store(action()))? {
            let name = info.key.rsplit('/').next().unwrap_or_default();
            if let Ok(id) = name.parse::<Id>()
                && info.key == kind.key(id)
            {
                if files.len() >= self.options().most_listed {
                    return Err(too_many(&format!("{} files in '{prefix}'", self.options().most_listed)));
                }
                files.push(ListedFile { id, size: info.size, modified: info.modified });
            }
        }
        files.sort_unstable_by_key(|file| file.id);
        match files.windows(2).find(|pair| pair[0].id == pair[1].id) {
            None => Ok(files),
            Some(pair) => {
                // Pages that overlap may have gaps elsewhere.
                let detail = format!("it contains {} twice", kind.describe(pair[0].id));
                Err(Error::store(action())(lifeboat_store::Error::Listing { prefix, detail }))
            }
        }
    }

    /// The plain content of a file. Its hash is checked; if it does not match, the file is read once more, in case
    /// the network was at fault.
    pub async fn load_file(&self, kind: FileKind, id: Id) -> Result<Vec<u8>> {
        let what = kind.describe(id);
        let mut content = self.load_through_cache(kind, id).await?;
        if Id::of(&content) != id {
            content = self.load_raw(kind, id).await?;
        }
        if Id::of(&content) != id {
            return Err(Error::damaged(what, "its content does not match its ID"));
        }
        self.decode(kind, &what, content.into())
    }

    /// The plain content of a file whose hash was checked.
    pub(crate) fn decode(&self, kind: FileKind, what: &str, mut content: Vec<u8>) -> Result<Vec<u8>> {
        let plain = self.key().open(&mut content).map_err(|error| Error::damaged(what, error))?;
        match plain.first() {
            Some(b'{' | b'[') => Ok(plain.to_vec()),
            Some(2) => compress::decompress_unknown(&plain[1..], largest(kind))
                .map_err(|error| Error::damaged(what, error)),
            _ => Err(Error::damaged(what, "it is neither JSON nor compressed")),
        }
    }

    async fn load_through_cache(&self, kind: FileKind, id: Id) -> Result<Bytes> {
        let Some(cached) = Cached::of(kind) else { return self.load_raw(kind, id).await };
        self.cached(cached, id, self.load_raw(kind, id)).await
    }

    /// A file as stored.
    pub async fn load_raw(&self, kind: FileKind, id: Id) -> Result<Bytes> {
        let action = Error::store(format!("read {}", kind.describe(id)));
        self.store().get(&kind.key(id)).await.map_err(action)
    }

    /// Compresses (since version 2), seals, checks that it can be read back, and writes.
    pub async fn save_file(&self, kind: FileKind, plain: &[u8]) -> Result<Id> {
        let sealed = self.seal_file(plain)?;
        let id = Id::of(&sealed);
        let action = Error::store(format!("write {}", kind.describe(id)));
        self.store().put(&kind.key(id), sealed).await.map_err(action)?;
        Ok(id)
    }

    pub(crate) fn seal_file(&self, plain: &[u8]) -> Result<Vec<u8>> {
        let failed = |source| Error::Local { action: "compress a file of the repository".to_owned(), source };
        let mut sealed = Vec::with_capacity(plain.len() / 2);
        let start = Key::begin(&mut sealed);
        if self.config().version == Version::V1 {
            sealed.extend_from_slice(plain);
        } else {
            sealed.push(2);
            compress::compress(plain, Compression::Auto, &mut sealed).map_err(failed)?;
        }
        self.key().seal(&mut sealed, start);
        let mut copy = sealed.clone();
        let read = self.key().open(&mut copy).map_err(|error| Error::damaged("a new file", error))?;
        let same = match self.config().version {
            Version::V1 => read == plain,
            Version::V2 => {
                let mut back = Vec::new();
                compress::decompress(&read[1..], plain.len(), &mut back).is_ok() && back == plain
            }
        };
        if same {
            Ok(sealed)
        } else {
            Err(Error::damaged("a new file", "it cannot be read back (faulty memory?)"))
        }
    }

    /// The blobs that a pack lists in its own header: for check and repair, which do not trust the index.
    pub async fn load_pack_header(&self, id: PackId, size: u64) -> Result<Vec<PackedBlob>> {
        let what = FileKind::Pack.describe(id.0);
        let read = |range: std::ops::Range<u64>| {
            let action = Error::store(format!("read {what}"));
            let key = FileKind::Pack.key(id.0);
            async move { self.store().get_range(&key, range).await.map_err(action) }
        };
        let named = |error| match error {
            Error::Damaged { detail, .. } => Error::damaged(&*what, detail),
            other => other,
        };
        // Most headers are within the last few kilobytes: one request instead of two.
        let tail = size.min(EAGER_HEADER);
        let mut end = Vec::from(read(size - tail..size).await?);
        let last_four = end.last_chunk().copied().ok_or_else(|| Error::damaged(&*what, "it is empty"))?;
        let length = u64::from(pack::header_length(last_four, size).map_err(named)?);
        if length + 4 > tail {
            end = Vec::from(read(size - 4 - length..size).await?);
        }
        let from = end.len() - 4 - usize::try_from(length).unwrap_or(0);
        let until = end.len() - 4;
        pack::parse_header(self.key(), &mut end[from..until], size - 4 - length).map_err(named)
    }

    pub async fn remove_file(&self, kind: FileKind, id: Id) -> Result<()> {
        let action = Error::store(format!("remove {}", kind.describe(id)));
        self.store().delete(&kind.key(id)).await.map_err(action)
    }
}
