//! An optional cache on the local disk: index files, snapshots and parts of packs with trees, as they are in the
//! store (so still encrypted). Content never changes under its name, so nothing can be out of date; every file
//! carries its hash, so a damaged one is as good as none. The cache only ever saves requests: whatever goes wrong
//! with it is logged and forgotten.

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

/// What is kept, each in a directory of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cached {
    Index,
    Snapshot,
    /// Part of a pack; the number is where it begins.
    Segment(u64),
}

impl Cached {
    /// Index files and snapshots are; other files of a repository are read too rarely.
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
    /// In `directory`, which is shared by all repositories. Only its owner may look into it.
    pub(crate) fn open(directory: &Path, repository: &str) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        // A config can say anything; of what is below, files are removed.
        let id: Id = repository
            .parse()
            .map_err(|_| Error::invalid("cache", format!("'{}' is no id", repository.escape_debug())))?;
        let root = directory.join(id.to_string());
        for kind in [Cached::Index, Cached::Snapshot, Cached::Segment(0)] {
            let path = root.join(kind.directory());
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(Error::file("make the cache directory", &path))?;
        }
        // Backups that leave out caches leave this out, too.
        let tag = directory.join("CACHEDIR.TAG");
        if !tag.exists() {
            fs::write(&tag, TAG).map_err(Error::file("write", &tag))?;
        }
        Ok(Self { root })
    }

    /// The bytes, if they are here and whole.
    pub(crate) fn get(&self, cached: Cached, id: Id) -> Option<Bytes> {
        let path = self.path(cached, id);
        let mut content = fs::read(&path).ok()?;
        let split = content.len().checked_sub(HASH);
        let whole = split.is_some_and(|at| Id::of(&content[..at]).0[..] == content[at..]);
        if !whole {
            tracing::debug!(path = %path.display(), "a damaged file in the cache was removed");
            let _ = fs::remove_file(&path);
            return None;
        }
        content.truncate(split?);
        Some(content.into())
    }

    /// Keeps bytes; never half of them.
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
            tracing::debug!(path = %path.display(), %error, "could not write to the cache");
        }
    }

    /// Keeps something no longer.
    pub(crate) fn remove(&self, cached: Cached, id: Id) {
        let _ = fs::remove_file(self.path(cached, id));
    }

    /// Removes what the repository no longer has. `live` are the ids of index files, of snapshots, or of packs.
    pub(crate) fn retain(&self, cached: Cached, live: &HashSet<Id>) {
        let Ok(entries) = fs::read_dir(self.root.join(cached.directory())) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.get(..64)?.parse::<Id>().ok());
            // What is no id is an unfinished file of a process that may still write it.
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
