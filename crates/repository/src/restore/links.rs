//! Hard links: the first name of a file gets the content, the others are linked to it when its content is written: many
//! at a time, so that few names wait in memory. First names are kept until the end, most of them in files (`firsts`).

mod firsts;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, OFlags, linkat};
use rustix::io::{Errno, Result as SystemResult};

use super::delete;
use super::directory::DirRef;
use super::outcome::Action;
use super::plan::Removal;
use super::shared::Shared;
use crate::error::Result;
use crate::node::Node;
use crate::source::stat::Stat;
use firsts::{Fates, FileKey, First, FirstPath, Firsts, Outcome};

/// The most names that wait to be linked: each keeps its directory in memory.
const MOST_WAITING: usize = 16 * 1024;

/// The files with several names so far.
pub(super) struct Links {
    firsts: Firsts,
    count: u32,
    others: Vec<Other>,
    fates: Arc<Fates>,
}

/// The state of the first name, for the names that are linked to it.
#[derive(Debug, Clone)]
pub(super) struct Fate {
    fates: Arc<Fates>,
    number: u32,
}

impl Fate {
    pub(super) fn mark_incomplete(&self) {
        self.fates.set(self.number, Outcome::Incomplete);
    }

    pub(super) fn mark_lost(&self) {
        self.fates.set(self.number, Outcome::Lost);
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
    First(Fate),
    /// Is linked to the first name.
    Other,
}

impl Links {
    /// Temporary files are created in `temporary` if there are very many links.
    pub(super) fn new(temporary: &Path) -> Self {
        Self { firsts: Firsts::new(temporary), count: 0, others: Vec::new(), fates: Arc::default() }
    }

    /// The role of this name. A name that is `skipped` gets no content, so nothing is linked to it.
    pub(super) fn role(&mut self, directory: &DirRef, node: &Node, skipped: bool) -> Result<Role> {
        if node.links < 2 || node.inode == 0 {
            return Ok(Role::Single);
        }
        let content = content_hash(node);
        let key = (node.device_id, node.inode);
        if let Some(first) = self.firsts.get(key)? {
            if first.content != content {
                return Ok(Role::Single);
            }
            if skipped || !first.skipped {
                return Ok(Role::Other);
            }
        }
        let number = self.count;
        self.count = self.count.saturating_add(1);
        let path = (directory.path().into(), node.name.clone());
        self.firsts.insert(key, First { number, content, skipped }, path)?;
        Ok(Role::First(Fate { fates: Arc::clone(&self.fates), number }))
    }

    /// Adds a name that is linked later.
    pub(super) fn add(&mut self, directory: &DirRef, node: &Node) {
        let key = (node.device_id, node.inode);
        self.others.push(Other { directory: directory.clone(), name: node.name.clone(), key });
    }

    /// Whether links must be created before more names are added.
    pub(super) fn is_full(&self) -> bool {
        self.others.len() >= MOST_WAITING
    }

    /// Creates the links of all names that were added. The content of their first names is already written.
    pub(super) fn carry_out(&mut self, shared: &Shared) -> Result<()> {
        let mut open: Option<(Arc<[u8]>, OwnedFd)> = None;
        for other in std::mem::take(&mut self.others) {
            shared.check_running()?;
            let Some((first, first_path)) = self.firsts.path(other.key)? else { continue };
            let fate = self.fates.of(first.number);
            let path = || other.directory.location(Some(&other.name));
            if fate == Some(Outcome::Lost) {
                shared.problem(&path(), "the file that it is a hard link to could not be restored");
                continue;
            }
            match link(shared, &first_path, &other, &mut open) {
                Err(error @ (Errno::NOTEMPTY | Errno::EXIST)) => {
                    shared.problem(&path(), delete::obstacle(error));
                }
                Ok(()) if fate == Some(Outcome::Incomplete) => {
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
        Ok(())
    }
}

/// `open` is the directory of the previous first name: links are often in the same directory.
fn link(
    shared: &Shared,
    (first_directory, first_name): &FirstPath,
    other: &Other,
    open: &mut Option<(Arc<[u8]>, OwnedFd)>,
) -> SystemResult<()> {
    let source = match open {
        Some((path, handle)) if path == first_directory => &*handle,
        _ => {
            let handle = shared.target.open_below(first_directory, OFlags::PATH | OFlags::DIRECTORY)?;
            &open.insert((Arc::clone(first_directory), handle)).1
        }
    };
    let stat_at = |directory: &OwnedFd, name: &[u8]| {
        Stat::at(directory.as_fd(), name).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let wanted = stat_at(source, first_name)?;
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
    linkat(source, first_name.as_slice(), &*directory, other.name.as_slice(), AtFlags::empty())
}

fn content_hash(node: &Node) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    node.size.hash(&mut hasher);
    node.blobs().hash(&mut hasher);
    hasher.finish()
}
