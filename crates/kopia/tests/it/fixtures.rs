//! Unpacks the fixtures and opens them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use lifeboat_kopia::restore::{RestoreOptions, RestoreOutcome, restore};
use lifeboat_kopia::{Filter, Options, Repository, Result, find};
use lifeboat_store::Store;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

/// The objects of one repository, by key.
pub(crate) type Objects = BTreeMap<String, Vec<u8>>;

/// All repositories, by name.
pub(crate) fn all() -> &'static BTreeMap<String, Objects> {
    static ALL: OnceLock<BTreeMap<String, Objects>> = OnceLock::new();
    ALL.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/repositories.tar.gz");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()));
        let mut all: BTreeMap<String, Objects> = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            if entry.header().entry_type().is_file() {
                let (name, key) = path.split_once('/').unwrap();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                all.entry(name.to_owned()).or_default().insert(key.to_owned(), content);
            }
        }
        all
    })
}

pub(crate) async fn store(objects: &Objects) -> Store {
    let store = Store::memory();
    for (key, content) in objects {
        store.put(key, content.clone()).await.unwrap();
    }
    store
}

/// The keys of object storage: whole names without a suffix.
pub(crate) fn flat(objects: &Objects) -> Objects {
    let name = |key: &String| key.strip_suffix(".f").map(|key| key.replace('/', ""));
    objects.iter().filter_map(|(key, content)| Some((name(key)?, content.clone()))).collect()
}

pub(crate) async fn try_open(store: Store) -> Result<Repository> {
    Repository::open(store, &SecretString::from("secret"), Options { reads: 4, threads: 2 }).await
}

pub(crate) async fn open(name: &str) -> Repository {
    try_open(store(&all()[name]).await).await.unwrap()
}

/// Restores the latest snapshot.
pub(crate) async fn restore_latest(repository: &Repository, target: &Path) -> Result<RestoreOutcome> {
    let options = RestoreOptions { target: target.to_owned(), verify: true, ..RestoreOptions::default() };
    restore_with(repository, options).await
}

pub(crate) async fn restore_with(repository: &Repository, options: RestoreOptions) -> Result<RestoreOutcome> {
    let snapshot = find(repository, "latest", &Filter::default()).await?;
    restore(repository, &snapshot, options, Arc::default(), CancellationToken::new()).await
}
