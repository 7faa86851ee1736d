//! Key files: the repository's key, sealed with a key that scrypt derives from a password. A repository may have
//! several; each of them opens it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt, TryStreamExt};
use jiff::Zoned;
use lifeboat_store::Store;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::crypto::{Key, Material};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::id::{Id, KeyId};
use crate::identity::Identity;

/// The cost of scrypt: 2^15 · 8 · 3, which takes a tenth of a second and 32 MiB, as OWASP recommends.
const DEFAULT_COST: Cost = Cost { n: 1 << 15, r: 8, p: 3 };
const SALT: usize = 64;
/// How many keys are tried with a password, as in restic.
const MAX_TRIED: usize = 20;
/// How many keys a repository may have.
const MOST: usize = 10_000;

/// The scrypt parameters: the cost of trying a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    pub n: u64,
    pub r: u32,
    pub p: u32,
}

impl Default for Cost {
    fn default() -> Self {
        DEFAULT_COST
    }
}

impl Cost {
    /// No known program writes a key file that requires more than this.
    pub const HIGHEST: Self = Self { n: 1 << 20, r: 8, p: 1024 };

    /// The bytes of memory that a derivation needs.
    fn memory(self) -> Option<u64> {
        self.n.checked_mul(u64::from(self.r))?.checked_mul(128)
    }

    /// The bytes that it computes: that memory, `p` times.
    fn work(self) -> Option<u64> {
        self.memory()?.checked_mul(u64::from(self.p))
    }

    /// Whether it needs no more memory and no more time than `limit`.
    fn is_within(self, limit: Self) -> bool {
        let fits = |own: Option<u64>, most: Option<u64>| own.zip(most).is_some_and(|(own, most)| own <= most);
        fits(self.memory(), limit.memory()) && fits(self.work(), limit.work())
    }
}

/// The content of a key file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyFile {
    #[serde(with = "crate::time::rfc3339")]
    pub created: Zoned,
    pub username: String,
    pub hostname: String,
    kdf: String,
    #[serde(rename = "N")]
    n: u64,
    r: u32,
    p: u32,
    salt: String,
    data: String,
}

impl KeyFile {
    /// Seals `key` with `password`. CPU-intensive: call it where blocking is allowed.
    fn seal(
        key: &Material,
        password: &SecretString,
        cost: Cost,
        identity: &Identity,
        now: Zoned,
    ) -> Result<Self> {
        let salt: [u8; SALT] = rand::random();
        let by_password = derive(password, cost, &salt)?;
        let plain = serde_json::to_vec(key).map_err(|error| Error::invalid("key", error.to_string()))?;
        Ok(Self {
            created: now,
            username: identity.user.clone(),
            hostname: identity.host.clone(),
            kdf: "scrypt".to_owned(),
            n: cost.n,
            r: cost.r,
            p: cost.p,
            salt: STANDARD.encode(salt),
            data: STANDARD.encode(by_password.sealed(&plain)),
        })
    }

    /// `None` if the password does not belong to this key. CPU-intensive. A key that costs more than `limit` is not tried.
    fn open(&self, password: &SecretString, limit: Cost) -> Result<Option<Material>> {
        let damaged = |detail: &str| Error::damaged("a key", detail);
        let cost = Cost { n: self.n, r: self.r, p: self.p };
        if !cost.is_within(limit) {
            return Err(damaged(&format!("the cost N {}, r {}, p {} is not usable", cost.n, cost.r, cost.p)));
        }
        if self.kdf != "scrypt" {
            return Err(damaged(&format!("the key derivation '{}' is not supported", self.kdf)));
        }
        let salt = STANDARD.decode(&self.salt).map_err(|_| damaged("its salt is broken"))?;
        let mut sealed = STANDARD.decode(&self.data).map_err(|_| damaged("its content is broken"))?;
        let by_password = derive(password, cost, &salt)?;
        let Ok(plain) = by_password.open(&mut sealed) else { return Ok(None) };
        let material: Material = serde_json::from_slice(plain).map_err(|_| damaged("it contains no key"))?;
        if !material.is_valid() {
            return Err(damaged("it contains a key of zeros"));
        }
        Ok(Some(material))
    }
}

fn derive(password: &SecretString, cost: Cost, salt: &[u8]) -> Result<Key> {
    let damaged = || {
        let Cost { n, r, p } = cost;
        Error::damaged("a key", format!("the cost N {n}, r {r}, p {p} is not usable"))
    };
    if !cost.n.is_power_of_two() || !cost.is_within(Cost::HIGHEST) || cost.p > Cost::HIGHEST.p {
        return Err(damaged());
    }
    let log_n = u8::try_from(cost.n.trailing_zeros()).map_err(|_| damaged())?;
    let params = scrypt::Params::new(log_n, cost.r, cost.p).map_err(|_| damaged())?;
    let mut bytes = [0; 64];
    scrypt::scrypt(password.expose_secret().as_bytes(), salt, &params, &mut bytes).map_err(|_| damaged())?;
    Ok(Key::new(Material::from_bytes(&bytes)))
}

/// A listed key.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedKey {
    pub id: KeyId,
    /// None if the file is damaged.
    pub file: Option<KeyFile>,
}

/// A key to be added.
#[derive(Debug, Clone, Copy)]
pub struct NewKey<'a> {
    pub password: &'a SecretString,
    /// Whether the password may be empty: only if the user accepted that everyone can read the repository.
    pub allow_empty: bool,
    pub cost: Cost,
    pub identity: &'a Identity,
}

/// Writes a new key file and returns its ID.
pub(crate) async fn add(store: &Store, key: &Material, new: &NewKey<'_>) -> Result<KeyId> {
    let NewKey { password, allow_empty, cost, identity } = *new;
    if password.expose_secret().is_empty() && !allow_empty {
        return Err(Error::invalid("password", "it is empty"));
    }
    let (key, password, identity) = (key.clone(), password.clone(), identity.clone());
    let sealing = move || KeyFile::seal(&key, &password, cost, &identity, Zoned::now());
    let file = blocking(sealing).await?;
    let json = serde_json::to_vec(&file).map_err(|error| Error::invalid("key", error.to_string()))?;
    let id = KeyId(Id::of(&json));
    store.put(&FileKind::Key.key(id.0), json).await.map_err(Error::store("write a key"))?;
    Ok(id)
}

/// A key that `password` opens, if there is no config to check it with.
pub(crate) async fn opened_by(
    store: &Store,
    password: &SecretString,
    limit: Cost,
) -> Result<Option<(KeyId, Material)>> {
    for id in list(store).await?.into_iter().take(MAX_TRIED) {
        let (file, password) = (load(store, id).await?, password.clone());
        if let Some(material) = blocking(move || file.open(&password, limit)).await? {
            return Ok(Some((id, material)));
        }
    }
    Ok(None)
}

/// Which keys are tried with a password.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tries<'a> {
    /// The beginning of the ID of the key that is tried first.
    pub(crate) first: Option<&'a str>,
    /// A key that costs more is not tried.
    pub(crate) limit: Cost,
}

/// Finds the key that `password` opens and that opens the config. A key left behind by an `init` that lost a race against
/// another one does not open the config. A damaged key is only reported if no other key opens.
pub(crate) async fn search(
    store: &Store,
    password: &SecretString,
    tries: &Tries<'_>,
    config: &[u8],
) -> Result<(KeyId, Key)> {
    let mut ids = list(store).await?;
    if let Some(hint) = tries.first {
        ids.sort_by_key(|id| !id.to_string().starts_with(hint));
    }
    let keys = ids.len();
    if keys == 0 {
        return Err(Error::NoKeys);
    }
    let (mut damage, mut damaged, mut refused, mut useless) = (None, 0, 0, None);
    for id in ids.into_iter().take(MAX_TRIED) {
        match open(store, id, password, tries.limit).await {
            Ok(Some(key)) if key.open(&mut config.to_vec()).is_ok() => return Ok((id, key)),
            Ok(Some(_)) => {
                tracing::warn!(key = %id, "the password opens this key, but the key does not open the config");
                let detail = format!("key {id} does not open it, though the password opens the key");
                useless.get_or_insert(Error::damaged("the config", detail));
            }
            Ok(None) => refused += 1,
            // Another key may open.
            Err(error @ Error::Damaged { .. }) => {
                tracing::warn!(key = %id, %error, "a key cannot be used");
                damaged += 1;
                damage.get_or_insert(error);
            }
            Err(Error::Store { source, .. }) if source.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = useless {
        return Err(error);
    }
    match damage {
        Some(error) if refused == 0 => Err(error),
        _ => Err(Error::WrongPassword { keys, damaged }),
    }
}

/// `None` if the password does not belong to this key.
async fn open(store: &Store, id: KeyId, password: &SecretString, limit: Cost) -> Result<Option<Key>> {
    let file = load(store, id).await?;
    let password = password.clone();
    let material = blocking(move || file.open(&password, limit)).await;
    let named = |error| match error {
        Error::Damaged { detail, .. } => Error::damaged(FileKind::Key.describe(id.0), detail),
        other => other,
    };
    Ok(material.map_err(named)?.map(Key::new))
}

/// Every key file.
pub(crate) async fn list(store: &Store) -> Result<Vec<KeyId>> {
    let listing = store.list("keys/");
    let names = listing.map_ok(|info| info.key).take(MOST + 1).try_collect::<Vec<_>>().await;
    let names = names.map_err(Error::store("list the keys"))?;
    if names.len() > MOST {
        return Err(Error::Refused {
            reason: format!("the repository has more than {MOST} keys"),
            hint: "remove those that no program needs from its directory 'keys'",
        });
    }
    Ok(names.iter().filter_map(|name| name.strip_prefix("keys/")?.parse().ok()).collect())
}

pub(crate) async fn load(store: &Store, id: KeyId) -> Result<KeyFile> {
    let what = FileKind::Key.describe(id.0);
    let json = store.get(&FileKind::Key.key(id.0)).await.map_err(Error::store(format!("read {what}")))?;
    if Id::of(&json) != id.0 {
        return Err(Error::damaged(what, "its content does not match its ID"));
    }
    serde_json::from_slice(&json).map_err(|error| Error::damaged(what, error))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Cancelled))
}

impl fmt::Display for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}, made {}", self.username, self.hostname, crate::time::text(&self.created))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::{Options, Repository};
    use crate::testing::{memory_repository, opened, password};

    /// A key file with a correct ID that cannot be used.
    async fn unusable(store: &Store, right: KeyId, change: impl FnOnce(&mut KeyFile)) {
        let mut file = load(store, right).await.unwrap();
        change(&mut file);
        let json = serde_json::to_vec(&file).unwrap();
        store.put(&FileKind::Key.key(Id::of(&json)), json).await.unwrap();
    }

    async fn opened_with(store: &Store, password: &SecretString) -> Result<(KeyId, Key)> {
        let config = store.get("config").await.unwrap();
        search(store, password, &Tries { first: None, limit: Cost::HIGHEST }, &config).await
    }

    /// The owner of the storage chooses the cost of a key; a server would run out of memory or time.
    #[tokio::test]
    async fn a_key_that_costs_more_than_is_allowed_is_not_tried() {
        let repository = memory_repository().await;
        let store = repository.store().clone();
        let open = async |costliest_key: Cost| {
            let options = Options { costliest_key, ..Options::default() };
            Repository::open(store.clone(), &password(), options).await
        };
        // The key of a test has N 16, r 1, p 1.
        open(Cost { n: 16, r: 1, p: 1 }).await.unwrap();
        let error = open(Cost { n: 8, r: 1, p: 64 }).await.unwrap_err();
        assert!(error.to_string().contains("is not usable"), "{error}");
    }

    #[tokio::test]
    async fn a_key_that_opens_nothing_is_skipped_and_reported_if_there_is_no_other() {
        let (repository, other) = (memory_repository().await, memory_repository().await);
        let (store, right) = (repository.store().clone(), repository.key_id());
        // The key of an `init` that lost a race and was killed.
        let useless = FileKind::Key.key(other.key_id().0);
        store.put(&useless, other.store().get(&useless).await.unwrap()).await.unwrap();
        assert_eq!(opened(store.clone()).await.unwrap().key_id(), right);
        store.delete(&FileKind::Key.key(right.0)).await.unwrap();
        let error = opened(store).await.unwrap_err();
        assert!(error.to_string().contains(&other.key_id().to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_damaged_key_does_not_keep_another_from_opening() {
        let repository = memory_repository().await;
        let (store, right) = (repository.store().clone(), repository.key_id());
        store.put(&FileKind::Key.key(Id([0; 32])), "no key at all").await.unwrap();
        for n in 0..8 {
            unusable(&store, right, |file| file.n = 3 + 2 * n).await;
        }
        unusable(&store, right, |file| file.kdf = "other".to_owned()).await;
        assert_eq!(opened(store.clone()).await.unwrap().key_id(), repository.key_id());
        let wrong = opened_with(&store, &SecretString::from("wrong")).await.unwrap_err();
        assert!(matches!(wrong, Error::WrongPassword { .. }), "{wrong}");
        assert!(wrong.to_string().contains("10 of them are damaged"), "{wrong}");
    }

    #[tokio::test]
    async fn damage_is_reported_if_no_key_is_intact() {
        let repository = memory_repository().await;
        let store = repository.store().clone();
        store.put(&FileKind::Key.key(repository.key_id().0), "no key at all").await.unwrap();
        let error = opened_with(&store, &password()).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }

    #[tokio::test]
    async fn without_key_files_or_config_the_hint_names_what_to_restore() {
        let repository = memory_repository().await;
        let store = repository.store().clone();
        let config = store.get("config").await.unwrap();
        store.put("config", "").await.unwrap();
        let damaged = opened(store.clone()).await.unwrap_err();
        assert!(matches!(damaged, Error::Damaged { .. }), "{damaged}");
        assert!(damaged.hint().unwrap().contains("restore the file 'config'"));
        store.put("config", config).await.unwrap();
        store.delete(&FileKind::Key.key(repository.key_id().0)).await.unwrap();
        let gone = opened(store).await.unwrap_err();
        assert!(matches!(gone, Error::NoKeys), "{gone}");
        assert!(gone.hint().unwrap().contains("copy of the repository"));
    }
}
