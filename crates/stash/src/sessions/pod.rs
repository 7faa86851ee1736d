//! The settings of the pods of a session's movers; see [`crate::mover_pods`].

pub(super) use crate::mover_pods::{PodRequest, pod_settings, pod_settings_on};
