//! The most recently used repositories stay open, because deriving the key from the password takes about a second
//! each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use lifeboat_repository::repository::Repository;
use tokio::sync::Mutex;

use super::{Access, RepositoryKey};

/// How many stay open: the index of a large repository takes much memory.
const MOST: usize = 64;

/// The slot of one repository. A caller holds the lock while it opens the repository, so that it is created and
/// opened once.
pub(super) type Slot = Arc<Mutex<Option<Opened>>>;

pub(super) struct Opened {
    pub(super) access: Access,
    pub(super) repository: Repository,
}

/// Open repositories by key, with a counter of their last use.
#[derive(Default)]
pub(super) struct OpenRepositories {
    slots: BTreeMap<RepositoryKey, (Slot, u64)>,
    uses: u64,
}

impl OpenRepositories {
    /// The slot of a repository, marked as used now. The least recently used ones are closed.
    pub(super) fn slot(&mut self, key: &RepositoryKey) -> Slot {
        self.uses += 1;
        let uses = self.uses;
        let (slot, last) = self.slots.entry(key.clone()).or_default();
        *last = uses;
        let slot = slot.clone();
        while self.slots.len() > MOST && self.close_oldest(key) {}
        slot
    }

    pub(super) fn close(&mut self, key: &RepositoryKey) {
        self.slots.remove(key);
    }

    /// Closes the least recently used repository. False if all others are in use.
    fn close_oldest(&mut self, but: &RepositoryKey) -> bool {
        let idle = self.slots.iter().filter(|(key, (slot, _))| *key != but && Arc::strong_count(slot) == 1);
        let oldest = idle.min_by_key(|(_, (_, last))| *last).map(|(key, _)| key.clone());
        oldest.is_some_and(|key| self.slots.remove(&key).is_some())
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::common::{RepositoryName, StorageName};

    use super::*;

    fn key(number: usize) -> RepositoryKey {
        RepositoryKey::new(StorageName::new("default"), RepositoryName::new(number.to_string()))
    }

    #[test]
    fn the_repository_that_was_not_used_for_longest_is_closed_first() {
        let mut open = OpenRepositories::default();
        for number in 0..MOST {
            open.slot(&key(number));
        }
        open.slot(&key(0));
        open.slot(&key(MOST));
        assert_eq!(open.slots.len(), MOST);
        assert!(open.slots.contains_key(&key(0)) && !open.slots.contains_key(&key(1)));
    }

    #[test]
    fn a_repository_that_is_in_use_stays_open() {
        let mut open = OpenRepositories::default();
        let used: Vec<Slot> = (0..=MOST).map(|number| open.slot(&key(number))).collect();
        assert_eq!(open.slots.len(), MOST + 1);
        drop(used);
        open.slot(&key(MOST + 1));
        assert_eq!(open.slots.len(), MOST);
    }
}
