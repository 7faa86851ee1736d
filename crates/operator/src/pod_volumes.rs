//! Copying the volumes of pods into repositories and back: what the controllers of PodVolumeBackup and PodVolumeRestore do
//! for one object, from its first phase to its last. Every step can be taken again by another server: what is done shows in
//! the object, the mover's Job and the repository.

pub(crate) mod carriers;
pub(crate) mod copying;
pub(crate) mod filling;
mod gather;
mod hands;
mod object;
mod reach;
mod shown;
#[cfg(test)]
mod tests;

pub(crate) use copying::{REPOSITORY_PACE, REPOSITORY_PATIENCE};
pub(crate) use gather::Trouble;
pub(crate) use hands::{Hands, Made, Reach, ServerHands, Unusable};
pub(crate) use object::{Place, api};
pub(crate) use shown::Shown;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::names;

use crate::context::Context;

/// What the work on one object needs.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) context: Context,
    pub(crate) hands: Arc<dyn Hands>,
    /// How fast things are looked at again; tests are in a hurry.
    pub(crate) pace: Duration,
}

impl Desk {
    pub(crate) fn new(context: &Context) -> Self {
        let hands = Arc::new(ServerHands(context.clone()));
        Self { context: context.clone(), hands, pace: Duration::from_secs(2) }
    }

    /// How long one volume may take: what the object's annotation says, else the server's setting.
    fn limit(&self, metadata: &kube::api::ObjectMeta) -> Duration {
        let noted = metadata.annotations.as_ref().and_then(|all| all.get(names::POD_VOLUME_TIMEOUT));
        limit(noted.map(String::as_str), self.context.settings.movers.copy_timeout)
    }

    /// When an object's time is over.
    pub(crate) fn deadline(&self, metadata: &kube::api::ObjectMeta) -> Timestamp {
        let made = metadata.creation_timestamp.as_ref().map_or_else(|| self.context.now(), |time| time.0);
        made.checked_add(self.limit(metadata)).unwrap_or(Timestamp::MAX)
    }
}

/// How long one volume may take: what the annotation says, else the server's setting.
pub(crate) fn limit(annotation: Option<&str>, setting: Duration) -> Duration {
    let noted = annotation.and_then(|text| text.parse::<GoDuration>().ok()).and_then(GoDuration::to_std);
    noted.filter(|limit| !limit.is_zero()).unwrap_or(setting)
}

/// How long is left, as seconds for a pod; at least one.
pub(crate) fn left(deadline: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(deadline.as_second() - now.as_second()).unwrap_or(0).max(1)
}
