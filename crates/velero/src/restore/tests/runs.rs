//! Whole runs: what is restored, and in which version; killed servers; two at once; the preview.

use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::Results;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::{Order, execute, preview};
use super::setting::{GROUP, RESTORE, Setting, files, shop};
use lifeboat_items::preview::Would;

#[tokio::test]
async fn a_run_restores_writes_its_files_and_ends() {
    let setting = Setting::holding(json!({}), &shop()).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status}");
    assert_eq!(status["progress"], json!({"totalItems": 5, "itemsRestored": 5}));
    assert!(status["completionTimestamp"].is_string());
    assert_eq!(setting.phases(), ["Finalizing", "Completed"]);
    assert!(setting.object("/api/v1/namespaces/shop/configmaps/c").is_some());
    assert_eq!(setting.results().await, Results::default());
    for key in [files().log(), files().resource_list(), files().item_operations(), files().volume_info()] {
        assert!(setting.store.exists(&key).await.unwrap(), "{key}");
    }
}

#[tokio::test]
async fn a_server_that_is_killed_at_any_moment_leaves_nothing_doubled_and_nothing_out() {
    let mut ended = false;
    let spec = json!({"restoreStatus": {"includedResources": ["configmaps"]}});
    let mut held = shop();
    held[1].2["status"] = json!({"seen": true});
    for requests in 1..120 {
        let setting = Setting::holding(spec.clone(), &held).await;
        ended = setting.run_until(requests).await;
        let status = if ended { setting.status() } else { setting.run().await };
        assert_eq!(status["phase"], "Completed", "killed after {requests} requests: {status}");
        let mut created = setting.server.created();
        created.sort();
        let all = ["", "/configmaps/a", "/configmaps/b", "/configmaps/c", "/pods/web"];
        let all = all.map(|rest| format!("/api/v1/namespaces/shop{rest}"));
        assert_eq!(created, all, "killed after {requests} requests");
        let a = setting.object("/api/v1/namespaces/shop/configmaps/a").unwrap();
        assert_eq!(a["status"], json!({"seen": true}), "killed after {requests} requests");
        assert_eq!(setting.results().await, Results::default());
        if ended {
            break;
        }
    }
    assert!(ended, "the restore needs fewer requests than that");
}

#[tokio::test]
async fn a_server_that_was_overtaken_writes_neither_phase_nor_files() {
    for change in [json!({"annotations": {"lifeboat.io/attempt": "2"}}), json!({"uid": "another"})] {
        let setting = Setting::holding(json!({}), &shop()).await;
        let context = setting.context().await;
        let order = Order {
            restore: serde_json::from_value(setting.object(RESTORE).unwrap()).unwrap(),
            cancel: CancellationToken::new(),
        };
        let newer = json!({"metadata": change});
        setting.server.change(RESTORE, &newer);
        Box::pin(execute::execute(&context, order)).await;
        assert_eq!(setting.status(), json!({"phase": "InProgress"}));
        assert!(!setting.store.exists(&files().results()).await.unwrap());
    }
}

#[tokio::test]
async fn an_archive_cannot_bring_rights_under_another_name() {
    let mut held = shop();
    let right = json!({"apiVersion": "rbac.authorization.k8s.io/v1"});
    held.push(("/v1/configmaps", "shop/right", right));
    let setting = Setting::holding(json!({}), &held).await;
    let status = setting.run().await;
    assert_eq!(status["phase"], "PartiallyFailed", "{status}");
    let message = setting.results().await.errors.namespaces["shop"].join(" ");
    assert!(message.contains("shop/right") && message.contains("another API group"), "{message}");
    assert!(!setting.server.created().iter().any(|path| path.contains("rbac")));
}

#[tokio::test]
async fn two_restores_at_once_both_end() {
    let setting = Setting::holding(json!({}), &shop()).await;
    let mut other = setting.object(RESTORE).unwrap();
    other["metadata"] = json!({"name": "s", "namespace": "lifeboat", "uid": "su"});
    setting.server.put(&format!("{GROUP}/restores/s"), other.clone());
    let context = setting.context().await;
    let order = |object: Value| Order {
        restore: serde_json::from_value(object).unwrap(),
        cancel: CancellationToken::new(),
    };
    tokio::join!(
        Box::pin(execute::execute(&context, order(setting.object(RESTORE).unwrap()))),
        Box::pin(execute::execute(&context, order(other))),
    );
    for name in ["r", "s"] {
        let status = setting.object(&format!("{GROUP}/restores/{name}")).unwrap()["status"].clone();
        assert_eq!(status["phase"], "Completed", "{status}");
    }
    assert_eq!(setting.server.created().len(), 5, "each object was made once");
}

#[tokio::test]
async fn a_type_is_restored_in_a_version_that_the_cluster_serves() {
    let items = || {
        vec![
            ("example.com/v1beta1/widgets", "shop/w", json!({"spec": {"old": true}})),
            ("example.com/v2/widgets", "shop/w", json!({"spec": {"new": true}})),
        ]
    };
    let path = |version: &str| format!("/apis/example.com/{version}/namespaces/shop/widgets/w");
    for (served, feature, expected) in [
        (vec!["example.com/v2/widgets"], false, "v2"),
        (vec!["example.com/v2/widgets", "example.com/v1beta1/widgets"], false, "v1beta1"),
        (vec!["example.com/v2/widgets", "example.com/v1beta1/widgets"], true, "v2"),
    ] {
        let mut setting = Setting::holding(json!({}), &items()).await;
        setting.serve(&served);
        if feature {
            setting.settings.backup.features.insert("EnableAPIGroupVersions".into());
        }
        let status = setting.run().await;
        assert_eq!(status["phase"], "Completed", "{served:?} {status}");
        assert!(setting.object(&path(expected)).is_some(), "{served:?} {feature}");
    }
    let mut setting = Setting::holding(json!({}), &items()).await;
    setting.serve(&["example.com/v2/widgets", "example.com/v1beta1/widgets"]);
    setting.settings.backup.features.insert("EnableAPIGroupVersions".into());
    let wishes = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "enableapigroupversions"},
        "data": {"restoreResourcesVersionPriority": "widgets.example.com=v1beta1"}});
    setting.server.put("/api/v1/namespaces/lifeboat/configmaps/enableapigroupversions", wishes);
    setting.run().await;
    assert!(setting.object(&path("v1beta1")).is_some(), "the user wished for it");
}

#[tokio::test]
async fn resource_policies_choose_what_is_restored() {
    let reference = json!({"resourcePolicy": {"kind": "ConfigMap", "name": "filters"}});
    let setting = Setting::holding(reference, &shop()).await;
    let text = "version: v1\nnamespacedFilterPolicies: [{namespaces: [shop], resourceFilters: [{kinds: [configmaps], excludedNames: [b]}]}]";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "filters"}, "data": {"p": text}});
    setting.server.put("/api/v1/namespaces/lifeboat/configmaps/filters", map);
    let status = setting.run().await;
    assert_eq!(status["phase"], "Completed", "{status}");
    let mut created = setting.server.created();
    created.sort();
    let all = ["", "/configmaps/a", "/configmaps/c"].map(|rest| format!("/api/v1/namespaces/shop{rest}"));
    assert_eq!(created, all);
}

#[tokio::test]
async fn a_preview_reads_and_writes_nothing() {
    let mut held = shop();
    held.push(("/v1/persistentvolumeclaims", "shop/data", json!({"spec": {"volumeName": "pv"}})));
    let setting = Setting::holding(json!({"excludedResources": ["pods"]}), &held).await;
    let info = json!([{"pvcName": "data", "pvcNamespace": "shop", "pvName": "pv", "backupMethod": "PodVolumeBackup"}]);
    setting.put(&BackupFiles::new("b").unwrap().volume_info(), &info).await;
    let there = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"},
        "data": {"a": "1"}});
    setting.server.put("/api/v1/namespaces/shop/configmaps/a", there);
    let restore = serde_json::from_value(setting.object(RESTORE).unwrap()).unwrap();
    let planned = Box::pin(preview::preview(&setting.context().await, restore)).await.unwrap();
    assert_eq!(setting.server.writes(), Vec::<String>::new());
    assert_eq!(planned.backup, "b");
    let count = |would: fn(&Would) -> bool| planned.items.iter().filter(|item| would(&item.would)).count();
    assert_eq!(count(|would| *would == Would::Create), 4);
    assert_eq!(count(|would| matches!(would, Would::Skip(why) if why == "it is there and the same")), 1);
    assert_eq!(count(|would| matches!(would, Would::NotSelected(_))), 1);
    assert_eq!(planned.notes.len(), 2, "{:?}", planned.notes);
    assert!(planned.notes[0].contains("its volume pv is neither restored nor in the cluster"));
    assert!(planned.notes[1].starts_with("the data of volume pv (claim shop/data) would not be restored"));
    let wrong = serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": {}}));
    let problems = Box::pin(preview::preview(&setting.context().await, wrong.unwrap())).await.unwrap_err();
    assert!(problems.refused);
    let problems = problems.problems;
    assert!(problems[0].starts_with("Either a backup or schedule must be specified"), "{problems:?}");
}
