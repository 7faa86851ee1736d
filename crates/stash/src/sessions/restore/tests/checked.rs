//! Restores that may have been created while no admission policy checked who may.

use lifeboat_plan::install::policies::objects as policies;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::Advance;
use super::cluster::{Cluster, SESSIONS, member};
use crate::testing::condition;

async fn cluster() -> (Cluster, String) {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 2);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &json!({"target": member("Deployment", "web", "app")}), &json!({}));
    (cluster, format!("{SESSIONS}/back"))
}

#[tokio::test]
async fn a_restore_waits_while_its_policy_is_missing_and_stops_no_workload() {
    let (cluster, path) = cluster().await;
    cluster.world.context.policies.set("lifeboat", &[]);
    let advanced = cluster.advance(&path, &CancellationToken::new()).await.unwrap();
    assert_eq!(advanced, Advance::Waits);
    let back = cluster.world.server.get(&path).unwrap();
    let (status, message) = condition(&back, "ValidationPassed");
    assert_eq!((&back["status"]["phase"], status.as_str()), (&json!("Pending"), "Unknown"), "{back}");
    assert!(message.contains("restoresessions.lifeboat.lifeboat.io is missing"), "{message}");
    assert_eq!((cluster.object("web")["spec"]["replicas"].clone(), cluster.works().len()), (json!(2), 0));
    cluster.world.context.policies.set("lifeboat", &policies("lifeboat"));
    assert_eq!(cluster.ended("back").await["status"]["phase"], "Succeeded");
}

#[tokio::test]
async fn a_restore_waits_while_nothing_checks_who_writes_repositories() {
    let (cluster, path) = cluster().await;
    let all = policies("lifeboat");
    let is_of_repositories =
        |policy: &&Value| policy["metadata"]["name"].as_str().unwrap().starts_with("repositories.");
    let others: Vec<Value> = all.iter().filter(|policy| !is_of_repositories(policy)).cloned().collect();
    cluster.world.context.policies.set("lifeboat", &others);
    let advanced = cluster.advance(&path, &CancellationToken::new()).await.unwrap();
    assert_eq!(advanced, Advance::Waits);
    let (status, message) = condition(&cluster.world.server.get(&path).unwrap(), "ValidationPassed");
    assert_eq!((status.as_str(), cluster.works().len()), ("Unknown", 0), "{message}");
    assert!(message.contains("repositories.lifeboat.lifeboat.io is missing"), "{message}");
    cluster.world.context.policies.set("lifeboat", &all);
    assert_eq!(cluster.ended("back").await["status"]["phase"], "Succeeded");
}

#[tokio::test]
async fn a_restore_that_is_older_than_its_policy_is_invalid() {
    let (cluster, _) = cluster().await;
    let younger = policies("lifeboat").into_iter().map(|mut policy: Value| {
        policy["metadata"]["creationTimestamp"] = json!("2100-01-01T00:00:00Z");
        policy
    });
    cluster.world.context.policies.set("lifeboat", &younger.collect::<Vec<_>>());
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Invalid", "{back}");
    let (_, message) = condition(&back, "ValidationPassed");
    assert!(message.contains("since 2100-01-01") && message.contains("create it again"), "{message}");
    assert_eq!((cluster.object("web")["spec"]["replicas"].clone(), cluster.works().len()), (json!(2), 0));
}
