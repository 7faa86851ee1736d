//! Brings one transfer of a volume to its end with movers: from the first attempt to the record of the result. Takes a
//! record of attempts, the steps that differ between kinds ([`Steps`]) and effects; every step can be taken again by
//! another server, because what is done shows in the record, the mover's Job and the repository. Called by the controllers
//! of objects whose data movers copy.

mod drive;
mod effects;
mod observer;
mod reach;
mod record;
mod stored;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_cluster::ApiError;
use lifeboat_control::Core;

use crate::MoverSettings;
pub use drive::{Steps, cancelled, carry, failed, misunderstood};
pub use effects::{Effects, Reach, Reports, ServerEffects, Stored, Unusable};
pub use record::{Accepted, AttemptRecord, End};
pub use stored::{NotStored, Reported};
pub use transfer::{Prepared, Transfer, TransferSpec};

/// How often a repository or its storage that cannot be reached is tried again, and how long in all.
const REPOSITORY_PACE: u32 = 5;
const REPOSITORY_PATIENCE: u32 = 60;

/// What the work on one transfer needs.
#[derive(Clone)]
pub struct WorkContext {
    pub core: Core,
    pub settings: Arc<MoverSettings>,
    pub effects: Arc<dyn Effects>,
    /// The pause between two looks; tests shorten it.
    pub pace: Duration,
}

impl WorkContext {
    pub fn new(core: &Core, settings: Arc<MoverSettings>, effects: Arc<dyn Effects>) -> Self {
        Self { core: core.clone(), settings, effects, pace: Duration::from_secs(2) }
    }
}

/// Why no mover can be sent.
#[derive(Debug)]
pub enum NotPrepared {
    /// The volume cannot be reached, and why, for people.
    Because(String),
    /// Trouble with the API server, which is worth another try.
    Api(ApiError),
}

impl From<ApiError> for NotPrepared {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// The seconds until the deadline, for a pod; at least one.
fn seconds_left(deadline: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(deadline.as_second() - now.as_second()).unwrap_or(0).max(1)
}
