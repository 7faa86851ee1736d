//! The name of a repository: by it the queue counts movers, and open repositories are kept.

use std::fmt;

use lifeboat_api::common::{LocationName, NamespaceName};

/// Which repository. Each API has its own pairs: for Velero's, `storage` is the name of the BackupStorageLocation and
/// `name` the namespace whose volumes it holds. An API that comes later gives `storage` a prefix of its own.
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

/// As in `default/shop`; Jobs of movers carry it in an annotation.
impl fmt::Display for RepositoryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.storage, self.name)
    }
}
