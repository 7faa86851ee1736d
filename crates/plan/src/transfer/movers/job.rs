//! The Job of a mover and the Secret with its task: takes a [`MoverJob`], gives manifests; and reads from an existing
//! Job which task it is for. Called by the server, which adds the Secret's content.
//!
//! A mover has no token, no network identity of its own and the fewest permissions that its data allows; see `rights`
//! below and docs/movers.md.

use std::collections::BTreeMap;

use lifeboat_api::common::TaskId;
use serde_json::{Value, json};

use super::{DATA, DEVICE, MoverJob, MoverPlace, Owner, SCRATCH, queue::Candidate};
use super::{NotAllowed, rights, rights::Rights};
use crate::json::text;
use crate::label;

/// The service account of movers: it has no permissions, and its token is not mounted.
pub const SERVICE_ACCOUNT: &str = "lifeboat-mover";
/// The container of a mover's pod.
pub const CONTAINER: &str = "mover";
/// The label with the task.
pub const TASK: &str = "lifeboat.io/task";

const NAME: &str = "lifeboat-mover";
const SERVER: &str = "lifeboat.io/server";
const OWNER_KIND: &str = "lifeboat.io/owner-kind";
const OWNER_NAME: &str = "lifeboat.io/owner-name";
const OWNER_UID: &str = "lifeboat.io/owner-uid";
const REPOSITORY: &str = "lifeboat.io/repository";
const GROUP: &str = "lifeboat.io/group";
const NODE: &str = "lifeboat.io/node";

/// How long a mover may take to end after SIGTERM: it writes its result and removes its lock.
pub const GRACE_SECONDS: u32 = 30;
/// The server deletes a Job once its end is recorded. This limit is for Jobs that no server tracks any more.
const KEPT_SECONDS: u32 = 24 * 60 * 60;
/// The size limit of the scratch volume: indexes of large repositories.
const SCRATCH_LIMIT: &str = "20Gi";
/// Selects all Jobs, pods and Secrets of the movers of a server, which is identified by its namespace.
pub fn selector(server: &str) -> String {
    format!("app.kubernetes.io/name={NAME},{SERVER}={server}")
}

/// The name of a task's Job and Secret.
pub fn name(task: &TaskId) -> String {
    let name = format!("mover-{task}");
    if name.len() <= 63 { name } else { format!("mover-{}", label::digest(task)) }
}

/// The Secret with the task, without its content.
pub fn secret(wanted: &MoverJob) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(wanted),
        "type": "Opaque",
    })
}

/// The owner reference that makes the Secret be deleted with its Job.
pub fn owner_reference(job: &Value) -> Value {
    json!([{
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }])
}

/// The Job; the error says why the namespace would reject its pod.
pub fn job(wanted: &MoverJob) -> Result<Value, NotAllowed> {
    let rights = rights::of(&wanted.place, wanted.pod.target.as_ref(), wanted.pod.security)?;
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(wanted),
        "spec": {
            "completions": 1,
            "parallelism": 1,
            // The server decides about another attempt, because it knows what the repository holds.
            "backoffLimit": 0,
            // A terminating pod is replaced only once it has ended: two pods never run at the same time.
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {
                "metadata": {"labels": labels(wanted), "annotations": annotations(wanted)},
                "spec": pod(wanted, rights),
            },
        },
    }))
}

fn metadata(wanted: &MoverJob) -> Value {
    json!({
        "name": name(&wanted.task),
        "namespace": wanted.namespace,
        "labels": labels(wanted),
        "annotations": annotations(wanted),
    })
}

/// Names that may be invalid as label values are hashed; the annotations have them in full.
fn labels(wanted: &MoverJob) -> Value {
    json!({
        "app.kubernetes.io/name": NAME,
        SERVER: wanted.pod.server,
        TASK: label::value(&wanted.task),
        OWNER_KIND: wanted.owner.kind,
        OWNER_UID: label::value(&wanted.owner.uid),
        REPOSITORY: label::digest(&wanted.repository),
        GROUP: label::digest(&wanted.group),
    })
}

fn annotations(wanted: &MoverJob) -> Value {
    let mut annotations = json!({
        TASK: wanted.task,
        OWNER_NAME: wanted.owner.name,
        REPOSITORY: wanted.repository,
        GROUP: wanted.group,
    });
    if let Some(node) = wanted.place.node() {
        annotations[NODE] = json!(node);
    }
    annotations
}

fn pod(wanted: &MoverJob, rights: Rights) -> Value {
    let mut pod = json!({
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        // The deadline is set on the pod, because the deadline of a Job deletes the pod together with its result.
        "activeDeadlineSeconds": wanted.deadline_seconds.clamp(1, i32::MAX.unsigned_abs().into()),
        "securityContext": rights.pod(),
        "containers": [container(wanted, rights)],
        "volumes": volumes(wanted, rights),
    });
    if let Some(node) = wanted.place.node() {
        // Not `nodeName`, so that the scheduler checks the node's free resources. Taints are tolerated, because the
        // data is on this node.
        pod["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}],
        }}});
        pod["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if let Some(class) = &wanted.pod.priority_class {
        pod["priorityClassName"] = json!(class);
    }
    pod
}

fn container(wanted: &MoverJob, rights: Rights) -> Value {
    let mut mounts = vec![
        json!({"name": "task", "mountPath": wanted.pod.task_directory, "readOnly": true}),
        json!({"name": "scratch", "mountPath": SCRATCH}),
    ];
    let mut devices = Vec::new();
    match &wanted.place {
        MoverPlace::NodeDirectory { writable, .. } => mounts.push(json!({
            "name": "data", "mountPath": DATA, "readOnly": !writable,
            // Mounts that the kubelet adds later below it become visible.
            "mountPropagation": "HostToContainer",
        })),
        MoverPlace::Claim { block: false, writable, .. } => {
            mounts.push(json!({"name": "data", "mountPath": DATA, "readOnly": !writable}));
        }
        MoverPlace::Claim { block: true, .. } => devices.push(json!({"name": "data", "devicePath": DEVICE})),
        MoverPlace::Anywhere => {}
    }
    let mut container = json!({
        "name": CONTAINER,
        "image": wanted.pod.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["mover"],
        "env": [{"name": wanted.pod.pod_uid_variable, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        "terminationMessagePolicy": "File",
        "resources": {
            "requests": {"cpu": wanted.pod.cpu_request, "memory": wanted.pod.memory_request},
            "limits": {"memory": wanted.pod.memory_limit},
        },
        "securityContext": rights.container(),
        "volumeMounts": mounts,
    });
    if !devices.is_empty() {
        container["volumeDevices"] = json!(devices);
    }
    container
}

fn volumes(wanted: &MoverJob, rights: Rights) -> Vec<Value> {
    let mut volumes = vec![
        json!({"name": "task", "secret": {"secretName": name(&wanted.task), "defaultMode": rights.secret_mode()}}),
        json!({"name": "scratch", "emptyDir": {"sizeLimit": SCRATCH_LIMIT}}),
    ];
    match &wanted.place {
        // `Directory`: a missing directory must fail and not be created empty.
        MoverPlace::NodeDirectory { directory, .. } => {
            volumes.push(json!({"name": "data", "hostPath": {"path": directory, "type": "Directory"}}));
        }
        // The claim itself is never marked read-only: some drivers attach it differently then.
        MoverPlace::Claim { claim, .. } => {
            volumes.push(json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}}));
        }
        MoverPlace::Anywhere => {}
    }
    volumes
}

/// What the labels and annotations of a Job say about its mover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverRecord {
    pub candidate: Candidate,
    pub owner: Owner,
    /// The namespace of the Job.
    pub namespace: String,
    /// The Job has completed or failed.
    pub finished: bool,
}

/// Reads the Job of a mover; None if it is the Job of something else.
pub fn read(job: &Value) -> Option<MoverRecord> {
    let map = |field: &str| -> BTreeMap<String, String> {
        serde_json::from_value(job["metadata"][field].clone()).unwrap_or_default()
    };
    let (labels, mut annotations) = (map("labels"), map("annotations"));
    if labels.get("app.kubernetes.io/name").is_none_or(|name| name != NAME) {
        return None;
    }
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    let conditions = job["status"]["conditions"].as_array();
    let finished = conditions.into_iter().flatten().any(|condition| {
        condition["status"] == "True" && (condition["type"] == "Complete" || condition["type"] == "Failed")
    });
    Some(MoverRecord {
        owner: Owner {
            kind: label(OWNER_KIND),
            name: annotations.remove(OWNER_NAME).unwrap_or_default(),
            uid: label(OWNER_UID),
        },
        namespace: text(job, "/metadata/namespace").to_owned(),
        candidate: Candidate {
            task: TaskId::new(annotations.remove(TASK)?),
            group: annotations.remove(GROUP).unwrap_or_default(),
            node: annotations.remove(NODE),
            repository: annotations.remove(REPOSITORY).unwrap_or_default(),
        },
        finished,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::{PodSecurity, PodSettings};
    use super::*;

    fn settings() -> PodSettings {
        PodSettings {
            server: "lifeboat".into(),
            image: "localhost/lifeboat:dev".into(),
            cpu_request: "100m".into(),
            memory_request: "128Mi".into(),
            memory_limit: "1Gi".into(),
            priority_class: None,
            task_directory: "/mover/task".into(),
            pod_uid_variable: "LIFEBOAT_POD_UID".into(),
            security: PodSecurity::Privileged,
            target: None,
        }
    }

    fn wanted(place: MoverPlace) -> MoverJob {
        MoverJob {
            task: TaskId::new("6f1c-1"),
            owner: Owner { kind: "PodVolumeBackup".into(), name: "nightly-x".into(), uid: "6f1c".into() },
            place,
            repository: "default/shop".into(),
            group: "nightly".into(),
            deadline_seconds: 3600,
            namespace: "lifeboat-movers".into(),
            pod: settings(),
        }
    }

    fn on_node(writable: bool) -> MoverPlace {
        let directory = "/var/lib/kubelet/pods/p/volumes/kubernetes.io~csi/pv".into();
        MoverPlace::NodeDirectory { node: "a".into(), directory, writable }
    }

    fn claim(block: bool, writable: bool) -> MoverPlace {
        MoverPlace::Claim { claim: "exposed".into(), block, writable, node: None }
    }

    #[rstest]
    #[case::backup_on_a_node("backup_on_a_node", on_node(false))]
    #[case::restore_on_a_node("restore_on_a_node", on_node(true))]
    #[case::backup_of_a_block_claim("backup_of_a_block_claim", claim(true, false))]
    #[case::restore_into_a_claim("restore_into_a_claim", claim(false, true))]
    #[case::maintenance("maintenance", MoverPlace::Anywhere)]
    fn the_pod_of(#[case] name: &str, #[case] place: MoverPlace) {
        insta::assert_yaml_snapshot!(name, job(&wanted(place)).unwrap()["spec"]["template"]["spec"]);
    }

    #[test]
    fn job_and_secret_around_it() {
        let mut job = job(&wanted(on_node(false))).unwrap();
        job["spec"]["template"]["spec"] = json!("…");
        insta::assert_yaml_snapshot!([secret(&wanted(on_node(false))), job]);
    }

    #[test]
    fn what_a_job_was_made_for_can_be_read_from_it() {
        let wanted = MoverJob { group: "über lang".repeat(20), ..wanted(on_node(false)) };
        let mut job = job(&wanted).unwrap();
        let made = read(&job).unwrap();
        assert_eq!((made.owner, made.namespace), (wanted.owner.clone(), wanted.namespace.clone()));
        assert_eq!(made.candidate, Candidate::of(&wanted));
        assert!(!made.finished);
        job["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        assert!(read(&job).unwrap().finished);
        assert_eq!(read(&json!({"metadata": {"name": "mover-x"}})), None);
    }

    #[test]
    fn a_name_is_never_too_long() {
        let name = |task: &str| super::name(&TaskId::new(task));
        assert_eq!(name("6f1c-1"), "mover-6f1c-1");
        assert!(name(&"a".repeat(80)).len() <= 63);
        assert_ne!(name(&"a".repeat(80)), name(&"a".repeat(81)));
    }

    #[test]
    fn labels_are_valid_whatever_the_names_are() {
        let wanted =
            MoverJob { repository: "default/shop".into(), group: "x".repeat(200), ..wanted(on_node(false)) };
        for (key, value) in labels(&wanted).as_object().unwrap() {
            let value = value.as_str().unwrap();
            let valid = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            assert!(value.len() <= 63 && valid, "{key}: {value}");
        }
    }

    #[test]
    fn a_deadline_is_one_that_the_api_server_takes() {
        for (asked, given) in [(0, 1), (u64::MAX, 2_147_483_647)] {
            let wanted = MoverJob { deadline_seconds: asked, ..wanted(MoverPlace::Anywhere) };
            let job = job(&wanted).unwrap();
            assert_eq!(job["spec"]["template"]["spec"]["activeDeadlineSeconds"], json!(given));
        }
    }
}
