//! Plugins in Go: those of e2e/plugins/recorder on Velero's own framework, with every method called, and Velero's
//! plugin for S3. `cargo xtask test plugins` builds them and names them in the environment.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use lifeboat_api::catalogue::{GroupResource, ItemId};
use lifeboat_archive::StoreError;
use lifeboat_plugin::actions::AppliesTo;
use lifeboat_plugin::host::{Kind, LogLevel, Session};
use lifeboat_plugin::remote::ObjectStoreLocation;
use lifeboat_plugin::volume::{ProgressOf, SnapshotRequest, VolumeInfo, VolumeRequest};
use lifeboat_plugin::{ActionError, Registry};
use lifeboat_test_plugins::{NoCluster, Plugins, backup, config_map, restore, restore_input};
use rstest::rstest;
use serde_json::{Value, json};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run `cargo xtask test plugins`"))
}

async fn recorder() -> (Plugins, Session, Registry) {
    let mut plugins = Plugins::new().with("recorder", variable("LIFEBOAT_GO_PLUGIN"));
    let file = plugins.path().join("recorded");
    plugins.environment("RECORDER_FILE", file);
    let session = plugins.session().await;
    let registry = Registry::default().with_plugins(&session);
    (plugins, session, registry)
}

/// The calls of one method of one plugin, as recorded by the plugin.
fn recorded(plugins: &Plugins, plugin: &str, call: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(plugins.path().join("recorded")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["plugin"] == plugin && line["call"] == call).collect()
}

fn annotated(name: &str, value: &str) -> Value {
    let secret = ("recorder.lifeboat.dev/secret".to_owned(), json!("password"));
    config_map(&Value::Object(
        [secret, (format!("recorder.lifeboat.dev/{name}"), json!(value))].into_iter().collect(),
    ))
}

fn secret() -> ItemId {
    ItemId::namespaced(GroupResource::new("", "secrets"), "recorder-1", "password")
}

fn mark<'a>(item: &'a Value, name: &str) -> &'a Value {
    &item["metadata"]["annotations"][format!("recorder.lifeboat.dev/{name}")]
}

#[tokio::test]
async fn every_kind_is_listed_and_in_upstreams_order() {
    let (plugins, session, registry) = recorder().await;
    let listed: Vec<_> =
        session.host().plugins().iter().map(|plugin| (plugin.kind, plugin.name.as_str())).collect();
    assert_eq!(
        listed,
        [
            (Kind::BackupItemAction, "example.io/backup-v1"),
            (Kind::BackupItemActionV2, "example.io/backup-v2"),
            (Kind::VolumeSnapshotter, "example.io/snapshotter"),
            (Kind::RestoreItemAction, "example.io/restore-v1"),
            (Kind::RestoreItemActionV2, "example.io/restore-v2"),
            (Kind::DeleteItemAction, "example.io/delete"),
            (Kind::ItemBlockAction, "example.io/block"),
        ]
    );
    let names: Vec<_> = registry.backup.iter().map(|action| action.name().to_owned()).collect();
    assert_eq!(names, ["example.io/backup-v1", "example.io/backup-v2"]);
    let expected = AppliesTo {
        included_namespaces: vec!["recorder-*".into()],
        excluded_namespaces: vec!["recorder-not".into()],
        included_resources: vec!["configmaps".into()],
        excluded_resources: vec!["secrets".into()],
        selector: "recorder=yes".into(),
    };
    for action in &registry.backup {
        assert_eq!(action.applies_to().await.unwrap(), expected);
    }
    for action in &registry.restore {
        assert_eq!(action.applies_to().await.unwrap(), expected);
    }
    assert_eq!(registry.delete[0].applies_to().await.unwrap(), expected);
    assert_eq!(registry.blocks[0].applies_to().await.unwrap(), expected);
    assert_eq!(plugins.processes().len(), 1, "one process for all plugins of a program");
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn backup_actions_of_both_versions_run() {
    let (plugins, session, registry) = recorder().await;
    let item = annotated("operation", "op-1");
    let one = registry.backup[0].execute(item.clone(), &backup(), &NoCluster).await.unwrap();
    assert_eq!(mark(&one.item, "backup-v1"), "nightly");
    assert_eq!((one.additional_items, one.operation_id), (vec![secret()], None));
    assert_eq!(registry.backup[0].progress("x", &backup()).await, Err(ActionError::NoOperations));

    let action = &registry.backup[1];
    let two = action.execute(item, &backup(), &NoCluster).await.unwrap();
    assert_eq!(mark(&two.item, "backup-v2"), "nightly");
    assert_eq!(two.operation_id.as_deref(), Some("op-1"));
    assert_eq!((two.additional_items, two.post_operation_items), (vec![secret()], vec![secret()]));
    let first = action.progress("op-1", &backup()).await.unwrap();
    assert_eq!((first.completed, first.done, first.total, first.units.as_str()), (false, 1, 3, "steps"));
    assert_eq!(first.started, None, "Go's zero time is no time");
    assert!(first.updated.is_some());
    action.cancel("op-1", &backup()).await.unwrap();
    assert!(action.progress("op-1", &backup()).await.unwrap().completed);
    assert_eq!(recorded(&plugins, "backup-v2", "Cancel")[0]["operation"], "op-1");
    assert_eq!(recorded(&plugins, "backup-v1", "Execute")[0]["item"], "recorder-1/settings");
    let line = plugins.log.until("called").await;
    assert_eq!((line.level, line.program.as_str()), (LogLevel::Info, "recorder"));
    session.close().await;
}

#[tokio::test]
async fn restore_actions_of_both_versions_run_and_version_two_waits() {
    let (plugins, session, registry) = recorder().await;
    let item = annotated("wait", "yes");
    let input = || restore_input(&item, RESTORE.get_or_init(restore));
    let one = registry.restore[0].execute(input(), &NoCluster).await.unwrap();
    assert_eq!(mark(&one.item, "restore-v1"), "again");
    assert!(!one.wait_for_additional_items && !one.skip);
    assert_eq!(
        registry.restore[0].are_ready(&[secret()], &restore(), &NoCluster, Duration::from_mins(1)).await,
        Ok(true)
    );

    let two = registry.restore[1].execute(input(), &NoCluster).await.unwrap();
    assert!(two.wait_for_additional_items);
    assert_eq!((two.ready_timeout, two.operation_id), (None, None));
    assert_eq!(two.additional_items, [secret()]);
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(
            registry.restore[1]
                .are_ready(&two.additional_items, &restore(), &NoCluster, Duration::from_mins(1))
                .await
                .unwrap(),
        );
    }
    assert_eq!(answers, [false, false, true]);
    let asked = recorded(&plugins, "restore-v2", "AreAdditionalItemsReady");
    assert_eq!(asked[0]["items"], json!(["secrets recorder-1/password"]));

    let item = annotated("wait-timeout", "90s");
    let of = restore();
    let input = restore_input(&item, &of);
    let timed = registry.restore[1].execute(input, &NoCluster).await.unwrap();
    assert_eq!(timed.ready_timeout, Some(Duration::from_secs(90)));
    let item = annotated("skip", "yes");
    let input = restore_input(&item, &of);
    assert!(registry.restore[0].execute(input, &NoCluster).await.unwrap().skip);
    assert_eq!(registry.restore[1].progress("op", &restore()).await.unwrap().description, "step 1");
    registry.restore[1].cancel("op", &restore()).await.unwrap();
    assert_eq!(recorded(&plugins, "restore-v2", "Cancel").len(), 1);
    session.close().await;
}

static RESTORE: std::sync::OnceLock<lifeboat_api::velero::Restore> = std::sync::OnceLock::new();

#[tokio::test]
async fn delete_and_block_actions_run() {
    let (plugins, session, registry) = recorder().await;
    let item = annotated("x", "y");
    registry.delete[0].execute(&item, &backup()).await.unwrap();
    assert_eq!(recorded(&plugins, "delete", "Execute")[0]["backup"], "nightly");
    let related = registry.blocks[0].related_items(&item, &backup(), &NoCluster).await.unwrap();
    assert_eq!(related, [secret()]);
    session.close().await;
}

#[rstest]
#[case::error(
    "error",
    "plugin 'example.io/backup-v1': the recorder was told to fail for recorder-1/settings"
)]
#[case::panic("panic", "it panicked in Execute: plugin panicked: the recorder was told to panic")]
#[case::crash("crash", "its program ended during Execute (exit status: 7)")]
#[tokio::test]
async fn a_go_plugin_that_fails_serves_the_next_call(#[case] fail: &str, #[case] reason: &str) {
    let (plugins, session, registry) = recorder().await;
    let action = &registry.backup[0];
    let error = action.execute(annotated("fail", fail), &backup(), &NoCluster).await.unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
    action.execute(annotated("fail", ""), &backup(), &NoCluster).await.unwrap();
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn a_go_plugin_that_hangs_is_ended_and_started_again() {
    let mut plugins = Plugins::new().with("recorder", variable("LIFEBOAT_GO_PLUGIN"));
    plugins.settings.timeouts.call = Duration::from_secs(5);
    let session = plugins.session().await;
    let action = Arc::clone(&Registry::default().with_plugins(&session).backup[1]);
    let error =
        action.execute(annotated("fail", "hang"), &backup(), &NoCluster).await.unwrap_err().to_string();
    assert!(error.contains("took longer than 5s"), "{error}");
    action.execute(annotated("fail", ""), &backup(), &NoCluster).await.unwrap();
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn an_item_that_is_too_large_for_go_is_an_error_that_says_so() {
    let (_plugins, session, registry) = recorder().await;
    let mut item = annotated("x", "y");
    item["data"]["large"] = "x".repeat(5_000_000).into();
    let error = registry.backup[0].execute(item, &backup(), &NoCluster).await.unwrap_err().to_string();
    assert!(error.contains("larger than the plugin accepts"), "{error}");
    session.close().await;
}

#[tokio::test]
async fn a_volume_snapshotter_in_go_runs_without_progress() {
    let (plugins, session, _) = recorder().await;
    let config = BTreeMap::from([("region".to_owned(), "here".to_owned())]);
    let snapshotter = session.volume_snapshotter("example.io/snapshotter", config).unwrap();
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"hostPath": {"path": "/data"}}});
    assert_eq!(snapshotter.volume_id(&volume).await.unwrap().as_deref(), Some("/data"));
    let other =
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {}});
    assert_eq!(snapshotter.volume_id(&other).await.unwrap(), None);
    let info = snapshotter.volume_info("/data", "zone-a").await.unwrap();
    assert_eq!(info, VolumeInfo { volume_type: "recorded".into(), iops: Some(100) });
    let tags = BTreeMap::from([("velero.io/backup".to_owned(), "nightly".to_owned())]);
    let request = SnapshotRequest { volume_id: "/data".into(), zone: "zone-a".into(), tags };
    let snapshot_id = snapshotter.create_snapshot(&request).await.unwrap();
    assert_eq!(snapshot_id, "snapshot-of-/data");
    let wanted = VolumeRequest { snapshot_id: snapshot_id.clone(), zone: "zone-a".into(), info };
    let volume_id = snapshotter.create_volume(&wanted).await.unwrap();
    let changed = snapshotter.with_volume_id(&volume, &volume_id).await.unwrap();
    assert_eq!(changed["spec"]["hostPath"]["path"], volume_id.as_str());
    snapshotter.delete_snapshot(&snapshot_id).await.unwrap();
    assert!(!snapshotter.reports_progress().await.unwrap());
    assert_eq!(snapshotter.progress(&ProgressOf::Snapshot { snapshot_id }).await, Ok(None));
    let made = &recorded(&plugins, "snapshotter", "CreateSnapshot")[0];
    assert_eq!(
        (&made["tags"]["velero.io/backup"], &made["config"]["region"]),
        (&json!("nightly"), &json!("here"))
    );
    assert_eq!(recorded(&plugins, "snapshotter", "Init").len(), 1);
    assert_eq!(recorded(&plugins, "snapshotter", "CreateVolumeFromSnapshot")[0]["iops"], 100);
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn veleros_plugin_for_s3_stores_and_signs() {
    let plugins = Plugins::new().with("velero-plugin-for-aws", variable("LIFEBOAT_AWS_PLUGIN"));
    let credentials = plugins.path().join("credentials");
    let (key, secret) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"));
    let text = format!("[default]\naws_access_key_id={key}\naws_secret_access_key={secret}\n");
    std::fs::write(&credentials, text).unwrap();
    let config = [
        ("region", "us-east-1".to_owned()),
        ("s3ForcePathStyle", "true".to_owned()),
        ("s3Url", variable("LIFEBOAT_S3_ENDPOINT")),
        ("credentialsFile", credentials.display().to_string()),
    ];
    let location = ObjectStoreLocation {
        bucket: variable("LIFEBOAT_S3_BUCKET"),
        prefix: format!("plugin-{}", std::process::id()),
        config: config.map(|(key, value)| (key.to_owned(), value)).into(),
    };
    let session = plugins.session().await;
    assert!(session.host().find(Kind::VolumeSnapshotter, "aws").is_some());
    let store = session.object_store("aws", &location).unwrap();
    let large: Bytes = (0..12_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let pieces: Vec<_> = large.chunks(1_000_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    assert_eq!(
        store.put_stream("backups/a/a.tar.gz", futures::stream::iter(pieces).boxed()).await.unwrap(),
        12_000_000
    );
    store.put("backups/a/empty", Bytes::new()).await.unwrap();
    assert_eq!(store.get("backups/a/a.tar.gz", 20_000_000).await.unwrap(), large);
    assert_eq!(store.get("backups/a/empty", 10).await.unwrap(), Bytes::new());
    assert_eq!(store.directories("backups/").await.unwrap(), ["a"]);
    let mut keys = store.keys("backups/").await.unwrap();
    keys.sort();
    assert_eq!(keys, ["backups/a/a.tar.gz", "backups/a/empty"]);
    let error = store.get("backups/none", 10).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let url = store.signed_url("backups/a/a.tar.gz", Duration::from_mins(10)).await.unwrap();
    assert!(url.query().unwrap().contains("X-Amz-Expires=600"), "{url}");
    let broken = vec![Ok(large.slice(..6_000_000)), Err(StoreError::Source("the source broke".into()))];
    store.put_stream("backups/half", futures::stream::iter(broken).boxed()).await.unwrap_err();
    store
        .delete(&["backups/a/a.tar.gz".into(), "backups/a/empty".into(), "backups/never".into()])
        .await
        .unwrap();
    assert!(store.keys("").await.unwrap().is_empty(), "half an upload is no object");
    session.close().await;
    plugins.nothing_left().await;
}

#[tokio::test]
async fn configuration_that_veleros_plugin_refuses_is_reported_with_its_message() {
    let plugins = Plugins::new().with("velero-plugin-for-aws", variable("LIFEBOAT_AWS_PLUGIN"));
    let session = plugins.session().await;
    let config = BTreeMap::from([("colour".to_owned(), "red".to_owned())]);
    let location = ObjectStoreLocation { bucket: "b".into(), prefix: String::new(), config };
    let store = session.object_store("velero.io/aws", &location).unwrap();
    let error = store.exists("x").await.unwrap_err().to_string();
    assert!(error.contains("config has invalid keys [colour]"), "{error}");
    session.close().await;
}
