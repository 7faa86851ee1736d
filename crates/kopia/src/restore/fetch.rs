//! Reads what the walk plans, with several requests at once, and opens, verifies and writes it on worker threads.
//! Bounded by the number of requests and by the bytes that are read and not yet written.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::file::File;
use super::shared::Shared;
use super::window::{Planned, Read};
use crate::error::{Error, Result, blocking};
use crate::object;

/// The limit for sealed bytes between the store and the disk.
const IN_FLIGHT: usize = 24 * 1024 * 1024;
const UNIT: usize = 1024;

/// A read with the name of its pack.
pub(super) struct Job {
    pub(super) pack: String,
    pub(super) read: Read<Arc<File>>,
}

/// The limits of all jobs.
struct Limits {
    requests: Arc<Semaphore>,
    room: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

/// Runs until all jobs are done and their sender is dropped.
pub(super) async fn run(shared: Arc<Shared>, mut jobs: mpsc::Receiver<Job>) {
    let options = shared.repository.options();
    let limits = Limits {
        requests: Arc::new(Semaphore::new(options.reads.max(1))),
        room: Arc::new(Semaphore::new(IN_FLIGHT / UNIT)),
        threads: Arc::new(Semaphore::new(options.threads.max(1))),
    };
    let mut tasks = JoinSet::new();
    loop {
        let next = async {
            let job = jobs.recv().await?;
            let length = usize::try_from(job.read.end - job.read.start).unwrap_or(IN_FLIGHT);
            let units = u32::try_from((length.min(IN_FLIGHT) / UNIT).max(1)).unwrap_or(1);
            let room = Arc::clone(&limits.room).acquire_many_owned(units).await.ok()?;
            let request = Arc::clone(&limits.requests).acquire_owned().await.ok()?;
            Some((job, room, request))
        };
        let next = tokio::select! {
            next = next => next,
            () = shared.cancel.cancelled() => None,
        };
        let Some((job, room, request)) = next else { break };
        while tasks.try_join_next().is_some() {}
        tasks.spawn(one(Arc::clone(&shared), job, room, request, Arc::clone(&limits.threads)));
    }
    while tasks.join_next().await.is_some() {}
}

async fn one(
    shared: Arc<Shared>,
    job: Job,
    room: OwnedSemaphorePermit,
    request: OwnedSemaphorePermit,
    threads: Arc<Semaphore>,
) {
    let fetched = tokio::select! {
        fetched = shared.repository.read_range(&job.pack, job.read.start, job.read.end) => fetched,
        () = shared.cancel.cancelled() => return,
    };
    drop(request);
    let sealed = match fetched {
        Ok(sealed) => Some(sealed),
        // Each content is then read by itself, from wherever a fresh index says.
        Err(error) if error.is_local() || job.read.contents.len() > 1 => None,
        Err(error) => return shared.fail(error),
    };
    let Ok(_thread) = threads.acquire_owned().await else { return };
    let writer = Arc::clone(&shared);
    let written = blocking(move || {
        let _room = room;
        write(&writer, job.read, sealed.as_ref());
        Ok(())
    });
    if let Err(error) = written.await {
        shared.fail(error);
    }
}

fn write(shared: &Arc<Shared>, read: Read<Arc<File>>, sealed: Option<&Bytes>) {
    let start = read.start;
    for planned in read.contents {
        if shared.cancel.is_cancelled() {
            return;
        }
        let plain = content(shared, &planned, start, sealed);
        if let Err(error) = &plain
            && !error.is_local()
        {
            return plain.map_or_else(|error| shared.fail(error), drop);
        }
        for (file, at) in planned.places {
            match &plain {
                Ok(plain) => file.write(plain, at),
                Err(error) => file.fail(error),
            }
            file.part_done();
        }
    }
}

/// The bytes of a content: from what was read, or from a read of its own.
fn content(
    shared: &Arc<Shared>,
    planned: &Planned<Arc<File>>,
    start: u64,
    sealed: Option<&Bytes>,
) -> Result<Vec<u8>> {
    let repository = &shared.repository;
    let (part, location) = (&planned.part, &planned.location);
    let slice = sealed.and_then(|sealed| {
        let from = usize::try_from(u64::from(location.offset).checked_sub(start)?).ok()?;
        sealed.get(from..from.checked_add(location.length as usize)?)
    });
    let decoded = slice.map(|slice| repository.decode(&part.content, location, slice.to_vec()));
    let content = match decoded {
        Some(Ok(content)) => content,
        Some(Err(error @ Error::Unsupported { .. })) => return Err(error),
        _ => shared.wait(repository.read(&part.content))?,
    };
    object::of_content(part, content)
}
