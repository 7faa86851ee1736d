//! Writes a backup's archive as a stream: items from many tasks, in the order in which they arrive, are collected
//! into blocks that are compressed on several threads and uploaded while the backup runs. Memory is a few blocks, for
//! any number of items. Called by the backup pipeline.

pub(crate) mod tar;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lifeboat_api::catalogue::ItemId;
use tokio::sync::{Mutex, MutexGuard};

use crate::FORMAT_VERSION;
use crate::object_store::{ObjectStore, StoreError};
use crate::upload::GzipUpload;

/// The uncompressed size of a block: large enough for a good ratio, small enough to be distributed over cores.
const BLOCK: usize = 1024 * 1024;

/// Options for writing an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// The number of compression threads.
    pub threads: usize,
}

impl Default for WriterOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self { threads: cores.min(8) }
    }
}

/// Why an archive cannot be written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The item cannot be stored under its name; other items can still be written.
    #[error("{item} cannot be written: {part} '{value}' cannot be part of a path")]
    Name { item: Box<ItemId>, part: &'static str, value: String },
    /// The upload failed; nothing more can be written.
    #[error("cannot write '{key}'")]
    Upload { key: String, source: Arc<StoreError> },
}

/// The size of a written archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSize {
    /// Bytes in storage.
    pub compressed: u64,
    /// Bytes of the archive before compression.
    pub plain: u64,
    /// Items, each counted once.
    pub items: u64,
}

/// An archive in progress. If it is dropped before `finish`, nothing remains in storage.
pub struct ArchiveWriter {
    key: String,
    upload: GzipUpload,
    open: Mutex<Open>,
}

/// The current block.
struct Open {
    block: Vec<u8>,
    plain: u64,
    items: u64,
}

impl ArchiveWriter {
    /// Starts the archive at `key` with the version of its format. Needs a tokio runtime.
    pub fn start(store: Arc<dyn ObjectStore>, key: impl Into<String>, options: &WriterOptions) -> Self {
        let limit = store.stall_limit();
        Self::start_with_limit(store, key.into(), options, limit)
    }

    /// `stall_limit`: how long storage may accept no data before the upload fails.
    fn start_with_limit(
        store: Arc<dyn ObjectStore>,
        key: String,
        options: &WriterOptions,
        stall_limit: Duration,
    ) -> Self {
        let upload = GzipUpload::start(store, key.clone(), options.threads, stall_limit);
        let mut block = Vec::with_capacity(BLOCK + BLOCK / 4);
        tar::append(&mut block, "metadata/version", format!("{FORMAT_VERSION}\n").as_bytes(), now());
        Self { key, upload, open: Mutex::new(Open { block, plain: 0, items: 0 }) }
    }

    /// Writes one item: under its plain path and its version's path if this is the version that the cluster prefers,
    /// otherwise only under its version's path. Items are stored in the order of the calls. Waits while storage is
    /// slow; a call that is dropped has written nothing.
    pub async fn append(
        &self,
        id: &ItemId,
        version: &str,
        preferred: bool,
        json: Bytes,
    ) -> Result<(), ArchiveError> {
        let files = files(id, version, preferred)?;
        let mut open = self.open().await?;
        let time = now();
        for file in &files {
            tar::append(&mut open.block, file, &json, time);
        }
        open.items += 1;
        Ok(())
    }

    /// Copies one file of another archive.
    pub(crate) async fn copy(&self, path: &str, content: &[u8]) -> Result<(), ArchiveError> {
        let mut open = self.open().await?;
        tar::append(&mut open.block, path, content, now());
        open.items += 1;
        Ok(())
    }

    /// The current block, with space for another item.
    async fn open(&self) -> Result<MutexGuard<'_, Open>, ArchiveError> {
        let mut open = self.open.lock().await;
        if open.block.len() >= BLOCK {
            let permit = self.upload.permit().await.map_err(|source| self.failed(source))?;
            let next = Vec::with_capacity(BLOCK + BLOCK / 4);
            let full = std::mem::replace(&mut open.block, next);
            open.plain += full.len() as u64;
            permit.send(full);
        }
        Ok(open)
    }

    /// Ends the archive and waits until the upload is complete.
    pub async fn finish(self) -> Result<ArchiveSize, ArchiveError> {
        let Self { key, upload, open } = self;
        let mut open = open.into_inner();
        tar::end(&mut open.block);
        let plain = open.plain + open.block.len() as u64;
        let compressed =
            upload.finish(open.block).await.map_err(|source| ArchiveError::Upload { key, source })?;
        Ok(ArchiveSize { compressed, plain, items: open.items })
    }

    fn failed(&self, source: Arc<StoreError>) -> ArchiveError {
        ArchiveError::Upload { key: self.key.clone(), source }
    }
}

/// The files of an item: under its plain path and its version's path if its version is the preferred one, otherwise
/// only under its version's path.
pub(crate) fn files(id: &ItemId, version: &str, preferred: bool) -> Result<Vec<String>, ArchiveError> {
    let (group, place) = paths(id, version)?;
    Ok(if preferred {
        vec![format!("{group}/{place}"), format!("{group}/{version}-preferredversion/{place}")]
    } else {
        vec![format!("{group}/{version}/{place}")]
    })
}

/// `resources/pods` and `namespaces/shop/web.json`.
fn paths(id: &ItemId, version: &str) -> Result<(String, String), ArchiveError> {
    let bad =
        |part, value: &str| ArchiveError::Name { item: Box::new(id.clone()), part, value: value.to_owned() };
    let check = |part, value: &str| if fits(value) { Ok(()) } else { Err(bad(part, value)) };
    check("type", &id.resource.resource)?;
    check("version", version)?;
    check("name", &id.name)?;
    if id.resource.group.contains('/') {
        return Err(bad("group", &id.resource.group));
    }
    let place = match &id.namespace {
        Some(namespace) => {
            check("namespace", namespace)?;
            format!("namespaces/{namespace}/{}.json", id.name)
        }
        None => format!("cluster/{}.json", id.name),
    };
    Ok((format!("resources/{}", id.resource), place))
}

/// Whether the text can be one segment of a path. Kubernetes accepts no other names.
fn fits(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0'])
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
