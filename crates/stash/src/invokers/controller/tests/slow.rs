//! Storage that never answers: no reconcile waits for it, its invoker says so, and others go on.

use async_trait::async_trait;
use lifeboat_transfer::repositories::{ServerOpening, TenantStorage};

use super::*;
use crate::tenant_stores::TenantStores;
use crate::testing::MemoryStores;

const KIND: InvokerKind = InvokerKind::BackupConfiguration;

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
async fn no_reconcile_waits_for_storage_that_never_answers() {
    let mut world = world().await;
    world.context.stores = Arc::new(Stuck(world.stores.clone()));
    world.put_backend("stuck", json!({"s3": {"endpoint": "minio:9000", "bucket": "stuck"}}));
    put_configuration(&world, "waits");
    world.server.change(&path(&KIND, "waits"), &json!({"spec": {"repository": {"name": "stuck"}}}));
    put_configuration(&world, "other");
    let state = Arc::new(State::new(&world.context.core.metrics, KIND, invoker_resource(&KIND).unwrap()));
    // Each of these would wait for ever.
    for _ in 0..2 {
        assert_eq!(reconciled_with(&world, &state, "waits").await, Action::requeue(OPENING));
    }
    let object = world.server.get(&path(&KIND, "waits")).unwrap();
    assert_eq!(object["status"]["phase"], "NotReady", "{object}");
    assert!(condition(&object, "RepositoryFound").1.contains("is being opened"), "{object}");
    assert_eq!(reconciled(&world, &KIND, "other").await["status"]["phase"], "Ready");
    // One that was Ready stays in force until it is known that its storage does not answer.
    world.server.change(&path(&KIND, "waits"), &json!({"status": {"phase": "Ready"}}));
    let before = world.server.get(&path(&KIND, "waits")).unwrap();
    assert_eq!(reconciled_with(&world, &state, "waits").await, Action::requeue(OPENING));
    assert_eq!(world.server.get(&path(&KIND, "waits")).unwrap(), before);
    state.openings.leave().await;
}
