//! Reads every restored file again and compares its parts with their hashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifeboat_repository::node::NodeKind;
use rustix::fs::readlinkat;

use super::compare::Existing;
use super::directory::Directory;
use super::shared::Shared;
use super::walk::{self, Visitor};
use crate::error::{Error, Result, blocking};
use crate::id::ObjectId;
use crate::object;
use crate::tree::{self, Entry};

/// The files that are compared at once, by all threads.
const FILES: usize = 64;

/// Verifies everything below `tree`.
pub(super) async fn run(shared: &Arc<Shared>, tree: ObjectId) -> Result<()> {
    let walker = Arc::clone(shared);
    blocking(move || {
        let mut verifier = Verifier { shared: Arc::clone(&walker), files: Vec::new() };
        walk::walk(&walker, tree, &mut verifier)?;
        verifier.check();
        walker.check_fatal()
    })
    .await
}

struct Verifier {
    shared: Arc<Shared>,
    files: Vec<(Arc<Directory>, Entry)>,
}

impl Visitor for Verifier {
    fn enter(&mut self, _directory: &Arc<Directory>) -> Result<bool> {
        Ok(true)
    }

    fn entry(&mut self, directory: &Arc<Directory>, entry: Entry) -> Result<()> {
        let size = if entry.node.is_file() { entry.node.size } else { 0 };
        self.shared.progress.add_total(1, size);
        self.files.push((Arc::clone(directory), entry));
        if self.files.len() >= FILES {
            self.check();
        }
        Ok(())
    }
}

impl Verifier {
    /// Compares the collected files on all threads.
    fn check(&mut self) {
        let files = std::mem::take(&mut self.files);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.shared.repository.options().threads.max(1) {
                scope.spawn(|| {
                    while let Some((directory, entry)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        one(&self.shared, directory, entry);
                    }
                });
            }
        });
    }
}

fn one(shared: &Arc<Shared>, directory: &Arc<Directory>, entry: &Entry) {
    let location = directory.location(Some(&entry.node.name));
    if shared.cancel.is_cancelled() || shared.is_untouched(&location) {
        return;
    }
    let compared = if entry.node.kind == NodeKind::Symlink {
        link(shared, directory, entry)
    } else {
        file(shared, directory, entry)
    };
    match compared {
        Ok(true) => {
            shared.verified(1);
            shared.progress.add_done(1, if entry.node.is_file() { entry.node.size } else { 0 });
        }
        Ok(false) => shared.problem(&location, "verification: it differs from what was written"),
        Err(error) if error.is_local() => shared.problem(&location, format!("verification: {error}")),
        Err(error) => shared.fail(error),
    }
}

fn file(shared: &Arc<Shared>, directory: &Arc<Directory>, entry: &Entry) -> Result<bool> {
    let opened = Existing::open(directory, &entry.node.name);
    let existing = opened.map_err(|error| Error::file("read again", "it")(error.into()))?;
    let (object, size) = (entry.object()?, entry.node.size);
    let parts = shared.wait(object::parts(&shared.repository, object, Some(size), size))?;
    let (mut at, mut buffer) = (0, Vec::new());
    for part in &parts {
        let same = if part.compressed {
            let expected = shared.wait(object::read_part(&shared.repository, part))?;
            buffer.resize(expected.len(), 0);
            existing.read(&mut buffer, at).is_ok() && buffer == expected
        } else {
            existing.has(&shared.repository, part, at, &mut buffer)
        };
        if !same {
            return Ok(false);
        }
        at += part.length;
    }
    Ok(true)
}

fn link(shared: &Arc<Shared>, directory: &Arc<Directory>, entry: &Entry) -> Result<bool> {
    let expected = shared.wait(tree::link_target(&shared.repository, entry))?;
    let found =
        directory.handle().and_then(|handle| readlinkat(&*handle, entry.node.name.as_slice(), Vec::new()));
    Ok(found.is_ok_and(|found| found.into_bytes() == expected))
}
