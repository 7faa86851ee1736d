//! Checks a repository: that all packs are there and long enough, that the directories of the snapshots can be read, and
//! that every content that they need is known. With `read_data` every content is read and verified. Changes nothing.

mod contents;
mod snapshots;

use std::collections::HashSet;
use std::sync::Arc;

use lifeboat_repository::progress::Progress;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::id::ContentId;
use crate::repository::Repository;
use crate::snapshot::Snapshot;

/// Further errors are counted, but not kept.
const KEPT: usize = 10_000;

/// An error that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckError {
    /// The pack, content or snapshot.
    pub object: String,
    pub message: String,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckOutcome {
    pub snapshots: u64,
    pub directories: u64,
    pub files: u64,
    pub packs: u64,
    pub contents: u64,
    pub contents_read: u64,
    pub bytes_read: u64,
    /// The first errors.
    pub errors: Vec<CheckError>,
    pub total_errors: u64,
    /// The snapshots that cannot be restored completely.
    pub damaged_snapshots: Vec<String>,
}

impl CheckOutcome {
    pub fn is_ok(&self) -> bool {
        self.total_errors == 0
    }

    fn error(&mut self, progress: &Progress, object: impl Into<String>, error: impl std::fmt::Display) {
        progress.add_error();
        self.total_errors += 1;
        if self.errors.len() < KEPT {
            self.errors.push(CheckError { object: object.into(), message: error.to_string() });
        }
    }
}

/// Checks the given snapshots, the packs, and with `read_data` every content of the repository.
pub async fn check(
    repository: &Repository,
    chosen: &[Snapshot],
    read_data: bool,
    progress: Arc<Progress>,
    cancel: CancellationToken,
) -> Result<CheckOutcome> {
    let work = async {
        let mut outcome = CheckOutcome::default();
        let mut damaged: HashSet<ContentId> = HashSet::new();
        progress.begin("checking the packs");
        contents::packs(repository, &progress, &mut outcome, &mut damaged).await?;
        if read_data {
            progress.begin("reading the data");
            contents::read(repository, &progress, &mut outcome, &mut damaged).await?;
        }
        progress.begin("checking the snapshots");
        snapshots::check(repository, chosen, &progress, &mut outcome, &damaged).await?;
        Ok(outcome)
    };
    tokio::select! {
        done = work => done,
        () = cancel.cancelled() => Err(Error::Cancelled),
    }
}
