//! Restores from a repository that only movers open.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_mover::task::TaskWork;
use serde_json::json;

use super::cluster::{Cluster, member};
use crate::sessions::backup::work_context;
use crate::testing::World;
use crate::testing::movers::MemoryMovers;

#[tokio::test]
async fn a_restore_takes_the_snapshots_that_a_mover_lists() {
    let mut cluster = Cluster::new().await;
    let movers = Arc::new(MemoryMovers::default());
    cluster.world.context.effects = Some(movers.clone());
    cluster.transfers = work_context(&cluster.world.context);
    cluster.transfers.pace = Duration::from_millis(20);
    let claim = json!({"local": {"persistentVolumeClaim": {"claimName": "backups"}, "mountPath": "/safe"}});
    let key = cluster.world.put_backend("r", claim);
    World::make_in(movers.store(&key)).await;
    let snapshot = World::snapshot_in(movers.store(&key), "app", &[]).await;
    cluster.deployment("web", 1);
    let spec = json!({
        "target": member("Deployment", "web", "app"),
        "runtimeSettings": {"pod": {"serviceAccountName": "cloud"}},
    });
    cluster.restore_session("back", &spec, &json!({}));
    let back = cluster.ended("back").await;
    assert_eq!(back["status"]["phase"], "Succeeded", "{back}");
    let path = &back["status"]["stats"][0]["paths"][0];
    assert_eq!((&path["snapshot"], &path["restored"]), (&json!(snapshot), &json!(true)));
    let sent = movers.sent();
    let works: Vec<&TaskWork> = sent.iter().map(|(_, task)| &task.parts[0].work).collect();
    assert!(
        matches!(works[..3], [TaskWork::Look(_), TaskWork::Backup(_), TaskWork::Restore(_)]),
        "what is there, a safety copy, the restore: {works:?}"
    );
    for (job, _) in &sent {
        assert_eq!(job.pod.service_account.as_deref(), Some("cloud"), "{job:?}");
        let volume = job.pod.repository_volume.as_ref().unwrap();
        assert_eq!(volume["persistentVolumeClaim"]["claimName"], "backups");
    }
    let object = cluster.world.repository("r");
    assert!(object["metadata"]["annotations"]["lifeboat.io/repository-id"].is_string(), "{object}");
}
