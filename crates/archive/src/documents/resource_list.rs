//! `NAME-resource-list.json.gz`: every item by type, sorted.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Maps `v1/Pod` to `namespace/name`; sorted when it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ResourceList {
    types: BTreeMap<String, Vec<String>>,
}

impl Serialize for ResourceList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.types.iter().map(|(kind, items)| {
            let mut items: Vec<&str> = items.iter().map(String::as_str).collect();
            items.sort_unstable();
            (kind, items)
        }))
    }
}

/// What a restore did with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreAction {
    Created,
    Updated,
    Failed,
    Skipped,
}

impl fmt::Display for RestoreAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        })
    }
}

impl ResourceList {
    /// Adds an item of a backup. `api_version` has the form `apps/v1`.
    pub fn add(&mut self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) {
        self.insert(api_version, kind, path(namespace, name));
    }

    /// Adds an item of a restore and its outcome; namespaces are those of the cluster.
    pub fn add_restored(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        action: RestoreAction,
    ) {
        self.insert(api_version, kind, format!("{}({action})", path(namespace, name)));
    }

    /// Sorts the items of each type as they are written, for display.
    pub fn sort(&mut self) {
        for items in self.types.values_mut() {
            items.sort_unstable();
        }
    }

    pub fn types(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.types.iter().map(|(kind, items)| (kind.as_str(), items.as_slice()))
    }

    /// Number of items.
    pub fn count(&self) -> usize {
        self.types.values().map(Vec::len).sum()
    }

    fn insert(&mut self, api_version: &str, kind: &str, item: String) {
        let key = format!("{api_version}/{kind}");
        match self.types.get_mut(&key) {
            Some(items) => items.push(item),
            None => {
                self.types.insert(key, vec![item]);
            }
        }
    }
}

fn path(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
