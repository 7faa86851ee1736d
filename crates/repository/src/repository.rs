//! `Repository`: an opened repository. Reads and writes its files (everything but packs); operations are built on
//! it. Cheap to clone.

pub use crate::identity::Identity;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use lifeboat_store::Store;
use secrecy::SecretString;

use crate::cache::{Cache, Cached};
use crate::chunker::Polynomial;
use crate::compress::{self, Compression};
use crate::config::{Config, Version};
use crate::crypto::{Key, Material};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{Id, KeyId, PackId, SnapshotId};
use crate::keys::{self, Cost, KeyFile, ListedKey, NewKey};
use crate::pack::{self, PackedBlob};
use crate::snapshot::Snapshot;
use crate::snapshots::{DamagedSnapshot, Found, Loaded};

/// The size that packs aim at; restic's default.
pub const DEFAULT_PACK_SIZE: usize = 16 * 1024 * 1024;
const SMALLEST_PACK: usize = 4 * 1024 * 1024;
const LARGEST_PACK: usize = 128 * 1024 * 1024;
/// No index, snapshot or lock is larger when decompressed.
const MAX_FILE: usize = 512 * 1024 * 1024;
/// What is read of a pack's end at first.
const EAGER_HEADER: u64 = 16 * 1024;
/// Small files read at once.
const CONCURRENT_READS: usize = 16;

/// How a repository is used.
#[derive(Debug, Clone)]
pub struct Options {
    pub compression: Compression,
    /// What packs grow to before they are uploaded.
    pub pack_size: usize,
    /// Uploads of packs in flight, at most; each holds one pack in memory.
    pub uploads: usize,
    /// Reads of packs in flight, at most, during restore, check and prune.
    pub reads: usize,
    /// Threads for hashing, compressing and encrypting.
    pub threads: usize,
    /// Where large indexes are spilled to.
    pub temporary: PathBuf,
    /// Where index files, snapshots and trees are kept from one run to the next.
    pub cache: Option<PathBuf>,
    /// Who we are, for locks, keys and snapshots.
    pub identity: Identity,
    /// The key to try first.
    pub key_hint: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            compression: Compression::default(),
            pack_size: DEFAULT_PACK_SIZE,
            uploads: 4,
            reads: 8,
            threads: cores.min(16),
            temporary: std::env::temp_dir(),
            cache: None,
            identity: Identity::of_system(),
            key_hint: None,
        }
    }
}

/// How a new repository is made.
#[derive(Debug, Clone, Default)]
pub struct InitOptions {
    pub version: Version,
    /// That of another repository, so that copies between them share blobs.
    pub polynomial: Option<u64>,
    pub cost: Cost,
    /// Whether the password may be empty: only when a person said so.
    pub allow_empty_password: bool,
}

/// An object of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedFile {
    pub id: Id,
    pub size: u64,
    /// By the store's clock.
    pub modified: Timestamp,
}

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
    /// Makes a new repository. The config is written last and only if there is none, so of two that try at once
    /// one wins, and a half-made repository is not one: the key of somebody who died before the config is gone on with.
    pub async fn init(
        store: Store,
        password: &SecretString,
        init: InitOptions,
        options: Options,
    ) -> Result<Self> {
        let exists = || Error::RepositoryExists { location: store.name().to_owned() };
        if store.exists("config").await.map_err(Error::store("look for a repository"))? {
            return Err(exists());
        }
        let begun = Self::begun(&store, password).await?;
        let config = Config {
            version: init.version,
            id: Id(rand::random()).to_string(),
            chunker_polynomial: init.polynomial.unwrap_or_else(|| Polynomial::random(&mut rand::rng()).0),
        };
        let (key_id, material) = if let Some(begun) = begun {
            begun
        } else {
            let material = Material::random();
            let new = NewKey {
                password,
                allow_empty: init.allow_empty_password,
                cost: init.cost,
                identity: &options.identity,
            };
            (keys::add(&store, &material, &new).await?, material)
        };
        let key = Key::new(material);
        match store.create("config", key.sealed(&config.json())).await {
            Ok(()) => {}
            Err(error) if error.is_already_exists() => {
                let theirs = store.get("config").await.map_err(Error::store("read the config"))?;
                if key.open(&mut theirs.to_vec()).is_err() {
                    // Someone else was faster; our key opens nothing of theirs.
                    let _ = store.delete(&FileKind::Key.key(key_id.0)).await;
                }
                return Err(exists());
            }
            Err(error) => return Err(Error::store("write the config")(error)),
        }
        Self::assembled(store, key, key_id, config, options)
    }

    /// The key of a repository that somebody began to make, where that is all there is.
    async fn begun(store: &Store, password: &SecretString) -> Result<Option<(KeyId, Material)>> {
        if keys::list(store).await?.is_empty() {
            return Ok(None);
        }
        let part_of = |what: &str| Error::Refused {
            reason: format!("there are keys but no config: part of a repository{what}"),
            hint: "look what is there; give an empty location, or bring back the config",
        };
        for kind in [FileKind::Snapshot, FileKind::Index, FileKind::Pack] {
            let directory = format!("{}/", kind.directory());
            let first = store.list(&directory).try_next().await;
            if first.map_err(Error::store(format!("list {}", kind.plural())))?.is_some() {
                return Err(part_of(&format!(", with {}", kind.plural())));
            }
        }
        match keys::opened_by(store, password).await? {
            Some(begun) => Ok(Some(begun)),
            None => Err(part_of(" that was begun with another password")),
        }
    }

    /// Opens a repository with a password.
    pub async fn open(store: Store, password: &SecretString, options: Options) -> Result<Self> {
        let mut sealed = match store.get("config").await {
            Ok(config) => config.to_vec(),
            Err(error) if error.is_not_found() => {
                return Err(Error::NoRepository { location: store.name().to_owned() });
            }
            Err(error) => return Err(Error::store("read the config")(error)),
        };
        let (key_id, key) = keys::search(&store, password, options.key_hint.as_deref(), &sealed).await?;
        let plain = key.open(&mut sealed).map_err(|error| Error::damaged("the config", error))?;
        let config = Config::parse(plain)?;
        if !Polynomial(config.chunker_polynomial).is_irreducible() {
            return Err(Error::damaged("the config", "its polynomial is not irreducible"));
        }
        Self::assembled(store, key, key_id, config, options)
    }

    fn assembled(store: Store, key: Key, key_id: KeyId, config: Config, options: Options) -> Result<Self> {
        if !(SMALLEST_PACK..=LARGEST_PACK).contains(&options.pack_size) {
            let problem = format!("{} bytes is not between 4 MiB and 128 MiB", options.pack_size);
            return Err(Error::invalid("pack size", problem));
        }
        let cache = options.cache.as_deref().and_then(|directory| {
            let opened = Cache::open(directory, &config.id);
            opened.inspect_err(|error| tracing::warn!(%error, "working without a cache")).ok().map(Arc::new)
        });
        Ok(Self { inner: Arc::new(Inner { store, key, key_id, config, options, cache }) })
    }

    /// The same repository, read from its store alone: for check and repair, which must see what is there.
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

    /// Uploads of packs in flight: as the options say, but a disk gains nothing from more than a few.
    pub(crate) fn uploads(&self) -> usize {
        self.at_once(self.options().uploads, 2)
    }

    /// Reads of packs in flight.
    pub(crate) fn reads(&self) -> usize {
        self.at_once(self.options().reads, self.options().threads + 1)
    }

    fn at_once(&self, most: usize, on_disk: usize) -> usize {
        if self.store().is_local() { most.min(on_disk) } else { most }.max(1)
    }

    /// Every file of a kind, sorted by id. Fails if any part of the listing does: deletion is decided by it (restic#4612).
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
                files.push(ListedFile { id, size: info.size, modified: info.modified });
            }
        }
        files.sort_unstable_by_key(|file| file.id);
        match files.windows(2).find(|pair| pair[0].id == pair[1].id) {
            None => Ok(files),
            Some(pair) => {
                // Pages that overlap may have gaps elsewhere.
                let detail = format!("it shows {} twice", kind.describe(pair[0].id));
                Err(Error::store(action())(lifeboat_store::Error::Listing { prefix, detail }))
            }
        }
    }

    /// A file's plain text. Its hash is checked; what does not match is read once more, in case the network was
    /// at fault.
    pub async fn load_file(&self, kind: FileKind, id: Id) -> Result<Vec<u8>> {
        let what = kind.describe(id);
        let mut content = self.load_through_cache(kind, id).await?;
        if Id::of(&content) != id {
            content = self.load_raw(kind, id).await?;
        }
        if Id::of(&content) != id {
            return Err(Error::damaged(what, "its content does not match its name"));
        }
        let mut content = Vec::from(content);
        let plain = self.key().open(&mut content).map_err(|error| Error::damaged(&*what, error))?;
        match plain.first() {
            Some(b'{' | b'[') => Ok(plain.to_vec()),
            Some(2) => compress::decompress_unknown(&plain[1..], MAX_FILE)
                .map_err(|error| Error::damaged(what, error)),
            _ => Err(Error::damaged(what, "it is neither JSON nor compressed")),
        }
    }

    async fn load_through_cache(&self, kind: FileKind, id: Id) -> Result<Bytes> {
        let Some(cached) = Cached::of(kind) else { return self.load_raw(kind, id).await };
        self.cached(cached, id, self.load_raw(kind, id)).await
    }

    /// What the cache has, or else what `load` gives, which is then kept.
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

    /// Lets the cache forget something that turned out to be wrong.
    pub(crate) async fn forget_cached(&self, cached: Cached, id: Id) {
        if let Some(cache) = &self.inner.cache {
            let cache = Arc::clone(cache);
            let _ = tokio::task::spawn_blocking(move || cache.remove(cached, id)).await;
        }
    }

    /// Lets the cache forget what the repository no longer has.
    pub(crate) fn tidy_cache(&self, cached: Cached, live: impl IntoIterator<Item = Id>) {
        if let Some(cache) = &self.inner.cache {
            cache.retain(cached, &live.into_iter().collect());
        }
    }

    /// A file as it is in the store.
    pub async fn load_raw(&self, kind: FileKind, id: Id) -> Result<Bytes> {
        let action = Error::store(format!("read {}", kind.describe(id)));
        self.store().get(&kind.key(id)).await.map_err(action)
    }

    /// Compresses (from version 2 on), seals, checks that it can be read again, and writes.
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
            Err(Error::damaged("a new file", "it does not read as written (bad memory?)"))
        }
    }

    /// The blobs that a pack lists in its own header: for check and repair, which do not believe the index.
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

    pub async fn load_snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        let plain = self.load_file(FileKind::Snapshot, id.0).await?;
        serde_json::from_slice(&plain)
            .map_err(|error| Error::damaged(FileKind::Snapshot.describe(id.0), error))
    }

    /// All snapshots, oldest first. One that cannot be read fails the whole: what is not seen might be pruned.
    pub async fn load_snapshots(&self) -> Result<Vec<Found>> {
        let loaded = self.load_all_snapshots().await?;
        loaded.damaged.first().map_or(Ok(loaded.found), |damaged| Err(damaged.error()))
    }

    /// All snapshots, for commands that read: damaged ones are passed over with a warning each. A store that cannot
    /// be read is an error.
    pub async fn load_readable_snapshots(&self) -> Result<Loaded> {
        let loaded = self.load_all_snapshots().await?;
        for damaged in &loaded.damaged {
            tracing::warn!("{}: it is passed over; `forget` with its id removes it", damaged.error());
        }
        Ok(loaded)
    }

    /// All snapshots, damaged ones apart.
    pub(crate) async fn load_all_snapshots(&self) -> Result<Loaded> {
        let ids = self.list(FileKind::Snapshot).await?;
        self.tidy_cache(Cached::Snapshot, ids.iter().map(|file| file.id));
        let load = |file: ListedFile| async move {
            let id = SnapshotId(file.id);
            match self.load_snapshot(id).await {
                Ok(snapshot) => Ok(Ok((id, snapshot))),
                Err(Error::Damaged { detail, .. }) => Ok(Err(DamagedSnapshot { id, detail })),
                Err(error) => Err(error),
            }
        };
        let mut loading = stream::iter(ids).map(load).buffer_unordered(CONCURRENT_READS);
        let mut loaded = Loaded::default();
        while let Some(read) = loading.try_next().await? {
            match read {
                Ok(found) => loaded.found.push(found),
                Err(damaged) => loaded.damaged.push(damaged),
            }
        }
        loaded.found.sort_by(|(a, one), (b, other)| one.time.cmp(&other.time).then(a.cmp(b)));
        loaded.damaged.sort_by_key(|damaged| damaged.id);
        Ok(loaded)
    }

    /// Writes a snapshot. The caller has the lock and has verified it.
    pub async fn save_snapshot(&self, snapshot: &Snapshot) -> Result<SnapshotId> {
        let json =
            serde_json::to_vec(snapshot).map_err(|error| Error::invalid("snapshot", error.to_string()))?;
        self.save_file(FileKind::Snapshot, &json).await.map(SnapshotId)
    }

    /// All keys that open the repository.
    pub async fn keys(&self) -> Result<Vec<ListedKey>> {
        let mut listed = Vec::new();
        for id in keys::list(self.store()).await? {
            let file = match keys::load(self.store(), id).await {
                Ok(file) => Some(file),
                Err(Error::Damaged { .. }) => None,
                Err(error) => return Err(error),
            };
            listed.push(ListedKey { id, file });
        }
        Ok(listed)
    }

    /// One more password for the same repository. Proves that it opens before it says that it is there.
    pub async fn add_key(&self, new: &NewKey<'_>) -> Result<KeyId> {
        let id = keys::add(self.store(), self.key().material(), new).await?;
        let file: KeyFile = keys::load(self.store(), id).await?;
        tracing::debug!(%id, made = %file, "added a key");
        Ok(id)
    }

    /// Takes a password away; never the one in use. The caller has the exclusive lock (see `crate::remove_key`).
    pub(crate) async fn remove_key(&self, id: KeyId) -> Result<()> {
        if id == self.key_id() {
            return Err(Error::Refused {
                reason: format!("key {} is the one that this command opened the repository with", id.short()),
                hint: "open it with another password first (`key add` makes one)",
            });
        }
        self.remove_file(FileKind::Key, id.0).await
    }
}

#[cfg(test)]
mod tests;
