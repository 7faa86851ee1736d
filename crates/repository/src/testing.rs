//! A repository in memory, for this crate's tests and those of crates built on it.

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
pub(crate) mod unreliable;

use lifeboat_store::Store;
use secrecy::SecretString;

use crate::config::Version;
use crate::keys::Cost;
use crate::repository::{InitOptions, Options, Repository};

/// The password of every repository made here.
pub fn password() -> SecretString {
    SecretString::from("correct horse")
}

/// A key that costs nothing to open.
pub fn cheap(version: Version) -> InitOptions {
    InitOptions { version, cost: Cost { n: 16, r: 1, p: 1 }, ..InitOptions::default() }
}

/// A new repository of version 2 in memory.
#[allow(clippy::missing_panics_doc, reason = "it is for tests")]
pub async fn memory_repository() -> Repository {
    new_repository(Store::memory(), Version::V2).await
}

/// A new repository in `store`.
#[allow(clippy::missing_panics_doc, reason = "it is for tests")]
pub async fn new_repository(store: Store, version: Version) -> Repository {
    let made = Repository::init(store, &password(), cheap(version), Options::default()).await;
    made.expect("a store of a test takes a new repository")
}

/// Opens what `new_repository` made, perhaps through another store.
pub async fn opened(store: Store) -> crate::error::Result<Repository> {
    Repository::open(store, &password(), Options::default()).await
}
