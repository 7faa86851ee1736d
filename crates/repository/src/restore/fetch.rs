//! Fetches the reads that the walk plans, with several concurrent requests, and passes the results to the worker
//! threads. Bounded by the number of requests and by the bytes that are fetched but not yet written.

use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::shared::Shared;
use super::window::Read;
use crate::error::{Error, Result};
use crate::files::FileKind;

/// The limit for sealed bytes between the store and the disk.
const IN_FLIGHT: usize = 24 * 1024 * 1024;
const UNIT: usize = 1024;

/// A read and its result.
pub(super) struct Fetched {
    pub(super) read: Read,
    /// None if the store did not return the bytes: each blob is then read separately, from every copy.
    pub(super) sealed: Option<Bytes>,
    _room: OwnedSemaphorePermit,
}

/// Runs until all reads are fetched and the sender of `reads` is dropped.
pub(super) async fn run(shared: Arc<Shared>, mut reads: mpsc::Receiver<Read>, done: Sender<Fetched>) {
    let requests = Arc::new(Semaphore::new(shared.reader.repository().reads()));
    let room = Arc::new(Semaphore::new(IN_FLIGHT / UNIT));
    let mut tasks = JoinSet::new();
    loop {
        let read = tokio::select! {
            read = reads.recv() => read,
            () = shared.cancel.cancelled() => None,
        };
        let Some(read) = read else { break };
        while tasks.try_join_next().is_some() {}
        let length = usize::try_from(read.end - read.start).unwrap_or(IN_FLIGHT);
        let units = u32::try_from((length.min(IN_FLIGHT) / UNIT).max(1)).unwrap_or(1);
        let permits = async {
            let room = Arc::clone(&room).acquire_many_owned(units).await.ok()?;
            let request = Arc::clone(&requests).acquire_owned().await.ok()?;
            Some((room, request))
        };
        let permits = tokio::select! {
            permits = permits => permits,
            () = shared.cancel.cancelled() => None,
        };
        let Some((room, request)) = permits else { break };
        let (shared, done) = (Arc::clone(&shared), done.clone());
        tasks.spawn(async move {
            let fetched = tokio::select! {
                fetched = fetch(&shared, &read) => fetched,
                () = shared.cancel.cancelled() => Err(Error::Cancelled),
            };
            drop(request);
            match fetched {
                // Fails only when all workers are gone, which have reported the reason.
                Ok(sealed) => drop(done.send(Fetched { read, sealed, _room: room })),
                Err(error) => shared.fail(error),
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

async fn fetch(shared: &Shared, read: &Read) -> Result<Option<Bytes>> {
    let key = FileKind::Pack.key(read.pack.0);
    let fetched = shared.reader.repository().store().get_range(&key, read.start..read.end).await;
    let length = read.end - read.start;
    match fetched.map_err(Error::store(format!("read pack {}", read.pack.short()))) {
        Ok(sealed) if sealed.len() as u64 == length => Ok(Some(sealed)),
        Ok(_) => Ok(None),
        Err(error) if Shared::is_local(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
