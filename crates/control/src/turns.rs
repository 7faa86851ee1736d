//! Locks by name: of the callers that ask for one name, one runs at a time. Restores take one for each snapshot and
//! plugin, because a plugin's log lines name only the snapshot, so that two calls for one snapshot could not be
//! distinguished. Requests to delete one backup take one too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::OwnedMutexGuard;

use crate::locked;

type Names = Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>;

/// Locks by name. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    names: Arc<Names>,
}

impl Turns {
    /// Waits for the lock of this name; it is released when the guard is dropped.
    pub async fn take(&self, name: String) -> OwnedMutexGuard<()> {
        self.turn(name).lock_owned().await
    }

    /// The lock, if no other caller holds it.
    pub fn try_take(&self, name: String) -> Option<OwnedMutexGuard<()>> {
        self.turn(name).try_lock_owned().ok()
    }

    fn turn(&self, name: String) -> Arc<tokio::sync::Mutex<()>> {
        let mut names = locked(&self.names);
        // Names that no caller holds or waits for are forgotten.
        names.retain(|_, turn| Arc::strong_count(turn) > 1);
        names.entry(name).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_name_goes_one_after_the_other_and_others_go_at_once() {
        let turns = Turns::default();
        let first = turns.take("a".into()).await;
        assert!(turns.take("a".into()).now_or_never().is_none());
        assert!(turns.try_take("a".into()).is_none());
        assert!(turns.take("b".into()).now_or_never().is_some());
        drop(first);
        assert!(turns.take("a".into()).now_or_never().is_some());
        assert!(turns.try_take("a".into()).is_some());
        let _last = turns.take("c".into()).await;
        assert_eq!(turns.names.lock().unwrap().len(), 1, "names are forgotten");
    }
}
