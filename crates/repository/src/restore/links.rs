//! Hard links: the first name of a file gets the content, the others are linked to it when all content is written.
//! Only files with several names are kept in memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, OFlags, linkat};
use rustix::io::{Errno, Result as SystemResult};

use super::delete;
use super::directory::DirRef;
use super::outcome::Action;
use super::plan::Removal;
use super::shared::Shared;
use crate::node::Node;
use crate::source::stat::Stat;

type FileKey = (u64, u64);

/// The files with several names so far.
#[derive(Default)]
pub(super) struct Links {
    firsts: HashMap<FileKey, First>,
    others: Vec<Other>,
}

struct First {
    /// The path of its directory, below the target.
    directory: Arc<[u8]>,
    name: Vec<u8>,
    /// A hash of its content: a file with the same inode and other content is another file, whatever the snapshot
    /// says.
    content: u64,
    /// Not restored, so its content is unknown: the next name takes its role.
    skipped: bool,
    fate: Arc<Fate>,
}

/// The state of the first name, for the names that are linked to it.
#[derive(Debug, Default)]
pub(super) struct Fate {
    incomplete: AtomicBool,
    /// The file at its path is not from the snapshot.
    lost: AtomicBool,
}

impl Fate {
    pub(super) fn mark_incomplete(&self) {
        self.incomplete.store(true, Ordering::Relaxed);
    }

    pub(super) fn mark_lost(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }
}

struct Other {
    directory: DirRef,
    name: Vec<u8>,
    key: FileKey,
}

/// The role of a file among its names.
pub(super) enum Role {
    /// The file has only one name.
    Single,
    /// The other names are linked to it; its `Fate` records a failure.
    First(Arc<Fate>),
    /// Is linked to the first name.
    Other,
}

impl Links {
    /// The role of this name. A name that is `skipped` gets no content, so nothing is linked to it.
    pub(super) fn role(&mut self, directory: &DirRef, node: &Node, skipped: bool) -> Role {
        if node.links < 2 || node.inode == 0 {
            return Role::Single;
        }
        let content = content_hash(node);
        let place = self.firsts.entry((node.device_id, node.inode));
        if let Entry::Occupied(first) = &place {
            if first.get().content != content {
                return Role::Single;
            }
            if skipped || !first.get().skipped {
                return Role::Other;
            }
        }
        let fate = Arc::new(Fate::default());
        place.insert_entry(First {
            directory: directory.path().into(),
            name: node.name.clone(),
            content,
            skipped,
            fate: Arc::clone(&fate),
        });
        Role::First(fate)
    }

    /// Adds a name that is linked later.
    pub(super) fn add(&mut self, directory: &DirRef, node: &Node) {
        let key = (node.device_id, node.inode);
        self.others.push(Other { directory: directory.clone(), name: node.name.clone(), key });
    }

    /// Creates all links. Everything else is already written.
    pub(super) fn carry_out(self, shared: &Shared) {
        let mut open: Option<(Arc<[u8]>, OwnedFd)> = None;
        for other in self.others {
            if shared.cancel.is_cancelled() {
                return;
            }
            let Some(first) = self.firsts.get(&other.key) else { continue };
            let path = || other.directory.location(Some(&other.name));
            if first.fate.lost.load(Ordering::Relaxed) {
                shared.problem(&path(), "the file that it is a hard link to could not be restored");
                continue;
            }
            match link(shared, first, &other, &mut open) {
                Err(error @ (Errno::NOTEMPTY | Errno::EXIST)) => {
                    shared.problem(&path(), delete::obstacle(error));
                }
                Ok(()) if first.fate.incomplete.load(Ordering::Relaxed) => {
                    shared.problem(&path(), "the file that it is a hard link to is incomplete");
                }
                Ok(()) => {
                    shared.restored();
                    if shared.wants_events() {
                        shared.notify(Action::Restored, &path(), false, 0);
                    }
                }
                Err(error) => {
                    shared.problem(&path(), format!("cannot link it: {}", std::io::Error::from(error)));
                }
            }
        }
    }
}

/// `open` is the directory of the previous first name: links are often in the same directory.
fn link(
    shared: &Shared,
    first: &First,
    other: &Other,
    open: &mut Option<(Arc<[u8]>, OwnedFd)>,
) -> SystemResult<()> {
    let source = match open {
        Some((path, handle)) if *path == first.directory => &*handle,
        _ => {
            let handle = shared.target.open_below(&first.directory, OFlags::PATH | OFlags::DIRECTORY)?;
            &open.insert((Arc::clone(&first.directory), handle)).1
        }
    };
    let stat_at = |directory: &OwnedFd, name: &[u8]| {
        Stat::at(directory.as_fd(), name).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let wanted = stat_at(source, &first.name)?;
    if !wanted.is_file() {
        return Err(Errno::STALE);
    }
    let directory = other.directory.handle()?;
    match stat_at(&directory, &other.name) {
        Ok(there) if (there.device_id, there.inode) == (wanted.device_id, wanted.inode) => return Ok(()),
        Ok(there) => {
            let removal = match (there.is_directory(), shared.options.delete) {
                (false, _) => Removal::Unlink,
                (true, false) => Removal::EmptyDirectory,
                (true, true) => Removal::Tree,
            };
            delete::make_way(shared, directory.as_fd(), &other.name, removal)?;
        }
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    linkat(source, first.name.as_slice(), &*directory, other.name.as_slice(), AtFlags::empty())
}

fn content_hash(node: &Node) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    node.size.hash(&mut hasher);
    node.blobs().hash(&mut hasher);
    hasher.finish()
}
