//! Targets: StatefulSets by rules, claims, claim templates, batches.

use std::time::Duration;

use lifeboat_mover::task::TaskWork;
use serde_json::{Value, json};

use super::cluster::{BATCHES, Cluster, member};
use crate::settings::StashSettings;
use crate::testing::condition;

/// Hosts and the snapshots that they got.
fn got(restore: &Value) -> Vec<(String, String)> {
    let hosts = restore["status"]["stats"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    hosts.iter().map(|host| (text(&host["hostname"]), text(&host["paths"][0]["snapshot"]))).collect()
}

/// The sample of the batch document: 5 pods from the data of 3.
#[tokio::test]
async fn hosts_of_a_stateful_set_get_what_the_rules_say() {
    let cluster = Cluster::new().await;
    cluster.stateful_set("db", 5, 5);
    let mut stored = Vec::new();
    for ordinal in 0..3 {
        stored.push(cluster.snapshot(&format!("app-{ordinal}"), "/data").await);
    }
    let mut target = member("StatefulSet", "db", "app");
    target["rules"] = json!([
        {"targetHosts": ["app-3", "app-4"], "sourceHost": "app-1", "paths": ["/data"]},
        {"targetHosts": [], "sourceHost": "", "paths": ["/data"]},
    ]);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let expected: Vec<(String, String)> = [0, 1, 2, 1, 1]
        .iter()
        .enumerate()
        .map(|(host, source)| (format!("app-{host}"), stored[*source].clone()))
        .collect();
    assert_eq!(got(&back), expected);
    assert_eq!(cluster.object("db")["spec"]["replicas"], 5);
    assert_eq!(cluster.works().len(), 10, "each host is copied and restored");
}

#[tokio::test]
async fn a_deployment_config_is_stopped_and_started_again() {
    let cluster = Cluster::new().await;
    cluster.deployment_config("web", 3);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("DeploymentConfig", "web", "app")}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    assert_eq!(back["status"]["standstill"]["replicas"], 3, "{back}");
    assert_eq!((cluster.replicas("web"), cluster.works().len()), (3, 2), "it is copied and restored");
}

#[tokio::test]
async fn missing_claims_of_a_stateful_set_are_made_from_its_templates() {
    let cluster = Cluster::new().await;
    cluster.stateful_set("db", 0, 1);
    for ordinal in 0..3 {
        cluster.snapshot(&format!("app-{ordinal}"), "/data").await;
    }
    let mut target = member("StatefulSet", "db", "app");
    target["replicas"] = json!(3);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let made: Vec<String> = cluster.world.server.created();
    let made: Vec<&String> = made.iter().filter(|path| path.contains("persistentvolumeclaims")).collect();
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(made[0].ends_with("/data-db-1") && made[1].ends_with("/data-db-2"), "{made:?}");
}

#[tokio::test]
async fn claims_are_made_from_the_templates_of_the_restore() {
    let cluster = Cluster::new().await;
    for ordinal in 0..2 {
        cluster.snapshot(&format!("app-{ordinal}"), "/data").await;
    }
    let target = json!({
        "alias": "app",
        "replicas": 2,
        "volumeMounts": [{"name": "restored", "mountPath": "/data"}],
        "volumeClaimTemplates": [{
            "metadata": {"name": "restored-${POD_ORDINAL}"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }],
    });
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    for ordinal in 0..2 {
        let path = format!("/api/v1/namespaces/shop/persistentvolumeclaims/restored-{ordinal}");
        assert!(cluster.world.server.get(&path).is_some(), "{path}");
    }
    assert_eq!(cluster.works().len(), 2, "new claims are written at once");
}

/// The restore goes on: the data may fit, and the application may start nevertheless.
#[tokio::test]
async fn existing_claims_that_lack_what_their_templates_ask_for_are_remarked() {
    let cluster = Cluster::new().await;
    cluster.snapshot("app", "/data").await;
    cluster.claim("restored");
    let capacity = json!({"status": {"capacity": {"storage": "500Mi"}}});
    cluster.world.server.change("/api/v1/namespaces/shop/persistentvolumeclaims/restored", &capacity);
    let target = json!({
        "alias": "app",
        "volumeMounts": [{"name": "restored", "mountPath": "/data"}],
        "volumeClaimTemplates": [{
            "metadata": {"name": "restored"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }],
    });
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let (status, message) = condition(&back, "RestoreRemarks");
    assert_eq!(status, "True", "{back}");
    assert!(message.contains("PersistentVolumeClaim restored exists already"), "{message}");
    assert!(message.contains("status.capacity.storage is 500Mi, expected at least 1Gi"), "{message}");
    assert!(message.contains("spec.accessModes is ReadWriteOnce, expected ReadWriteMany"), "{message}");
}

#[tokio::test]
async fn a_claim_that_a_pod_uses_is_not_written() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("host-0", "/data").await;
    let mut target = member("PersistentVolumeClaim", "web-data", "");
    target["alias"] = json!(null);
    let spec = json!({"target": target});
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains("is in use by pod web-0"), "{message}");
    cluster.claim("free");
    let target = member("PersistentVolumeClaim", "free", "host-0");
    cluster.restore_session("free", &json!({"target": target}), &json!({}));
    assert_eq!(cluster.ended("free").await["status"]["phase"], "Succeeded");
}

#[tokio::test]
async fn hosts_without_a_rule_are_left_alone_and_moved_rules_are_named() {
    let cluster = Cluster::new().await;
    cluster.stateful_set("db", 2, 2);
    cluster.snapshot("app-0", "/data").await;
    let spec = json!({"target": member("StatefulSet", "db", "app"), "rules": [{"targetHosts": ["app-0"]}]});
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    assert_eq!(back["status"]["totalHosts"], 1);
    assert!(condition(&back, "HostsWithoutRule").1.contains("app-1"), "{back}");
    assert_eq!(condition(&back, "RulesMoved").0, "True");
}

#[tokio::test]
async fn a_failed_member_of_a_batch_stops_no_other() {
    let settings = StashSettings { restore_wait: Duration::ZERO, ..StashSettings::default() };
    let cluster = Cluster::with(settings).await;
    cluster.deployment("web", 1);
    cluster.deployment("api", 1);
    cluster.snapshot("api", "/data").await;
    let one = |name: &str| json!({"target": member("Deployment", name, name)});
    let database = json!({
        "target": {"alias": "db", "ref": {"apiVersion": "apps/v1", "kind": "AppBinding", "name": "mysql"}},
        "task": {"name": "mysql-restore-8.0.14"},
    });
    cluster.restore_batch("both", &json!({"members": [one("web"), one("api"), database]}));
    let both = cluster.ended_at(&format!("{BATCHES}/both")).await;
    assert_eq!(both["status"]["phase"], "Failed", "{both}");
    let phases: Vec<&Value> =
        both["status"]["members"].as_array().unwrap().iter().map(|member| &member["phase"]).collect();
    assert_eq!(phases, ["Failed", "Succeeded", "Failed"]);
    let failed = json!({"status": both["status"]["members"][0]});
    let (_, message) = condition(&failed, "RestoreExecutorEnsured");
    assert!(message.contains("no complete snapshot of source host web"), "{message}");
    assert!(message.contains("host api: /data"), "what exists is listed: {message}");
    let database = json!({"status": both["status"]["members"][2]});
    let (_, message) = condition(&database, "RestoreExecutorEnsured");
    assert!(message.contains("AppBinding shop/mysql"), "what was waited for is named: {message}");
    assert!(cluster.works().iter().any(|work| matches!(work, TaskWork::Restore(_))));
}

/// No error occurred, but the user who requested files must see that none matched.
#[tokio::test]
async fn patterns_that_match_no_file_are_named() {
    let cluster = Cluster::new().await;
    cluster.claim("data");
    cluster.snapshot("app", "/data").await;
    let mut target = member("PersistentVolumeClaim", "data", "app");
    target["rules"] = json!([{"include": ["*.none"]}]);
    cluster.restore_session("back", &json!({"target": target}), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let (status, message) = condition(&back, "RestoreRemarks");
    assert!(status == "True" && message.contains("host app: no file of /data matches"), "{back}");
}
