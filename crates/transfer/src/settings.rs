//! Settings of movers and of the volumes they copy.

use std::time::Duration;

use lifeboat_mover::task;
use lifeboat_plan::transfer::movers::{PodOverrides, PodSecurity, PodSettings};

/// How movers run.
#[derive(Clone, Debug)]
pub struct MoverSettings {
    /// The namespace of the movers' Jobs, except for volumes that can be mounted only in their own namespace.
    pub namespace: String,
    /// The image with the program `lifeboat`; also for the init container in restored pods.
    pub image: String,
    /// Whether movers may mount directories of nodes; the administrator decides it at install time.
    pub node_access: bool,
    /// The kubelet's directory on nodes without the annotation `lifeboat.io/kubelet-root`.
    pub kubelet_root: String,
    /// How many movers run at once: in total, on one node and on one repository.
    pub at_once: usize,
    pub at_once_on_node: usize,
    pub at_once_on_repository: usize,
    /// Requests and limits of the movers' container, in Kubernetes' notation.
    pub cpu_request: String,
    pub memory_request: String,
    pub memory_limit: String,
    pub priority_class: Option<String>,
    /// How long a mover's pod may take until its container runs.
    pub prepare_timeout: Duration,
    /// How long a node may be silent before its movers count as lost.
    pub node_timeout: Duration,
    /// How long the transfer of one volume may take, from the start of its mover, if the Backup or Restore sets no limit.
    pub copy_timeout: Duration,
    /// How long a volume may wait for the turn of its mover.
    pub queue_timeout: Duration,
    /// How often a repository is maintained if it sets no frequency.
    pub maintenance_frequency: Duration,
}

impl MoverSettings {
    /// The settings of pods in the movers' own namespace, which enforces Pod Security level `baseline` unless movers may
    /// access nodes. `server` is the server's namespace.
    pub fn pod(&self, server: &str) -> PodSettings {
        PodSettings {
            server: server.to_owned(),
            image: self.image.clone(),
            cpu_request: self.cpu_request.clone(),
            cpu_limit: None,
            memory_request: self.memory_request.clone(),
            memory_limit: self.memory_limit.clone(),
            priority_class: self.priority_class.clone(),
            nice: None,
            service_account: None,
            task_directory: task::DIRECTORY.to_owned(),
            pod_uid_variable: task::POD_UID.to_owned(),
            security: if self.node_access { PodSecurity::Privileged } else { PodSecurity::Baseline },
            target: None,
            repository_volume: None,
            tool_image: None,
            overrides: PodOverrides::default(),
        }
    }
}

impl Default for MoverSettings {
    fn default() -> Self {
        Self {
            namespace: lifeboat_plan::transfer::movers::DEFAULT_NAMESPACE.to_owned(),
            image: String::new(),
            node_access: false,
            kubelet_root: "/var/lib/kubelet".to_owned(),
            at_once: 20,
            at_once_on_node: 4,
            at_once_on_repository: 8,
            cpu_request: "100m".to_owned(),
            memory_request: "128Mi".to_owned(),
            memory_limit: "1Gi".to_owned(),
            priority_class: None,
            prepare_timeout: Duration::from_mins(30),
            node_timeout: Duration::from_mins(5),
            copy_timeout: Duration::from_hours(4),
            queue_timeout: Duration::from_hours(24),
            maintenance_frequency: Duration::from_hours(24),
        }
    }
}
