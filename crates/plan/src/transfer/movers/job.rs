//! The Job of a mover and the Secret with its task: takes a [`MoverJob`], gives manifests; and reads from an existing
//! Job which task it is for. Called by the server, which adds the Secret's content.
//!
//! A mover has no token, no network identity of its own and the fewest permissions that its data allows; see `pod`,
//! `rights` and docs/movers.md.

use std::collections::BTreeMap;

use lifeboat_api::common::names::EXCLUDE_FROM_BACKUP;
use lifeboat_api::common::{NamespaceName, TaskId};
use serde_json::{Value, json};

use super::queue::Candidate;
use super::{MoverJob, NotAllowed, Owner, pod};
use crate::json::text;
use crate::label;

/// The service account of movers: it has no permissions, and its token is not mounted.
pub const SERVICE_ACCOUNT: &str = "lifeboat-mover";
/// The container of a mover's pod.
pub const CONTAINER: &str = "mover";
/// The label with the task's UID.
pub const TASK: &str = "lifeboat.io/task";

const NAME: &str = "lifeboat-mover";
const SERVER: &str = "lifeboat.io/server";
const OWNER_KIND: &str = "lifeboat.io/owner-kind";
/// Set only if the object is not in the server's own namespace; Jobs of earlier servers never have it.
const OWNER_NAMESPACE: &str = "lifeboat.io/owner-namespace";
const OWNER_NAME: &str = "lifeboat.io/owner-name";
const OWNER_UID: &str = "lifeboat.io/owner-uid";
const REPOSITORY: &str = "lifeboat.io/repository";
const GROUP: &str = "lifeboat.io/group";
const NODE: &str = "lifeboat.io/node";

/// How long a mover may take to end after SIGTERM: it writes its result and removes its lock.
pub const GRACE_SECONDS: u32 = 30;
/// The server deletes a Job once its end is recorded. This limit is for Jobs that no server tracks any more.
const KEPT_SECONDS: u32 = 24 * 60 * 60;

/// Selects all Jobs, pods and Secrets of the movers of a server, which is identified by its namespace.
pub fn selector(server: &str) -> String {
    format!("app.kubernetes.io/name={NAME},{SERVER}={server}")
}

/// Selects the Jobs and pods of the movers of one object, by its UID, of whatever server.
pub fn selector_of(owner: &str) -> String {
    format!("app.kubernetes.io/name={NAME},{OWNER_UID}={}", label::value(owner))
}

/// The name of a task's Job and Secret. Pods have it as their host name, which has no dots.
pub fn name(task: &TaskId) -> String {
    let name = format!("mover-{}", task.as_str().replace('.', "-"));
    if name.len() <= 63 { name } else { format!("mover-{}", label::digest(task.as_str())) }
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
    let template = pod::template(wanted, &labels(wanted), &annotations(wanted))?;
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
            "template": template,
        },
    }))
}

/// The pod of the Job, for a dry run: the namespace admits the Job's pod as it admits this one. The error says why it
/// would be rejected.
pub fn dry_run(wanted: &MoverJob) -> Result<Value, NotAllowed> {
    let mut pod = pod::template(wanted, &labels(wanted), &annotations(wanted))?;
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["generateName"] = json!(format!("{}-", name(&wanted.task)));
    pod["metadata"]["namespace"] = json!(wanted.namespace);
    Ok(pod)
}

fn metadata(wanted: &MoverJob) -> Value {
    json!({
        "name": name(&wanted.task),
        "namespace": wanted.namespace,
        "labels": labels(wanted),
        "annotations": annotations(wanted),
    })
}

/// Whether these are the labels of a mover's Job, pod or Secret.
pub(crate) fn is_labelled(labels: &BTreeMap<String, String>) -> bool {
    labels.get("app.kubernetes.io/name").is_some_and(|name| name == NAME) && labels.contains_key(TASK)
}

/// Names that may be invalid as label values are hashed; the annotations have them in full. The Secret has the password
/// of a repository, so nothing of a mover is in a backup.
fn labels(wanted: &MoverJob) -> Value {
    json!({
        "app.kubernetes.io/name": NAME,
        EXCLUDE_FROM_BACKUP: "true",
        SERVER: wanted.pod.server,
        TASK: label::value(wanted.task.as_str()),
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
    if wanted.owner.namespace != *wanted.pod.server {
        annotations[OWNER_NAMESPACE] = json!(wanted.owner.namespace);
    }
    if let Some(node) = wanted.place.node() {
        annotations[NODE] = json!(node);
    }
    annotations
}

/// What the labels and annotations of a Job say about its mover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverRecord {
    pub candidate: Candidate,
    pub owner: Owner,
    /// The namespace of the Job.
    pub namespace: NamespaceName,
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
            namespace: NamespaceName::new(
                annotations.remove(OWNER_NAMESPACE).unwrap_or_else(|| label(SERVER)),
            ),
            name: annotations.remove(OWNER_NAME).unwrap_or_default(),
            uid: label(OWNER_UID),
        },
        namespace: NamespaceName::new(text(job, "/metadata/namespace")),
        candidate: Candidate {
            task: TaskId::new(annotations.remove(TASK)?),
            group: annotations.remove(GROUP).unwrap_or_default(),
            node: annotations.remove(NODE),
            repository: annotations.remove(REPOSITORY).unwrap_or_default(),
            ..Candidate::default()
        },
        finished,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::MoverPlace;
    use super::super::pod::testing::wanted;
    use super::*;

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
    fn job_pod_and_secret_stay_out_of_backups() {
        let wanted = wanted(on_node(false));
        let (job, secret) = (job(&wanted).unwrap(), secret(&wanted));
        for object in [&job, &secret, &job["spec"]["template"]] {
            assert_eq!(object["metadata"]["labels"]["velero.io/exclude-from-backup"], "true", "{object}");
        }
    }

    #[test]
    fn what_a_job_was_made_for_can_be_read_from_it() {
        let wanted = MoverJob { group: "über lang".repeat(20), ..wanted(on_node(false)) };
        let mut job = job(&wanted).unwrap();
        let made = read(&job).unwrap();
        assert_eq!(made.owner, wanted.owner);
        assert_eq!(made.candidate, Candidate::of(&wanted));
        assert!(!made.finished);
        job["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
        assert!(read(&job).unwrap().finished);
        assert_eq!(read(&json!({"metadata": {"name": "mover-x"}})), None);
    }

    #[test]
    fn the_namespace_of_the_object_is_written_only_where_it_is_not_the_servers() {
        let mut wanted = wanted(MoverPlace::Anywhere);
        let own = job(&wanted).unwrap();
        assert!(!own.to_string().contains(OWNER_NAMESPACE), "as earlier servers made it");
        assert_eq!(read(&own).unwrap().owner.namespace, "lifeboat");
        wanted.owner.namespace = NamespaceName::new("shop");
        assert_eq!(read(&job(&wanted).unwrap()).unwrap().owner, wanted.owner);
        assert_eq!(read(&secret(&wanted)).unwrap().owner, wanted.owner);
    }

    #[test]
    fn a_dry_run_has_the_pod_of_the_job_under_a_name_that_is_free() {
        let wanted = wanted(claim(false, false));
        let (pod, job) = (dry_run(&wanted).unwrap(), job(&wanted).unwrap());
        assert_eq!(pod["spec"], job["spec"]["template"]["spec"]);
        assert_eq!(pod["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(
            (&pod["metadata"]["name"], &pod["metadata"]["namespace"]),
            (&Value::Null, &json!("lifeboat-movers"))
        );
        assert_eq!(pod["metadata"]["generateName"], "mover-6f1c-1-");
    }

    #[test]
    fn a_name_is_never_too_long() {
        assert_eq!(name(&TaskId::new("6f1c-1")), "mover-6f1c-1");
        assert_eq!(name(&TaskId::new("6f1c.0.ab-1")), "mover-6f1c-0-ab-1");
        assert!(name(&TaskId::new("a".repeat(80))).len() <= 63);
        assert_ne!(name(&TaskId::new("a".repeat(80))), name(&TaskId::new("a".repeat(81))));
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
