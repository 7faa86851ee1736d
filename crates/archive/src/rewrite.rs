//! Rewrites an archive with some of its files changed: those that operations changed after their items were written.
//! The old archive is streamed into the new one; new files are added at its end. Called when a backup is finalized.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use futures::TryStreamExt;
use lifeboat_api::catalogue::ItemId;
use tokio::sync::mpsc;

use crate::object_store::{ObjectStore, StoreError};
use crate::spool::source::{ChunkReader, Meter};
use crate::spool::tar::TarReader;
use crate::spool::{SpoolError, SpoolLimits};
use crate::writer::{ArchiveError, ArchiveSize, ArchiveWriter, WriterOptions, files};

/// The file at the start of every archive; the writer creates it.
const VERSION: &str = "metadata/version";

/// Why an archive was not rewritten; the old one still exists.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    #[error("the archive cannot be read")]
    Read(#[source] SpoolError),
    #[error("the archive cannot be written")]
    Write(#[source] ArchiveError),
}

/// The files to change, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updates {
    files: BTreeMap<String, Bytes>,
}

impl Updates {
    /// Adds the new content of an item.
    pub fn add(
        &mut self,
        id: &ItemId,
        version: &str,
        preferred: bool,
        json: &Bytes,
    ) -> Result<(), ArchiveError> {
        for file in files(id, version, preferred)? {
            self.files.insert(file, json.clone());
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// Rewrites the archive at `key`. It is replaced only when the new one is complete in storage.
pub async fn rewrite(
    store: Arc<dyn ObjectStore>,
    key: &str,
    updates: Updates,
    options: &WriterOptions,
) -> Result<ArchiveSize, RewriteError> {
    let mut body =
        store.get_stream(key).await.map_err(|error| RewriteError::Read(SpoolError::Storage(error)))?.body;
    let (chunks, received) = mpsc::channel(4);
    let (entries, mut read) = mpsc::channel(4);
    let reader = tokio::task::spawn_blocking(move || unpack(received, &entries));
    let feed = async move {
        while let Some(chunk) = body.try_next().await.transpose() {
            let failed = chunk.is_err();
            if chunks.send(chunk).await.is_err() || failed {
                break;
            }
        }
    };
    let writer = ArchiveWriter::start(Arc::clone(&store), key, options);
    let copy = async move {
        let mut updates = updates.files;
        while let Some((name, content)) = read.recv().await {
            let content = updates.remove(&name).unwrap_or(content);
            writer.copy(&name, &content).await?;
        }
        Ok::<_, ArchiveError>((writer, updates))
    };
    let ((), copied) = tokio::join!(feed, copy);
    let (writer, rest) = copied.map_err(RewriteError::Write)?;
    // The archive may be replaced only if it was read completely.
    reader.await.map_err(|_| RewriteError::Read(SpoolError::Stopped))?.map_err(RewriteError::Read)?;
    for (name, content) in &rest {
        writer.copy(name, content).await.map_err(RewriteError::Write)?;
    }
    writer.finish().await.map_err(RewriteError::Write)
}

type Chunks = mpsc::Receiver<Result<Bytes, StoreError>>;

/// Sends the files of an archive to `entries`, on a blocking thread.
fn unpack(chunks: Chunks, entries: &mpsc::Sender<(String, Bytes)>) -> Result<(), SpoolError> {
    let meter = Rc::new(Meter::default());
    let mut tar = TarReader::new(MultiGzDecoder::new(ChunkReader::new(chunks, Rc::clone(&meter))));
    let limit = SpoolLimits::default().entry_bytes;
    let mut run = || -> Result<(), SpoolError> {
        while let Some(header) = tar.next()? {
            if header.size > limit {
                let problem = format!("'{}' has {} bytes, the limit is {limit}", header.name, header.size);
                return Err(SpoolError::TooLarge { problem });
            }
            let mut content = Vec::new();
            tar.content(header.size, &mut content, |_| Ok(()))?;
            if header.name != VERSION && entries.blocking_send((header.name, content.into())).is_err() {
                return Err(SpoolError::Stopped);
            }
        }
        Ok(())
    };
    let result = run();
    match meter.failure.take() {
        Some(error) => Err(SpoolError::Storage(error)),
        None => result,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use lifeboat_api::catalogue::GroupResource;
    use lifeboat_store::Store;

    use super::*;

    const KEY: &str = "backups/b/b.tar.gz";

    fn pod(name: &str) -> ItemId {
        ItemId::namespaced(GroupResource::new("", "pods"), "shop", name)
    }

    async fn archive(names: &[String]) -> Arc<Store> {
        let store = Arc::new(Store::memory());
        let writer = ArchiveWriter::start(store.clone(), KEY, &WriterOptions::default());
        for name in names {
            writer.append(&pod(name), "v1", true, Bytes::from(vec![b'x'; 1000])).await.unwrap();
        }
        writer.finish().await.unwrap();
        store
    }

    async fn files(store: &Store) -> Vec<(String, Vec<u8>)> {
        let bytes = Store::get(store, KEY).await.unwrap();
        let mut archive = tar::Archive::new(MultiGzDecoder::new(bytes.as_ref()));
        let read = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            entry.read_to_end(&mut content).unwrap();
            (name, content)
        });
        read.collect()
    }

    #[tokio::test]
    async fn changed_items_take_the_place_of_the_old_ones_and_new_ones_follow() {
        let names: Vec<_> = (0..2000).map(|at| format!("p{at}")).collect();
        let store = archive(&names).await;
        let before = files(&store).await;
        let mut updates = Updates::default();
        updates.add(&pod("p7"), "v1", true, &Bytes::from_static(b"new")).unwrap();
        updates.add(&pod("more"), "v1", true, &Bytes::from_static(b"more")).unwrap();
        rewrite(store.clone(), KEY, updates.clone(), &WriterOptions::default()).await.unwrap();
        let after = files(&store).await;
        assert_eq!(after.len(), before.len() + 2);
        for ((old, content), (new, now)) in before.iter().zip(&after) {
            assert_eq!(old, new);
            assert_eq!(now.as_slice(), if new.ends_with("/p7.json") { b"new" } else { content.as_slice() });
        }
        assert_eq!(after[after.len() - 2].1, b"more");
        // A server that crashed after this does it again, with the same result.
        rewrite(store.clone(), KEY, updates, &WriterOptions::default()).await.unwrap();
        assert_eq!(files(&store).await, after);
    }

    #[tokio::test]
    async fn an_archive_that_cannot_be_read_stays_as_it_is() {
        let names: Vec<_> = (0..100).map(|at| format!("p{at}")).collect();
        let store = archive(&names).await;
        let whole = Store::get(store.as_ref(), KEY).await.unwrap();
        let cut = whole.slice(..whole.len() - 20);
        Store::put(store.as_ref(), KEY, cut.clone()).await.unwrap();
        let mut updates = Updates::default();
        updates.add(&pod("p7"), "v1", true, &Bytes::from_static(b"new")).unwrap();
        let error = rewrite(store.clone(), KEY, updates, &WriterOptions::default()).await.unwrap_err();
        assert!(matches!(error, RewriteError::Read(_)), "{error}");
        assert_eq!(Store::get(store.as_ref(), KEY).await.unwrap(), cut);
    }
}
