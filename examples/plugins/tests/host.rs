//! The examples as real processes under the host.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use lifeboat_plugin::Registry;
use lifeboat_plugin::host::Kind;
use lifeboat_plugin::volume::{
    ProgressEnd, ProgressOf, SnapshotRequest, VolumeProgress, VolumeRequest, VolumeSnapshotter,
};
use lifeboat_plugin_sdk::serde_json::json;
use lifeboat_test_plugins::{NoCluster, Plugins, restore, restore_input};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const WAITING: &str = env!("CARGO_BIN_EXE_wait-for-database");
const SNAPSHOTTER: &str = env!("CARGO_BIN_EXE_directory-snapshotter");

#[tokio::test]
async fn an_application_is_ready_when_its_database_answers() {
    let plugins = Plugins::new().with("wait", WAITING);
    let session = plugins.session().await;
    assert!(session.host().find(Kind::RestoreItemActionV2, "example.io/wait-for-database").is_some());
    let action = Arc::clone(&Registry::default().with_plugins(&session).restore[0]);
    assert!(action.applies_to().await.unwrap().included_resources.contains(&"deployments.apps".to_owned()));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let item = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "name": "shop", "namespace": "web", "annotations": {
            "example.io/database": "db:5432", "example.io/database-address": address}}});
    let of = restore();
    let input = restore_input(&item, &of);
    let outcome = action.execute(input, &NoCluster).await.unwrap();
    assert!(outcome.wait_for_additional_items && outcome.ready_timeout.is_none());
    assert_eq!(outcome.additional_items[0].to_string(), "services web/db");
    let line = plugins.log.until("waits for its database").await;
    assert_eq!(line.fields["item"], "shop");

    let again = restore();
    let ready = || action.are_ready(&outcome.additional_items, &again, &NoCluster, Duration::from_mins(1));
    let closed = tokio::spawn(async move {
        drop(listener.accept().await.unwrap());
        listener
    });
    assert_eq!(ready().await, Ok(false), "it listens and does not answer");
    let listener = closed.await.unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"N").await.unwrap();
        let _ = stream.read_exact(&mut [0; 8]).await;
    });
    assert_eq!(ready().await, Ok(true));
    session.close().await;
    plugins.nothing_left().await;
}

async fn snapshotter(plugins: &Plugins, more: &[(&str, &str)]) -> Arc<dyn VolumeSnapshotter> {
    let path = |name: &str| {
        let path = plugins.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path.display().to_string()
    };
    let mut config =
        BTreeMap::from([("snapshots".into(), path("snapshots")), ("volumes".into(), path("volumes"))]);
    config.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    plugins.session().await.volume_snapshotter("example.io/directory-snapshotter", config).unwrap()
}

fn request(plugins: &Plugins) -> SnapshotRequest {
    let data = plugins.path().join("data");
    fs::create_dir_all(data.join("deep")).unwrap();
    fs::write(data.join("deep/file"), vec![7; 300_000]).unwrap();
    std::os::unix::fs::symlink("deep/file", data.join("link")).unwrap();
    let tags = [("velero.io/backup", "nightly"), ("velero.io/pv", "pv-1")];
    SnapshotRequest {
        volume_id: data.display().to_string(),
        zone: String::new(),
        tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    }
}

#[tokio::test]
async fn a_directory_is_snapshotted_and_restored_with_progress_on_the_way() {
    let plugins = Plugins::new().with("snap", SNAPSHOTTER);
    let snapshotter = snapshotter(&plugins, &[("bytesPerSecond", "200000")]).await;
    let request = request(&plugins);
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
        "spec": {"hostPath": {"path": request.volume_id}}});
    assert_eq!(snapshotter.volume_id(&volume).await.unwrap().as_deref(), Some(request.volume_id.as_str()));
    assert_eq!(snapshotter.volume_info("x", "").await.unwrap().volume_type, "directory");

    let (call, seen) = tokio::join!(snapshotter.create_snapshot(&request), watch(&*snapshotter, &request));
    let id = call.unwrap();
    assert!(
        seen.iter().any(|at| at.bytes_done > 0 && at.bytes_done < at.total_bytes),
        "bytes grew: {seen:?}"
    );
    let end = snapshotter.progress(&ProgressOf::Snapshot { snapshot_id: id.clone() }).await.unwrap().unwrap();
    assert_eq!((end.bytes_done, end.total_bytes, end.ended()), (300_000, 300_000, Some(ProgressEnd::Well)));
    assert!(end.started.is_some() && end.completed.is_some());
    assert_eq!(
        snapshotter.create_snapshot(&request).await.unwrap(),
        id,
        "the same request finds its snapshot"
    );

    let wanted = VolumeRequest { snapshot_id: id.clone(), ..VolumeRequest::default() };
    let restored = snapshotter.create_volume(&wanted).await.unwrap();
    assert_eq!(fs::read(format!("{restored}/link")).unwrap(), vec![7; 300_000]);
    let of = ProgressOf::Restore { snapshot_id: id.clone(), volume_id: Some(restored.clone()) };
    assert_eq!(snapshotter.progress(&of).await.unwrap().unwrap().bytes_done, 300_000);
    let changed = snapshotter.with_volume_id(&volume, &restored).await.unwrap();
    assert_eq!(changed["spec"]["hostPath"]["path"], restored.as_str());

    snapshotter.delete_snapshot(&id).await.unwrap();
    snapshotter.delete_snapshot(&id).await.unwrap();
    assert!(snapshotter.create_volume(&wanted).await.unwrap_err().to_string().contains("cannot copy"));
    drop(snapshotter);
    plugins.nothing_left().await;
}

/// Asks until the operation has ended, as the server does.
async fn watch(snapshotter: &dyn VolumeSnapshotter, request: &SnapshotRequest) -> Vec<VolumeProgress> {
    let mut seen = Vec::new();
    loop {
        let progress = snapshotter.progress(&ProgressOf::Snapshotting(request.clone())).await.unwrap();
        let ended = progress.as_ref().is_some_and(|progress| progress.ended().is_some());
        seen.extend(progress);
        if ended {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_snapshotter_can_say_nothing_and_refuses_what_it_does_not_know() {
    let plugins = Plugins::new().with("snap", SNAPSHOTTER);
    let silent = snapshotter(&plugins, &[("progress", "none")]).await;
    let id = silent.create_snapshot(&request(&plugins)).await.unwrap();
    assert_eq!(silent.progress(&ProgressOf::Snapshot { snapshot_id: id }).await, Ok(None));
    let wrong = snapshotter(&plugins, &[("colour", "red")]).await;
    let error = wrong.create_snapshot(&SnapshotRequest::default()).await.unwrap_err().to_string();
    assert!(error.contains("unknown key \"colour\""), "{error}");
}
