//! The objects of Stash's API that the measurements create, as JSON. Pure.

use serde_json::{Value, json};

/// The password of every repository.
pub(super) const PASSWORD: &str = "bench";
/// The Secret with password and keys of the storage.
pub(super) const KEYS: &str = "keys";
/// A schedule that is not due during a measurement.
pub(super) const NEVER: &str = "0 3 29 2 *";

/// Where the repositories are, and the keys.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) endpoint: String,
    pub(super) region: String,
    pub(super) access_key: String,
    pub(super) secret_key: String,
}

/// A Repository object.
#[derive(Clone, Copy, Debug)]
pub(super) struct RepositoryName<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

fn object(kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "stash.appscode.com/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}

pub(super) fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// A namespace that the server of the measurements serves.
pub(super) fn namespace(name: &str, served_by: &str) -> Value {
    let labels = json!({"lifeboat.io/served-by": served_by});
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

pub(super) fn secret(namespace: &str, storage: &Storage) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KEYS, "namespace": namespace},
        "stringData": {
            "RESTIC_PASSWORD": PASSWORD,
            "AWS_ACCESS_KEY_ID": storage.access_key,
            "AWS_SECRET_ACCESS_KEY": storage.secret_key,
        },
    })
}

/// A Repository that all namespaces may use.
pub(super) fn repository(name: RepositoryName<'_>, storage: &Storage, prefix: &str) -> Value {
    let s3 = json!({
        "endpoint": storage.endpoint,
        "bucket": "lifeboat",
        "prefix": prefix,
        "region": storage.region,
    });
    json!({
        "apiVersion": "stash.appscode.com/v1alpha1",
        "kind": "Repository",
        "metadata": {"name": name.name, "namespace": name.namespace},
        "spec": {
            "backend": {"storageSecretName": KEYS, "s3": s3},
            "usagePolicy": {"allowedNamespaces": {"from": "All"}},
        },
    })
}

fn target(alias: &str, claim: &str) -> Value {
    json!({"alias": alias, "ref": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim}})
}

fn invoker(repository: RepositoryName<'_>, schedule: &str) -> Value {
    json!({
        "schedule": schedule,
        "repository": {"name": repository.name, "namespace": repository.namespace},
        "retentionPolicy": {"name": "keep-last-5", "keepLast": 5, "prune": false},
    })
}

/// A batch with a member for each claim, all of them at once.
pub(super) fn batch(namespace: &str, name: &str, repository: RepositoryName<'_>, claims: &[String]) -> Value {
    let mut spec = invoker(repository, NEVER);
    spec["members"] = claims.iter().map(|claim| json!({"target": target(claim, claim)})).collect();
    object("BackupBatch", namespace, name, &spec)
}

/// A BackupConfiguration whose host has its own name.
pub(super) fn configuration(
    namespace: &str,
    name: &str,
    repository: RepositoryName<'_>,
    claim: &str,
    schedule: &str,
) -> Value {
    let mut spec = invoker(repository, schedule);
    spec["target"] = target(name, claim);
    object("BackupConfiguration", namespace, name, &spec)
}

pub(super) fn session(namespace: &str, name: &str, kind: &str, of: &str) -> Value {
    let invoker = json!({"apiGroup": "stash.appscode.com", "kind": kind, "name": of});
    object("BackupSession", namespace, name, &json!({"invoker": invoker}))
}

/// A claim that has its volume at once, without a pod.
pub(super) fn claim(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "box-csi-immediate",
            "resources": {"requests": {"storage": "16Mi"}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_of_a_batch_is_a_host_of_its_own_name() {
        let repository = RepositoryName { namespace: "vault", name: "r" };
        let batch = batch("n", "b", repository, &["one".to_owned(), "two".to_owned()]);
        let aliases: Vec<&str> = batch["spec"]["members"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|member| member.pointer("/target/alias")?.as_str())
            .collect();
        assert_eq!(aliases, ["one", "two"]);
        assert_eq!(batch.pointer("/spec/repository/namespace").expect("named"), "vault");
    }
}
