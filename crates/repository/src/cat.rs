//! The internal objects of a repository, for experts: files as JSON, blobs and packs as bytes.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::blobs::BlobReader;
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, Id, IndexId, KeyId, LockId, PackId, SnapshotId};
use crate::keys;
use crate::lock::{LockFile, LockKind, LockOptions};
use crate::locked::locked;
use crate::repository::Repository;
use crate::walk::find_directory;

/// The object to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Config,
    /// The master key of the repository, which decrypts everything.
    MasterKey,
    Index(IndexId),
    Snapshot(SnapshotId),
    Key(KeyId),
    Lock(LockId),
    Pack(PackId),
    Blob(BlobId),
    /// The tree of a snapshot, or of a folder of it.
    Tree {
        snapshot: SnapshotId,
        subfolder: Option<std::path::PathBuf>,
    },
}

/// The content of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Formatted JSON.
    Text(String),
    Bytes(Bytes),
    /// A pack whose content does not match its ID; shown anyway.
    DamagedPack {
        content: Bytes,
        hash: Id,
    },
}

/// Reads an object, under a shared lock or without a lock.
pub async fn cat(repository: &Repository, object: &Object, lock: Option<&LockOptions>) -> Result<Content> {
    locked(repository, LockKind::Shared, lock, async |_| read(repository, object).await).await
}

async fn read(repository: &Repository, object: &Object) -> Result<Content> {
    match object {
        Object::Config => {
            let json = repository.config().json();
            let config: ConfigText<'_> = serde_json::from_slice(&json).map_err(unwritable)?;
            pretty(&config)
        }
        Object::MasterKey => pretty(repository.key().material()),
        Object::Index(id) => {
            let plain = repository.load_file(FileKind::Index, id.0).await?;
            Ok(Content::Text(String::from_utf8_lossy(&plain).into_owned()))
        }
        Object::Snapshot(id) => pretty(&repository.load_snapshot(*id).await?),
        Object::Key(id) => pretty(&keys::load(repository.store(), *id).await?),
        Object::Lock(id) => match LockFile::load(repository, *id).await? {
            Some(lock) => pretty(&lock),
            None => Err(Error::NothingFound { what: format!("there is no lock '{id}'") }),
        },
        Object::Pack(id) => {
            let content = repository.load_raw(FileKind::Pack, id.0).await?;
            let hash = Id::of(&content);
            Ok(if hash == id.0 { Content::Bytes(content) } else { Content::DamagedPack { content, hash } })
        }
        Object::Blob(id) => {
            let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
            for kind in [BlobKind::Data, BlobKind::Tree] {
                if reader.index().has(kind, id)? {
                    return reader.load(kind, id).await.map(Content::Bytes);
                }
            }
            Err(Error::NothingFound { what: format!("there is no blob '{id}'") })
        }
        Object::Tree { snapshot, subfolder } => {
            let root = repository.load_snapshot(*snapshot).await?.tree;
            let reader = BlobReader::new(repository, Arc::new(repository.load_index().await?));
            let tree =
                find_directory(&reader, root, subfolder.as_deref().unwrap_or(std::path::Path::new("/")))
                    .await?;
            reader.load(BlobKind::Tree, &tree).await.map(Content::Bytes)
        }
    }
}

/// The config with its fields in restic's order.
#[derive(Serialize, serde::Deserialize)]
struct ConfigText<'a> {
    version: u32,
    id: &'a str,
    chunker_polynomial: &'a str,
}

fn pretty(value: &impl Serialize) -> Result<Content> {
    serde_json::to_string_pretty(value).map(Content::Text).map_err(unwritable)
}

#[allow(clippy::needless_pass_by_value, reason = "it is for map_err")]
fn unwritable(error: serde_json::Error) -> Error {
    Error::invalid("JSON", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{memory_repository, save_snapshot};

    #[tokio::test]
    async fn every_object_can_be_shown() {
        let repository = memory_repository().await;
        let (id, snapshot) = save_snapshot(&repository, 1, &[("a/b", b"x")]).await;
        let show = |object| {
            let repository = repository.clone();
            async move { cat(&repository, &object, None).await.unwrap() }
        };
        let text = |content| match content {
            Content::Text(text) => text,
            other => panic!("{other:?} is no text"),
        };
        assert!(text(show(Object::Config).await).starts_with("{\n  \"version\": 2,\n  \"id\": \""));
        assert!(text(show(Object::MasterKey).await).contains("encrypt"));
        assert!(text(show(Object::Snapshot(id)).await).contains(&snapshot.tree.to_string()));
        assert!(text(show(Object::Key(repository.key_id())).await).contains("scrypt"));
        let index = IndexId(repository.list(FileKind::Index).await.unwrap()[0].id);
        assert!(text(show(Object::Index(index)).await).starts_with("{\"packs\":["));
        assert_eq!(show(Object::Blob(BlobId(Id::of(b"x")))).await, Content::Bytes(Bytes::from_static(b"x")));
        let tree = Object::Tree { snapshot: id, subfolder: Some("/a".into()) };
        assert!(
            matches!(show(tree).await, Content::Bytes(json) if json.starts_with(b"{\"nodes\":[{\"name\":\"b\""))
        );
        let pack = PackId(repository.list(FileKind::Pack).await.unwrap()[0].id);
        assert!(matches!(show(Object::Pack(pack)).await, Content::Bytes(_)));
        repository.store().put(&FileKind::Pack.key(pack.0), b"other".to_vec()).await.unwrap();
        assert!(matches!(show(Object::Pack(pack)).await, Content::DamagedPack { .. }));
        assert!(cat(&repository, &Object::Blob(BlobId(Id([1; 32]))), None).await.is_err());
    }
}
