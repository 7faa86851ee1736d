//! Runs one transfer of a volume with movers, from the first attempt to the recorded result. Takes a record of
//! attempts, the steps that differ between kinds ([`Steps`]) and effects. Another server can repeat every step,
//! because the record, the mover's Job and the repository show which steps are done. Called by the controllers of
//! objects whose data movers copy.

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

use lifeboat_cluster::ApiError;
use lifeboat_control::Core;

use crate::MoverSettings;
pub use drive::{Steps, cancelled, failed, run_transfer, wrong_result};
pub use effects::{Effects, Reach, Reports, ServerEffects, Stored, Unusable};
pub use record::{Accepted, AttemptRecord, End};
pub use stored::{NotStored, Reported, files_of};
pub use transfer::{Prepared, Rates, Transfer, TransferSpec};

/// Pause between two tries of a repository that cannot be reached, in units of `WorkContext::pace`, and the number of
/// tries before the transfer fails.
const REPOSITORY_PACE: u32 = 5;
const REPOSITORY_PATIENCE: u32 = 60;

/// What the work on one transfer needs: clients, settings, effects.
#[derive(Clone)]
pub struct WorkContext {
    pub core: Core,
    pub settings: Arc<MoverSettings>,
    pub effects: Arc<dyn Effects>,
    /// The pause between two polls; tests shorten it.
    pub pace: Duration,
}

impl WorkContext {
    pub fn new(core: &Core, settings: Arc<MoverSettings>, effects: Arc<dyn Effects>) -> Self {
        Self { core: core.clone(), settings, effects, pace: Duration::from_secs(2) }
    }
}

/// Why no mover can be started.
#[derive(Debug)]
pub enum NotPrepared {
    /// The volume cannot be read or written; the text is the reason, for people.
    Because(String),
    /// An error of the API server; the transfer is tried again.
    Api(ApiError),
}

impl From<ApiError> for NotPrepared {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}
