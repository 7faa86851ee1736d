//! The Job of a mover and the Secret with its task: takes an errand and how movers run here, gives manifests; and reads
//! from a Job what it was made for. Called by the server, which adds the Secret's content.
//!
//! A mover has no token, no network identity of its own and the fewest rights that its place allows; see `rights` below
//! and docs/movers.md.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{DATA, DEVICE, Errand, Owner, Place, SCRATCH, queue::Candidate, rights};
use crate::label;

/// The service account of movers: it may do nothing, and its token is not mounted.
pub const SERVICE_ACCOUNT: &str = "lifeboat-mover";
/// The container of a mover's pod.
pub const CONTAINER: &str = "mover";
/// The label with the task's UID.
pub const TASK: &str = "lifeboat.io/task";

const NAME: &str = "lifeboat-mover";
const SERVER: &str = "lifeboat.io/server";
const OWNER_KIND: &str = "lifeboat.io/owner-kind";
const OWNER_NAME: &str = "lifeboat.io/owner-name";
const OWNER_UID: &str = "lifeboat.io/owner-uid";
const REPOSITORY: &str = "lifeboat.io/repository";
const GROUP: &str = "lifeboat.io/group";
const NODE: &str = "lifeboat.io/node";

/// How long a mover has to end after it was told to: it writes its result and takes its lock away.
pub const GRACE_SECONDS: u32 = 30;
/// A Job goes once its end is recorded. This is for one that nobody knows any more.
const KEPT_SECONDS: u32 = 24 * 60 * 60;
/// What a mover may put beside its memory: indexes of large repositories.
const SCRATCH_LIMIT: &str = "20Gi";
/// The user of the image, who may do nothing.
const USER: i64 = 65532;

/// How movers run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    pub namespace: String,
    /// The server's own namespace: its movers are never taken for those of another one.
    pub server: String,
    pub image: String,
    pub cpu_request: String,
    pub memory_request: String,
    pub memory_limit: String,
    pub priority_class: Option<String>,
    /// Where the program looks for its task, and the variable from which it reads the UID of its pod.
    pub task_directory: String,
    pub pod_uid_variable: String,
}

/// Selects all Jobs, pods and Secrets of the movers of a server, named by its namespace.
pub fn selector(server: &str) -> String {
    format!("app.kubernetes.io/name={NAME},{SERVER}={server}")
}

/// The name of a task's Job and Secret.
pub fn name(uid: &str) -> String {
    let name = format!("mover-{uid}");
    if name.len() <= 63 { name } else { format!("mover-{}", label::digest(uid)) }
}

/// The Secret with the task, without its content.
pub fn secret(errand: &Errand, terms: &Terms) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(errand, terms),
        "type": "Opaque",
    })
}

/// What ties the Secret to its Job, so that they go together.
pub fn owner_reference(job: &Value) -> Value {
    json!([{
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }])
}

pub fn job(errand: &Errand, terms: &Terms) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(errand, terms),
        "spec": {
            "completions": 1,
            "parallelism": 1,
            // Whether to try again is decided by whoever knows what the repository holds.
            "backoffLimit": 0,
            // A pod that is being ended counts only once it has ended: no second one beside it.
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {
                "metadata": {"labels": labels(errand, terms), "annotations": annotations(errand)},
                "spec": pod(errand, terms),
            },
        },
    })
}

fn metadata(errand: &Errand, terms: &Terms) -> Value {
    json!({
        "name": name(&errand.uid),
        "namespace": terms.namespace,
        "labels": labels(errand, terms),
        "annotations": annotations(errand),
    })
}

/// Names that may be no label values are digested; annotations have them in full.
fn labels(errand: &Errand, terms: &Terms) -> Value {
    json!({
        "app.kubernetes.io/name": NAME,
        SERVER: terms.server,
        TASK: label::value(&errand.uid),
        OWNER_KIND: errand.owner.kind,
        OWNER_UID: label::value(&errand.owner.uid),
        REPOSITORY: label::digest(&errand.repository),
        GROUP: label::digest(&errand.group),
    })
}

fn annotations(errand: &Errand) -> Value {
    let mut annotations = json!({
        TASK: errand.uid,
        OWNER_NAME: errand.owner.name,
        REPOSITORY: errand.repository,
        GROUP: errand.group,
    });
    if let Some(node) = errand.place.node() {
        annotations[NODE] = json!(node);
    }
    annotations
}

fn pod(errand: &Errand, terms: &Terms) -> Value {
    let rights = rights::of(&errand.place);
    let mut pod = json!({
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        // Of the pod, not of the Job, whose deadline deletes the pod and what it said.
        "activeDeadlineSeconds": errand.deadline_seconds.clamp(1, i32::MAX.unsigned_abs().into()),
        "securityContext": rights.pod(USER),
        "containers": [container(errand, terms, &rights)],
        "volumes": volumes(errand, &rights),
    });
    if let Some(node) = errand.place.node() {
        // Not `nodeName`: the scheduler still looks whether there is room. The data is where it is, whatever the
        // node's taints keep away.
        pod["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}],
        }}});
        pod["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if let Some(class) = &terms.priority_class {
        pod["priorityClassName"] = json!(class);
    }
    pod
}

fn container(errand: &Errand, terms: &Terms, rights: &rights::Rights) -> Value {
    let mut mounts = vec![
        json!({"name": "task", "mountPath": terms.task_directory, "readOnly": true}),
        json!({"name": "scratch", "mountPath": SCRATCH}),
    ];
    let mut devices = Vec::new();
    match &errand.place {
        Place::NodeDirectory { writable, .. } => mounts.push(json!({
            "name": "data", "mountPath": DATA, "readOnly": !writable,
            // What the kubelet mounts later below it is seen too.
            "mountPropagation": "HostToContainer",
        })),
        Place::Claim { block: false, writable, .. } => {
            mounts.push(json!({"name": "data", "mountPath": DATA, "readOnly": !writable}));
        }
        Place::Claim { block: true, .. } => devices.push(json!({"name": "data", "devicePath": DEVICE})),
        Place::Anywhere => {}
    }
    let mut container = json!({
        "name": CONTAINER,
        "image": terms.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["mover"],
        "env": [{"name": terms.pod_uid_variable, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
        "terminationMessagePolicy": "File",
        "resources": {
            "requests": {"cpu": terms.cpu_request, "memory": terms.memory_request},
            "limits": {"memory": terms.memory_limit},
        },
        "securityContext": rights.container(),
        "volumeMounts": mounts,
    });
    if !devices.is_empty() {
        container["volumeDevices"] = json!(devices);
    }
    container
}

fn volumes(errand: &Errand, rights: &rights::Rights) -> Vec<Value> {
    let mut volumes = vec![
        json!({"name": "task", "secret": {"secretName": name(&errand.uid), "defaultMode": rights.secret_mode()}}),
        json!({"name": "scratch", "emptyDir": {"sizeLimit": SCRATCH_LIMIT}}),
    ];
    match &errand.place {
        // `Directory`: one that is not there any more is no empty one.
        Place::NodeDirectory { directory, .. } => {
            volumes.push(json!({"name": "data", "hostPath": {"path": directory, "type": "Directory"}}));
        }
        // The claim itself is never marked read-only: with some drivers that is another way of attaching it.
        Place::Claim { claim, .. } => {
            volumes.push(json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}}));
        }
        Place::Anywhere => {}
    }
    volumes
}

/// What a Job was made for, as far as its labels and annotations tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub candidate: Candidate,
    pub owner: Owner,
    /// It will run no more.
    pub finished: bool,
}

/// Reads a Job of a mover; None where it is none.
pub fn read(job: &Value) -> Option<Made> {
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
    Some(Made {
        owner: Owner {
            kind: label(OWNER_KIND),
            name: annotations.remove(OWNER_NAME).unwrap_or_default(),
            uid: label(OWNER_UID),
        },
        candidate: Candidate {
            uid: annotations.remove(TASK)?,
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

    use super::*;

    fn terms() -> Terms {
        Terms {
            namespace: "lifeboat-movers".into(),
            server: "lifeboat".into(),
            image: "localhost/lifeboat:dev".into(),
            cpu_request: "100m".into(),
            memory_request: "128Mi".into(),
            memory_limit: "1Gi".into(),
            priority_class: None,
            task_directory: "/mover/task".into(),
            pod_uid_variable: "LIFEBOAT_POD_UID".into(),
        }
    }

    fn errand(place: Place) -> Errand {
        Errand {
            uid: "6f1c-1".into(),
            owner: Owner { kind: "PodVolumeBackup".into(), name: "nightly-x".into(), uid: "6f1c".into() },
            place,
            repository: "default/shop".into(),
            group: "nightly".into(),
            deadline_seconds: 3600,
        }
    }

    fn on_node(writable: bool) -> Place {
        let directory = "/var/lib/kubelet/pods/p/volumes/kubernetes.io~csi/pv".into();
        Place::NodeDirectory { node: "a".into(), directory, writable }
    }

    fn claim(block: bool, writable: bool) -> Place {
        Place::Claim { claim: "exposed".into(), block, writable, node: None }
    }

    #[rstest]
    #[case::backup_on_a_node("backup_on_a_node", on_node(false))]
    #[case::restore_on_a_node("restore_on_a_node", on_node(true))]
    #[case::backup_of_a_block_claim("backup_of_a_block_claim", claim(true, false))]
    #[case::restore_into_a_claim("restore_into_a_claim", claim(false, true))]
    #[case::maintenance("maintenance", Place::Anywhere)]
    fn the_pod_of(#[case] name: &str, #[case] place: Place) {
        insta::assert_yaml_snapshot!(name, job(&errand(place), &terms())["spec"]["template"]["spec"]);
    }

    #[test]
    fn job_and_secret_around_it() {
        let mut job = job(&errand(on_node(false)), &terms());
        job["spec"]["template"]["spec"] = json!("…");
        insta::assert_yaml_snapshot!([secret(&errand(on_node(false)), &terms()), job]);
    }

    #[test]
    fn what_a_job_was_made_for_can_be_read_from_it() {
        let errand = Errand { group: "über lang".repeat(20), ..errand(on_node(false)) };
        let mut job = job(&errand, &terms());
        let made = read(&job).unwrap();
        assert_eq!(made.owner, errand.owner);
        assert_eq!(made.candidate, Candidate::of(&errand));
        assert!(!made.finished);
        job["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        assert!(read(&job).unwrap().finished);
        assert_eq!(read(&json!({"metadata": {"name": "mover-x"}})), None);
    }

    #[test]
    fn a_name_is_never_too_long() {
        assert_eq!(name("6f1c-1"), "mover-6f1c-1");
        assert!(name(&"a".repeat(80)).len() <= 63);
        assert_ne!(name(&"a".repeat(80)), name(&"a".repeat(81)));
    }

    #[test]
    fn labels_are_valid_whatever_the_names_are() {
        let errand =
            Errand { repository: "default/shop".into(), group: "x".repeat(200), ..errand(on_node(false)) };
        for (key, value) in labels(&errand, &terms()).as_object().unwrap() {
            let value = value.as_str().unwrap();
            let valid = value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            assert!(value.len() <= 63 && valid, "{key}: {value}");
        }
    }

    #[test]
    fn a_deadline_is_one_that_the_api_server_takes() {
        for (asked, given) in [(0, 1), (u64::MAX, 2_147_483_647)] {
            let errand = Errand { deadline_seconds: asked, ..errand(Place::Anywhere) };
            let job = job(&errand, &terms());
            assert_eq!(job["spec"]["template"]["spec"]["activeDeadlineSeconds"], json!(given));
        }
    }
}
