//! What a restore from an untrusted location brings. A user with write access to a bucket must not gain
//! rights through another user's restore, so only listed types are restored, and all others are left out:
//! custom resources too, because the effects of their controllers are unknown. Workloads are restored if
//! their pods pass Pod Security level `baseline`. Objects are only restored into namespaces that the restore
//! creates or names, because a pod can use every Secret and every service account of its namespace.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use lifeboat_api::catalogue::GroupResource;
use serde_json::Value;

use super::pod_security::{beyond_baseline, pod_of};

/// Annotation of a location, "true": other users can write to its bucket, and its content is not trusted.
pub const UNTRUSTED: &str = "lifeboat.io/untrusted";
/// Annotation of a Restore, "true": restore everything from an untrusted location as well.
pub const ALLOW_PRIVILEGED: &str = "lifeboat.io/allow-privileged";

/// Types without pods that are restored from an untrusted location, with their groups. Their objects grant no
/// permissions.
const HARMLESS: [(&str, &str); 8] = [
    ("", "configmaps"),
    ("", "persistentvolumeclaims"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("networking.k8s.io", "ingresses"),
    ("policy", "poddisruptionbudgets"),
];

/// Types of workloads that are restored if their pods pass Pod Security level `baseline`.
const WORKLOADS: [(&str, &str); 8] = [
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
];

/// Types of Secrets whose content the control plane issues or accepts as a token.
const TOKENS: [&str; 2] = ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"];

/// Namespaces of the cluster itself.
const OF_THE_CLUSTER: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// The labels with which a namespace chooses its Pod Security level.
const POD_SECURITY_LABELS: &str = "pod-security.kubernetes.io/";

/// An untrusted location, and where objects from it may be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untrusted {
    /// The name of the location.
    pub location: String,
    /// Namespaces of the cluster that the Restore names: they may exist.
    pub named: BTreeSet<String>,
    /// The server's own namespaces.
    pub own: BTreeSet<String>,
}

impl Untrusted {
    /// Whether nothing is restored into a namespace, not even if the Restore names it.
    pub fn protects(&self, namespace: &str) -> bool {
        OF_THE_CLUSTER.contains(&namespace) || self.own.contains(namespace)
    }

    /// Whether an object may be restored into a namespace. `is_new`: this restore created it.
    pub fn judge_namespace(&self, namespace: &str, is_new: bool) -> Result<(), Distrust> {
        if self.protects(namespace) {
            return Err(Distrust::Protected(namespace.to_owned()));
        }
        if is_new || self.named.contains(namespace) {
            return Ok(());
        }
        Err(Distrust::Exists(namespace.to_owned()))
    }
}

/// Why an object is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    #[error("{0} are restored only from trusted locations")]
    Type(GroupResource),
    #[error("it is a token")]
    Token,
    #[error("its pod would not pass Pod Security level baseline: {0}")]
    PodSecurity(String),
    #[error(
        "namespace {0} exists already, and a pod could use the Secrets and service accounts in it; name it in includedNamespaces or as the target of a mapping, or map it to a new one"
    )]
    Exists(String),
    #[error("nothing is restored into namespace {0}")]
    Protected(String),
}

/// Whether objects of a type are restored from an untrusted location.
pub fn judge_type(resource: &GroupResource) -> Result<(), Distrust> {
    let name = (resource.group.as_str(), resource.resource.as_str());
    if HARMLESS.contains(&name) || WORKLOADS.contains(&name) {
        return Ok(());
    }
    Err(Distrust::Type(resource.clone()))
}

/// Whether an object is restored from an untrusted location. `object`: as it would be created.
pub fn judge(resource: &GroupResource, object: &Value) -> Result<(), Distrust> {
    judge_type(resource)?;
    let (group, plural) = (resource.group.as_str(), resource.resource.as_str());
    if (group, plural) == ("", "secrets") {
        let is_token = object["type"].as_str().is_some_and(|kind| TOKENS.contains(&kind));
        return if is_token { Err(Distrust::Token) } else { Ok(()) };
    }
    if !WORKLOADS.contains(&(group, plural)) {
        return Ok(());
    }
    // The API server refuses a workload without a template.
    let beyond = pod_of(resource, object).map(beyond_baseline).unwrap_or_default();
    if beyond.is_empty() { Ok(()) } else { Err(Distrust::PodSecurity(beyond.join(", "))) }
}

/// Removes the labels with which a namespace from an untrusted location would allow privileged pods.
pub fn without_pod_security(namespace: &mut Value) {
    if let Some(labels) = namespace.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !key.starts_with(POD_SECURITY_LABELS));
    }
}

/// Whether the annotations of a Restore allow everything.
pub fn is_allowed(annotations: Option<&BTreeMap<String, String>>) -> bool {
    annotations.and_then(|all| all.get(ALLOW_PRIVILEGED)).is_some_and(|value| value == "true")
}

/// The warning for an item that is left out.
pub fn left_out(item: &str, location: &str, cause: &Distrust) -> String {
    format!("{item} was left out, because location {location} is untrusted: {cause}; {}", advice())
}

/// The warning for a pod whose hooks do not run, because they are commands from the backup.
pub fn hooks_left_out(pod: &str, location: &str) -> String {
    format!(
        "the restore hook in the annotations of pod {pod} was left out, because location {location} is untrusted; {}",
        advice()
    )
}

/// The warning for a claim that gets an empty volume, because a volume or a snapshot is known only by what the backup says.
pub fn data_left_out(claim: &str, location: &str) -> String {
    format!(
        "{claim} gets a new, empty volume, because location {location} is untrusted and what it says about volumes and snapshots of the storage system cannot be checked; {}",
        advice()
    )
}

fn advice() -> String {
    format!("to restore it, check it and set annotation {ALLOW_PRIVILEGED}: \"true\" on the Restore")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("configmaps", true)]
    #[case("ingresses.networking.k8s.io", true)]
    #[case("deployments.apps", true)]
    #[case("configmaps.example.com", false)]
    #[case("ingresses.extensions", false)]
    #[case("persistentvolumes", false)]
    #[case("endpoints", false)]
    #[case("widgets.example.com", false)]
    #[case("clusterrolebindings.rbac.authorization.k8s.io", false)]
    #[case("schedules.velero.io", false)]
    #[case("snapshots.repositories.stash.appscode.com", false)]
    fn a_type_comes_only_if_it_is_listed(#[case] resource: &str, #[case] expected: bool) {
        assert_eq!(judge_type(&GroupResource::parse(resource)).is_ok(), expected);
    }

    #[rstest]
    #[case::opaque("secrets", json!({"type": "Opaque"}), true)]
    #[case::without_a_type("secrets", json!({}), true)]
    #[case::a_token("secrets", json!({"type": "kubernetes.io/service-account-token"}), false)]
    #[case::a_bootstrap_token("secrets", json!({"type": "bootstrap.kubernetes.io/token"}), false)]
    #[case::a_plain_pod("pods", json!({"spec": {"containers": [{"name": "c"}]}}), true)]
    #[case::a_privileged_pod("pods", json!({"spec": {"hostPID": true}}), false)]
    #[case::a_privileged_deployment("deployments.apps", json!({"spec": {"template": {"spec": {"hostPID": true}}}}), false)]
    #[allow(clippy::needless_pass_by_value, reason = "tables give JSON literals")]
    fn an_object_comes_only_if_it_gives_no_rights(
        #[case] resource: &str,
        #[case] object: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(judge(&GroupResource::parse(resource), &object).is_ok(), expected);
    }

    #[rstest]
    #[case::made_by_this_restore("shop", true, true)]
    #[case::exists("shop", false, false)]
    #[case::exists_and_is_named("named", false, true)]
    #[case::of_the_server("lifeboat", true, false)]
    #[case::of_the_cluster("kube-system", false, false)]
    #[case::named_and_protected("kube-public", false, false)]
    fn objects_come_only_into_new_namespaces(
        #[case] namespace: &str,
        #[case] is_new: bool,
        #[case] expected: bool,
    ) {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let untrusted = Untrusted {
            location: "theirs".into(),
            named: set(&["named", "kube-public"]),
            own: set(&["lifeboat", "lifeboat-movers"]),
        };
        assert_eq!(untrusted.judge_namespace(namespace, is_new).is_ok(), expected);
    }
}
