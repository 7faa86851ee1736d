//! The snapshots that must exist: those that were acknowledged or found, their repository, and the content that each
//! must restore. Content is kept as listings with hashes, not as copies of the data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::task::{STREAM, WhichRepository};
use crate::tree::{Content, Listing, Random};

/// The content that a snapshot must restore.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    Tree { source: PathBuf, listing: Arc<Listing> },
    Stream(Content),
}

impl Expected {
    pub(super) fn stream(seed: u64, length: usize) -> Self {
        let bytes = Random::new(seed).bytes(length);
        Self::Stream(Content::File { size: bytes.len() as u64, hash: Sha256::digest(&bytes).into() })
    }

    /// The path of the content in its snapshots.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Tree { source, .. } => source.to_str().unwrap().to_owned(),
            Self::Stream(_) => format!("/{STREAM}"),
        }
    }
}

/// A snapshot that must exist.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) place: WhichRepository,
    pub(super) expected: Expected,
    /// The snapshot that it was copied from, or itself.
    pub(super) original: String,
    /// The cycle in which it, or its original, was created: copies are created in any order.
    pub(super) cycle: u64,
}

/// All snapshots that must exist.
#[derive(Debug, Default)]
pub(super) struct Ledger(pub(super) Vec<Kept>);

impl Ledger {
    pub(super) fn at(&self, place: WhichRepository) -> Vec<&Kept> {
        self.0.iter().filter(|kept| kept.place == place).collect()
    }

    pub(super) fn has(&self, place: WhichRepository, id: &str) -> bool {
        self.0.iter().any(|kept| kept.place == place && kept.id == id)
    }

    /// Finds a snapshot by its id or that of its original.
    pub(super) fn find(&self, id: &str) -> Option<&Kept> {
        self.0.iter().find(|kept| kept.id == id || kept.original == id)
    }

    /// The snapshots that a policy which keeps the newest of each group removes: a group has one path, because all have
    /// the same host.
    pub(super) fn beyond_last(&self, place: WhichRepository, keep: usize) -> Vec<String> {
        let mut all = self.at(place);
        all.sort_by_key(|kept| kept.cycle);
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for kept in all {
            groups.entry(kept.expected.path()).or_default().push(kept.id.clone());
        }
        let old = groups.into_values().flat_map(|ids| ids[..ids.len().saturating_sub(keep)].to_vec());
        old.collect()
    }
}
