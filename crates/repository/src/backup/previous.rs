//! The entries of a directory in the parent snapshot. Both they and the walk are in the order of names, so they are
//! taken one after the other, and a directory of a million entries need not be in memory.

use std::cmp::Ordering;

use crate::blobs::nodes::Nodes;
use crate::node::Node;

/// The entries that were not taken yet.
#[derive(Default)]
pub(super) struct Previous {
    nodes: Option<Nodes>,
    next: Option<Node>,
    /// The name of the entry that was read last.
    last: Vec<u8>,
}

impl Previous {
    pub(super) fn new(nodes: Nodes) -> Self {
        Self { nodes: Some(nodes), ..Self::default() }
    }

    /// The entry with this name. Names come in ascending order.
    pub(super) fn take(&mut self, name: &[u8]) -> Option<Node> {
        loop {
            if self.next.is_none() {
                self.next = self.read();
            }
            match self.next.as_ref()?.name.as_slice().cmp(name) {
                Ordering::Less => self.next = None,
                Ordering::Equal => return self.next.take(),
                Ordering::Greater => return None,
            }
        }
    }

    /// If the rest cannot be read, or is not sorted, that only costs time: all further files are read again.
    fn read(&mut self) -> Option<Node> {
        let problem = match self.nodes.as_mut()?.next() {
            Ok(Some(node)) if node.name > self.last => {
                self.last.clone_from(&node.name);
                return Some(node);
            }
            Ok(Some(_)) => "its names are not sorted".to_owned(),
            Ok(None) => String::new(),
            Err(error) => error.to_string(),
        };
        self.nodes = None;
        if !problem.is_empty() {
            tracing::warn!(%problem, "cannot read all of a directory of the parent snapshot: the rest of its files is read again");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn previous(names: &[&str]) -> Previous {
        let node = |name: &&str| Node { name: name.as_bytes().to_vec(), ..Node::default() };
        Previous::new(Nodes::Parsed(names.iter().map(node).collect::<Vec<_>>().into_iter()))
    }

    #[test]
    fn entries_are_found_in_the_order_of_names_whatever_is_new_or_gone() {
        let mut previous = previous(&["b", "d", "e", "g"]);
        let found = |name: &&str| previous.take(name.as_bytes()).map(|node| node.name);
        let names = ["a", "b", "c", "e", "f", "g", "h"];
        let found: Vec<_> = names.iter().map(found).map(|name| name.is_some()).collect();
        assert_eq!(found, [false, true, false, true, false, true, false]);
    }

    #[test]
    fn entries_that_are_not_sorted_are_found_up_to_there() {
        let mut previous = previous(&["b", "d", "c", "e"]);
        assert!(previous.take(b"b").is_some() && previous.take(b"d").is_some());
        assert!(previous.take(b"e").is_none());
    }
}
