//! The key of a repository: the queue counts movers by it, and open repositories are kept by it.

use std::fmt;

use lifeboat_api::common::{RepositoryName, StorageName};

/// Identifies a repository. Each API has its own pairs: for Velero's, `storage` is the name of the
/// BackupStorageLocation and `name` the namespace whose volumes the repository holds. Another API gives `storage` a
/// prefix of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryKey {
    storage: StorageName,
    name: RepositoryName,
}

impl RepositoryKey {
    pub fn new(storage: StorageName, name: RepositoryName) -> Self {
        Self { storage, name }
    }

    pub fn storage(&self) -> &StorageName {
        &self.storage
    }

    pub fn name(&self) -> &RepositoryName {
        &self.name
    }
}

/// As in `default/shop`; Jobs of movers have it in an annotation.
impl fmt::Display for RepositoryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.storage, self.name)
    }
}
