//! The walk that restores: checks what exists at each path, asks `plan` what to do, creates directories, removes
//! obstructing entries, and passes files to the workers, one window at a time.

pub(super) mod directories;

use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::compare::Comparing;
use super::delete;
use super::directory::DirRef;
use super::feed::{self, Feed};
use super::file::{File, How};
use super::links::{Fate, Links, Role};
use super::outcome::Action;
use super::plan::{self, Existing, Removal, Repair, Step};
use super::shared::{FILES_AT_ONCE, Shared};
use super::special::Special;
use super::walk::{self, TreeNames, Visitor};
use super::window::{self, Want};
use super::work::Job;
use crate::chunker::length_of_zeros;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::node::{Node, NodeKind};
use crate::source::stat::Stat;

/// The number of files or blobs in a full window.
const FILES: usize = 4 * 1024;
const BLOBS: usize = 32 * 1024;

/// Restores everything below `tree`.
pub(super) async fn run(shared: &Arc<Shared>, tree: BlobId) -> Result<()> {
    let walker = Arc::clone(shared);
    let mut links = feed::run(shared, move |feed| {
        let mut restorer = Restorer::new(Arc::clone(&walker), feed);
        walk::walk(&walker, tree, &mut restorer)?;
        restorer.flush()?;
        walker.progress.total_is_known();
        Ok(restorer.links)
    })
    .await?;
    let linker = Arc::clone(shared);
    let linking = tokio::task::spawn_blocking(move || links.carry_out(&linker));
    let died =
        |error| Error::Local { action: "create hard links".to_owned(), source: std::io::Error::other(error) };
    let outcome = linking.await.map_err(died)?;
    shared.check_fatal()?;
    outcome
}

struct Restorer {
    shared: Arc<Shared>,
    feed: Feed,
    links: Links,
    wants: Vec<Want>,
    /// The number of files in the window.
    files: usize,
    comparing: Vec<(Comparing, Option<Fate>)>,
    comparing_blobs: usize,
}

impl Visitor for Restorer {
    fn enter(&mut self, directory: &DirRef, selected: bool) -> Result<bool> {
        if !selected {
            // Only created if something below it is selected.
            return Ok(true);
        }
        let made = self.make(directory)?;
        if made {
            directory.touch();
        }
        Ok(made)
    }

    fn entry(&mut self, directory: &DirRef, node: Node) -> Result<()> {
        let path = || directory.location(Some(&node.name));
        let supported = !matches!(node.kind, NodeKind::Irregular | NodeKind::Unknown(_) | NodeKind::Socket);
        if !supported {
            self.shared
                .problem(&path(), format!("entries of kind '{}' cannot be restored", node.kind.word()));
            return Ok(());
        }
        if !self.make(directory)? {
            self.shared.problem(&path(), "its directory could not be created");
            return Ok(());
        }
        directory.touch();
        let (existing, stat) = match Self::look(directory, &node.name) {
            Ok(found) => found,
            Err(error) => {
                self.shared.found(0);
                self.shared.problem(&path(), format!("cannot check its path: {error}"));
                return Ok(());
            }
        };
        if node.is_file() {
            self.file(directory, node, &existing, stat)
        } else {
            self.shared.found(0);
            self.special(directory, node, &existing)
        }
    }

    fn listed(&mut self, directory: &DirRef, names: &TreeNames<'_>) -> Result<()> {
        let existed = directory.presence().is_some_and(|presence| !presence.fresh);
        if self.shared.allows_deletion() && existed {
            delete::remove_others(directory, names)?;
        }
        self.shared.check_running()
    }
}

impl Restorer {
    fn new(shared: Arc<Shared>, feed: Feed) -> Self {
        Self {
            links: Links::new(&shared.reader.repository().options().temporary),
            shared,
            feed,
            wants: Vec::new(),
            files: 0,
            comparing: Vec::new(),
            comparing_blobs: 0,
        }
    }

    /// What exists at a path.
    fn look(directory: &DirRef, name: &[u8]) -> std::io::Result<(Existing, Stat)> {
        let missing = Ok((Existing::Missing, Stat::default()));
        // In a dry run the directory may not exist; one that was just created is empty.
        let Some(presence) = directory.presence() else { return missing };
        if presence.fresh {
            return missing;
        }
        let handle = directory.handle()?;
        directories::look_at(handle.as_fd(), name)
    }

    fn file(&mut self, directory: &DirRef, node: Node, existing: &Existing, stat: Stat) -> Result<()> {
        let options = &self.shared.options;
        let step = plan::decide(&node, existing, options.overwrite, options.delete);
        let skipped = matches!(step, Step::Skip | Step::Conflict(_));
        let failed = match self.links.role(directory, &node, skipped)? {
            Role::Other => {
                return self.other_name(directory, node, step);
            }
            Role::First(failed) => Some(failed),
            Role::Single => None,
        };
        self.shared.found(node.size);
        match step {
            Step::Create => self.write(directory, node, How::Create, None, failed),
            Step::Replace(removal) => {
                if self.make_way(directory, &node.name, removal) {
                    return self.write(directory, node, How::Create, None, failed);
                }
                failed.iter().for_each(Fate::mark_lost);
                Ok(())
            }
            Step::Compare => {
                self.comparing_blobs += node.blobs().len();
                self.comparing.push((Comparing::start(&self.feed, directory, node, stat)?, failed));
                if self.comparing.len() >= FILES || self.comparing_blobs >= BLOBS {
                    self.flush()?;
                }
                Ok(())
            }
            Step::Metadata => self.unchanged(directory, node),
            Step::Skip | Step::Conflict(_) => {
                self.skip(directory, &node);
                Ok(())
            }
        }
    }

    /// A further name of a file with several names.
    fn other_name(&mut self, directory: &DirRef, node: Node, step: Step) -> Result<()> {
        self.shared.found(0);
        if step == Step::Skip {
            let node = Node { size: 0, ..node };
            self.skip(directory, &node);
        } else if self.shared.options.dry_run {
            self.report_planned(directory, &node, Action::Restored);
        } else {
            self.links.add(directory, &node);
            if self.links.is_full() {
                return self.link();
            }
        }
        Ok(())
    }

    /// Waits until all files so far are written, and links their further names.
    fn link(&mut self) -> Result<()> {
        self.flush()?;
        let shared = &self.shared;
        shared.runtime.block_on(async {
            tokio::select! {
                all = shared.rooms.acquire_many(FILES_AT_ONCE) => all.map(drop).map_err(|_| Error::Cancelled),
                () = shared.cancel.cancelled() => Err(Error::Cancelled),
            }
        })?;
        self.links.carry_out(shared)
    }

    fn special(&mut self, directory: &DirRef, node: Node, existing: &Existing) -> Result<()> {
        let options = &self.shared.options;
        let step = plan::decide(&node, existing, options.overwrite, options.delete);
        let create = match step {
            Step::Create => true,
            Step::Replace(removal) => {
                if !self.make_way(directory, &node.name, removal) {
                    return Ok(());
                }
                true
            }
            Step::Skip | Step::Conflict(_) => {
                self.skip(directory, &node);
                return Ok(());
            }
            Step::Metadata | Step::Compare => false,
        };
        let action = if create { Action::Restored } else { Action::Unchanged };
        if options.dry_run {
            self.report_planned(directory, &node, action);
            return Ok(());
        }
        let special = Special { directory: directory.clone(), node, create, action: Some(action) };
        self.feed.job(Job::Special(Box::new(special)))
    }

    /// A file whose content is correct.
    fn unchanged(&mut self, directory: &DirRef, mut node: Node) -> Result<()> {
        let path = directory.location(Some(&node.name));
        self.shared.skipped(&path, node.size);
        self.shared.notify(Action::Unchanged, &path, false, node.size);
        if self.shared.options.dry_run {
            return Ok(());
        }
        node.content = None;
        let special = Special { directory: directory.clone(), node, create: false, action: None };
        self.feed.job(Job::Special(Box::new(special)))
    }

    fn skip(&self, directory: &DirRef, node: &Node) {
        let path = directory.location(Some(&node.name));
        let size = if node.is_file() { node.size } else { 0 };
        self.shared.skipped(&path, size);
        self.shared.notify(Action::Skipped, &path, false, size);
    }

    /// In a dry run: reports what would be done.
    fn report_planned(&self, directory: &DirRef, node: &Node, action: Action) {
        self.shared.restored();
        if self.shared.wants_events() {
            let size = if node.is_file() { node.size } else { 0 };
            self.shared.notify(action, &directory.location(Some(&node.name)), false, size);
        }
    }

    /// False if the obstructing entry could not be removed.
    fn make_way(&self, directory: &DirRef, name: &[u8], removal: Removal) -> bool {
        if self.shared.options.dry_run {
            return true;
        }
        let removed = directory
            .handle()
            .and_then(|handle| delete::make_way(&self.shared, handle.as_fd(), name, removal));
        if let Err(error) = removed {
            self.shared.problem(&directory.location(Some(name)), delete::obstacle(error));
        }
        removed.is_ok()
    }

    /// Adds a file's blobs to the window, except for those that `matches` marks as correct.
    fn write(
        &mut self,
        directory: &DirRef,
        mut node: Node,
        how: How,
        matches: Option<&[bool]>,
        failed: Option<Fate>,
    ) -> Result<()> {
        if self.shared.options.dry_run {
            let action = if how == How::Create { Action::Restored } else { Action::Updated };
            self.shared.wrote(node.size);
            self.report_planned(directory, &node, action);
            return Ok(());
        }
        let content = node.content.take().unwrap_or_default();
        let size = node.size;
        let room = self.room_for_file()?;
        let file = File::new(directory.clone(), node, how, failed, room);
        let mut at = 0_u64;
        let mut zeros = 0_u64..0;
        for (number, blob) in content.into_iter().enumerate() {
            let Some(location) = self.shared.reader.index().find(BlobKind::Data, &blob)? else {
                // The offsets of the following blobs are unknown, too.
                file.fail(Error::MissingBlob { kind: BlobKind::Data, id: blob });
                break;
            };
            let length = u64::from(location.plain_length());
            let there = matches.is_some_and(|matches| matches.get(number) == Some(&true));
            if there {
                self.shared.wrote(length);
            } else if length_of_zeros(&blob) == Some(length) && file.is_new() {
                if zeros.end != at {
                    self.zeros(&file, std::mem::replace(&mut zeros, at..at))?;
                }
                zeros.end = at.saturating_add(length);
            } else {
                file.expect_blob();
                self.wants.push(Want { blob, location, file: Arc::clone(&file), at });
            }
            at = at.saturating_add(length);
            if self.wants.len() >= BLOBS {
                self.dispatch()?;
            }
        }
        self.zeros(&file, zeros)?;
        if at != size {
            file.fail(format!("its size in the snapshot is {size} bytes, but its content has {at}"));
        }
        if file.blob_done() {
            return self.feed.complete(file);
        }
        self.files += 1;
        if self.files >= FILES { self.dispatch() } else { Ok(()) }
    }

    /// Waits until one more file may be in memory. The files of the window are sent first, or they would never be
    /// finished.
    fn room_for_file(&mut self) -> Result<OwnedSemaphorePermit> {
        let rooms = Arc::clone(&self.shared.rooms);
        if let Ok(room) = Arc::clone(&rooms).try_acquire_owned() {
            return Ok(room);
        }
        self.dispatch()?;
        let shared = &self.shared;
        shared.runtime.block_on(async {
            tokio::select! {
                room = rooms.acquire_owned() => room.map_err(|_| Error::Cancelled),
                () = shared.cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }

    /// Zeros in a new file: a hole, or allocated without being written.
    fn zeros(&self, file: &Arc<File>, range: std::ops::Range<u64>) -> Result<()> {
        let length = range.end - range.start;
        if self.shared.options.sparse || length == 0 {
            self.shared.wrote(length);
            return Ok(());
        }
        file.expect_blob();
        self.feed.job(Job::Zeros(Arc::clone(file), range.start, length))
    }

    /// Collects the results for existing files, and sends the window.
    fn flush(&mut self) -> Result<()> {
        self.comparing_blobs = 0;
        for (comparing, failed) in std::mem::take(&mut self.comparing) {
            let matches = comparing.matches()?;
            let Comparing { directory, node, stat, .. } = comparing;
            match plan::repair(&node, stat.size, stat.links, &matches) {
                Repair::Nothing => self.unchanged(&directory, node)?,
                Repair::InPlace => {
                    let how = How::Repair { identity: (stat.device_id, stat.inode), size: stat.size };
                    self.write(&directory, node, how, Some(&matches), failed)?;
                }
                Repair::Anew => {
                    if self.make_way(&directory, &node.name, Removal::Unlink) {
                        self.write(&directory, node, How::Create, None, failed)?;
                    } else {
                        failed.iter().for_each(Fate::mark_lost);
                    }
                }
            }
        }
        self.dispatch()
    }

    fn dispatch(&mut self) -> Result<()> {
        self.files = 0;
        for read in window::plan(std::mem::take(&mut self.wants)) {
            self.feed.read(read)?;
        }
        Ok(())
    }
}
