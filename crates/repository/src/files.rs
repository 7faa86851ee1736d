//! The layout of the store: restic's default layout, and one directory of our own that restic ignores.

use crate::id::Id;

/// The kinds of object in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    Config,
    Key,
    Lock,
    Snapshot,
    Index,
    Pack,
}

/// The directory for the files that Lifeboat needs besides restic's (when packs were removed from the index).
pub const OWN_PREFIX: &str = "lifeboat";

impl FileKind {
    /// The directory, without a slash; the config has none.
    pub fn directory(self) -> &'static str {
        match self {
            Self::Config => "",
            Self::Key => "keys",
            Self::Lock => "locks",
            Self::Snapshot => "snapshots",
            Self::Index => "index",
            Self::Pack => "data",
        }
    }

    /// The key of an object in the store.
    pub fn key(self, id: Id) -> String {
        match self {
            Self::Config => "config".to_owned(),
            Self::Pack => {
                let name = id.to_string();
                format!("data/{}/{name}", &name[..2])
            }
            other => format!("{}/{id}", other.directory()),
        }
    }

    /// The file's name in messages: `snapshot 1a2b3c4d`.
    pub fn describe(self, id: Id) -> String {
        match self {
            Self::Config => "the config".to_owned(),
            Self::Key => format!("key {}", id.short()),
            Self::Lock => format!("lock {}", id.short()),
            Self::Snapshot => format!("snapshot {}", id.short()),
            Self::Index => format!("index {}", id.short()),
            Self::Pack => format!("pack {}", id.short()),
        }
    }

    /// The files' name in messages: `the snapshots`.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Config => "the config",
            Self::Key => "the keys",
            Self::Lock => "the locks",
            Self::Snapshot => "the snapshots",
            Self::Index => "the index files",
            Self::Pack => "the packs",
        }
    }
}
