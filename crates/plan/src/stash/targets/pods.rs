//! Which pods a target has and which of them stands for a host.

use serde_json::Value;

use super::TargetKind;

/// Why no pod stands for a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodsError {
    #[error("{target} has no Ready pod: {pods}; the backup reads the volumes of a Ready pod, so it needs one")]
    NoReadyPod { target: String, pods: String },
    #[error("pod {pod} of {target} does not exist; see `kubectl describe` of it for why it was not made")]
    NoPod { target: String, pod: String },
    #[error("{target} runs on no node; nothing can be backed up")]
    NoNodes { target: String },
    #[error("StatefulSet {name} has no replicas and no claims; nothing can be backed up")]
    NoOrdinals { name: String },
}

/// The pods of a workload, by their owners. `between`: ReplicaSets of a Deployment, ReplicationControllers of a DeploymentConfig.
pub fn pods_of<'a>(object: &Value, between: &[Value], pods: &'a [Value]) -> Vec<&'a Value> {
    let _ = (object, between, pods);
    unimplemented!()
}

/// The pod template of a workload.
pub fn pod_template(kind: TargetKind, object: &Value) -> Option<&Value> {
    let _ = kind;
    object.pointer("/spec/template")
}

/// Why a pod is not Ready; None if it is.
pub fn why_not_ready(pod: &Value) -> Option<String> {
    let _ = pod;
    unimplemented!()
}
