//! Options for opening, creating and using a repository, for callers of [`super::Repository`].

use std::path::PathBuf;

use crate::compress::Compression;
use crate::config::Version;
use crate::identity::Identity;
use crate::keys::Cost;

/// The target size of packs; restic's default.
pub const DEFAULT_PACK_SIZE: usize = 16 * 1024 * 1024;

/// Options for using a repository.
#[derive(Debug, Clone)]
pub struct Options {
    pub compression: Compression,
    /// The size at which packs are uploaded.
    pub pack_size: usize,
    /// The most concurrent uploads of packs; each holds one pack in memory.
    pub uploads: usize,
    /// The most concurrent reads of packs during restore, check and prune.
    pub reads: usize,
    /// Threads for hashing, compressing and encrypting.
    pub threads: usize,
    /// The directory for large indexes.
    pub temporary: PathBuf,
    /// The directory for cached index files, snapshots and trees.
    pub cache: Option<PathBuf>,
    /// The identity in locks, keys and snapshots.
    pub identity: Identity,
    /// The key to try first.
    pub key_hint: Option<String>,
    /// A key that costs more than this is not tried.
    pub costliest_key: Cost,
    /// The most files of one kind that are listed, and the most bytes of snapshots that are loaded at once: the owner of the storage
    /// could fill the memory with them.
    pub most_listed: usize,
    pub most_snapshot_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            compression: Compression::default(),
            pack_size: DEFAULT_PACK_SIZE,
            uploads: 4,
            reads: 8,
            threads: cores.min(16),
            temporary: std::env::temp_dir(),
            cache: None,
            identity: Identity::of_system(),
            key_hint: None,
            costliest_key: Cost::HIGHEST,
            most_listed: usize::MAX,
            most_snapshot_bytes: usize::MAX,
        }
    }
}

/// Options for creating a repository.
#[derive(Debug, Clone, Default)]
pub struct InitOptions {
    pub version: Version,
    /// The polynomial of another repository, so that copies between them share blobs.
    pub polynomial: Option<u64>,
    pub cost: Cost,
    /// Whether the password may be empty: only if the user allowed it.
    pub allow_empty_password: bool,
}
