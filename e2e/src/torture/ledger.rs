//! The snapshots that must be there: what was acknowledged or found, where, and what each must give back. Listings with
//! hashes, not copies of the data.

use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::task::Place;
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
}

/// A snapshot that must be there.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) place: Place,
    pub(super) expected: Expected,
    /// What it was copied from, or itself.
    pub(super) original: String,
}

/// All of them, oldest first.
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
    pub(super) fn expected(&self, id: &str) -> Option<&Expected> {
        self.0.iter().find(|kept| kept.id == id || kept.original == id).map(|kept| &kept.expected)
    }

    /// What a policy that keeps the newest of each group takes away. Trees are one group, streams another.
    pub(super) fn beyond_last(&self, place: Place, keep: usize) -> Vec<String> {
        let group = |trees: bool| {
            let of = |kept: &&&Kept| matches!(kept.expected, Expected::Tree { .. }) == trees;
            let all = self.at(place);
            let ids: Vec<String> = all.iter().filter(of).map(|kept| kept.id.clone()).collect();
            ids[..ids.len().saturating_sub(keep)].to_vec()
        };
        [group(true), group(false)].concat()
    }
}
