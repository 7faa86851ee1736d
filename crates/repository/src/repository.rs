//! `Repository`: an opened repository. Reads and writes its files (everything except packs); operations are built on
//! it. Cheap to clone.

mod files;
mod open;
mod options;
mod passwords;
mod snapshots;

pub use crate::identity::Identity;
pub use files::ListedFile;
pub use options::{DEFAULT_PACK_SIZE, InitOptions, Options};

use std::sync::Arc;

use bytes::Bytes;
use lifeboat_store::Store;

use crate::cache::{Cache, Cached};
use crate::config::Config;
use crate::crypto::Key;
use crate::error::Result;
use crate::id::{Id, KeyId};

/// An opened repository.
#[derive(Debug, Clone)]
pub struct Repository {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    key: Key,
    key_id: KeyId,
    config: Config,
    options: Options,
    cache: Option<Arc<Cache>>,
}

impl Repository {
    /// This repository without its cache: for check and repair, which must read the store itself.
    pub(crate) fn without_cache(&self) -> Self {
        let Inner { store, key, key_id, config, options, .. } = &*self.inner;
        let inner = Inner {
            store: store.clone(),
            key: Key::new(key.material().clone()),
            key_id: *key_id,
            config: config.clone(),
            options: Options { cache: None, ..options.clone() },
            cache: None,
        };
        Self { inner: Arc::new(inner) }
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn key(&self) -> &Key {
        &self.inner.key
    }

    /// The key file that the password opened.
    pub fn key_id(&self) -> KeyId {
        self.inner.key_id
    }

    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The number of concurrent uploads of packs: from the options, but limited for a disk, which does not benefit
    /// from more than a few.
    pub(crate) fn uploads(&self) -> usize {
        self.at_once(self.options().uploads, 2)
    }

    /// The number of concurrent reads of packs.
    pub(crate) fn reads(&self) -> usize {
        self.at_once(self.options().reads, self.options().threads + 1)
    }

    fn at_once(&self, most: usize, on_disk: usize) -> usize {
        if self.store().is_local() { most.min(on_disk) } else { most }.max(1)
    }

    /// The cached content, or else the result of `load`, which is then cached.
    pub(crate) async fn cached(
        &self,
        cached: Cached,
        id: Id,
        load: impl Future<Output = Result<Bytes>>,
    ) -> Result<Bytes> {
        let Some(cache) = &self.inner.cache else { return load.await };
        let looking = Arc::clone(cache);
        if let Ok(Some(content)) = tokio::task::spawn_blocking(move || looking.get(cached, id)).await {
            return Ok(content);
        }
        let content = load.await?;
        let (keeping, copy) = (Arc::clone(cache), content.clone());
        let _ = tokio::task::spawn_blocking(move || keeping.put(cached, id, &copy)).await;
        Ok(content)
    }

    /// Removes content from the cache that turned out to be wrong.
    pub(crate) async fn forget_cached(&self, cached: Cached, id: Id) {
        if let Some(cache) = &self.inner.cache {
            let cache = Arc::clone(cache);
            let _ = tokio::task::spawn_blocking(move || cache.remove(cached, id)).await;
        }
    }

    /// Removes content from the cache that the repository no longer has.
    pub(crate) fn tidy_cache(&self, cached: Cached, live: impl IntoIterator<Item = Id>) {
        if let Some(cache) = &self.inner.cache {
            cache.retain(cached, &live.into_iter().collect());
        }
    }
}
