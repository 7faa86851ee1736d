//! Carrying an object to its end with a mover: what PodVolumeBackup, PodVolumeRestore, DataUpload and DataDownload have in
//! common, from the first phase to the last. What differs is in [`crate::pod_volumes`] and [`crate::data_movement`]; the
//! controller of all four is `controllers/carried.rs`. Every step can be taken again by another server: what is done shows in
//! the object, the mover's Job and the repository.

mod case;
mod copies;
mod drive;
mod hands;
mod place;
mod reach;
mod shown;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use case::{Case, Mission, Terms};
pub(crate) use drive::{Work, cancelled, carry, failed, misunderstood};
pub(crate) use hands::{Hands, Made, Reach, ServerHands, Unusable};
pub(crate) use place::{Place, api};

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Resource;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::names;
use lifeboat_cluster::ApiError;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// How often a repository or its storage that cannot be reached is tried again, and how long in all.
const REPOSITORY_PACE: u32 = 5;
const REPOSITORY_PATIENCE: u32 = 60;

/// A kind whose objects movers bring to their ends.
pub(crate) trait Carried:
    Resource<DynamicType = ()> + DeserializeOwned + Clone + Send + Sync + 'static
{
    /// Its controller, in logs.
    const CONTROLLER: &'static str;

    /// Objects for the programs of others are left to those.
    fn is_ours(&self) -> bool {
        true
    }

    /// Brings the object to its end. An error is the API's, and worth another try from the beginning.
    fn carry(
        &self,
        desk: &Desk,
        cancel: &CancellationToken,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// Words of a volume that cannot be reached; or the API's trouble, which is worth another try.
pub(crate) enum Trouble {
    Words(String),
    Api(ApiError),
}

impl From<ApiError> for Trouble {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

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
}

/// How long one volume may take: what the annotation says, else the server's setting.
pub(crate) fn limit(annotation: Option<&str>, setting: Duration) -> Duration {
    let noted = annotation.and_then(|text| text.parse::<GoDuration>().ok()).and_then(GoDuration::to_std);
    noted.filter(|limit| !limit.is_zero()).unwrap_or(setting)
}

/// How long is left, as seconds for a pod; at least one.
fn left(deadline: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(deadline.as_second() - now.as_second()).unwrap_or(0).max(1)
}
