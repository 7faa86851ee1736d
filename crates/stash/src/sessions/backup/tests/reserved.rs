//! A session uses a repository only while its invoker holds it, whatever the status of the invoker says, and a dry run removes nothing.

use lifeboat_api::stash::InvokerKind;
use lifeboat_plan::stash::hosts::{HostName, HostSet};
use lifeboat_plan::stash::reservation::{Claim, Record, RepositoryName};
use lifeboat_store::Store;

use super::*;
use crate::repository::reservations::{self, ReservedId};
use crate::repository::{key_of, ready, snapshots};

/// The ConfigMap of the repository of Repository `r`.
async fn config_map(shop: &Shop) -> String {
    let opened = ready(&shop.world.context, &key_of(SHOP, "r")).await.unwrap();
    let id = ReservedId::new(&opened.access, SHOP, &opened.id);
    format!("/api/v1/namespaces/lifeboat/configmaps/{}", id.config_map())
}

/// The record in which a batch of another tenant holds the repository.
fn taken() -> Value {
    let claim = Claim {
        kind: InvokerKind::BackupBatch,
        namespace: "bank".into(),
        name: "vault".into(),
        uid: "vault".into(),
        created: "2026-01-01T00:00:00Z".parse().unwrap(),
        repository: RepositoryName { namespace: "bank".into(), name: "r".into() },
        hosts: vec![HostSet::One(HostName::from("web"))],
    };
    let text = Record::default().with(&claim).encode().unwrap();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"reservations.json": text}})
}

/// Three snapshots of host `app` at `/data`.
async fn put_snapshots(store: Store) {
    for _ in 0..3 {
        World::snapshot_in(store.clone(), "app", &[]).await;
    }
}

async fn count(shop: &Shop) -> usize {
    snapshots(&shop.world.context, &key_of(SHOP, "r")).await.unwrap().len()
}

#[tokio::test]
async fn a_session_whose_invoker_lost_the_repository_since_is_skipped_and_removes_nothing() {
    let shop = Shop::new().await;
    // The status says Ready; the repository is another tenant's by now.
    shop.put_batch("all", &["web"], &json!({}));
    shop.world.server.put(&config_map(&shop).await, taken());
    put_snapshots(shop.world.store("r")).await;
    shop.put_session("s", "BackupBatch", "all");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Skipped", "{session}");
    assert!(condition(&session, "BackupSkipped").1.contains("BackupBatch bank/vault"), "{session}");
    assert!(locked(&shop.movers.requests).is_empty(), "no mover was sent");
    assert_eq!(count(&shop).await, 3);
}

#[tokio::test]
async fn a_session_holds_what_it_opens_also_where_its_repository_leads_elsewhere_now() {
    let shop = Shop::new().await;
    shop.put_batch("all", &["web"], &json!({}));
    config_map(&shop).await;
    // The Repository leads to the repository of another tenant now, and the status of the batch is as it was.
    let other = shop.world.put_repository("other");
    let opened = ready(&shop.world.context, &other).await.unwrap();
    let id = ReservedId::new(&opened.access, SHOP, &opened.id);
    let map = format!("/api/v1/namespaces/lifeboat/configmaps/{}", id.config_map());
    shop.world.server.put(&map, taken());
    shop.world.change("r", &json!({"spec": {"backend": {"s3": {"prefix": "other"}}}}));
    shop.put_session("s", "BackupBatch", "all");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Skipped", "{session}");
    assert!(condition(&session, "BackupSkipped").1.contains("bank/vault"), "{session}");
    assert!(locked(&shop.movers.requests).is_empty());
}

#[tokio::test]
async fn a_repository_that_is_lost_while_movers_are_at_work_is_left_alone_at_the_end() {
    let shop = Shop::new().await;
    shop.put_batch("all", &["web"], &json!({"retentionPolicy": {"prune": true}}));
    let map = config_map(&shop).await;
    World::snapshot_in(shop.world.store("r"), "web", &[]).await;
    for _ in 0..3 {
        World::snapshot_in(shop.world.store("r"), "web", &[]).await;
    }
    shop.put_session("s", "BackupBatch", "all");
    let server = shop.world.server.clone();
    shop.movers.meanwhile(move || server.change(&map, &taken()));
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "the data is stored: {session}");
    let (status, message) = condition(&session, "RetentionPolicyApplied");
    assert!(status == "False" && message.contains("bank/vault"), "{session}");
    assert_eq!(count(&shop).await, 4);
    let annotations = shop.world.repository("r")["metadata"]["annotations"].to_string();
    assert!(!annotations.contains("maintain-since"), "no prune is asked for: {annotations}");
}

#[tokio::test]
async fn a_session_that_had_begun_when_its_repository_was_lost_ends_and_releases_its_pod() {
    let shop = Shop::new().await;
    let hooks = json!({"preBackup": {"exec": {"command": ["quiesce"]}}, "postBackup": {"exec": {"command": ["release"]}}});
    shop.put_batch("all", &["web"], &json!({}));
    let path = format!("{STASH}/backupbatches/all");
    shop.world.server.edit(&path, |batch| batch["spec"]["members"][0]["hooks"] = hooks);
    shop.put_session("s", "BackupBatch", "all");
    shop.movers.well.store(false, Ordering::Relaxed);
    assert!(matches!(shop.advance("s").await, Err(Stopped::Left)));
    assert_eq!(shop.commands(), ["web-1: quiesce"]);
    shop.world.server.change(&config_map(&shop).await, &taken());
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(session["status"]["targets"].to_string().contains("bank/vault"), "{session}");
    assert_eq!(shop.commands().last().map(String::as_str), Some("web-1: release"));
    let map = config_map(&shop).await;
    let id = ReservedId::of_config_map(map.rsplit('/').next().unwrap()).unwrap();
    let record = reservations::read(&shop.world.context, &id);
    assert_eq!(record.await.unwrap().holders()[0].name, "vault");
}

#[tokio::test]
async fn a_session_in_a_namespace_that_is_not_allowed_any_more_is_skipped() {
    let shop = Shop::new().await;
    shop.world.put_secret("bank", crate::testing::PASSWORD);
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "bank"}});
    shop.world.put_repository_in("bank", "r", backend);
    shop.put_configuration("nightly", &json!({"repository": {"namespace": "bank"}}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Skipped", "{session}");
    assert!(condition(&session, "BackupSkipped").1.contains("usagePolicy"), "{session}");
}

#[tokio::test]
async fn a_dry_run_removes_nothing_and_says_what_it_would_remove() {
    let shop = Shop::new().await;
    let policy = json!({"retentionPolicy": {"keepLast": 1, "dryRun": true, "prune": true}});
    shop.put_configuration("nightly", &policy);
    config_map(&shop).await;
    put_snapshots(shop.world.store("r")).await;
    // A safety copy that is old enough stays as well.
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let (status, message) = condition(&session, "RetentionPolicyApplied");
    assert!(status == "True" && message.contains("would remove 2 snapshots"), "{message}");
    assert!(message.contains("(app:/data)"), "{message}");
    assert_eq!(count(&shop).await, 3);
    let object = shop.world.repository("r");
    assert!(object["status"]["snapshotsRemovedOnLastCleanup"].is_null(), "{object}");
    assert!(!object["metadata"]["annotations"].to_string().contains("maintain-since"), "{object}");
    // Without it they go.
    let path = format!("{STASH}/backupconfigurations/nightly");
    shop.world.server.change(&path, &json!({"spec": {"retentionPolicy": {"dryRun": false}}}));
    shop.put_session("t", "BackupConfiguration", "nightly");
    shop.run("t").await;
    assert_eq!(count(&shop).await, 1);
}
