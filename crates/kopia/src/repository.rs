//! An open repository: loads the index, finds contents and reads them, verified. Nothing is ever written. A running
//! kopia may replace index blobs and packs meanwhile: what is not found is looked up again in a fresh index.

#[cfg(test)]
pub(crate) mod forged;
mod load;
mod segments;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use lifeboat_store::Store;
use secrecy::SecretString;

use crate::blobs::{self, Blobs};
use crate::compress;
use crate::crypto::IV;
use crate::error::{Error, Result, blocking};
use crate::format::{self, Format, Made};
use crate::id::ContentId;
use crate::index::{Index, Location};
use segments::Segments;

/// How often the index is loaded again while a repository is open: a damaged repository must not cause it forever.
const MOST_RELOADS: u32 = 16;
/// The longest sealed content that can be the target of a link.
const SMALL: u32 = 4096 + 128;

/// How a repository is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// Requests at once.
    pub reads: usize,
    /// Threads that open contents and write files.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self { reads: 16, threads }
    }
}

/// An open repository. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Repository(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    blobs: Blobs,
    format: Format,
    options: Options,
    index: RwLock<Arc<Index>>,
    reloads: AtomicU32,
    reloading: tokio::sync::Mutex<()>,
    /// Of directories, manifests and lists, which have packs of their own.
    documents: Segments,
    /// Of small contents among file data: the targets of links.
    links: Segments,
}

impl Repository {
    /// Opens the repository in a store with its password and loads its index.
    pub async fn open(store: Store, password: &SecretString, options: Options) -> Result<Self> {
        let blobs = Blobs::open(store).await?;
        let blob = blobs.get(blobs::FORMAT, format::LARGEST).await?;
        let password = password.clone();
        let format = blocking(move || Format::open(&blob, &password)).await?;
        let index = load::current(&blobs, &format, &options).await?;
        Ok(Self::with(blobs, format, options, index))
    }

    fn with(blobs: Blobs, format: Format, options: Options, index: Index) -> Self {
        Self(Arc::new(Inner {
            blobs,
            format,
            options,
            index: RwLock::new(Arc::new(index)),
            reloads: AtomicU32::new(0),
            reloading: tokio::sync::Mutex::new(()),
            documents: Segments::of(2 * 1024 * 1024),
            links: Segments::of(256 * 1024),
        }))
    }

    /// What it is made with.
    pub fn made(&self) -> &Made {
        &self.0.format.made
    }

    /// The name of its store.
    pub fn name(&self) -> &str {
        self.0.blobs.store().name()
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The current index; a location belongs to the index that it was found in.
    pub(crate) fn index(&self) -> Arc<Index> {
        Arc::clone(&self.0.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The sizes of all packs, by name.
    pub(crate) async fn list_packs(&self) -> Result<Vec<blobs::Blob>> {
        let mut packs = self.0.blobs.list('p').await?;
        packs.extend(self.0.blobs.list('q').await?);
        Ok(packs)
    }

    /// Where a content is. If the index does not know it, all index blobs are read once more.
    pub(crate) async fn locate(&self, id: &ContentId) -> Result<(Arc<Index>, Location)> {
        let index = self.index();
        if let Some(location) = index.find(id) {
            return Ok((index, location));
        }
        let index = self.reload(&index).await?;
        let location = index.find(id).ok_or_else(|| Error::MissingContent { id: id.to_string() })?;
        Ok((index, location))
    }

    /// Loads everything that the repository knows, unless that was done since `seen` was loaded.
    async fn reload(&self, seen: &Arc<Index>) -> Result<Arc<Index>> {
        let _one = self.0.reloading.lock().await;
        let now = self.index();
        if !Arc::ptr_eq(&now, seen) || self.0.reloads.load(Ordering::Relaxed) >= MOST_RELOADS {
            return Ok(now);
        }
        self.0.reloads.fetch_add(1, Ordering::Relaxed);
        tracing::info!("loading all indexes of the kopia repository again");
        let index = Arc::new(load::everything(&self.0.blobs, &self.0.format, &self.0.options).await?);
        *self.0.index.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&index);
        Ok(index)
    }

    /// A content, verified. One that cannot be read is tried once more, from where a fresh index says.
    pub(crate) async fn read(&self, id: &ContentId) -> Result<Vec<u8>> {
        let (index, location) = self.locate(id).await?;
        let error = match self.read_at(id, &index, &location, true).await {
            Ok(plain) => return Ok(plain),
            Err(error) if error.is_local() => error,
            Err(error) => return Err(error),
        };
        let mut fresh = self.index();
        if error.is_not_found() {
            fresh = self.reload(&index).await?;
        } else if let Ok(plain) = self.read_at(id, &index, &location, false).await {
            // The network or the cached segment was at fault.
            return Ok(plain);
        } else if self.0.reloads.load(Ordering::Relaxed) == 0 {
            fresh = self.reload(&index).await?;
        }
        match fresh.find(id) {
            Some(other) if !Arc::ptr_eq(&fresh, &index) => self.read_at(id, &fresh, &other, false).await,
            _ => Err(error),
        }
    }

    async fn read_at(
        &self,
        id: &ContentId,
        index: &Index,
        location: &Location,
        cached: bool,
    ) -> Result<Vec<u8>> {
        let pack = index.pack(location.pack)?;
        let sealed = match id.prefix() {
            0 if cached && location.length <= SMALL => {
                self.0.links.read(&self.0.blobs, pack, location).await?
            }
            prefix if cached && prefix != 0 => self.0.documents.read(&self.0.blobs, pack, location).await?,
            _ => self.0.blobs.range(&pack.name, location.offset.into()..location.end()).await?,
        };
        let (this, id, location) = (self.clone(), *id, *location);
        if sealed.len() < 64 * 1024 {
            return this.decode(&id, &location, Vec::from(sealed));
        }
        blocking(move || this.decode(&id, &location, Vec::from(sealed))).await
    }

    /// A part of a pack, as it is stored.
    pub(crate) async fn read_range(&self, pack: &str, start: u64, end: u64) -> Result<Bytes> {
        self.0.blobs.range(pack, start..end).await
    }

    /// Opens, decompresses and verifies a content.
    pub(crate) fn decode(&self, id: &ContentId, location: &Location, sealed: Vec<u8>) -> Result<Vec<u8>> {
        let what = || format!("content {id}");
        let format = &self.0.format;
        let hash = id.hash();
        let iv = hash.len().checked_sub(IV).map(|start| &hash[start..]);
        let iv = iv.ok_or_else(|| Error::damaged(what(), "its hash is too short"))?;
        let mut plain = format.unseal(iv, sealed).map_err(|problem| Error::damaged(what(), problem))?;
        let length = location.original as usize;
        if location.compression != 0 {
            plain = compress::decompress(location.compression, &plain, length)
                .map_err(|problem| problem.of(what))?;
        }
        if plain.len() != length {
            let detail = format!("it has {} bytes, but the index says {length}", plain.len());
            return Err(Error::damaged(what(), detail));
        }
        if !self.matches(id, &plain) {
            return Err(Error::damaged(what(), "its bytes do not have its hash"));
        }
        Ok(plain)
    }

    /// Whether bytes are those of a content.
    pub(crate) fn matches(&self, id: &ContentId, plain: &[u8]) -> bool {
        self.0.format.hasher.matches(plain, id.hash())
    }
}
