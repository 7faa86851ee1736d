//! Which items are in the backup, as 16 bytes per item.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use lifeboat_control::locked;
use lifeboat_plan::catalogue::ItemId;

/// Items that were claimed. Both hash keys are random, so that no one can construct two items whose digests collide.
#[derive(Default)]
pub(super) struct Written {
    keys: (RandomState, RandomState),
    known: Mutex<HashSet<u128>>,
}

impl Written {
    /// Claims an item; false if another task has claimed it already.
    pub(super) fn claim(&self, id: &ItemId, version: &str) -> bool {
        let key = self.key(id, version);
        locked(&self.known).insert(key)
    }

    pub(super) fn has(&self, id: &ItemId, version: &str) -> bool {
        let key = self.key(id, version);
        locked(&self.known).contains(&key)
    }

    fn key(&self, id: &ItemId, version: &str) -> u128 {
        let (first, second) = (self.keys.0.hash_one((id, version)), self.keys.1.hash_one((id, version)));
        u128::from(first) << 64 | u128::from(second)
    }
}
