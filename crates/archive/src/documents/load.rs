//! Loads documents from storage within the budgets of the process: the stored file is bounded, weighed, and parsed on a
//! blocking thread once there is memory for it.

use std::ops::Deref;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{DocumentError, STORED_LIMIT, decode_each, parse, weigh};
use crate::memory::{Budget, Memory, NoMemory, Share};
use crate::object_store::{ObjectStore, StoreError};

/// Why a document cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Document(#[from] DocumentError),
}

impl From<NoMemory> for LoadError {
    fn from(error: NoMemory) -> Self {
        Self::Document(error.into())
    }
}

/// A list, and the memory that it holds.
#[derive(Debug)]
pub struct List<T> {
    items: Vec<T>,
    _memory: Share,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: Vec::new(), _memory: Share::default() }
    }
}

impl<T> Deref for List<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.items
    }
}

impl<T> List<T> {
    /// The items alone, for callers that keep only a part of each.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }
}

/// A stored file in memory; None if it does not exist. `limit`: its largest size.
pub async fn fetch(
    store: &dyn ObjectStore,
    key: &str,
    limit: usize,
) -> Result<Option<(Bytes, Share)>, LoadError> {
    fetch_from(store, key, limit, Some(&Memory::of_process().stored)).await
}

/// The same, for callers that have taken the memory for several files at once.
pub async fn fetch_reserved(
    store: &dyn ObjectStore,
    key: &str,
    limit: usize,
) -> Result<Option<Bytes>, LoadError> {
    Ok(fetch_from(store, key, limit, None).await?.map(|(stored, _)| stored))
}

async fn fetch_from(
    store: &dyn ObjectStore,
    key: &str,
    limit: usize,
    budget: Option<&Budget>,
) -> Result<Option<(Bytes, Share)>, LoadError> {
    let mut reading = match store.get_stream(key).await {
        Ok(reading) => reading,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let too_large = || StoreError::TooLarge { key: key.to_owned(), limit };
    let size = reading.size.map_or(limit, |size| usize::try_from(size).unwrap_or(usize::MAX));
    if size > limit {
        return Err(too_large().into());
    }
    let share = match budget {
        Some(budget) => budget.take(size).await?,
        None => Share::default(),
    };
    let mut all = BytesMut::new();
    while let Some(chunk) = reading.body.try_next().await? {
        if all.len() + chunk.len() > size {
            return Err(too_large().into());
        }
        all.extend_from_slice(&chunk);
    }
    Ok(Some((all.freeze(), share)))
}

/// Loads a document; None if it does not exist, or is `null`.
pub async fn load<T>(store: &dyn ObjectStore, key: &str) -> Result<Option<T>, LoadError>
where
    T: DeserializeOwned + Send + 'static,
{
    let Some((stored, _share)) = fetch(store, key, STORED_LIMIT).await? else { return Ok(None) };
    let (stored, weight) = on_thread(move || weigh(&stored).map(|weight| (stored, weight))).await?;
    let _work = Memory::of_process().work.take(weight).await?;
    Ok(on_thread(move || parse(&stored)).await?)
}

/// Loads a list; None if it does not exist, or is `null`.
pub async fn load_list<T>(store: &dyn ObjectStore, key: &str) -> Result<Option<List<T>>, LoadError>
where
    T: DeserializeOwned + Send + 'static,
{
    let Some((stored, _share)) = fetch(store, key, STORED_LIMIT).await? else { return Ok(None) };
    let weighed = on_thread(move || weigh(&stored).map(|weight| (stored, weight)));
    let (stored, weight) = weighed.await?;
    let memory = Memory::of_process().held.try_take(weight)?;
    let items: Option<Vec<T>> = on_thread(move || parse(&stored)).await?;
    Ok(items.map(|items| List { items, _memory: memory }))
}

/// Calls `each` with the elements of a list, and gives what it makes of them; None if the list does not exist.
pub async fn load_each<R: Send + 'static>(
    store: &dyn ObjectStore,
    key: &str,
    mut each: impl FnMut(Value) -> Option<R> + Send + 'static,
) -> Result<Option<Vec<R>>, LoadError> {
    let Some((stored, _share)) = fetch(store, key, STORED_LIMIT).await? else { return Ok(None) };
    let (stored, weight) = on_thread(move || weigh(&stored).map(|weight| (stored, weight))).await?;
    let _work = Memory::of_process().work.take(weight).await?;
    let made = on_thread(move || {
        let mut made = Vec::new();
        decode_each(&stored, |element| made.extend(each(element)))?;
        Ok(made)
    });
    Ok(Some(made.await?))
}

async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DocumentError> + Send + 'static,
) -> Result<T, DocumentError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| DocumentError::Stopped)?
}
