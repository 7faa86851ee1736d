//! Where the repositories are: takes a location in restic's syntax and opens the store there, without faults or with
//! another backend around its own.

use std::sync::Arc;

use anyhow::Result;
use lifeboat_repository::location::{Location, OpenSettings};
use lifeboat_store::{Backend, Store, Tuning};

/// Opens a location; a directory is created.
pub(super) async fn create(location: &str) -> Result<Store> {
    Ok(Location::parse(location)?.create(&settings()).await?)
}

pub(super) async fn open(location: &str) -> Result<Store> {
    Ok(Location::parse(location)?.open(&settings()).await?)
}

/// Opens a location whose requests go through the backend that `wrap` puts around the store's own. It gets the prefix of
/// the store's keys, too.
pub(super) async fn open_through(
    location: &str,
    tuning: Tuning,
    wrap: impl FnOnce(Arc<dyn Backend>, &str) -> Arc<dyn Backend>,
) -> Result<Store> {
    let store = open(location).await?;
    let prefix = store.prefix().to_owned();
    Ok(store.wrapped(tuning, |backend| wrap(backend, &prefix)))
}

/// Credentials come from the environment, as for every program that uses S3.
fn settings() -> OpenSettings {
    OpenSettings { environment: std::env::vars().collect(), ..OpenSettings::default() }
}
