//! Data that may be half restored is not backed up, whatever becomes of the restore: the record is on the data.

use kube::api::DynamicObject;
use lifeboat_plan::stash::in_place::UNFINISHED;
use lifeboat_plan::stash::session::RESUMED;
use lifeboat_transfer::attempts::testing::fails;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{Stopped, resumed};
use super::cluster::{Cluster, SESSIONS, member};
use crate::sessions::kind::SessionKind;
use crate::sessions::record::SessionRecord;
use crate::testing::condition;

fn into(kind: &str, name: &str, alias: &str) -> Value {
    json!({"target": member(kind, name, alias)})
}

/// What the server does when it sees a restore that has ended.
async fn look_at(cluster: &Cluster, name: &str) {
    let object = cluster.world.server.get(&format!("{SESSIONS}/{name}")).unwrap();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let (core, kind) = (&cluster.world.context.core, SessionKind::Restore);
    let record = SessionRecord::new(core, kind, &kind.resource(), object.clone()).unwrap();
    resumed::allow_backups(core, &object, &record).await.unwrap();
}

#[tokio::test]
async fn the_record_is_on_the_claims_before_the_first_byte_and_goes_when_all_is_restored() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session(
        "back",
        &into("Deployment", "web", "app"),
        &json!({"lifeboat.io/safety-copy": "false"}),
    );
    let server = cluster.world.server.clone();
    cluster.effects.meanwhile(move || {
        let claim = server.get("/api/v1/namespaces/shop/persistentvolumeclaims/web-data").unwrap();
        let record = claim["metadata"]["annotations"][UNFINISHED].as_str().unwrap_or_default().to_owned();
        assert!(record.contains("\"name\":\"back\""), "{claim}");
    });
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    assert_eq!(cluster.works().len(), 1, "a mover looked");
    assert_eq!(cluster.record_on("web-data"), Value::Null);
    assert_eq!(condition(&back, "BackupsBlocked").0, "False");
    assert_eq!(back["status"]["claims"], json!(["web-data"]));
}

#[tokio::test]
async fn the_record_outlives_the_restore_and_the_next_success_removes_it() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &into("Deployment", "web", "app"), &json!({}));
    cluster.copies_then(fails("no space left on device"));
    let back = cluster.ended("back").await;
    let (status, message) = condition(&back, "BackupsBlocked");
    assert!(
        status == "True" && message.contains("lifeboat stash resume restoresession/back -n shop"),
        "{back}"
    );
    cluster.remove("back");
    assert_eq!(cluster.record_on("web-data")["name"], "back");
    // A second one that fails does not take the record over, and does not remove it.
    cluster.restore_session("again", &into("Deployment", "web", "app"), &json!({}));
    cluster.effects.will(fails("no space left on device"));
    assert_eq!(cluster.ended("again").await["status"]["phase"], "Failed");
    assert_eq!(cluster.record_on("web-data")["name"], "back");
    cluster.restore_session("third", &into("Deployment", "web", "app"), &json!({}));
    assert_eq!(cluster.ended("third").await["status"]["phase"], "Succeeded");
    assert_eq!(cluster.record_on("web-data"), Value::Null);
}

#[tokio::test]
async fn a_restore_that_wrote_nothing_leaves_no_record_of_its_own() {
    let cluster = Cluster::new().await;
    cluster.claim("data");
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &into("PersistentVolumeClaim", "data", "app"), &json!({}));
    *cluster.effects.unusable.lock().unwrap() = Some(("the bucket is gone".to_owned(), false));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    assert_eq!(cluster.record_on("data"), Value::Null, "no mover was sent");
    *cluster.effects.unusable.lock().unwrap() = None;
    cluster.effects.will(fails("no space left on device"));
    cluster.restore_session("again", &into("PersistentVolumeClaim", "data", "app"), &json!({}));
    assert_eq!(cluster.ended("again").await["status"]["phase"], "Failed");
    assert_eq!(cluster.record_on("data")["name"], "again");
    // What an earlier one left half restored stays on record.
    cluster.restore_session("third", &into("PersistentVolumeClaim", "data", "app"), &json!({}));
    *cluster.effects.unusable.lock().unwrap() = Some(("the bucket is gone".to_owned(), false));
    assert_eq!(cluster.ended("third").await["status"]["phase"], "Failed");
    assert_eq!(cluster.record_on("data")["name"], "again");
}

/// A restore into a claim has no finalizer: it may be deleted while its mover writes.
#[tokio::test]
async fn a_restore_that_is_deleted_while_it_writes_leaves_its_record() {
    let cluster = Cluster::new().await;
    cluster.claim("data");
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &into("PersistentVolumeClaim", "data", "app"), &json!({}));
    let server = cluster.world.server.clone();
    cluster.effects.meanwhile(move || {
        server.remove(&format!("{SESSIONS}/back"));
    });
    let ended = cluster.advance(&format!("{SESSIONS}/back"), &CancellationToken::new()).await;
    assert!(matches!(ended, Err(Stopped::Gone)), "{ended:?}");
    assert_eq!(cluster.record_on("data")["name"], "back");
}

#[tokio::test]
async fn a_person_allows_backups_by_the_annotation_of_the_restore() {
    let cluster = Cluster::new().await;
    cluster.deployment("web", 1);
    cluster.snapshot("app", "/data").await;
    cluster.restore_session("back", &into("Deployment", "web", "app"), &json!({}));
    cluster.copies_then(fails("no space left on device"));
    cluster.ended("back").await;
    look_at(&cluster, "back").await;
    assert_eq!(cluster.record_on("web-data")["name"], "back", "nobody allowed it");
    let resumed = |uid: &str| {
        let change = json!({"metadata": {"annotations": {RESUMED: uid}}});
        cluster.world.server.change(&format!("{SESSIONS}/back"), &change);
    };
    resumed("uid-of-the-one-that-it-replaced");
    look_at(&cluster, "back").await;
    assert_eq!(cluster.record_on("web-data")["name"], "back", "it was allowed after an earlier restore");
    resumed("uid-back");
    look_at(&cluster, "back").await;
    assert_eq!(cluster.record_on("web-data"), Value::Null);
    let back = cluster.world.server.get(&format!("{SESSIONS}/back")).unwrap();
    assert_eq!(condition(&back, "BackupsBlocked").0, "False");
    assert_eq!(cluster.replicas("web"), 0, "its workload is another matter");
}

/// What has no claims carries the record itself.
#[tokio::test]
async fn an_app_binding_carries_the_record_of_a_dump_that_was_not_loaded() {
    let cluster = Cluster::new().await;
    cluster.world.put_app();
    let path = "/apis/appcatalog.appscode.com/v1alpha1/namespaces/shop/appbindings/db";
    cluster.snapshot("db", "/dumpfile.sql").await;
    let target = json!({"alias": "db", "ref": {"kind": "AppBinding", "name": "db"}});
    let spec = json!({"target": target, "task": {"name": "mysql-restore-8.0.14"}});
    let record = || {
        let found = cluster.world.server.get(path).unwrap();
        found["metadata"]["annotations"][UNFINISHED].as_str().unwrap_or_default().to_owned()
    };
    cluster.restore_session("back", &spec, &json!({}));
    cluster.effects.will(fails("ERROR 1114: the table is full"));
    assert_eq!(cluster.ended("back").await["status"]["phase"], "Failed");
    assert!(record().contains("\"name\":\"back\""), "{}", record());
    cluster.restore_session("again", &spec, &json!({}));
    let again = cluster.ended("again").await;
    assert_eq!(again["status"]["phase"], "Succeeded", "{again}");
    assert_eq!(record(), "");
}

/// A pod that starts in the middle would read and write beside the mover.
#[tokio::test]
async fn a_pod_that_comes_to_use_a_claim_ends_its_restore() {
    let cluster = Cluster::new().await;
    cluster.claim("data");
    cluster.snapshot("app", "/data").await;
    let put_pod = |server: &lifeboat_control::testing::ApiServer| {
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": volumes}, "status": {"phase": "Running"}});
        server.put("/api/v1/namespaces/shop/pods/debug", pod);
    };
    cluster.restore_session("back", &into("PersistentVolumeClaim", "data", "app"), &json!({}));
    let server = cluster.world.server.clone();
    cluster.effects.meanwhile(move || put_pod(&server));
    cluster.effects.until_cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Failed", "{back}");
    let error = back["status"]["stats"][0]["error"].as_str().unwrap_or_default();
    assert!(error.contains("pod debug (claim data) came to use the volumes"), "{error}");
    assert_eq!(cluster.record_on("data")["name"], "back", "a mover wrote");
}
