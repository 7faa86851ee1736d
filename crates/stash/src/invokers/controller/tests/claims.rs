//! A reservation is given up when its invoker goes or uses another repository, and repositories that movers open are reserved as well.

use super::*;
use crate::repository::key_of;
use crate::repository::reservations::{self, ReservedId};
use crate::testing::movers::MemoryMovers;
use crate::testing::{SHOP, path as repository_path};

const BATCH: InvokerKind = InvokerKind::BackupBatch;

/// Two batches on two Repositories for one bucket: `first` is Ready, `second` waits.
async fn one_waits() -> World {
    let world = world().await;
    let backend = json!({"s3": {"endpoint": "http://minio:9000/", "bucket": "bkt", "prefix": "/r/"}});
    world.put_backend("same", backend);
    put_batch(&world, "first", &[target("web", "a")]);
    put_batch(&world, "second", &[target("db", "b")]);
    world.server.change(&path(&BATCH, "second"), &json!({"spec": {"repository": {"name": "same"}}}));
    assert_eq!(reconciled(&world, &BATCH, "first").await["status"]["phase"], "Ready");
    let second = reconciled(&world, &BATCH, "second").await;
    assert_eq!(second["status"]["phase"], "Invalid", "two Repositories for one bucket count as one");
    assert!(condition(&second, "ValidationPassed").1.contains("BackupBatch shop/first"), "{second}");
    world
}

#[tokio::test]
async fn a_repository_that_leads_elsewhere_now_holds_its_old_one_no_more() {
    let world = one_waits().await;
    // The Repository of the first is moved to another prefix: its spec is the same, its repository is not.
    let moved = json!({"spec": {"backend": {"s3": {"prefix": "moved"}}}});
    world.server.change(&repository_path(SHOP, "r"), &moved);
    assert_eq!(reconciled(&world, &BATCH, "first").await["status"]["phase"], "Ready");
    assert_eq!(reconciled(&world, &BATCH, "second").await["status"]["phase"], "Ready");
}

#[tokio::test]
async fn a_repository_whose_object_is_gone_holds_nothing() {
    let world = one_waits().await;
    world.server.remove(&repository_path(SHOP, "r"));
    assert_eq!(reconciled(&world, &BATCH, "second").await["status"]["phase"], "Ready");
}

#[tokio::test]
async fn the_claims_of_deleted_invokers_are_removed_although_nobody_waits_for_them() {
    let world = world().await;
    put_batch(&world, "only", &[target("web", "a")]);
    reconciled(&world, &BATCH, "only").await;
    let map = world.server.paths("/configmaps/").remove(0);
    let record = reservations::record_of(&serde_json::from_value(world.server.get(&map).unwrap()).unwrap());
    world.context.records.set(map.rsplit('/').next().unwrap(), record.unwrap());
    // The watch knows the batch: nothing is asked for.
    let known = watched(&world).await;
    let before = world.server.requests(&lifeboat_control::testing::Requests::any("*")).len();
    release_left(&world.context, &BATCH, &known).await;
    assert_eq!(world.server.requests(&lifeboat_control::testing::Requests::any("*")).len(), before);
    world.server.remove(&path(&BATCH, "only"));
    release_left(&world.context, &BATCH, &watched(&world).await).await;
    assert_eq!(world.server.paths("/configmaps/"), Vec::<String>::new());
}

/// The batches that a watch knows.
async fn watched(world: &World) -> Known {
    let shutdown = CancellationToken::new();
    let watches = world.context.watches(&invoker_resource(&BATCH).unwrap()).until(&shutdown);
    let known = watches.known();
    let reconcile = |_: Arc<DynamicObject>, _: Context, _: Arc<()>| {
        std::future::ready(Ok::<_, ApiError>(Action::await_change()))
    };
    let driven = dynamic::drive("test", watches, world.context.clone(), Arc::new(()), reconcile);
    tokio::select! {
        () = driven => {}
        is_ready = known.wait_until_ready() => assert!(is_ready),
    }
    known
}

#[tokio::test]
async fn an_invoker_of_a_repository_on_a_volume_becomes_ready_and_holds_it_in_its_namespace() {
    let mut world = world().await;
    let movers = Arc::new(MemoryMovers::default());
    world.context.effects = Some(movers.clone());
    world.admit_movers();
    let volume = json!({"local": {"nfs": {"server": "nas", "path": "/backups"}, "mountPath": "/safe"}});
    world.put_backend("local", volume);
    for (name, workload) in [("first", "web"), ("second", "db")] {
        put_batch(&world, name, &[target(workload, name)]);
        world.server.change(&path(&BATCH, name), &json!({"spec": {"repository": {"name": "local"}}}));
    }
    assert_eq!(reconciled(&world, &BATCH, "first").await["status"]["phase"], "Ready");
    let second = reconciled(&world, &BATCH, "second").await;
    assert_eq!(second["status"]["phase"], "Invalid", "{second}");
    assert_eq!(movers.works().len(), 1, "one mover made the repository");
    let object = world.repository("local");
    let id = object["metadata"]["annotations"]["lifeboat.io/repository-id"].as_str().unwrap().to_owned();
    let [of_server, of_movers] = ReservedId::both(SHOP, &id);
    let holders = |record: lifeboat_plan::stash::reservation::Record| record.holders().len();
    assert_eq!(holders(reservations::read(&world.context, &of_server).await.unwrap()), 0);
    assert_eq!(holders(reservations::read(&world.context, &of_movers).await.unwrap()), 1);
    assert_eq!(key_of(SHOP, "local").to_string(), movers.sent()[0].0.repository);
}
