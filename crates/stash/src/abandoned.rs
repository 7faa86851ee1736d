//! Sessions whose status the API server refuses to write, so that their end cannot be recorded. Nothing of them runs any more, and other
//! sessions do not wait for them. This is known to one server only: its successor finds out again. Set and read by the sessions' modules.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use lifeboat_control::locked;

/// The UIDs of abandoned sessions. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abandoned(Arc<Mutex<BTreeSet<String>>>);

impl Abandoned {
    /// Adds a session. False if it was known.
    pub(crate) fn add(&self, uid: &str) -> bool {
        locked(&self.0).insert(uid.to_owned())
    }

    /// The session has ended, or no longer exists.
    pub(crate) fn remove(&self, uid: &str) {
        locked(&self.0).remove(uid);
    }

    pub(crate) fn has(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| locked(&self.0).contains(uid))
    }
}
