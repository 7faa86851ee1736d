//! Which objects of the server itself a backup holds: never its keys and the parts of its movers, unless they are asked
//! for by name.

use rstest::rstest;
use serde_json::{Value, json};

use super::Server;
use crate::backup::world::archived;

/// What the server has in its own namespace and in that of its movers, beside a user's objects.
async fn server() -> Server {
    let server = Server::new().await;
    server.world.namespace("lifeboat-movers");
    for (namespace, name) in [
        ("lifeboat", "cloud-credentials"),
        ("lifeboat", "velero-repo-credentials"),
        ("lifeboat", "lifeboat-download-key"),
        ("lifeboat", "lifeboat-gateway"),
        ("lifeboat", "of-the-location"),
        ("lifeboat", "of-the-snapshots"),
        ("lifeboat", "of-a-user"),
        ("lifeboat-movers", "mover-u"),
        ("shop", "cloud-credentials"),
    ] {
        server.world.add("secrets", namespace, name, json!({}));
    }
    let labels = json!({"app.kubernetes.io/name": "lifeboat-mover", "lifeboat.io/task": "u"});
    server.world.add("secrets", "shop", "mover-of-a-tenant", json!({"metadata": {"labels": labels}}));
    server.world.add("persistentvolumeclaims", "lifeboat-movers", "lifeboat-u", json!({}));
    let locations = "/apis/velero.io/v1/namespaces/lifeboat";
    for (plural, kind, secret) in [
        ("backupstoragelocations", "BackupStorageLocation", "of-the-location"),
        ("volumesnapshotlocations", "VolumeSnapshotLocation", "of-the-snapshots"),
    ] {
        server.world.put(
            &format!("{locations}/{plural}/other"),
            json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": "other", "namespace": "lifeboat"},
                "spec": {"provider": "example.com/p", "objectStorage": {"bucket": "b"},
                    "credential": {"name": secret, "key": "cloud"}}}),
        );
    }
    server
}

/// The Secrets and claims in a backup of this spec.
async fn held(spec: Value) -> Vec<String> {
    let server = server().await;
    server.add("b", spec, &json!({}));
    assert_eq!(server.settle("b").await, "Completed", "{}", server.get("b"));
    let names = archived(&server.store(), "backups/b/b.tar.gz").await;
    let of_interest = ["secrets/", "persistentvolumeclaims/"];
    let mut names: Vec<String> =
        names.into_iter().filter(|name| of_interest.iter().any(|prefix| name.starts_with(prefix))).collect();
    names.sort();
    names
}

const USERS: [&str; 2] =
    ["secrets/namespaces/lifeboat/of-a-user", "secrets/namespaces/shop/cloud-credentials"];

#[rstest]
#[case::the_whole_cluster(json!({}))]
#[case::all_by_patterns(json!({"includedNamespaces": ["*"], "includedResources": ["*"]}))]
#[case::namespaces_without_a_type(json!({"includedNamespaces": ["lifeboat", "lifeboat-movers", "shop"]}))]
#[case::a_type_without_a_namespace(json!({"includedResources": ["secrets", "persistentvolumeclaims"]}))]
#[tokio::test]
async fn a_backup_has_neither_the_servers_keys_nor_parts_of_movers(#[case] spec: Value) {
    assert_eq!(held(spec).await, USERS);
}

#[tokio::test]
async fn a_backup_that_names_namespace_and_type_has_the_servers_keys() {
    let spec = json!({"includedNamespaces": ["lifeboat"], "includedResources": ["secrets"]});
    let held = held(spec).await;
    assert!(held.contains(&"secrets/namespaces/lifeboat/cloud-credentials".to_owned()), "{held:?}");
    assert!(held.contains(&"secrets/namespaces/lifeboat/of-the-location".to_owned()), "{held:?}");
}
