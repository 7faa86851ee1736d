//! Data movements with hands of a few lines: the cluster is kept in memory, the mover ends as it is told to.

mod downloads;
mod uploads;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lifeboat_mover::task::Work;
use lifeboat_plan::movers::Place as Where;
use lifeboat_transfer::movers::Ended;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::backup::world::World;
use crate::carrying::testing::{Fake, died, fails, killed_when_cancelled, lost};
use crate::carrying::{Carried, Desk};
use crate::context::Context;
use crate::testing::settings;

struct Bench {
    world: World,
    hands: Arc<Fake>,
    desk: Desk,
}

impl Bench {
    async fn new(prepare: Duration) -> Self {
        let world = World::default();
        let mut settings = settings();
        settings.movers.prepare_timeout = prepare;
        let metrics = lifeboat_web::Metrics::new("0");
        let context = Context::new(world.client().await, metrics, Arc::new(settings));
        let hands = Arc::new(Fake::default());
        hands.well.store(true, Ordering::Relaxed);
        let desk = Desk { context, hands: hands.clone(), pace: Duration::from_millis(1) };
        Self { world, hands, desk }
    }

    fn movers(&self) -> usize {
        self.hands.assignments.lock().unwrap().len()
    }

    /// Called while a mover runs.
    fn meanwhile(&self, look: impl Fn(&World) + Send + Sync + 'static) {
        let world = self.world.clone();
        self.hands.meanwhile(move || look(&world));
    }

    fn status(&self, path: &str) -> Value {
        self.world.get(path).unwrap()["status"].clone()
    }

    /// What is in the movers' namespace, and contents.
    fn left(&self) -> Vec<String> {
        let mut left = self.world.paths("/namespaces/lifeboat-movers/");
        left.extend(self.world.paths("/volumesnapshotcontents/lifeboat-"));
        left
    }
}
