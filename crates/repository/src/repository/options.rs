//! How a repository is opened, made and used: what callers of [`super::Repository`] may choose.

use std::path::PathBuf;

use crate::compress::Compression;
use crate::config::Version;
use crate::identity::Identity;
use crate::keys::Cost;

/// The size that packs aim at; restic's default.
pub const DEFAULT_PACK_SIZE: usize = 16 * 1024 * 1024;

/// How a repository is used.
#[derive(Debug, Clone)]
pub struct Options {
    pub compression: Compression,
    /// What packs grow to before they are uploaded.
    pub pack_size: usize,
    /// Uploads of packs in flight, at most; each holds one pack in memory.
    pub uploads: usize,
    /// Reads of packs in flight, at most, during restore, check and prune.
    pub reads: usize,
    /// Threads for hashing, compressing and encrypting.
    pub threads: usize,
    /// Where large indexes are spilled to.
    pub temporary: PathBuf,
    /// Where index files, snapshots and trees are kept from one run to the next.
    pub cache: Option<PathBuf>,
    /// Who we are, for locks, keys and snapshots.
    pub identity: Identity,
    /// The key to try first.
    pub key_hint: Option<String>,
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
        }
    }
}

/// How a new repository is made.
#[derive(Debug, Clone, Default)]
pub struct InitOptions {
    pub version: Version,
    /// That of another repository, so that copies between them share blobs.
    pub polynomial: Option<u64>,
    pub cost: Cost,
    /// Whether the password may be empty: only when a person said so.
    pub allow_empty_password: bool,
}
