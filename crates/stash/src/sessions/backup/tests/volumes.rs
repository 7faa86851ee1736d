//! What the mover of a host gets: devices, limits of the network, and another try where the pod moved.

use lifeboat_mover::task::{BackupWork, Limits, Source, TaskWork};
use lifeboat_plan::stash::rules::DEVICE_TAG;
use lifeboat_transfer::movers::{Death, DeathCause, MoverEnd};

use super::*;

const CLAIM: &str = "/api/v1/namespaces/shop/persistentvolumeclaims/web";
const POD: &str = "/api/v1/namespaces/shop/pods/web-1";

fn sent(shop: &Shop, number: usize) -> (BackupWork, Limits) {
    let requests = locked(&shop.movers.requests);
    let task = &requests[number].task;
    match &task.parts[0].work {
        TaskWork::Backup(work) => (work.clone(), task.limits.clone()),
        other => panic!("{other:?}"),
    }
}

/// Stock restic shows it at the path that the container has it, and dumps it from there.
#[tokio::test]
async fn a_block_volume_is_stored_as_the_file_at_its_path() {
    let shop = Shop::new().await;
    shop.world.server.change(CLAIM, &json!({"spec": {"volumeMode": "Block"}}));
    let mounts = json!([{"name": "data", "mountPath": "/dev/xvda"}]);
    shop.put_configuration("nightly", &json!({"target": {"volumeMounts": mounts, "paths": []}}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    assert_eq!(host(&session, 0)["snapshots"][0]["path"], "/dev/xvda");
    let (work, _) = sent(&shop, 0);
    assert_eq!(
        work.source,
        Source::BlockDevice { path: "/mover/device/0".into(), name: "dev/xvda".to_owned() }
    );
    assert_eq!(
        (work.at.as_deref(), work.sub_path.as_deref()),
        (None, None),
        "the mover refuses both for a device"
    );
    assert!(work.tags.contains(&DEVICE_TAG.to_owned()), "{work:?}");
}

#[tokio::test]
async fn arguments_of_the_target_reach_the_mover() {
    let shop = Shop::new().await;
    let args = json!(["--limit-upload=100", "--limit-download", "2", "--exclude=*.tmp", "--tag=nightly"]);
    shop.put_configuration("nightly", &json!({"target": {"args": args, "exclude": ["*.log"]}}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let (work, limits) = sent(&shop, 0);
    assert_eq!((limits.upload, limits.download), (Some(102_400), Some(2_048)));
    assert_eq!(work.excludes, ["*.log", "*.tmp"]);
    assert!(
        work.tags.contains(&"nightly".to_owned()) && !work.tags.contains(&DEVICE_TAG.to_owned()),
        "{work:?}"
    );
}

/// The mover waited on the first node for a volume that had gone with its pod.
#[tokio::test]
async fn another_mover_is_sent_once_to_where_the_pod_moved() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop.movers.will(MoverEnd::Died(Death {
        cause: DeathCause::Volume,
        message: "Multi-Attach error".into(),
        dead_owner: None,
        may_retry: false,
    }));
    let server = shop.world.server.clone();
    shop.movers.meanwhile(move || server.change(POD, &json!({"spec": {"nodeName": "n2"}})));
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let nodes: Vec<Option<String>> = locked(&shop.movers.requests)
        .iter()
        .map(|request| request.job.place.node().map(str::to_owned))
        .collect();
    assert_eq!(nodes, [Some("n1".to_owned()), Some("n2".to_owned())]);
}

#[tokio::test]
async fn a_mover_whose_pod_did_not_move_is_not_followed_by_another() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop.movers.will(MoverEnd::Died(Death {
        cause: DeathCause::Volume,
        message: "driver not found".into(),
        dead_owner: None,
        may_retry: false,
    }));
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(
        host(&session, 0)["error"].as_str().unwrap_or_default().contains("driver not found"),
        "{session}"
    );
    assert_eq!(locked(&shop.movers.requests).len(), 1);
}

const AWAY: &str = "Internal error occurred: failed calling webhook \"policy.example\": connection refused";

/// No mover can be sent, and the wait for the webhook ends with the session.
#[tokio::test]
async fn a_host_whose_mover_a_webhook_keeps_away_ends_with_its_session() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let cancel = CancellationToken::new();
    let late = cancel.clone();
    shop.world.server.answer(move |_, asked| {
        asked.query.contains("dryRun").then(|| {
            late.cancel();
            lifeboat_cluster::testing::failure(500, AWAY)
        })
    });
    let (session, record) = shop.parts("s");
    let advanced = Box::pin(advance(&shop.world.context, &session, &record, &cancel)).await;
    assert!(matches!(advanced, Ok(Advance::Ended)));
    let session = shop.object("s");
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(host(&session, 0)["error"].to_string().contains("policy.example"), "{session}");
    assert!(locked(&shop.movers.requests).is_empty());
}

/// A quota or a policy says no to every mover: the session ends at once.
#[tokio::test]
async fn a_host_whose_mover_is_refused_ends_with_its_session() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop.world.server.answer(|_, asked| {
        let refused =
            "pods \"mover-x\" is forbidden: maximum memory usage per Container is 512Mi, but limit is 1Gi";
        asked.query.contains("dryRun").then(|| lifeboat_cluster::testing::failure(403, refused))
    });
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert!(host(&session, 0)["error"].to_string().contains("maximum memory usage"), "{session}");
}
