//! The Jobs and the pods of a session's movers; see [`crate::mover_pods`].

use lifeboat_api::common::NamespaceName;
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace};
use lifeboat_transfer::attempts::Transfer;

pub(super) use crate::mover_pods::{PodRequest, pod_settings, pod_settings_on};

/// The Job of a transfer's mover, to find the settings of its pod. The Job that is created gets its deadline later.
pub(super) fn job_of(transfer: &Transfer, place: MoverPlace) -> MoverJob {
    let context = &transfer.work;
    MoverJob {
        task: transfer.task(),
        owner: transfer.owner(),
        place,
        repository: transfer.key.to_string(),
        group: transfer.group.clone(),
        deadline_seconds: 1,
        namespace: NamespaceName::new(&transfer.namespace),
        pod: context.settings.pod(&context.core.namespace),
    }
}
