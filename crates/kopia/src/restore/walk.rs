//! Walks the directories of a snapshot on one thread and passes every selected entry to a visitor. A directory that
//! contains itself, or a path that is too long, is a problem and not followed.

use std::sync::Arc;
use std::vec::IntoIter;

use lifeboat_repository::restore::writing::LONGEST_PATH;

use super::directory::Directory;
use super::shared::Shared;
use crate::error::{Error, Result};
use crate::id::ObjectId;
use crate::tree::{self, Entry};

/// What happens with the entries.
pub(super) trait Visitor {
    /// A selected directory. Its entries are visited next, if true is returned.
    fn enter(&mut self, directory: &Arc<Directory>) -> Result<bool>;
    /// A selected file or link.
    fn entry(&mut self, directory: &Arc<Directory>, entry: Entry) -> Result<()>;
}

struct Level {
    object: ObjectId,
    directory: Arc<Directory>,
    entries: IntoIter<Entry>,
    path: usize,
}

/// Visits everything below `tree`.
pub(super) fn walk(shared: &Arc<Shared>, tree: ObjectId, visitor: &mut impl Visitor) -> Result<()> {
    let failed = |error| Error::file("open", &shared.options.target)(std::io::Error::from(error));
    let directory = Directory::root(shared).map_err(failed)?;
    let entries = shared.wait(tree::load(&shared.repository, tree))?.into_iter();
    let mut levels = vec![Level { object: tree, directory, entries, path: 0 }];
    while let Some(level) = levels.last_mut() {
        if shared.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let Some(entry) = level.entries.next() else {
            levels.pop();
            continue;
        };
        let location = level.directory.location(Some(&entry.node.name));
        let path = level.path + 1 + entry.node.name.len();
        let is_directory = entry.node.is_directory();
        let selection = shared.select(&location, is_directory);
        if path > LONGEST_PATH {
            shared.problem(&location, "its path is too long");
        } else if !is_directory {
            if selection.include {
                let directory = Arc::clone(&level.directory);
                visitor.entry(&directory, entry)?;
            }
        } else if selection.include || selection.descend {
            let directory = level.directory.child(entry.node.clone());
            let enter = !selection.include || visitor.enter(&directory)?;
            if enter && selection.descend {
                let next = descend(shared, &levels, &entry, directory, path)?;
                levels.extend(next);
            }
        }
    }
    Ok(())
}

fn descend(
    shared: &Arc<Shared>,
    levels: &[Level],
    entry: &Entry,
    directory: Arc<Directory>,
    path: usize,
) -> Result<Option<Level>> {
    let loaded = entry.object().and_then(|object| {
        if levels.iter().any(|level| level.object == object) {
            return Err(Error::damaged(format!("directory {object}"), "it contains itself"));
        }
        Ok((object, shared.wait(tree::load(&shared.repository, object))?))
    });
    match loaded {
        Ok((object, entries)) => Ok(Some(Level { object, directory, entries: entries.into_iter(), path })),
        Err(error) if error.is_local() => {
            shared.problem(&directory.location(None), error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
