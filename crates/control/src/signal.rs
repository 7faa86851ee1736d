//! A signal for a change that may affect all objects of a controller. Sent by the code that watches for such changes,
//! received through [`crate::Watches::all_when`].

use std::sync::Arc;

use futures::Stream;
use futures::stream::unfold;
use tokio::sync::watch;

/// Clones are the same signal.
#[derive(Clone, Debug)]
pub struct Signal(Arc<watch::Sender<u64>>);

impl Default for Signal {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Signal {
    /// Notifies all listeners. Signals that are given before a listener polls are delivered to it as one.
    pub fn give(&self) {
        self.0.send_modify(|given| *given = given.wrapping_add(1));
    }

    /// An item each time the signal is given from now on.
    pub fn listen(&self) -> impl Stream<Item = ()> + Send + use<> {
        unfold(self.0.subscribe(), async |mut given| {
            given.changed().await.ok()?;
            Some(((), given))
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[tokio::test]
    async fn everyone_who_listens_is_told_once_of_what_came_after() {
        let signal = Signal::default();
        signal.give();
        let (mut first, mut second) = (Box::pin(signal.listen()), Box::pin(signal.listen()));
        assert_eq!(first.next().now_or_never(), None, "it was given before");
        signal.give();
        signal.clone().give();
        assert_eq!(first.next().await, Some(()));
        assert_eq!(second.next().await, Some(()));
        assert_eq!(first.next().now_or_never(), None, "two at once are one");
    }
}
