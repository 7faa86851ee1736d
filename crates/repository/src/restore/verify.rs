//! Verification: a second walk that reads every written file and compares it with its blobs' IDs.

use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};

use super::compare::Comparing;
use super::directory::DirRef;
use super::feed::{self, Feed};
use super::outcome::add;
use super::shared::{Shared, path_hash};
use super::walk::{self, TreeNames, Visitor};
use crate::error::Result;
use crate::id::BlobId;
use crate::node::Node;
use crate::source::stat::Stat;

const FILES: usize = 4096;
const BLOBS: usize = 16 * 1024;

/// Verifies everything below `tree`; differences become problems.
pub(super) async fn run(shared: &Arc<Shared>, tree: BlobId) -> Result<()> {
    let walker = Arc::clone(shared);
    feed::run(shared, move |feed| {
        let mut verifier = Verifier { shared: Arc::clone(&walker), feed, comparing: Vec::new(), blobs: 0 };
        walk::walk(&walker, tree, &mut verifier)?;
        verifier.flush()?;
        walker.progress.total_is_known();
        Ok(())
    })
    .await
}

struct Verifier {
    shared: Arc<Shared>,
    feed: Feed,
    comparing: Vec<Comparing>,
    blobs: usize,
}

impl Visitor for Verifier {
    fn enter(&mut self, _directory: &DirRef, _selected: bool) -> Result<bool> {
        Ok(true)
    }

    fn entry(&mut self, directory: &DirRef, node: Node) -> Result<()> {
        if !node.is_file() {
            return Ok(());
        }
        let path = directory.location(Some(&node.name));
        if self.shared.untouched.lock().unwrap_or_else(PoisonError::into_inner).contains(&path_hash(&path)) {
            return Ok(());
        }
        self.shared.progress.add_total(1, node.size);
        let stat = directory
            .handle()
            .map_err(std::io::Error::from)
            .and_then(|handle| Stat::at(handle.as_fd(), &node.name));
        match stat {
            Ok(stat) if stat.is_file() && stat.size == node.size => {
                self.blobs += node.blobs().len();
                self.comparing.push(Comparing::start(&self.feed, directory, node, stat)?);
                if self.comparing.len() >= FILES || self.blobs >= BLOBS { self.flush() } else { Ok(()) }
            }
            Ok(stat) => {
                self.shared.problem(
                    &path,
                    format!("verification: it has {} bytes instead of {}", stat.size, node.size),
                );
                Ok(())
            }
            Err(error) => {
                self.shared.problem(&path, format!("verification: cannot read its metadata: {error}"));
                Ok(())
            }
        }
    }

    fn listed(&mut self, _directory: &DirRef, _names: &TreeNames<'_>) -> Result<()> {
        self.shared.check_running()
    }
}

impl Verifier {
    fn flush(&mut self) -> Result<()> {
        self.blobs = 0;
        for comparing in std::mem::take(&mut self.comparing) {
            let wrong = comparing.matches()?.iter().filter(|same| !**same).count();
            if wrong == 0 {
                add(&self.shared.counts.files_verified, 1);
                self.shared.progress.add_done(1, comparing.node.size);
            } else {
                let path = comparing.directory.location(Some(&comparing.node.name));
                let all = comparing.node.blobs().len();
                let message = format!("verification: {wrong} of its {all} blobs differ from the snapshot");
                self.shared.problem(&path, message);
            }
        }
        Ok(())
    }
}
