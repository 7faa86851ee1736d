use serde_json::json;

use super::*;
use crate::testing::Cluster;

/// A Deployment to which stock `velero plugin add` has added an image.
fn deployment(context: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "lifeboat", "generation": 2, "labels": labels()},
        "spec": {"replicas": 2, "template": {"spec": {
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": [{"name": "aws", "image": "velero/aws:v1", "securityContext": context,
                "volumeMounts": [{"name": "plugins", "mountPath": "/target"}]}],
            "containers": [{"name": "velero", "image": "lifeboat"}],
        }}},
    })
}

fn complete_context() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

async fn look(cluster: &Cluster, state: &Arc<State>) {
    let found = cluster.get("deployments", "lifeboat").unwrap();
    let object = Arc::new(serde_json::from_value(found).unwrap());
    reconcile(object, cluster.context.clone(), state.clone()).await.unwrap();
}

#[tokio::test]
async fn a_stock_init_container_is_completed_and_nothing_else_is_touched() {
    let cluster = Cluster::new().await;
    cluster.put("deployments", &deployment(&Value::Null));
    let state = Arc::new(State::new());
    look(&cluster, &state).await;
    let spec = cluster.get("deployments", "lifeboat").unwrap()["spec"].clone();
    let containers = &spec["template"]["spec"]["initContainers"];
    assert_eq!(containers[0]["securityContext"], complete_context());
    assert_eq!(spec["template"]["spec"]["containers"], json!([{"name": "velero", "image": "lifeboat"}]));
    assert_eq!(spec["replicas"], 2);
    assert_eq!(cluster.events(), ["PluginContainerCompleted"]);
    look(&cluster, &state).await;
    assert_eq!(cluster.events(), ["PluginContainerCompleted"]);
}

/// A GitOps tool that writes the Deployment back would otherwise get new pods for ever.
#[tokio::test]
async fn a_completion_that_somebody_takes_away_again_and_again_is_given_up_and_told_once() {
    let cluster = Cluster::new().await;
    let state = Arc::new(State::new());
    for _ in 0..10 {
        cluster.put("deployments", &deployment(&Value::Null));
        look(&cluster, &state).await;
    }
    let now = cluster.get("deployments", "lifeboat").unwrap();
    assert_eq!(now["spec"]["template"]["spec"]["initContainers"][0]["securityContext"], Value::Null);
    let completed = "PluginContainerCompleted";
    assert_eq!(cluster.events(), [completed, completed, completed, "PluginContainerContested"]);
}

#[tokio::test]
async fn an_image_that_fails_is_told_once_for_each_generation() {
    let cluster = Cluster::new().await;
    cluster.put("deployments", &deployment(&complete_context()));
    cluster.put(
        "pods",
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lifeboat-new", "labels": labels()},
            "spec": {"initContainers": [{"name": "aws", "image": "velero/aws:v1"}]},
            "status": {"initContainerStatuses": [{"name": "aws", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "message": "mkdir /x: permission denied"}}}]},
        }),
    );
    let state = Arc::new(State::new());
    look(&cluster, &state).await;
    look(&cluster, &state).await;
    assert_eq!(cluster.events(), ["PluginNeedsRoot"]);
    cluster.change("deployments", "lifeboat", &json!({"metadata": {"generation": 3}}));
    look(&cluster, &state).await;
    assert_eq!(cluster.events(), ["PluginNeedsRoot", "PluginNeedsRoot"]);
}

#[tokio::test]
async fn a_container_that_asks_for_root_is_left_as_it_is_and_refused() {
    let cluster = Cluster::new().await;
    let mut asking = deployment(&json!({"runAsUser": 0}));
    asking["status"] = json!({"conditions": [{"type": "ReplicaFailure", "status": "True"}]});
    cluster.put("deployments", &asking);
    look(&cluster, &Arc::new(State::new())).await;
    let now = cluster.get("deployments", "lifeboat").unwrap();
    assert_eq!(now["spec"], asking["spec"]);
    assert_eq!(cluster.events(), ["PluginNeedsRoot"]);
}

#[tokio::test]
async fn programs_that_cannot_be_used_are_told_once() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("broken");
    std::fs::write(&program, "no program").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let settings = lifeboat_plugin::host::HostSettings::new(directory.path().to_owned());
    let host = lifeboat_plugin::host::PluginHost::discover(settings).await;
    let mut cluster = Cluster::new().await;
    cluster.context = cluster.context.clone().with_plugins(host);
    cluster.put("deployments", &deployment(&complete_context()));
    let state = Arc::new(State::new());
    look(&cluster, &state).await;
    look(&cluster, &state).await;
    assert_eq!(cluster.events(), ["PluginNotUsed"]);
}
