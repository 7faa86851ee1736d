//! Looks at the source in the order of names, one directory at a time, and says what becomes of each entry: taken
//! over from the parent snapshot, read by a worker, complete as it is, or left out. An explicit stack, because
//! trees may be deeper than that of a thread.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::context::Context;
use super::directory::Directory;
use super::file::FileJob;
use crate::error::{Error, Result};
use crate::id::{BlobId, BlobKind};
use crate::node::{Node, NodeKind};
use crate::source::change::{ChangeOptions, unchanged};
use crate::source::directory::DirectoryHandle;
use crate::source::filter::{Filter, Surroundings};
use crate::source::metadata::Taken;
use crate::source::path;
use crate::source::stat::Stat;
use crate::source::targets::{Target, Targets};

/// Walks the source; sends what has to be read.
pub(super) struct Walker<'a> {
    pub(super) context: &'a Context,
    pub(super) filter: &'a Filter,
    pub(super) change: ChangeOptions,
    pub(super) files: Sender<FileJob>,
    /// The current directory: filters work on absolute paths.
    pub(super) current: Vec<u8>,
}

/// A directory that is being looked at.
struct Frame {
    directory: Arc<Directory>,
    /// Entries that are in the snapshot so far.
    count: usize,
    /// What the parent snapshot has here, sorted by name.
    previous: Vec<Node>,
    content: Content,
}

enum Content {
    /// Above targets: only what leads to them.
    Targets(std::collections::btree_map::IntoIter<Vec<u8>, Target>),
    /// Everything that the filter keeps.
    Listing(Box<Listing>),
}

struct Listing {
    handle: Arc<DirectoryHandle>,
    path: Vec<u8>,
    surroundings: Surroundings,
    names: std::vec::IntoIter<Vec<u8>>,
}

/// An entry to be looked at.
struct Item {
    handle: Arc<DirectoryHandle>,
    /// In `handle`.
    name: Vec<u8>,
    /// In the snapshot.
    entry: Vec<u8>,
    path: Vec<u8>,
    stat: Stat,
    surroundings: Option<Surroundings>,
}

impl Walker<'_> {
    /// Walks everything below `targets`. `parent` is the tree of the parent snapshot.
    pub(super) fn walk(&self, targets: Targets, parent: Option<BlobId>) -> Result<()> {
        let root = Frame {
            directory: Directory::root(),
            count: 0,
            previous: self.previous(parent),
            content: Content::Targets(targets.into_iter()),
        };
        let mut stack = vec![root];
        while let Some(frame) = stack.last_mut() {
            self.context.go_on()?;
            let below = match &mut frame.content {
                Content::Targets(targets) => match targets.next() {
                    Some((entry, target)) => self.target(frame, entry, target)?,
                    None => self.close(&mut stack)?,
                },
                Content::Listing(listing) => match listing.names.next() {
                    Some(name) => match self.keep(listing, name) {
                        Some(item) => self.item(frame, item)?,
                        None => None,
                    },
                    None => self.close(&mut stack)?,
                },
            };
            stack.extend(below);
        }
        Ok(())
    }

    fn close(&self, stack: &mut Vec<Frame>) -> Result<Option<Frame>> {
        if let Some(frame) = stack.pop() {
            frame.directory.close(self.context, frame.count)?;
        }
        Ok(None)
    }

    /// What the parent snapshot has. That it cannot be read costs time, nothing else: everything is read anew.
    fn previous(&self, tree: Option<BlobId>) -> Vec<Node> {
        let Some(tree) = tree else { return Vec::new() };
        match self.context.runtime.block_on(self.context.reader.load_tree(&tree)) {
            Ok(mut nodes) => {
                nodes.sort_unstable_by(|one, other| one.name.cmp(&other.name));
                nodes
            }
            Err(error) => {
                tracing::warn!(%tree, %error, "cannot read a directory of the parent snapshot; its files are read anew");
                Vec::new()
            }
        }
    }

    fn target(&self, frame: &mut Frame, entry: Vec<u8>, target: Target) -> Result<Option<Frame>> {
        match target {
            Target::Above { path, children } => Ok(self.above(frame, &entry, &path, children)),
            Target::Leaf { path, explicit } => {
                let Some((above, name)) = path::split(&path) else {
                    return Err(Error::invalid("source", format!("'{}' is no path", lossy(&path))));
                };
                let above = if above.is_empty() { b"." } else { above };
                let absolute = path::absolute(&self.current, &path);
                let looked = DirectoryHandle::open(above).and_then(|handle| Ok((handle.stat(name)?, handle)));
                let (stat, handle) = match looked {
                    Ok(looked) => looked,
                    Err(error) => {
                        self.context.problem(&lossy(&path), error);
                        return Ok(None);
                    }
                };
                if !explicit && !self.filter.keeps_name(&absolute) {
                    return Ok(None);
                }
                let item =
                    Item { handle, name: name.to_vec(), entry, path: absolute, stat, surroundings: None };
                self.item(frame, item)
            }
        }
    }

    /// A directory above targets: its metadata, and of its entries only what leads to them.
    fn above(&self, frame: &mut Frame, entry: &[u8], path: &[u8], children: Targets) -> Option<Frame> {
        let open = if path.is_empty() { b"." } else { path };
        let taken = DirectoryHandle::open(open)
            .and_then(|handle| self.context.nodes.for_open_file(handle.file()?.as_fd(), entry));
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.context.problem(&lossy(path), error);
                return None;
            }
        };
        for problem in taken.problems.iter().filter(|problem| !problem.is_expected_above_targets()) {
            self.context.problem(&lossy(path), problem);
        }
        let subtree = find(&frame.previous, entry).and_then(|node| node.subtree);
        let directory = Directory::below(Arc::clone(&frame.directory), frame.count, taken.node, subtree);
        frame.count += 1;
        let content = Content::Targets(children.into_iter());
        Some(Frame { directory, count: 0, previous: self.previous(subtree), content })
    }

    /// An entry of a listed directory, unless it is left out or gone.
    fn keep(&self, listing: &Listing, name: Vec<u8>) -> Option<Item> {
        let path = path::join(&listing.path, &name);
        if !self.filter.keeps_name(&path) {
            return None;
        }
        let stat = match listing.handle.stat(&name) {
            Ok(stat) => stat,
            Err(error) => {
                self.gone_or_unreadable(&path, &error);
                return None;
            }
        };
        self.filter.keeps(&listing.surroundings, &path, &name, &stat).then(|| Item {
            handle: Arc::clone(&listing.handle),
            entry: name.clone(),
            name,
            path,
            stat,
            surroundings: Some(listing.surroundings.clone()),
        })
    }

    fn gone_or_unreadable(&self, path: &[u8], error: &io::Error) {
        match error.kind() {
            // It went away since its directory was listed: as if we had come later.
            io::ErrorKind::NotFound => self.context.changed(&lossy(path)),
            _ => self.context.problem(&lossy(path), error),
        }
    }

    fn item(&self, frame: &mut Frame, item: Item) -> Result<Option<Frame>> {
        match item.stat.kind() {
            NodeKind::Directory => Ok(self.directory(frame, &item)),
            NodeKind::File => self.file(frame, item).map(|()| None),
            // restic keeps no sockets: they mean nothing without their process.
            NodeKind::Socket => Ok(None),
            _ => self.other(frame, &item).map(|()| None),
        }
    }

    fn directory(&self, frame: &mut Frame, item: &Item) -> Option<Frame> {
        let opened = item.handle.open_child(&item.name).and_then(|handle| {
            let taken = self.context.nodes.for_open_file(handle.file()?.as_fd(), &item.entry)?;
            Ok((handle.names()?, taken, handle))
        });
        let (names, taken, handle) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.gone_or_unreadable(&item.path, &error);
                return None;
            }
        };
        let mut odd = Vec::new();
        let surroundings =
            self.filter.surroundings(&handle, &item.path, item.surroundings.as_ref(), &mut odd);
        for error in odd {
            tracing::warn!(path = %lossy(&item.path), %error, "a tag file does not count");
        }
        let node = self.node(item, taken);
        let subtree = find(&frame.previous, &item.entry).and_then(|node| node.subtree);
        let directory = Directory::below(Arc::clone(&frame.directory), frame.count, node, subtree);
        frame.count += 1;
        let names = names.into_iter();
        let listing = Box::new(Listing { handle, path: item.path.clone(), surroundings, names });
        Some(Frame {
            directory,
            count: 0,
            previous: self.previous(subtree),
            content: Content::Listing(listing),
        })
    }

    fn file(&self, frame: &mut Frame, item: Item) -> Result<()> {
        let position = frame.count;
        let previous = find(&frame.previous, &item.entry).filter(|node| node.is_file());
        if let Some(previous) = previous
            && unchanged(previous, &item.stat, self.change)
            && self.has_blobs(previous)?
        {
            let content = previous.content.clone();
            return self.take_over(frame, &item, content);
        }
        frame.count += 1;
        let job = FileJob {
            handle: item.handle,
            name: item.name,
            entry: item.entry,
            path: lossy(&item.path),
            directory: Arc::clone(&frame.directory),
            position,
            known: previous.is_some(),
        };
        // No worker is left only if one failed, and that failure is what is reported.
        self.files.send(job).map_err(|_| Error::Cancelled)
    }

    /// A file that looks as it did: its blobs are those of the parent snapshot.
    fn take_over(&self, frame: &mut Frame, item: &Item, content: Option<Vec<BlobId>>) -> Result<()> {
        let Some(mut node) = self.take_node(item) else { return Ok(()) };
        node.content = content;
        let size = node.size;
        self.context.progress.add_done(1, size);
        {
            let counts = &mut self.context.findings().counts;
            counts.files_unmodified += 1;
            counts.total_files_processed += 1;
            counts.total_bytes_processed += size;
        }
        frame.count += 1;
        frame.directory.fill(self.context, frame.count - 1, Some(node))
    }

    /// A repository that lost blobs gets them again this way.
    fn has_blobs(&self, node: &Node) -> Result<bool> {
        for id in node.blobs() {
            if !self.context.saver.has(BlobKind::Data, id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn other(&self, frame: &mut Frame, item: &Item) -> Result<()> {
        let Some(node) = self.take_node(item) else { return Ok(()) };
        frame.count += 1;
        frame.directory.fill(self.context, frame.count - 1, Some(node))
    }

    /// The node of something that is not opened.
    fn take_node(&self, item: &Item) -> Option<Node> {
        let taken = item.handle.file().and_then(|handle| {
            let mut taken = self.context.nodes.node_with_stat(handle.as_fd(), &item.name, item.stat)?;
            taken.node.name.clone_from(&item.entry);
            Ok(taken)
        });
        match taken {
            Ok(taken) => Some(self.node(item, taken)),
            Err(error) => {
                self.gone_or_unreadable(&item.path, &error);
                None
            }
        }
    }

    /// Reports what the node lacks.
    fn node(&self, item: &Item, taken: Taken) -> Node {
        for problem in taken.problems {
            self.context.problem(&lossy(&item.path), problem);
        }
        taken.node
    }
}

/// The node of that name in a sorted list.
fn find<'a>(nodes: &'a [Node], name: &[u8]) -> Option<&'a Node> {
    let at = nodes.binary_search_by(|node| node.name.as_slice().cmp(name)).ok()?;
    nodes.get(at)
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
