//! Members that a task restores.

use lifeboat_mover::task::{Target, TaskWork};
use serde_json::{Value, json};

use super::cluster::{BATCHES, Cluster, member};
use crate::settings::StashSettings;
use crate::testing::condition;

/// The member of the batch document's sample: the backup's task stands for its counterpart.
fn database() -> Value {
    json!({
        "target": {"alias": "db", "ref": {"apiVersion": "apps/v1", "kind": "AppBinding", "name": "db"}},
        "task": {"name": "mysql-backup-8.0.14"},
        "rules": [{"snapshots": ["latest"]}],
    })
}

#[tokio::test]
async fn a_batch_restores_a_database_beside_a_workload() {
    let cluster = Cluster::new().await;
    cluster.world.put_app();
    cluster.deployment("web", 1);
    let dump = cluster.snapshot("db", "/dumpfile.sql").await;
    cluster.snapshot("app", "/data").await;
    let web = json!({"target": member("Deployment", "web", "app")});
    cluster.restore_batch("back", &json!({"members": [database(), web]}));
    let back = cluster.ended_at(&format!("{BATCHES}/back")).await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let host = &back["status"]["members"][0]["stats"][0];
    assert_eq!((&host["hostname"], &host["phase"]), (&json!("db"), &json!("Succeeded")));
    assert_eq!(host["paths"], json!([{"snapshot": dump, "path": "/dumpfile.sql", "restored": true}]));
    let loads = cluster.works().into_iter().filter_map(|work| match work {
        TaskWork::Restore(work) if matches!(work.target, Target::Command { .. }) => Some(work),
        _ => None,
    });
    let loads: Vec<_> = loads.collect();
    assert_eq!((loads.len(), &loads[0].snapshot), (1, &dump));
    let requests = cluster.effects.requests.lock().unwrap();
    let images = requests.iter().filter_map(|request| request.job.pod.tool_image.as_deref());
    assert_eq!(images.collect::<Vec<_>>(), ["docker.io/library/mysql:8.0.14"]);
}

#[tokio::test]
async fn a_database_without_snapshots_fails_and_lists_what_there_is() {
    let cluster = Cluster::new().await;
    cluster.world.put_app();
    cluster.snapshot("other", "/dumpfile.sql").await;
    cluster.restore_session("back", &database(), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let (_, message) = condition(&back, "RestoreExecutorEnsured");
    assert!(message.contains("source host db") && message.contains("host other"), "{message}");
    assert!(cluster.works().is_empty());
}

#[tokio::test]
async fn a_load_that_fails_fails_the_restore_with_what_the_tool_said() {
    let cluster = Cluster::new().await;
    cluster.world.put_app();
    cluster.snapshot("db", "/dumpfile.sql").await;
    cluster
        .effects
        .will(lifeboat_transfer::attempts::testing::fails("'sh' failed (exit status: 1): ERROR 1049"));
    cluster.restore_session("back", &database(), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert!(back["status"]["stats"][0].to_string().contains("ERROR 1049"), "{back}");
}

#[tokio::test]
async fn a_missing_app_binding_is_waited_for_and_named() {
    let settings = StashSettings { restore_wait: std::time::Duration::ZERO, ..StashSettings::default() };
    let cluster = Cluster::with(settings).await;
    cluster.snapshot("db", "/dumpfile.sql").await;
    cluster.restore_session("back", &database(), &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert!(back["status"].to_string().contains("AppBinding shop/db does not exist"), "{back}");
}

#[tokio::test]
async fn keys_of_a_repository_are_not_brought_to_a_database_of_another_namespace() {
    let cluster = Cluster::new().await;
    cluster.world.put_app_in("bank", "auth");
    cluster.snapshot("db", "/dumpfile.sql").await;
    let mut spec = database();
    spec["target"]["ref"]["namespace"] = json!("bank");
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let said = back["status"]["stats"][0].to_string();
    assert!(said.contains("Repository shop/r does not allow namespace bank"), "{back}");
    assert!(cluster.works().is_empty());
}

#[tokio::test]
async fn in_a_restore_by_functions_the_mover_comes_first() {
    let cluster = Cluster::new().await;
    let path = |kind: &str, name: &str| format!("/apis/stash.appscode.com/v1beta1/{kind}/{name}");
    let object = |kind: &str, spec: Value| json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": kind, "spec": spec});
    let server = &cluster.world.server;
    server.put(&path("tasks", "own-restore"), object("Task", json!({"steps": [{"name": "load"}]})));
    let load = json!({"image": "registry.local/load:1", "args": ["${SOURCE_HOSTNAME} ${RESTORE_SESSION}"]});
    server.put(&path("functions", "load"), object("Function", load));
    cluster.deployment("web", 1);
    let snapshot = cluster.snapshot("old", "/stash-tmp/data").await;
    let mut target = member("Deployment", "web", "app");
    target["rules"] = json!([{"sourceHost": "old"}]);
    let spec = json!({"target": target, "task": {"name": "own-backup"}});
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let works = cluster.works();
    let [TaskWork::Restore(work)] = works.as_slice() else { panic!("{works:?}") };
    assert_eq!((&work.snapshot, work.folder.as_deref()), (&snapshot, Some("/stash-tmp/data")));
    let requests = cluster.effects.requests.lock().unwrap();
    let overrides = &requests[0].job.pod.overrides;
    assert!(overrides.init_containers.is_empty());
    assert_eq!(overrides.after[0]["args"], json!(["old back"]));
    assert_eq!(cluster.object("web")["spec"]["replicas"], 1, "a task stops no workload");
}
