//! Follows the walk over the source and decides about each entry: taken from the parent snapshot, read by a worker,
//! or already complete.

use std::os::fd::AsFd;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::context::Context;
use super::directory::Directory;
use super::file::FileJob;
use super::previous::Previous;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::node::{Mode, Node, NodeTime};
use crate::source::change::{ChangeOptions, unchanged};
use crate::source::walk::{Entered, Event, Item, Walk};

/// Walks the source and queues the files to read.
pub(super) struct Walker<'a> {
    pub(super) context: &'a Context,
    pub(super) change: ChangeOptions,
    /// When the backup of the parent snapshot started.
    pub(super) since: Option<NodeTime>,
    pub(super) files: Sender<FileJob>,
    /// Whether an empty snapshot is allowed.
    pub(super) may_be_empty: bool,
}

/// A directory that the walk is in.
struct Frame {
    directory: Arc<Directory>,
    /// The number of entries in the snapshot so far.
    count: usize,
    /// The entries of the parent snapshot.
    previous: Previous,
    /// In the file system but not in the snapshot, because its own node could not be made.
    left_out: bool,
}

impl Frame {
    /// Reserves the position of one more entry.
    fn next(&mut self) -> usize {
        self.count += 1;
        self.count - 1
    }
}

impl Walker<'_> {
    /// Walks to the end. `parent` is the tree of the parent snapshot.
    pub(super) fn follow(&self, walk: Walk<'_>, parent: Option<BlobId>) -> Result<()> {
        let mut stack = vec![self.frame(Directory::root(), parent)];
        for event in walk {
            self.context.check_running()?;
            // The root is never left, so there is always a frame.
            let Some(frame) = stack.last_mut() else { break };
            match event {
                Event::Enter(entered) => {
                    frame.directory.wait_for_earlier_entries(self.context)?;
                    let below = self.enter(frame, &entered);
                    stack.push(below);
                }
                Event::Item(_) if frame.left_out => {}
                Event::Item(item) => self.item(frame, item)?,
                Event::Leave => {
                    if let Some(frame) = stack.pop() {
                        self.leave(&frame)?;
                    }
                }
                Event::Problem(error) => self.problem(&error),
                // The snapshot has everything, so it is not incomplete; as in restic.
                Event::Warning(error) => tracing::warn!(target: "lifeboat_repository::source", "{error}"),
            }
        }
        // restic refuses it, too: usually a pattern excludes more than intended.
        if let [root] = stack.as_slice()
            && root.count == 0
            && !self.may_be_empty
            && self.context.findings().unreadable.count == 0
        {
            let what = "the snapshot would be empty: everything is excluded, or there is nothing to back up";
            return Err(Error::NothingFound { what: what.to_owned() });
        }
        stack.iter().rev().try_for_each(|frame| self.leave(frame))
    }

    fn leave(&self, frame: &Frame) -> Result<()> {
        if frame.left_out { Ok(()) } else { frame.directory.close(self.context, frame.count) }
    }

    fn problem(&self, error: &Error) {
        match error {
            Error::File { path, source, .. } => self.context.problem(&path.to_string_lossy(), source),
            other => self.context.problem("", other),
        }
    }

    fn frame(&self, directory: Arc<Directory>, tree: Option<BlobId>) -> Frame {
        Frame { directory, count: 0, previous: self.load_previous(tree), left_out: false }
    }

    /// The entries of the parent snapshot. If they cannot be read, that only costs time: all files are read again.
    fn load_previous(&self, tree: Option<BlobId>) -> Previous {
        let Some(tree) = tree else { return Previous::default() };
        match self.context.runtime.block_on(self.context.reader.nodes(&tree)) {
            Ok(nodes) => Previous::new(nodes),
            Err(error) => {
                tracing::warn!(%tree, %error, "cannot read a directory of the parent snapshot: its files are read again");
                Previous::default()
            }
        }
    }

    fn enter(&self, frame: &mut Frame, entered: &Entered) -> Frame {
        let node = if frame.left_out { None } else { self.node_of_directory(entered) };
        let Some(node) = node else {
            return Frame { left_out: true, ..self.frame(Directory::root(), None) };
        };
        let subtree = frame.previous.take(&entered.name).and_then(|node| node.subtree);
        let directory = Directory::below(Arc::clone(&frame.directory), frame.next(), node, subtree);
        self.frame(directory, subtree)
    }

    fn node_of_directory(&self, entered: &Entered) -> Option<Node> {
        let file = entered.directory.file();
        let taken = file.and_then(|file| self.context.nodes.for_open_file(file.as_fd(), &entered.name));
        match taken {
            Ok(taken) if entered.is_synthesized => Some(synthesized(taken.node)),
            Ok(taken) => {
                for problem in &taken.problems {
                    if !(entered.is_above_targets && problem.is_expected_above_targets()) {
                        self.context.problem(&lossy(&entered.path), problem);
                    }
                }
                Some(taken.node)
            }
            Err(error) => {
                self.context.problem(&lossy(&entered.path), error);
                None
            }
        }
    }

    fn item(&self, frame: &mut Frame, item: Item) -> Result<()> {
        frame.directory.wait_for_earlier_entries(self.context)?;
        if !item.stat.is_file() {
            let Some(node) = self.node_of(&item) else { return Ok(()) };
            let position = frame.next();
            return frame.directory.fill(self.context, position, Some(node));
        }
        let previous = frame.previous.take(&item.name).filter(Node::is_file);
        let known = previous.is_some();
        if let Some(previous) = previous
            && unchanged(&previous, &item.stat, self.since, self.change)
            && self.has_blobs(&previous)?
        {
            return self.reuse(frame, &item, previous.content);
        }
        let job = FileJob {
            known,
            name: item.file_name().to_vec(),
            path: lossy(&item.path),
            entry: item.name,
            handle: item.directory,
            directory: Arc::clone(&frame.directory),
            position: frame.next(),
        };
        // All workers are gone only if one failed, and that failure is reported.
        self.files.send(job).map_err(|_| Error::Cancelled)
    }

    /// An unchanged file: its blobs are those of the parent snapshot.
    fn reuse(&self, frame: &mut Frame, item: &Item, content: Option<Vec<BlobId>>) -> Result<()> {
        let Some(mut node) = self.node_of(item) else { return Ok(()) };
        node.content = content;
        let size = node.size;
        self.context.progress.add_done(1, size);
        {
            let counts = &mut self.context.findings().counts;
            counts.files_unmodified += 1;
            counts.total_files_processed += 1;
            counts.total_bytes_processed += size;
        }
        let position = frame.next();
        frame.directory.fill(self.context, position, Some(node))
    }

    /// Files whose blobs the repository lost are read and stored again.
    fn has_blobs(&self, node: &Node) -> Result<bool> {
        for id in node.blobs() {
            if !self.context.saver.has(BlobKind::Data, id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The node of an entry that is not opened.
    fn node_of(&self, item: &Item) -> Option<Node> {
        let directory = item.directory.file();
        let taken = directory.and_then(|directory| {
            self.context.nodes.node_with_stat(directory.as_fd(), item.file_name(), item.stat)
        });
        match taken {
            Ok(mut taken) => {
                for problem in &taken.problems {
                    self.context.problem(&lossy(&item.path), problem);
                }
                taken.node.name.clone_from(&item.name);
                Some(taken.node)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.context.changed(&lossy(&item.path));
                None
            }
            Err(error) => {
                self.context.problem(&lossy(&item.path), error);
                None
            }
        }
    }
}

/// The node of a synthesized parent directory of the stored one: it looks like a directory that root made. Its times
/// are those of the stored directory, so that an unchanged source gives the same tree.
fn synthesized(stored: Node) -> Node {
    Node {
        name: stored.name,
        kind: stored.kind,
        mode: Mode::from_unix(0o040_755),
        mtime: stored.mtime,
        atime: stored.mtime,
        ctime: stored.mtime,
        user: "root".to_owned(),
        group: "root".to_owned(),
        ..Node::default()
    }
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
