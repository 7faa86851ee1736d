//! An optional cache on the local disk: index files, snapshots and parts of packs with trees, as they are in the
//! store (so still encrypted). The content of an ID never changes, so no entry can be outdated; every file contains
//! its hash, so that a damaged one is ignored. The cache only saves requests: its errors are logged and otherwise
//! ignored.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::Id;

const HASH: usize = 32;
const TAG: &str =
    "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of Lifeboat; it can be removed at any time.\n";

/// The kinds of cached content, each in a directory of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cached {
    Index,
    Snapshot,
    /// Part of a pack; the number is its offset.
    Segment(u64),
}

impl Cached {
    /// Index files and snapshots are cached; other files of a repository are read too rarely.
    pub(crate) fn of(kind: FileKind) -> Option<Self> {
        match kind {
            FileKind::Index => Some(Self::Index),
            FileKind::Snapshot => Some(Self::Snapshot),
            _ => None,
        }
    }

    fn directory(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Snapshot => "snapshots",
            Self::Segment(_) => "trees",
        }
    }

    fn file_name(self, id: Id) -> String {
        match self {
            Self::Segment(start) => format!("{id}-{start}"),
            _ => id.to_string(),
        }
    }
}

/// The cache of one repository.
#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens the cache in `directory`, which is shared by all repositories. Only its owner may read it.
    pub(crate) fn open(directory: &Path, repository: &str) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        // A config may contain any ID, and files below this directory are removed.
        let id: Id = repository
            .parse()
            .map_err(|_| Error::invalid("cache", format!("'{}' is not an ID", repository.escape_debug())))?;
        let root = directory.join(id.to_string());
        for kind in [Cached::Index, Cached::Snapshot, Cached::Segment(0)] {
            let path = root.join(kind.directory());
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(Error::file("create the cache directory", &path))?;
        }
        // Backup programs that skip caches skip this one, too.
        let tag = directory.join("CACHEDIR.TAG");
        if !tag.exists() {
            fs::write(&tag, TAG).map_err(Error::file("write", &tag))?;
        }
        Ok(Self { root })
    }

    /// The bytes, if they are cached and intact.
    pub(crate) fn get(&self, cached: Cached, id: Id) -> Option<Bytes> {
        let path = self.path(cached, id);
        let mut content = fs::read(&path).ok()?;
        let split = content.len().checked_sub(HASH);
        let whole = split.is_some_and(|at| Id::of(&content[..at]).0[..] == content[at..]);
        if !whole {
            tracing::debug!(path = %path.display(), "removed a damaged file from the cache");
            let _ = fs::remove_file(&path);
            return None;
        }
        content.truncate(split?);
        Some(content.into())
    }

    /// Stores bytes, atomically.
    pub(crate) fn put(&self, cached: Cached, id: Id, content: &[u8]) {
        let path = self.path(cached, id);
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(self.root.join(cached.directory()))?;
            file.write_all(content)?;
            file.write_all(&Id::of(content).0)?;
            file.persist(&path)?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::debug!(path = %path.display(), %error, "cannot write to the cache");
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, cached: Cached, id: Id) {
        let _ = fs::remove_file(self.path(cached, id));
    }

    /// Removes the entries that the repository no longer has. `live` are the IDs of index files, of snapshots, or of
    /// packs.
    pub(crate) fn retain(&self, cached: Cached, live: &HashSet<Id>) {
        let Ok(entries) = fs::read_dir(self.root.join(cached.directory())) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.get(..64)?.parse::<Id>().ok());
            // A name that is not an ID is an unfinished file, which another process may still be writing.
            if id.is_some_and(|id| !live.contains(&id)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, cached: Cached, id: Id) -> PathBuf {
        self.root.join(cached.directory()).join(cached.file_name(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_comes_back_and_damage_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path(), &"0a".repeat(32)).unwrap();
        let (one, other) = (Id([1; 32]), Id([2; 32]));
        let segment = Cached::Segment(1 << 20);
        cache.put(segment, one, b"content");
        cache.put(segment, other, b"");
        assert_eq!(cache.get(segment, one).unwrap(), b"content".as_slice());
        assert_eq!(cache.get(segment, other).unwrap(), b"".as_slice());
        assert_eq!(cache.get(Cached::Segment(0), one), None);
        assert_eq!(cache.get(Cached::Index, one), None);

        let path = cache.path(segment, one);
        for damaged in [&b""[..], b"content", &[0; 50]] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get(segment, one), None);
            assert!(!path.exists());
        }
        cache.retain(segment, &HashSet::from([one]));
        assert_eq!(cache.get(segment, other), None);
    }

    #[rstest::rstest]
    #[case("")]
    #[case("..")]
    #[case("/absolute")]
    #[case("repository")]
    fn a_name_that_is_no_id_gets_no_cache(#[case] name: &str) {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("cache");
        let name = name.replace("/absolute", &directory.path().display().to_string());
        assert!(Cache::open(&cache, &name).is_err());
        assert!(!cache.exists() && !directory.path().join("index").exists());
    }

    #[tokio::test]
    async fn a_config_that_names_a_directory_as_its_id_removes_nothing_there() {
        use crate::testing::{new_repository, password};
        let (victim, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = victim.path().join("index").join("ab".repeat(32));
        fs::create_dir(victim.path().join("index")).unwrap();
        fs::write(&file, b"precious").unwrap();
        let store = lifeboat_store::Store::memory();
        let repository = new_repository(store.clone(), crate::config::Version::V2).await;
        let config =
            crate::config::Config { id: victim.path().display().to_string(), ..repository.config().clone() };
        store.put("config", repository.key().sealed(&config.json())).await.unwrap();
        let options = crate::repository::Options {
            cache: Some(cache.path().to_owned()),
            ..crate::repository::Options::default()
        };
        let opened = crate::repository::Repository::open(store, &password(), options).await;
        if let Ok(repository) = &opened {
            repository.load_index().await.unwrap();
        }
        assert!(file.exists());
        assert!(matches!(opened, Err(Error::Damaged { .. })), "{opened:?}");
    }
}
