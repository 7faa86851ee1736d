//! Ordered resources: for each type a list of names, whose objects are processed one after the other, before all
//! others of their type. Takes `spec.orderedResources` and the types that the cluster serves; gives an [`Order`] per
//! type, or the problems. Called by the backup controller (validation), the pipeline (sorting) and the CLI (parsing
//! the flag).
//!
//! Commas separate entries; a semicolon does not, because it separates types in the text of the command line. An entry
//! is `namespace/name`, or `name` for cluster-scoped types; `*`, `?` and `[…]` make it a pattern; a leading `~` makes it
//! an anchored regular expression over the whole `namespace/name`, in which `,` `;` `=` are written `\x2c` `\x3b`
//! `\x3d`.

mod blocks;
mod entry;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;

pub use blocks::{List, Object, Sequence, Step, order_blocks};
use entry::Entry;
pub use entry::EntryError;
use lifeboat_api::catalogue::{Catalogue, GroupResource};
pub use text::{OrderTextError, parse_ordered_resources};

/// Errors in `spec.orderedResources` as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error("spec.orderedResources has an empty key; the key names a resource type, such as pods")]
    EmptyKey,
    #[error(
        "spec.orderedResources has two keys for {resource}, {first:?} and {second:?}; put all names under one of them"
    )]
    TwoKeys { resource: GroupResource, first: String, second: String },
    #[error("spec.orderedResources[{key}]: {source}")]
    Entry { key: String, source: EntryError },
}

/// The order of one type.
#[derive(Clone, Debug)]
pub struct Order {
    key: String,
    entries: Vec<Entry>,
}

/// All orders of a backup, and warnings about them.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    pub by_type: BTreeMap<GroupResource, Order>,
    pub warnings: Vec<String>,
}

/// The sorted objects of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Indexes into the input, in the requested order.
    pub listed: Vec<usize>,
    /// The indexes of all other objects, in their original order.
    pub unlisted: Vec<usize>,
    pub warnings: Vec<String>,
}

/// Parses the whole map; all problems are returned at once.
pub fn orders(
    spec: Option<&BTreeMap<String, String>>,
    catalogue: &Catalogue,
) -> Result<Orders, Vec<OrderError>> {
    let (mut orders, mut problems) = (Orders::default(), Vec::new());
    let mut keys: BTreeMap<GroupResource, String> = BTreeMap::new();
    for (key, names) in spec.into_iter().flatten() {
        let trimmed = key.trim();
        if trimmed.is_empty() {
            problems.push(OrderError::EmptyKey);
            continue;
        }
        let entries = match entry::entries(names) {
            Ok(entries) => entries,
            Err(source) => {
                problems.push(OrderError::Entry { key: key.clone(), source });
                continue;
            }
        };
        let types = catalogue.resolve(trimmed);
        if types.is_empty() {
            orders.warnings.push(format!(
                "orderedResources names the type {trimmed:?}, which the cluster does not have; its order has no effect"
            ));
        }
        if entries.is_empty() {
            orders
                .warnings
                .push(format!("orderedResources has no name for {trimmed:?}; its order has no effect"));
        }
        for kind in types {
            if let Some(first) = keys.insert(kind.id.clone(), key.clone()) {
                let (resource, second) = (kind.id.clone(), key.clone());
                problems.push(OrderError::TwoKeys { resource, first, second });
            } else if !entries.is_empty() {
                let order = Order { key: trimmed.to_owned(), entries: entries.clone() };
                orders.by_type.insert(kind.id.clone(), order);
            }
        }
    }
    if problems.is_empty() { Ok(orders) } else { Err(problems) }
}

impl Order {
    /// The position of an object: the index of the first entry that matches it.
    pub fn place(&self, path: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.matches(path))
    }

    /// The entries as written.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(Entry::as_str)
    }

    /// Sorts objects, given as `namespace/name` or `name`. Several that match one entry are sorted by name.
    pub fn sort(&self, paths: &[String]) -> Sorted {
        let mut listed: Vec<(usize, &str, usize)> = Vec::new();
        let mut unlisted = Vec::new();
        for (at, path) in paths.iter().enumerate() {
            match self.place(path) {
                Some(place) => listed.push((place, path, at)),
                None => unlisted.push(at),
            }
        }
        listed.sort_unstable();
        let used = |place: usize| listed.iter().any(|(at, ..)| *at == place);
        let warnings = (0..self.entries.len())
            .filter(|place| !used(*place))
            .map(|place| self.idle(place, paths))
            .collect();
        Sorted { listed: listed.into_iter().map(|(_, _, at)| at).collect(), unlisted, warnings }
    }

    /// The warning why an entry has no effect.
    fn idle(&self, place: usize, paths: &[String]) -> String {
        let (entry, key) = (&self.entries[place], &self.key);
        let text = entry.as_str();
        if paths.iter().any(|path| entry.matches(path)) {
            return format!("orderedResources lists {text:?} for {key} again; the first place counts");
        }
        let hint =
            if entry.has_semicolon() { "; names are separated by commas, not by semicolons" } else { "" };
        format!("orderedResources lists {text:?} for {key}, but nothing in this backup has that name{hint}")
    }
}
