//! The records of reservations from a watch of their ConfigMaps, so that controllers know the users of repositories
//! without requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lifeboat_control::locked;
use lifeboat_plan::stash::reservation::{Claim, Record};

/// The records, by the names of their ConfigMaps. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Records(Arc<Mutex<BTreeMap<String, Record>>>);

impl Records {
    pub(crate) fn set(&self, config_map: &str, record: Record) {
        locked(&self.0).insert(config_map.to_owned(), record);
    }

    pub(crate) fn get(&self, config_map: &str) -> Option<Record> {
        locked(&self.0).get(config_map).cloned()
    }

    /// The ConfigMaps of all claims that are `wanted`.
    pub(crate) fn with_claims(&self, wanted: impl Fn(&Claim) -> bool) -> Vec<String> {
        let records = locked(&self.0);
        let found = records.iter().filter(|(_, record)| record.all().any(&wanted));
        found.map(|(name, _)| name.clone()).collect()
    }
}
