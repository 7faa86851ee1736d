//! For tests: a mover in the movers' own namespace.

use super::super::{MoverJob, MoverPlace, Owner, PodOverrides, PodSecurity, PodSettings};
use lifeboat_api::common::{NamespaceName, TaskId};

fn settings() -> PodSettings {
    PodSettings {
        server: "lifeboat".into(),
        image: "localhost/lifeboat:dev".into(),
        cpu_request: "100m".into(),
        cpu_limit: None,
        memory_request: "128Mi".into(),
        memory_limit: "1Gi".into(),
        priority_class: None,
        nice: None,
        service_account: None,
        task_directory: "/mover/task".into(),
        pod_uid_variable: "LIFEBOAT_POD_UID".into(),
        security: PodSecurity::Privileged,
        target: None,
        repository_volume: None,
        tool_image: None,
        overrides: PodOverrides::default(),
    }
}

pub(crate) fn wanted(place: MoverPlace) -> MoverJob {
    MoverJob {
        task: TaskId::new("6f1c-1"),
        owner: Owner {
            kind: "PodVolumeBackup".into(),
            namespace: NamespaceName::new("lifeboat"),
            name: "nightly-x".into(),
            uid: "6f1c".into(),
        },
        place,
        repository: "default/shop".into(),
        group: "nightly".into(),
        deadline_seconds: 3600,
        namespace: NamespaceName::new("lifeboat-movers"),
        pod: settings(),
    }
}
