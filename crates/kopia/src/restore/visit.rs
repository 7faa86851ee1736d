//! Restores during the walk over a snapshot: checks what exists at each path, lets `plan` decide what to do,
//! creates directories and links, removes entries in their place, and passes the parts of files to the
//! workers, one window at a time.

use std::os::fd::AsFd;
use std::sync::Arc;

use lifeboat_repository::node::{Node, NodeKind};
use lifeboat_repository::restore::plan::{self, Existing, Removal, Step};
use lifeboat_repository::restore::writing::{MetadataTarget, Stat, look_at};
use rustix::fs::{AtFlags, symlinkat, unlinkat};
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::directory::Directory;
use super::fetch::{self, Job};
use super::file::{File, How};
use super::shared::Shared;
use super::walk::{self, Visitor};
use super::window::{self, Want};
use super::{Action, compare, metadata};
use crate::error::{Error, Result, blocking};
use crate::id::ObjectId;
use crate::index::Index;
use crate::object::{self, Part};
use crate::tree::{self, Entry};

/// The number of parts in a full window.
const PARTS: usize = 16 * 1024;
/// How many planned reads may wait for a worker.
const JOBS: usize = 64;

/// Restores everything below `tree`.
pub(super) async fn run(shared: &Arc<Shared>, tree: ObjectId) -> Result<()> {
    let (jobs, receiver) = mpsc::channel(JOBS);
    let fetching = tokio::spawn(fetch::run(Arc::clone(shared), receiver));
    let own = Arc::clone(shared);
    let walked = blocking(move || {
        let index = own.repository.index();
        let mut restorer = Restorer { shared: Arc::clone(&own), jobs, index, wants: Vec::new() };
        let outcome = walk::walk(&own, tree, &mut restorer).and_then(|()| restorer.flush());
        if outcome.is_err() {
            own.cancel.cancel();
        }
        own.progress.total_is_known();
        outcome
    })
    .await;
    fetching.await.map_err(|error| Error::Local {
        action: "continue the restore",
        source: std::io::Error::other(error),
    })?;
    match walked {
        Ok(()) => shared.check_fatal(),
        // The error that stopped the restore has the cause; the walk reports only that it was cancelled.
        Err(Error::Cancelled) => shared.check_fatal().and(Err(Error::Cancelled)),
        Err(error) => Err(error),
    }
}

struct Restorer {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    /// The index that the locations of the window belong to.
    index: Arc<Index>,
    wants: Vec<Want<Arc<File>>>,
}

impl Visitor for Restorer {
    fn enter(&mut self, directory: &Arc<Directory>) -> Result<bool> {
        Ok(directory.make())
    }

    fn entry(&mut self, directory: &Arc<Directory>, mut entry: Entry) -> Result<()> {
        let location = directory.location(Some(&entry.node.name));
        let made = directory.make();
        let size = if entry.node.is_file() { entry.node.size } else { 0 };
        self.shared.found(size);
        if !made {
            self.shared.problem(&location, "its directory could not be created");
            return Ok(());
        }
        let (existing, stat) = match look(directory, &entry.node.name) {
            Ok(found) => found,
            Err(error) => {
                self.shared.problem(&location, format!("cannot check its path: {error}"));
                return Ok(());
            }
        };
        let done = if entry.node.kind == NodeKind::Symlink {
            self.link(directory, &mut entry, &existing, &stat)
        } else {
            self.file(directory, &entry, &existing, &stat)
        };
        match done {
            Err(error) if error.is_local() => self.shared.problem(&location, error),
            other => return other,
        }
        Ok(())
    }
}

/// What exists at a path. In a dry run the directory may not exist; one that was just made is empty.
fn look(directory: &Arc<Directory>, name: &[u8]) -> std::io::Result<(Existing, Stat)> {
    match directory.presence() {
        Some(presence) if !presence.fresh => look_at(directory.handle()?.as_fd(), name),
        _ => Ok((Existing::Missing, Stat::default())),
    }
}

impl Restorer {
    fn file(
        &mut self,
        directory: &Arc<Directory>,
        entry: &Entry,
        existing: &Existing,
        stat: &Stat,
    ) -> Result<()> {
        let node = &entry.node;
        let options = &self.shared.options;
        match plan::decide(node, existing, options.overwrite, false) {
            Step::Create => self.write(directory, entry, How::Create, None),
            Step::Replace(removal) => {
                if self.make_way(directory, node, removal) {
                    return self.write(directory, entry, How::Create, None);
                }
                Ok(())
            }
            Step::Compare => self.compare(directory, entry, stat),
            Step::Metadata => {
                self.unchanged(directory, node, stat);
                Ok(())
            }
            Step::Skip | Step::Conflict(_) => {
                self.skip(directory, node);
                Ok(())
            }
        }
    }

    /// Writes the parts of a file; of an existing one only those that it does not have.
    fn write(
        &mut self,
        directory: &Arc<Directory>,
        entry: &Entry,
        how: How,
        existing: Option<&compare::Existing>,
    ) -> Result<()> {
        if self.shared.options.dry_run {
            self.report(directory, &entry.node, Action::Restored);
            self.shared.wrote(entry.node.size);
            return Ok(());
        }
        let parts = self.parts(entry)?;
        let rooms = Arc::clone(&self.shared.rooms);
        if rooms.available_permits() == 0 {
            // Files of the open window hold permits until it is read.
            self.flush()?;
        }
        let room = self.shared.wait(async { rooms.acquire_owned().await.map_err(|_| Error::Cancelled) })?;
        let file = File::new(directory, entry.node.clone(), how, room);
        let mut at = 0;
        let mut buffer = Vec::new();
        for part in parts {
            let present =
                existing.is_some_and(|file| file.has(&self.shared.repository, &part, at, &mut buffer));
            if present {
                self.shared.progress.add_done(0, part.length);
            } else {
                self.want(&file, part, at)?;
            }
            at += part.length;
        }
        file.part_done();
        Ok(())
    }

    fn parts(&self, entry: &Entry) -> Result<Vec<Part>> {
        let (object, size) = (entry.object()?, entry.node.size);
        self.shared.wait(object::parts(&self.shared.repository, object, Some(size), size))
    }

    fn want(&mut self, file: &Arc<File>, part: Part, at: u64) -> Result<()> {
        let known = self.index.find(&part.content).map(|location| (Arc::clone(&self.index), location));
        let located =
            known.map_or_else(|| self.shared.wait(self.shared.repository.locate(&part.content)), Ok);
        let (index, location) = match located {
            Ok(found) => found,
            Err(error) if error.is_local() => {
                file.fail(error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if !Arc::ptr_eq(&index, &self.index) {
            self.flush()?;
            self.index = index;
        }
        file.expect_part();
        self.wants.push(Want { part, location, file: Arc::clone(file), at });
        if self.wants.len() >= PARTS { self.flush() } else { Ok(()) }
    }

    /// Passes the window to the workers.
    fn flush(&mut self) -> Result<()> {
        for read in window::plan(std::mem::take(&mut self.wants)) {
            let pack = self.index.pack(read.pack)?.name.clone();
            self.jobs.blocking_send(Job { pack, read }).map_err(|_| Error::Cancelled)?;
        }
        // The index may have been loaded again, because a pack was replaced.
        self.index = self.shared.repository.index();
        Ok(())
    }

    fn compare(&mut self, directory: &Arc<Directory>, entry: &Entry, stat: &Stat) -> Result<()> {
        let node = &entry.node;
        let Ok(existing) = compare::Existing::open(directory, &node.name) else {
            // The existing file cannot be read, so it is replaced.
            if self.make_way(directory, node, Removal::Unlink) {
                return self.write(directory, entry, How::Create, None);
            }
            return Ok(());
        };
        let parts = self.parts(entry)?;
        let (mut at, mut same, mut buffer) = (0, stat.size == node.size, Vec::new());
        for part in &parts {
            same = same && existing.has(&self.shared.repository, part, at, &mut buffer);
            at += part.length;
        }
        if same {
            self.unchanged(directory, node, stat);
        } else if stat.links > 1 {
            // The file has hard links, whose content must not change.
            if self.make_way(directory, node, Removal::Unlink) {
                return self.write(directory, entry, How::Create, None);
            }
        } else {
            let how = How::Repair { identity: existing.identity, size: stat.size };
            return self.write(directory, entry, how, Some(&existing));
        }
        Ok(())
    }

    fn link(
        &mut self,
        directory: &Arc<Directory>,
        entry: &mut Entry,
        existing: &Existing,
        stat: &Stat,
    ) -> Result<()> {
        entry.node.link_target = self.shared.wait(tree::link_target(&self.shared.repository, entry))?;
        let node = &entry.node;
        match plan::decide(node, existing, self.shared.options.overwrite, false) {
            Step::Skip | Step::Conflict(_) | Step::Compare => self.skip(directory, node),
            Step::Metadata => self.unchanged(directory, node, stat),
            step @ (Step::Create | Step::Replace(_)) => {
                if let Step::Replace(removal) = step
                    && !self.make_way(directory, node, removal)
                {
                    return Ok(());
                }
                if self.shared.options.dry_run {
                    self.report(directory, node, Action::Restored);
                    return Ok(());
                }
                let made = directory.handle().and_then(|handle| {
                    symlinkat(node.link_target.as_slice(), &*handle, node.name.as_slice())
                });
                match made {
                    Ok(()) => self.finish(directory, node, Action::Restored),
                    Err(error) => self.failed(directory, node, "create the link", error),
                }
            }
        }
        Ok(())
    }

    /// Sets the metadata of a link that was made, or of a file or link that needs nothing else.
    fn finish(&self, directory: &Arc<Directory>, node: &Node, action: Action) {
        let location = directory.location(Some(&node.name));
        let applied =
            directory.handle().map_err(|error| std::io::Error::from(error).to_string()).and_then(|handle| {
                let stat = Stat::at(handle.as_fd(), &node.name).map_err(|error| error.to_string())?;
                let target = MetadataTarget::Entry { directory: handle.as_fd(), name: &node.name };
                metadata::apply(&self.shared, &target, node, &stat, || location.clone())
                    .map_err(|failures| failures.to_string())
            });
        match applied {
            Ok(()) => {
                self.shared.restored();
                self.shared.notify(action, &location, false, node.size);
            }
            Err(message) => self.shared.problem(&location, message),
        }
    }

    fn unchanged(&self, directory: &Arc<Directory>, node: &Node, _stat: &Stat) {
        if node.is_file() {
            self.shared.progress.add_done(0, node.size);
        }
        if self.shared.options.dry_run {
            self.report(directory, node, Action::Unchanged);
        } else {
            self.finish(directory, node, Action::Unchanged);
        }
    }

    fn skip(&self, directory: &Arc<Directory>, node: &Node) {
        let location = directory.location(Some(&node.name));
        let size = if node.is_file() { node.size } else { 0 };
        self.shared.skipped(&location, size, true);
        self.shared.notify(Action::Skipped, &location, false, node.size);
    }

    /// Counts what a dry run would do.
    fn report(&self, directory: &Arc<Directory>, node: &Node, action: Action) {
        self.shared.restored();
        self.shared.notify(action, &directory.location(Some(&node.name)), false, node.size);
    }

    /// Removes the existing entry at the path of a node.
    fn make_way(&self, directory: &Arc<Directory>, node: &Node, removal: Removal) -> bool {
        if self.shared.options.dry_run {
            return true;
        }
        let flags = if removal == Removal::Unlink { AtFlags::empty() } else { AtFlags::REMOVEDIR };
        let removed = directory.handle().and_then(|handle| unlinkat(&*handle, node.name.as_slice(), flags));
        match removed {
            Ok(()) => true,
            Err(error) => {
                self.failed(directory, node, "remove what is in its place", error);
                false
            }
        }
    }

    fn failed(&self, directory: &Arc<Directory>, node: &Node, action: &str, error: Errno) {
        let message = format!("cannot {action}: {}", std::io::Error::from(error));
        self.shared.problem(&directory.location(Some(&node.name)), message);
    }
}
