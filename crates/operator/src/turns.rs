//! Turns by name: of those who ask for one name, one goes at a time. Restores take one for each snapshot and plugin, because
//! what a plugin writes about a call is told from that of another call by them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Places = Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>;

/// Clones share the turns.
#[derive(Clone, Default)]
pub(crate) struct Turns {
    places: Arc<Places>,
}

impl Turns {
    /// Waits for the turn; it ends when what is given is dropped.
    pub(crate) async fn take(&self, name: String) -> OwnedMutexGuard<()> {
        let place = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody has or waits for.
            places.retain(|_, place| Arc::strong_count(place) > 1);
            places.entry(name).or_default().clone()
        };
        place.lock_owned().await
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
        assert!(turns.take("b".into()).now_or_never().is_some());
        drop(first);
        assert!(turns.take("a".into()).now_or_never().is_some());
        let _last = turns.take("c".into()).await;
        assert_eq!(turns.places.lock().unwrap().len(), 1, "names are forgotten");
    }
}
