//! Invokers and Repositories whose status may be wrong, because one of their sessions failed. A Ready object
//! without a due session is not checked, so a missing Secret, repository or target is first noticed when a
//! session fails. Filled at the end of sessions, read by the controllers of both kinds, which then check the
//! object. Kept in memory only.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use lifeboat_control::{Signal, locked};

/// Objects in doubt: the UIDs of invokers, the keys of Repositories. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubts {
    known: Arc<Mutex<BTreeSet<String>>>,
    /// Sent when an object is added.
    pub(crate) changed: Signal,
}

/// More are forgotten: they are looked at again by their next session.
const MOST: usize = 10_000;

impl Doubts {
    /// A session of this object failed.
    pub(crate) fn add(&self, id: &str) {
        let mut known = locked(&self.known);
        if known.len() < MOST {
            known.insert(id.to_owned());
        }
        drop(known);
        self.changed.give();
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        locked(&self.known).contains(id)
    }

    /// The object was looked at again. False if there was no doubt.
    pub(crate) fn settle(&self, id: &str) -> bool {
        locked(&self.known).remove(id)
    }
}
