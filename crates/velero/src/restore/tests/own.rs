//! Which objects of the server itself a restore brings back: never its keys and the parts of movers, unless they are
//! asked for by name.

use rstest::rstest;
use serde_json::{Value, json};

use super::setting::{GROUP, Held, Setting};

/// A backup that an earlier version made, with the server's keys and the parts of a mover.
fn backup() -> Vec<Held> {
    let secret = |place| ("/v1/secrets", place, json!({"data": {"a": "MQ=="}}));
    let labels = json!({"app.kubernetes.io/name": "lifeboat-mover", "lifeboat.io/task": "u"});
    let movers = json!({"metadata": {"labels": labels}});
    vec![
        ("/v1/namespaces", "lifeboat", json!({})),
        ("/v1/namespaces", "lifeboat-movers", json!({})),
        ("/v1/namespaces", "old-movers", json!({})),
        secret("lifeboat/cloud-credentials"),
        secret("lifeboat/of-a-location"),
        secret("lifeboat/velero-repo-credentials"),
        secret("lifeboat/lifeboat-download-key"),
        secret("lifeboat/of-a-user"),
        secret("lifeboat-movers/mover-u"),
        ("/v1/secrets", "old-movers/mover-v", movers.clone()),
        ("/v1/pods", "old-movers/mover-v", movers),
        (
            "/v1/persistentvolumeclaims",
            "old-movers/lifeboat-v",
            json!({"metadata": {"labels":
            {"lifeboat.io/data-movement": "v"}}}),
        ),
    ]
}

async fn restored(spec: Value) -> Vec<String> {
    let setting = Setting::holding(spec, &backup()).await;
    setting.serve(&["/v1/secrets"]);
    setting.server.put(
        &format!("{GROUP}/backupstoragelocations/other"),
        json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation", "metadata": {"name": "other"},
            "spec": {"provider": "aws", "objectStorage": {"bucket": "b"},
                "credential": {"name": "of-a-location", "key": "cloud"}}}),
    );
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status}");
    let mut created = setting.server.created();
    created.retain(|path| path.starts_with("/api/v1/namespaces/") && path.split('/').count() > 5);
    created.sort();
    created
}

#[rstest]
#[case::everything(json!({}))]
#[case::a_namespace(json!({"includedNamespaces": ["lifeboat", "*-movers"]}))]
#[case::all_by_patterns(json!({"includedNamespaces": ["*"], "includedResources": ["*"]}))]
#[tokio::test]
async fn a_restore_brings_back_neither_the_servers_keys_nor_parts_of_movers(#[case] spec: Value) {
    assert_eq!(restored(spec).await, ["/api/v1/namespaces/lifeboat/secrets/of-a-user"]);
}

#[tokio::test]
async fn a_restore_that_names_namespace_and_type_brings_back_the_servers_keys() {
    let spec = json!({"includedNamespaces": ["lifeboat"], "includedResources": ["secrets"]});
    let restored = restored(spec).await;
    assert_eq!(restored.len(), 5, "{restored:?}");
}
