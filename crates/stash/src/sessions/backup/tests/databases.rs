//! Members that a task backs up.

use lifeboat_mover::task::{BackupWork, Source, TaskWork};

use super::*;

/// The member of the batch document's sample: the API version of an AppBinding is not looked at.
fn member() -> Value {
    json!({
        "target": {"alias": "db", "ref": {"apiVersion": "apps/v1", "kind": "AppBinding", "name": "db"}},
        "task": {"name": "mysql-backup-8.0.14"},
    })
}

fn backup(shop: &Shop, host: &str) -> (BackupWork, lifeboat_plan::transfer::movers::PodSettings) {
    let requests = locked(&shop.movers.requests);
    let found = requests.iter().find_map(|request| match &request.task.parts[0].work {
        TaskWork::Backup(work) if work.host == host => Some((work.clone(), request.job.pod.clone())),
        _ => None,
    });
    found.unwrap()
}

#[tokio::test]
async fn a_batch_has_a_database_beside_a_workload() {
    let shop = Shop::new().await;
    shop.world.put_app();
    let web = json!({"target": target("web", "app")});
    shop.put_batch("all", &[], &json!({"members": [member(), web]}));
    shop.put_session("s", "BackupBatch", "all");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let (db, app) = (host(&session, 0), host(&session, 1));
    assert_eq!((&db["hostname"], &app["hostname"]), (&json!("db"), &json!("app")));
    assert_eq!(db["snapshots"][0]["path"], "/dumpfile.sql");
    let (work, pod) = backup(&shop, "db");
    assert!(matches!(&work.source, Source::Command { name, .. } if name == "dumpfile.sql"));
    assert_eq!((work.at, work.sub_path), (None, None));
    assert_eq!(pod.tool_image.as_deref(), Some("docker.io/library/mysql:8.0.14"));
    let (work, pod) = backup(&shop, "app");
    assert_eq!((work.at.as_deref(), pod.tool_image), (Some("/data"), None));
}

#[tokio::test]
async fn a_dump_that_fails_fails_its_host_and_no_other() {
    let shop = Shop::new().await;
    shop.world.put_app();
    let web = json!({"target": target("web", "app")});
    shop.put_batch("all", &[], &json!({"members": [member(), web], "maintainOrder": true}));
    shop.put_session("s", "BackupBatch", "all");
    shop.movers.will(lifeboat_transfer::attempts::testing::fails("'mysqldump' failed (exit status: 2)"));
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(host(&session, 0)["error"].as_str().unwrap_or_default().contains("exit status: 2"), "{session}");
    assert_eq!(host(&session, 1)["phase"], "Succeeded", "{session}");
}

#[tokio::test]
async fn a_task_of_the_user_needs_no_target() {
    let shop = Shop::new().await;
    let path = |kind: &str, name: &str| format!("/apis/stash.appscode.com/v1beta1/{kind}/{name}");
    let object = |kind: &str, spec: Value| json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": kind, "spec": spec});
    let steps = json!({"steps": [{"name": "list"}]});
    shop.world.server.put(&path("tasks", "own-backup"), object("Task", steps));
    let function = json!({"image": "registry.local/list:1", "args": ["${INVOKER_NAME} ${BACKUP_SESSION}"]});
    shop.world.server.put(&path("functions", "list"), object("Function", function));
    shop.put_configuration("nightly", &json!({"target": null, "task": {"name": "own-backup"}}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let (work, pod) = backup(&shop, "host-0");
    assert_eq!(work.at.as_deref(), Some("/stash-tmp/data"));
    assert_eq!(pod.overrides.init_containers[0]["args"], json!(["nightly s"]));
    assert_eq!(locked(&shop.movers.requests)[0].job.namespace, SHOP);
}

#[tokio::test]
async fn a_missing_app_binding_fails_the_member_and_is_named() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({"target": null}));
    shop.world.server.change(
        &format!("{STASH}/backupconfigurations/nightly"),
        &json!({"spec": {"target": member()["target"], "task": member()["task"]}}),
    );
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(session["status"].to_string().contains("AppBinding shop/db does not exist"), "{session}");
}

/// Of a database in namespace `bank`.
fn member_elsewhere() -> Value {
    let mut member = member();
    member["target"]["ref"]["namespace"] = json!("bank");
    member
}

#[tokio::test]
async fn a_database_of_another_namespace_is_dumped_there_and_its_session_stays_here() {
    let shop = Shop::new().await;
    shop.world.put_app_in("bank", "auth");
    shop.world.put_secret("bank", crate::testing::PASSWORD);
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "bank"}});
    shop.world.put_repository_in("bank", "r", backend);
    let policy = json!({"spec": {"usagePolicy": {"allowedNamespaces": {"from": "All"}}}});
    shop.world.server.change(&crate::testing::path("bank", "r"), &policy);
    let repository = json!({"name": "r", "namespace": "bank"});
    shop.put_batch("all", &[], &json!({"members": [member_elsewhere()], "repository": repository}));
    shop.put_session("s", "BackupBatch", "all");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let requests = locked(&shop.movers.requests);
    let job = &requests[0].job;
    assert_eq!((job.namespace.as_str(), job.owner.namespace.as_str()), ("bank", SHOP));
    assert_eq!(*locked(&shop.movers.cleared_in), ["bank"]);
}

/// What opens it is readable where the mover runs.
#[tokio::test]
async fn keys_of_a_repository_are_not_brought_to_a_database_of_another_namespace() {
    let shop = Shop::new().await;
    shop.world.put_app_in("bank", "auth");
    shop.put_batch("all", &[], &json!({"members": [member_elsewhere()]}));
    shop.put_session("s", "BackupBatch", "all");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    let error = host(&session, 0)["error"].as_str().unwrap_or_default();
    assert!(error.contains("Repository shop/r does not allow namespace bank"), "{session}");
    assert!(locked(&shop.movers.requests).is_empty());
}
