//! Repositories that only movers open: looked at by movers while objects use them, and storage that never answers stalls no other.

use async_trait::async_trait;
use lifeboat_plan::stash::repository::mover_work::REPOSITORY_TASK;
use lifeboat_transfer::attempts::testing::died;
use lifeboat_transfer::repositories::{ServerOpening, TenantStorage};

use super::*;
use crate::repository::{key_of, ready};
use crate::tenant_stores::TenantStores;
use crate::testing::MemoryStores;
use crate::testing::movers::MemoryMovers;

const INVOKER: &str = "/apis/stash.appscode.com/v1beta1/namespaces/shop/backupconfigurations/nightly";

async fn on_a_volume() -> (World, Arc<MemoryMovers>, RepositoryKey) {
    let mut world = World::new().await;
    let movers = Arc::new(MemoryMovers::default());
    world.context.effects = Some(movers.clone());
    world.admit_movers();
    let key = world.put_backend("r", json!({"local": {"hostPath": {"path": "/x"}, "mountPath": "/safe"}}));
    (world, movers, key)
}

fn put_invoker(world: &World) {
    let object = json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupConfiguration",
        "metadata": {"uid": "nightly"}, "spec": {"repository": {"name": "r"}}});
    world.server.put(INVOKER, object);
}

/// The controller, as it is after a change of the spec.
fn changed(world: &World, generation: i64) {
    world.change("r", &json!({"metadata": {"generation": generation}}));
}

#[tokio::test]
async fn a_repository_on_a_volume_is_looked_at_by_movers_while_something_uses_it() {
    let (world, movers, key) = on_a_volume().await;
    let state = state();
    let object = reconciled(&world, &state, "r").await;
    let (status, message) = condition(&object, "RepositoryReachable");
    assert!(status == "Unknown" && message.contains("the first BackupConfiguration"), "{message}");
    assert_eq!(movers.works().len(), 0, "nobody says how it is opened");
    put_invoker(&world);
    ready(&world.context, &key).await.unwrap();
    World::snapshot_in(movers.store(&key), "app", &[]).await;
    changed(&world, 2);
    let object = reconciled(&world, &state, "r").await;
    assert_eq!(condition(&object, "RepositoryReachable").0, "True", "{object}");
    assert_eq!((&object["status"]["snapshotCount"], movers.works().len()), (&json!(1), 2));
    assert_eq!(world.server.paths("/snapshots/").len(), 1);
    world.server.remove(INVOKER);
    changed(&world, 3);
    let object = reconciled(&world, &state, "r").await;
    assert_eq!((condition(&object, "RepositoryReachable").0.as_str(), movers.works().len()), ("Unknown", 2));
    assert_eq!(object["status"]["snapshotCount"], 1, "what was found stays");
}

#[tokio::test]
async fn a_look_by_a_mover_that_fails_is_in_the_status() {
    let (world, movers, key) = on_a_volume().await;
    put_invoker(&world);
    ready(&world.context, &key).await.unwrap();
    movers.will(died(false));
    let object = reconciled(&world, &state(), "r").await;
    let (status, message) = condition(&object, "RepositoryReachable");
    assert!(status == "False" && message.contains("the mover was killed"), "{message}");
    assert!(object["status"].to_string().contains("RepositoryNotOpenedByMover"), "{object}");
    assert_eq!(movers.works().len(), 2, "no other mover follows at once");
}

#[tokio::test]
async fn a_task_that_a_server_left_on_record_is_taken_off() {
    let (world, movers, key) = on_a_volume().await;
    put_invoker(&world);
    ready(&world.context, &key).await.unwrap();
    world.change("r", &json!({"metadata": {"annotations": {REPOSITORY_TASK: "7"}}}));
    let object = reconciled(&world, &state(), "r").await;
    assert!(object["metadata"]["annotations"][REPOSITORY_TASK].is_null(), "{object}");
    assert!(movers.cleared().iter().any(|task| task.as_str() == "uid-shop-r-t7"), "{:?}", movers.cleared());
}

#[tokio::test]
async fn the_data_on_a_volume_is_never_deleted_with_its_repository() {
    let (world, movers, key) = on_a_volume().await;
    put_invoker(&world);
    ready(&world.context, &key).await.unwrap();
    world.server.remove(INVOKER);
    let deleted =
        json!({"deletionTimestamp": "2026-11-18T12:00:00Z", "finalizers": ["lifeboat.io/wipe-out"]});
    world.change("r", &json!({"spec": {"wipeOut": true}, "metadata": deleted}));
    let object = reconciled(&world, &state(), "r").await;
    let (status, message) = condition(&object, "DataWipedOut");
    assert!(status == "False" && message.contains("set wipeOut to false"), "{message}");
    assert!(movers.store(&key).exists("config").await.unwrap());
}

/// Storage of which bucket `stuck` never answers.
struct Stuck(MemoryStores);

#[async_trait]
impl TenantStores for Stuck {
    async fn open(
        &self,
        storage: &TenantStorage,
        connections: Option<usize>,
    ) -> lifeboat_store::Result<ServerOpening> {
        if matches!(storage, TenantStorage::Bucket(config) if config.bucket == "stuck") {
            std::future::pending::<()>().await;
        }
        self.0.open(storage, connections).await
    }
}

#[tokio::test]
async fn no_reconcile_waits_for_storage_and_other_repositories_are_looked_at() {
    let mut world = World::new().await;
    world.context.stores = Arc::new(Stuck(world.stores.clone()));
    world.put_backend("stuck", json!({"s3": {"endpoint": "minio:9000", "bucket": "stuck"}}));
    world.put_repository("r");
    let state = state();
    // With a deletion, too: both would wait for ever.
    for change in [
        json!({}),
        json!({"spec": {"wipeOut": true}, "metadata": {
        "deletionTimestamp": "2026-11-18T12:00:00Z", "finalizers": ["lifeboat.io/wipe-out"]}}),
    ] {
        world.change("stuck", &change);
        let object: DynamicObject = serde_json::from_value(world.repository("stuck")).unwrap();
        let action = reconcile(Arc::new(object), world.context.clone(), state.clone()).await.unwrap();
        assert_eq!(action, Action::requeue(NEXT_TRY));
    }
    let uid = world.repository("stuck")["metadata"]["uid"].as_str().unwrap().to_owned();
    assert!(state.looks.is_running(&uid) && state.deletions.is_running(&uid));
    let others = super::state();
    assert_eq!(condition(&reconciled(&world, &others, "r").await, "RepositoryReachable").0, "True");
    state.looks.leave().await;
    state.deletions.leave().await;
    assert_eq!(key_of(SHOP, "stuck").to_string(), "stash/shop/stuck");
}

#[tokio::test]
async fn the_references_of_a_repository_are_those_that_hold_it_and_go_with_them() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let opened = ready(&world.context, &key).await.unwrap();
    let id = crate::repository::reservations::ReservedId::new(&opened.access, SHOP, &opened.id);
    put_invoker(&world);
    let claim = lifeboat_plan::stash::reservation::Claim {
        kind: lifeboat_api::stash::InvokerKind::BackupConfiguration,
        namespace: SHOP.into(),
        name: "nightly".into(),
        uid: "nightly".into(),
        created: "2026-11-18T12:00:00Z".parse().unwrap(),
        repository: lifeboat_plan::stash::reservation::RepositoryName {
            namespace: SHOP.into(),
            name: "r".into(),
        },
        hosts: Vec::new(),
    };
    crate::repository::reservations::claim(&world.context, &id, &claim).await.unwrap();
    // What a watch of the ConfigMap would show: every version of it, the last one when it is deleted.
    let memory = state();
    let versions: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = versions.clone();
    world.server.on_write(move |server, write| {
        if write.path.contains("/configmaps/") {
            locked(&seen).extend(server.get(&write.path));
        }
    });
    let object = reconciled(&world, &memory, "r").await;
    assert_eq!(object["status"]["references"][0]["name"], "nightly", "{object}");
    world.server.remove(INVOKER);
    crate::repository::release_gone(&world.context, &id).await.unwrap();
    assert_eq!(world.server.paths("/configmaps/"), Vec::<String>::new());
    let last = locked(&versions).last().cloned().unwrap();
    let map: ConfigMap = serde_json::from_value(last).unwrap();
    memory.memory.users.changed(&map, &[], &memory.resource);
    let object = reconciled(&world, &memory, "r").await;
    assert!(object["status"]["references"].as_array().is_none_or(Vec::is_empty), "{object}");
}
