//! Creates and opens a repository: takes a store and a password, returns a [`Repository`]. Called by every operation
//! of `cli`, `mover` and `operator` first.

use std::sync::Arc;

use futures::TryStreamExt;
use lifeboat_store::Store;
use secrecy::SecretString;

use super::{InitOptions, Inner, Options, Repository};
use crate::cache::Cache;
use crate::chunker::Polynomial;
use crate::config::Config;
use crate::crypto::{Key, Material};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{Id, KeyId};
use crate::keys::{self, NewKey, Tries};

const SMALLEST_PACK: usize = 4 * 1024 * 1024;
const LARGEST_PACK: usize = 128 * 1024 * 1024;

impl Repository {
    /// Creates a new repository. The config is written last and only if there is none, so that of two concurrent
    /// calls one wins, and an unfinished repository does not count as one: the key of a process that crashed before
    /// it wrote the config is reused.
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
        let begun = Self::begun(&store, password, &options).await?;
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
                    // Another process was faster; our key opens nothing of its repository.
                    let _ = store.delete(&FileKind::Key.key(key_id.0)).await;
                }
                return Err(exists());
            }
            Err(error) => return Err(Error::store("write the config")(error)),
        }
        Self::assembled(store, key, key_id, config, options)
    }

    /// The key of a repository whose creation was interrupted, if there is nothing else.
    async fn begun(
        store: &Store,
        password: &SecretString,
        options: &Options,
    ) -> Result<Option<(KeyId, Material)>> {
        if keys::list(store).await?.is_empty() {
            return Ok(None);
        }
        let part_of = |what: &str| Error::Refused {
            reason: format!("there are keys but no config: an incomplete repository{what}"),
            hint: "check the location; use an empty one, or restore the config",
        };
        for kind in [FileKind::Snapshot, FileKind::Index, FileKind::Pack] {
            let directory = format!("{}/", kind.directory());
            let first = store.list(&directory).try_next().await;
            if first.map_err(Error::store(format!("list {}", kind.plural())))?.is_some() {
                return Err(part_of(&format!(", with {}", kind.plural())));
            }
        }
        match keys::opened_by(store, password, options.costliest_key).await? {
            Some(begun) => Ok(Some(begun)),
            None => Err(part_of(" whose creation was started with another password")),
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
        let tries = Tries { first: options.key_hint.as_deref(), limit: options.costliest_key };
        let (key_id, key) = keys::search(&store, password, &tries, &sealed).await?;
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
}

#[cfg(test)]
mod tests;
