//! Backups into a repository that only movers open: the report of the mover counts, another one looks at the end, a third one forgets.

use lifeboat_mover::task::{TaskWork, Transport};

use super::*;
use crate::repository::{RepositoryKey, snapshots};
use crate::testing::movers::MemoryMovers;

struct Volume {
    shop: Shop,
    movers: Arc<MemoryMovers>,
    key: RepositoryKey,
}

/// A shop whose Repository `local` is on a volume.
async fn volume() -> Volume {
    let mut shop = Shop::new().await;
    let movers = Arc::new(MemoryMovers::default());
    shop.world.context.effects = Some(movers.clone());
    let claim = json!({"local": {"persistentVolumeClaim": {"claimName": "backups"}, "mountPath": "/safe"}});
    let key = shop.world.put_backend("local", claim);
    let policy = json!({"keepLast": 1, "prune": true});
    shop.put_configuration("nightly", &json!({"repository": {"name": "local"}, "retentionPolicy": policy}));
    Volume { shop, movers, key }
}

/// The kinds of work of each mover that was sent.
fn kinds(movers: &MemoryMovers) -> Vec<&'static str> {
    let kind = |work: &TaskWork| match work {
        TaskWork::Init => "init",
        TaskWork::Look(_) => "look",
        TaskWork::Forget(_) => "forget",
        TaskWork::Backup(_) => "backup",
        _ => "other",
    };
    movers.works().iter().map(|works| kind(&works[0])).collect()
}

#[tokio::test]
async fn backups_and_retention_work_with_movers_alone_and_the_status_shows_it() {
    let Volume { shop, movers, key } = volume().await;
    for name in ["s", "t"] {
        shop.put_session(name, "BackupConfiguration", "nightly");
        let session = shop.run(name).await;
        assert_eq!(phase(&session), "Succeeded", "{session}");
        for kind in ["BackendRepositoryInitialized", "RetentionPolicyApplied", "RepositoryMetricsPushed"] {
            assert_eq!(condition(&session, kind).0, "True", "{session}");
        }
        shop.world.server.remove(&format!("{STASH}/backupsessions/{name}"));
    }
    assert_eq!(kinds(&movers), ["init", "backup", "look", "backup", "look", "forget"]);
    let sent = movers.sent();
    let (job, task) = &sent[1];
    assert_eq!(job.pod.repository_volume.as_ref().unwrap()["persistentVolumeClaim"]["claimName"], "backups");
    let transport = &task.repository.as_ref().unwrap().transport;
    assert_eq!(*transport, Transport::Directory { path: "/mover/repository/".into() });
    assert_eq!(snapshots(&shop.world.context, &key).await.unwrap().len(), 1);
    let object = shop.world.repository("local");
    assert_eq!(object["status"]["snapshotCount"], 1, "{object}");
    assert_eq!(object["status"]["snapshotsRemovedOnLastCleanup"], 1, "{object}");
    assert!(object["status"]["totalSize"].is_string(), "{object}");
    assert!(object["metadata"]["annotations"]["lifeboat.io/maintain-since"].is_string(), "{object}");
    assert_eq!(shop.world.server.paths("/snapshots/").len(), 1);
    let states = movers.store(&key).list_directory("lifeboat/state/").await.unwrap().objects;
    assert_eq!(states.len(), 1, "the look of each session wrote the state of the invoker");
    assert!(shop.world.context.looks.states(&key).is_empty());
    assert_eq!(kinds(&movers).len(), 6, "what was found is used until the repository is changed");
}

#[tokio::test]
async fn a_mover_that_died_is_looked_for_in_the_repository() {
    let Volume { shop, movers, .. } = volume().await;
    crate::repository::ready(&shop.world.context, &crate::repository::key_of(SHOP, "local")).await.unwrap();
    movers.will(lifeboat_transfer::attempts::testing::died(false));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(
        host(&session, 0)["error"].as_str().unwrap_or_default().contains("the mover was killed"),
        "{session}"
    );
    assert_eq!(kinds(&movers)[..3], ["init", "backup", "look"]);
}

#[tokio::test]
async fn a_repository_that_was_exchanged_loses_no_snapshot_by_retention() {
    let Volume { shop, movers, key } = volume().await;
    crate::repository::ready(&shop.world.context, &key).await.unwrap();
    movers.exchange(&key);
    World::make_in(movers.store(&key)).await;
    for _ in 0..3 {
        World::snapshot_in(movers.store(&key), "app", &[]).await;
    }
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    let (status, message) = condition(&session, "RetentionPolicyApplied");
    assert!(status == "False" && message.contains("nothing was removed"), "{session}");
    assert_eq!(condition(&session, "RepositoryMetricsPushed").0, "False", "{session}");
    assert!(!kinds(&movers).contains(&"forget"));
}
