//! Restics become Ready when workloads match their selector, and make a session for each due time, or one for each spec.

use super::*;
use crate::settings::StashSettings;

const ALPHA: &str = "/apis/stash.appscode.com/v1alpha1/namespaces/shop/restics";

async fn world() -> World {
    let world = World::with_settings(StashSettings { restics: true, ..StashSettings::default() }).await;
    world.put_repository("r");
    let labels = json!({"labels": {"app": "demo"}});
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": labels, "spec": {"replicas": 1}});
    world.server.put("/apis/apps/v1/namespaces/shop/deployments/web", deployment);
    world
}

fn put_restic(world: &World, name: &str, changes: &Value) {
    let volume = json!({"name": "data", "mountPath": "/data"});
    let mut spec = json!({
        "targetType": "Volume", "backupType": "Scheduled", "schedule": "@every 300h", "backupAgent": "stash",
        "repository": {"name": "r"},
        "volumeSelector": {"selector": {"matchLabels": {"app": "demo"}}, "targetVolumes": [volume]},
    });
    lifeboat_cluster::testing::merge(&mut spec, changes);
    let metadata =
        json!({"creationTimestamp": "2026-01-01T00:00:00Z", "uid": format!("u-{name}"), "generation": 1});
    let object = json!({"apiVersion": "stash.appscode.com/v1alpha1", "kind": "Restic", "metadata": metadata, "spec": spec});
    world.server.put(&format!("{ALPHA}/{name}"), object);
}

/// Reconciles a Restic three times, and gives it as it is then: it becomes Ready, its session is created, and a run is noted.
async fn reconciled(world: &World, name: &str) -> Value {
    let kind = InvokerKind::Restic;
    let state =
        Arc::new(State::new(&world.context.core.metrics, kind.clone(), invoker_resource(&kind).unwrap()));
    let path = format!("{ALPHA}/{name}");
    for _ in 0..3 {
        let object = world.server.get(&path).unwrap();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        reconcile(Arc::new(object), world.context.clone(), state.clone()).await.unwrap();
    }
    world.server.get(&path).unwrap()
}

#[tokio::test]
async fn a_restic_is_ready_and_its_session_belongs_to_it() {
    let world = world().await;
    put_restic(&world, "nightly", &json!({}));
    let object = reconciled(&world, "nightly").await;
    assert_eq!(object["status"]["phase"], "Ready", "{object}");
    for wanted in
        ["RepositoryFound", "BackendSecretFound", "ValidationPassed", "BackupTargetFound", "CronJobCreated"]
    {
        assert_eq!(condition(&object, wanted).0, "True", "{object}");
    }
    assert!(object["status"]["lastScheduleTime"].is_string(), "{object}");
    let made = sessions(&world);
    assert_eq!(made.len(), 1);
    let session = world.server.get(&made[0]).unwrap();
    assert_eq!(session["spec"]["invoker"]["kind"], "Restic");
    let owner = &session["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["apiVersion"], &owner["uid"]),
        (&json!("stash.appscode.com/v1alpha1"), &json!("u-nightly"))
    );
}

#[tokio::test]
async fn numbers_of_earlier_backups_stay_in_the_status() {
    let world = world().await;
    put_restic(&world, "nightly", &json!({}));
    let earlier = json!({"status": {"successfulBackups": 7, "lastBackupTime": "2026-01-01T00:00:00Z"}});
    world.server.change(&format!("{ALPHA}/nightly"), &earlier);
    let status = reconciled(&world, "nightly").await["status"].clone();
    assert_eq!((&status["successfulBackups"], &status["phase"]), (&json!(7), &json!("Ready")), "{status}");
}

#[rstest]
#[case::nothing_matches(json!({"volumeSelector": {"selector": {"matchLabels": {"app": "x"}}}}), "NotReady", "no workload of namespace shop")]
#[case::no_repository(json!({"repository": {"name": "gone"}}), "NotReady", "Repository shop/gone does not exist")]
#[case::offline(json!({"backupMode": "Offline"}), "Invalid", "spec.backupMode")]
#[case::of_restic(json!({"prefix": "locks"}), "Invalid", "which restic itself uses")]
#[tokio::test]
async fn what_is_missing_or_wrong_is_in_the_status(
    #[case] changes: Value,
    #[case] phase: &str,
    #[case] text: &str,
) {
    let world = world().await;
    put_restic(&world, "nightly", &changes);
    let object = reconciled(&world, "nightly").await;
    assert_eq!(object["status"]["phase"], phase, "{object}");
    assert!(object["status"]["conditions"].to_string().contains(text), "{object}");
    assert_eq!(sessions(&world), Vec::<String>::new());
}

#[tokio::test]
async fn an_instant_restic_backs_up_once_for_each_spec_and_not_after_it_was_restored() {
    let world = world().await;
    put_restic(&world, "once", &json!({"backupType": "Instant", "schedule": null}));
    let object = reconciled(&world, "once").await;
    assert_eq!(sessions(&world).len(), 1, "{object}");
    let made = sessions(&world).remove(0);
    world.server.remove(&made);
    reconciled(&world, "once").await;
    assert_eq!(sessions(&world), Vec::<String>::new(), "the history was cleaned");
    let restored =
        json!({"metadata": {"uid": "another", "creationTimestamp": "2026-06-01T00:00:00Z"}, "status": null});
    world.server.change(&format!("{ALPHA}/once"), &restored);
    reconciled(&world, "once").await;
    assert_eq!(sessions(&world), Vec::<String>::new(), "it was restored from a backup of the cluster");
    let changed = json!({"metadata": {"generation": 2}, "spec": {"args": ["--exclude=*.tmp"]}});
    world.server.change(&format!("{ALPHA}/once"), &changed);
    reconciled(&world, "once").await;
    assert_eq!(sessions(&world).len(), 1, "its spec was changed");
}
