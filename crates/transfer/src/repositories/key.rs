//! The key of a repository: the queue counts movers by it, and open repositories are kept by it.

use std::fmt;

use lifeboat_api::common::{LocationName, NamespaceName};

/// Identifies a repository. Each API has its own pairs: for Velero's, `storage` is the name of the
/// BackupStorageLocation and `name` the namespace whose volumes the repository holds. Another API gives `storage` a
/// prefix of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryKey {
    storage: LocationName,
    name: NamespaceName,
}

impl RepositoryKey {
    pub fn new(storage: LocationName, name: NamespaceName) -> Self {
        Self { storage, name }
    }

    pub fn storage(&self) -> &LocationName {
        &self.storage
    }

    pub fn name(&self) -> &NamespaceName {
        &self.name
    }
}

/// As in `default/shop`; Jobs of movers have it in an annotation.
impl fmt::Display for RepositoryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.storage, self.name)
    }
}
