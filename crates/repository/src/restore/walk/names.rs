//! The names of a directory in the snapshot, as far as the walk has passed them: no name is restored twice, and what has
//! none of these names is removed, if that was asked for. A large directory needs no list of them: its tree is sorted,
//! so the last name is enough, and where all of them are needed, the tree is read again.

use std::collections::HashSet;
use std::sync::Arc;

use super::nodes_of;
use crate::error::Result;
use crate::id::BlobId;
use crate::restore::shared::Shared;

pub(in crate::restore) struct TreeNames<'a> {
    shared: &'a Arc<Shared>,
    tree: BlobId,
    seen: Seen,
}

enum Seen {
    All(HashSet<Vec<u8>>),
    /// In ascending order so far.
    Ascending {
        count: usize,
        last: Vec<u8>,
    },
}

impl<'a> TreeNames<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, tree: BlobId, is_large: bool) -> Self {
        let seen =
            if is_large { Seen::Ascending { count: 0, last: Vec::new() } } else { Seen::All(HashSet::new()) };
        Self { shared, tree, seen }
    }

    /// Adds the safe name of the next entry; false if an earlier one has the same.
    pub(super) fn insert(&mut self, name: &[u8]) -> Result<bool> {
        if let Seen::Ascending { count, last } = &mut self.seen {
            if last.as_slice() < name {
                *count += 1;
                last.clear();
                last.extend_from_slice(name);
                return Ok(true);
            }
            // Neither restic nor Lifeboat writes such a tree.
            let count = *count;
            self.seen = Seen::All(self.first(count)?);
        }
        let Seen::All(names) = &mut self.seen else { return Ok(false) };
        Ok(names.insert(name.to_vec()))
    }

    /// The first names, which are all different.
    fn first(&self, count: usize) -> Result<HashSet<Vec<u8>>> {
        let mut names = HashSet::new();
        let mut nodes = nodes_of(self.shared, self.tree)?;
        while names.len() < count
            && let Some(node) = nodes.next()?
        {
            if node.has_safe_name() {
                names.insert(node.name);
            }
        }
        Ok(names)
    }

    /// Passes all names, after the walk over the directory.
    pub(in crate::restore) fn for_each(&self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Seen::All(names) = &self.seen {
            for name in names {
                each(name);
            }
            return Ok(());
        }
        let mut nodes = nodes_of(self.shared, self.tree)?;
        while let Some(node) = nodes.next()? {
            self.shared.check_running()?;
            each(&node.name);
        }
        Ok(())
    }
}
