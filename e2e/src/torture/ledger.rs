//! The snapshots that must be there: what was acknowledged or found, where, and what each must give back. Listings with
//! hashes, not copies of the data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::task::{Place, STREAM};
use crate::tree::{Content, Listing, Random};

/// What a snapshot must give back.
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

    /// The path in snapshots of it.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Tree { source, .. } => source.to_str().unwrap().to_owned(),
            Self::Stream(_) => format!("/{STREAM}"),
        }
    }
}

/// A snapshot that must be there.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) place: Place,
    pub(super) expected: Expected,
    /// What it was copied from, or itself.
    pub(super) original: String,
    /// The cycle in which it, or its original, was made: copies are made in any order.
    pub(super) cycle: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Ledger(pub(super) Vec<Kept>);

impl Ledger {
    pub(super) fn at(&self, place: Place) -> Vec<&Kept> {
        self.0.iter().filter(|kept| kept.place == place).collect()
    }

    pub(super) fn has(&self, place: Place, id: &str) -> bool {
        self.0.iter().any(|kept| kept.place == place && kept.id == id)
    }

    /// By its id or that of its original.
    pub(super) fn find(&self, id: &str) -> Option<&Kept> {
        self.0.iter().find(|kept| kept.id == id || kept.original == id)
    }

    /// What a policy that keeps the newest of each group takes away: a group is of one path, as all are of one host.
    pub(super) fn beyond_last(&self, place: Place, keep: usize) -> Vec<String> {
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
