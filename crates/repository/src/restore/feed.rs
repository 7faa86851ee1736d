//! The threads around a walk: workers, the fetcher, and the channels between them. The walk runs on a thread of its
//! own and feeds the others; when it ends, they finish the remaining work.

use std::sync::Arc;

use crossbeam_channel::Sender;
use tokio::sync::mpsc;

use super::shared::Shared;
use super::window::Read;
use super::work::{self, Job};
use super::{fetch, file::File};
use crate::error::{Error, Result};

/// The number of planned reads that wait: enough that the fetcher never waits for the walk.
const READS: usize = 64;
const JOBS: usize = 256;

/// Where a walk sends its work. Sending blocks while the others are behind.
pub(super) struct Feed {
    reads: mpsc::Sender<Read>,
    jobs: Sender<Job>,
}

impl Feed {
    /// Fails when the restore was stopped.
    pub(super) fn read(&self, read: Read) -> Result<()> {
        self.reads.blocking_send(read).map_err(|_| Error::Cancelled)
    }

    pub(super) fn job(&self, job: Job) -> Result<()> {
        self.jobs.send(job).map_err(|_| Error::Cancelled)
    }

    pub(super) fn complete(&self, file: Arc<File>) -> Result<()> {
        self.job(Job::Complete(file))
    }
}

/// Runs a walk with everything that it needs until all work is done. Returns the result of the walk.
pub(super) async fn run<T: Send + 'static>(
    shared: &Arc<Shared>,
    walk: impl FnOnce(Feed) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (read_sender, reads) = mpsc::channel(READS);
    let (job_sender, jobs) = crossbeam_channel::bounded(JOBS);
    // Bounded by the bytes that the fetcher lets through.
    let (fetched_sender, fetched) = crossbeam_channel::unbounded();
    let mut workers = Vec::new();
    for _ in 0..shared.reader.repository().options().threads.max(1) {
        let (shared, fetched, jobs) = (Arc::clone(shared), fetched.clone(), jobs.clone());
        workers.push(tokio::task::spawn_blocking(move || {
            // If a worker panics, the others must not wait for its work.
            let guard = shared.cancel.clone().drop_guard();
            work::run(&shared, &fetched, &jobs);
            guard.disarm();
        }));
    }
    drop((fetched, jobs));
    let stop = shared.cancel.clone();
    let walking = tokio::task::spawn_blocking(move || {
        let guard = stop.drop_guard();
        let walked = walk(Feed { reads: read_sender, jobs: job_sender });
        if walked.is_ok() {
            guard.disarm();
        }
        walked
    });
    let fetching = tokio::spawn(fetch::run(Arc::clone(shared), reads, fetched_sender));
    let walked = walking.await;
    let died = |_| Error::Local {
        action: "continue the restore".to_owned(),
        source: std::io::Error::other("one of its threads has panicked"),
    };
    fetching.await.map_err(died)?;
    for worker in workers {
        worker.await.map_err(died)?;
    }
    match walked.map_err(died)? {
        Ok(value) => shared.check_fatal().map(|()| value),
        // The error that stopped the restore says more than that the walk was cancelled.
        Err(Error::Cancelled) => shared.check_fatal().and(Err(Error::Cancelled)),
        Err(error) => Err(error),
    }
}
