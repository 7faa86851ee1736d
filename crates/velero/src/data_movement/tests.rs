//! Data movements with effects of a few lines: the cluster is kept in memory, the mover ends as the test says.

mod downloads;
mod uploads;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lifeboat_mover::task::TaskWork;
use lifeboat_plan::transfer::movers::MoverPlace;
use lifeboat_transfer::MoverSettings;
use lifeboat_transfer::movers::MoverEnd;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::backup::world::World;
use crate::testing::{context_with, settings};
use crate::transfers::{TransferKind, work_context};
use lifeboat_transfer::attempts::WorkContext;
use lifeboat_transfer::attempts::testing::{FakeEffects, died, fails, killed_when_cancelled, lost};

struct Bench {
    world: World,
    effects: Arc<FakeEffects>,
    work: WorkContext,
}

impl Bench {
    async fn new(prepare: Duration) -> Self {
        let world = World::default();
        let movers = MoverSettings { prepare_timeout: prepare, ..MoverSettings::default() };
        let context = context_with(world.client().await, settings(), movers);
        let effects = Arc::new(FakeEffects::default());
        effects.well.store(true, Ordering::Relaxed);
        let pace = Duration::from_millis(1);
        let work = WorkContext { effects: effects.clone(), pace, ..work_context(&context) };
        Self { world, effects, work }
    }

    fn movers(&self) -> usize {
        self.effects.requests.lock().unwrap().len()
    }

    /// Called while a mover runs.
    fn meanwhile(&self, look: impl Fn(&World) + Send + Sync + 'static) {
        let world = self.world.clone();
        self.effects.meanwhile(move || look(&world));
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
