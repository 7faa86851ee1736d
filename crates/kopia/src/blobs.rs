//! The blobs of a repository in a store. In object storage the key of a blob is its name; kopia's directories (and its
//! SFTP, WebDAV and rclone storage) cut long names into directories and add a suffix. Read-only.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use lifeboat_store::Store;
use serde::Deserialize;

use crate::error::{Error, Result};

/// The name of the blob with the repository's format.
pub(crate) const FORMAT: &str = "kopia.repository";
const SUFFIX: &str = ".f";
const SHARDS: &str = ".shards";
const LONGEST_SHARDS: u64 = 64 * 1024;
/// The longest listing that is kept, in bytes of names.
const LONGEST_LISTING: usize = 256 * 1024 * 1024;

/// A blob in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) name: String,
    pub(crate) size: u64,
}

/// How names become keys.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Layout {
    Flat,
    Sharded(Shards),
}

/// The content of `.shards`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Shards {
    default: Vec<usize>,
    #[serde(rename = "maxNonShardedLength")]
    longest_whole: usize,
    #[serde(default)]
    overrides: Vec<Override>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Override {
    prefix: String,
    #[serde(default)]
    shards: Option<Vec<usize>>,
}

impl Default for Shards {
    fn default() -> Self {
        Self { default: vec![1, 3], longest_whole: 20, overrides: Vec::new() }
    }
}

impl Shards {
    fn key(&self, name: &str) -> String {
        let mut key = String::with_capacity(name.len() + 4);
        let mut rest = name;
        if name.len() > self.longest_whole {
            let chosen = self.overrides.iter().find(|one| name.starts_with(&one.prefix));
            let sizes =
                chosen.map_or(self.default.as_slice(), |one| one.shards.as_deref().unwrap_or_default());
            for size in sizes {
                if rest.len() <= *size {
                    break;
                }
                let Some((part, after)) = rest.split_at_checked(*size) else { break };
                if !part.is_empty() {
                    key.push_str(part);
                    key.push('/');
                }
                rest = after;
            }
        }
        key.push_str(rest);
        key.push_str(SUFFIX);
        key
    }
}

/// Reads the blobs of one repository. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    store: Store,
    layout: Layout,
}

impl Blobs {
    /// Finds out which layout the repository has.
    pub(crate) async fn open(store: Store) -> Result<Self> {
        for (key, sharded) in [(FORMAT.to_owned(), false), (format!("{FORMAT}{SUFFIX}"), true)] {
            let exists = store.exists(&key).await.map_err(Error::store("look for a kopia repository"))?;
            if !exists {
                continue;
            }
            let layout = if sharded { Layout::Sharded(shards(&store).await?) } else { Layout::Flat };
            return Ok(Self { store, layout });
        }
        Err(Error::NoRepository { location: store.name().to_owned() })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    fn key(&self, name: &str) -> String {
        match &self.layout {
            Layout::Flat => name.to_owned(),
            Layout::Sharded(shards) => shards.key(name),
        }
    }

    /// A whole blob of at most `most` bytes.
    pub(crate) async fn get(&self, name: &str, most: u64) -> Result<Bytes> {
        read(&self.store, &self.key(name), name, most).await
    }

    /// A part of a blob.
    pub(crate) async fn range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let length = range.end.saturating_sub(range.start);
        let bytes = self.store.get_range(&self.key(name), range).await;
        let bytes = bytes.map_err(Error::store(format!("read blob '{name}'")))?;
        if bytes.len() as u64 != length {
            return Err(Error::damaged(format!("blob '{name}'"), "it is shorter than the index says"));
        }
        Ok(bytes)
    }

    /// All blobs whose names start with `prefix`, which has one character.
    pub(crate) async fn list(&self, prefix: char) -> Result<Vec<Blob>> {
        let mut listing = self.store.list(&prefix.to_string());
        let mut blobs = Vec::new();
        let mut size = 0;
        let action = || format!("list the blobs '{prefix}…'");
        while let Some(info) = listing.try_next().await.map_err(Error::store(action()))? {
            let name = match &self.layout {
                Layout::Flat => Some(info.key),
                Layout::Sharded(_) => info.key.strip_suffix(SUFFIX).map(|key| key.replace('/', "")),
            };
            // Files beside the blobs, such as those that kopia is writing, are none.
            let Some(name) = name.filter(|name| !name.contains('/') && name.starts_with(prefix)) else {
                continue;
            };
            size += name.len() + size_of::<Blob>();
            if size > LONGEST_LISTING {
                return Err(Error::damaged("the repository", "it has more blobs than fit into memory"));
            }
            blobs.push(Blob { name, size: info.size });
        }
        Ok(blobs)
    }
}

async fn shards(store: &Store) -> Result<Shards> {
    match read(store, SHARDS, SHARDS, LONGEST_SHARDS).await {
        Ok(text) => {
            serde_json::from_slice(&text).map_err(|error| Error::damaged(format!("file '{SHARDS}'"), error))
        }
        Err(error) if error.is_not_found() => Ok(Shards::default()),
        Err(error) => Err(error),
    }
}

async fn read(store: &Store, key: &str, name: &str, most: u64) -> Result<Bytes> {
    let action = || format!("read blob '{name}'");
    let mut reading = store.get_stream(key).await.map_err(Error::store(action()))?;
    let mut all = BytesMut::new();
    while let Some(chunk) = reading.body.try_next().await.map_err(Error::store(action()))? {
        if (all.len() + chunk.len()) as u64 > most {
            let detail = format!("it has more than the {most} bytes that such a blob may have");
            return Err(Error::damaged(format!("blob '{name}'"), detail));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_into_directories() {
        let shards = Shards::default();
        assert_eq!(shards.key("kopia.repository"), "kopia.repository.f");
        assert_eq!(
            shards.key("p1f09ab00000000000000000000000000-s01"),
            "p/1f0/9ab00000000000000000000000000-s01.f"
        );
    }

    #[test]
    fn the_file_of_the_repository_decides() {
        let text = r#"{"default":[3,3],"maxNonShardedLength":4,"overrides":[{"prefix":"x","shards":null}]}"#;
        let shards: Shards = serde_json::from_str(text).unwrap();
        assert_eq!(shards.key("abcdefgh"), "abc/def/gh.f");
        assert_eq!(shards.key("xbcdefgh"), "xbcdefgh.f");
        assert_eq!(shards.key("äöüß"), "äöüß.f");
    }

    #[tokio::test]
    async fn both_layouts_are_recognised_and_nothing_else() {
        let store = Store::memory();
        assert!(matches!(Blobs::open(store.clone()).await, Err(Error::NoRepository { .. })));
        store.put("kopia.repository.f", "{}").await.unwrap();
        store.put("x/n0/_12345678901234567890123-s1.f", "a").await.unwrap();
        store.put("x/n0/_12345678901234567890123-s1.f.tmp.1", "a").await.unwrap();
        let blobs = Blobs::open(store.clone()).await.unwrap();
        assert_eq!(blobs.list('x').await.unwrap()[0].name, "xn0_12345678901234567890123-s1");
        assert_eq!(blobs.list('x').await.unwrap().len(), 1);
        store.put("kopia.repository", "{}").await.unwrap();
        assert_eq!(Blobs::open(store).await.unwrap().layout, Layout::Flat);
    }

    #[tokio::test]
    async fn a_blob_that_is_too_large_is_not_read() {
        let store = Store::memory();
        store.put(FORMAT, "12345").await.unwrap();
        let blobs = Blobs::open(store).await.unwrap();
        assert!(blobs.get(FORMAT, 5).await.is_ok());
        let error = blobs.get(FORMAT, 4).await.unwrap_err();
        assert!(error.to_string().contains("more than the 4 bytes"), "{error}");
    }
}
