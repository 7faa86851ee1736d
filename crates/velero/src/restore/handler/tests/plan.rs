//! Dry runs.

use lifeboat_plan::velero::restore::volumes::DataIn;
use rstest::rstest;
use serde_json::json;

use super::shop;
use super::world::{World, object};
use lifeboat_items::preview::{Fight, Would};

#[tokio::test]
async fn a_dry_run_says_what_would_happen_and_writes_nothing() {
    let mut objects = shop();
    objects[2]["metadata"]["labels"] = json!({"app": "web"});
    let mut world = World::new(objects);
    world.spec = json!({"excludedResources": ["persistentvolumeclaims"]});
    let other = json!({"metadata": {"name": "settings", "namespace": "shop"}, "data": {"a": "2"}});
    let set = json!({"metadata": {"name": "live"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.there = vec![
        ("/api/v1/namespaces/shop/configmaps/settings", other),
        ("/apis/apps/v1/namespaces/shop/replicasets/live", set),
    ];
    let (planned, api) = world.dry_run().await;
    assert_eq!(api.created(), Vec::<String>::new());
    let fate = |resource: &str| &planned.items.iter().find(|item| item.resource == resource).unwrap().would;
    assert_eq!(*fate("pods"), Would::Create);
    assert_eq!(*fate("persistentvolumeclaims"), Would::NotSelected("its type is not included".into()));
    let there = "it is there and different (--existing-resource-policy update changes it)";
    assert_eq!(*fate("configmaps"), Would::Skip(there.into()));
    assert_eq!(*fate("namespaces"), Would::Create);
    let fight = Fight { pod: "shop/web-1".into(), controller: "ReplicaSet shop/live".into() };
    assert_eq!(planned.fights, [fight]);
}

#[tokio::test]
async fn a_dry_run_follows_what_items_ask_for_and_names_what_would_fail() {
    let mut objects = shop();
    objects[3]["spec"] = json!({"volumeName": "pv"});
    objects[3]["status"] = json!({"phase": "Bound"});
    objects.push(object("v1", "PersistentVolume", "pv"));
    objects.push(object("v1", "PersistentVolume", "other"));
    objects.push(object("example.org/v1", "Gadget", "shop/g"));
    objects.remove(5);
    let mut world = World::new(objects);
    world.spec = json!({"includedNamespaces": ["shop"], "namespaceMapping": {"shop": "copy"}});
    world.there = vec![("/api/v1/namespaces/copy", json!({"metadata": {"deletionTimestamp": "t"}}))];
    let (planned, _) = world.dry_run().await;
    let fate = |name: &str| &planned.items.iter().find(|item| item.item == name).unwrap().would;
    assert_eq!(*fate("pv"), Would::Create, "its claim asks for it");
    assert!(matches!(fate("other"), Would::NotSelected(_)));
    assert!(matches!(fate("shop/g"), Would::Fail(why) if why.contains("does not serve gadgets.example.org")));
    assert!(planned.notes[0].starts_with("namespace copy is being deleted"), "{:?}", planned.notes);
}

/// A claim whose CSI snapshot failed is restored without its data. The dry run used to call the action that restores the
/// snapshot nevertheless, and reported that the claim would fail.
#[tokio::test]
async fn a_claim_whose_snapshot_failed_is_created_in_the_preview_as_in_the_restore() {
    let mut claim = object("v1", "PersistentVolumeClaim", "shop/data");
    claim["metadata"]["annotations"] = json!({"velero.io/volume-snapshot-name": "s"});
    claim["spec"] = json!({"volumeName": "pv-1"});
    let world = || {
        let mut world = World::new(vec![object("v1", "Namespace", "shop"), claim.clone()]);
        world.csi = true;
        world.volumes = [("pv-1".to_owned(), DataIn::Failed)].into();
        world
    };
    let (ended, api) = world().restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    assert!(api.created().iter().any(|path| path.ends_with("/persistentvolumeclaims/data")));
    let (planned, _) = world().dry_run().await;
    let claim = planned.items.iter().find(|item| item.resource == "persistentvolumeclaims").unwrap();
    assert_eq!(claim.would, Would::Create);
}

/// The namespace of an additional item is created although the Restore does not select it. The dry run used to leave it
/// out, or to call it not selected.
#[rstest]
#[case::of_the_backup(true)]
#[case::of_no_backup(false)]
#[tokio::test]
async fn the_namespace_of_an_additional_item_is_in_the_preview(#[case] is_held: bool) {
    let mut class = object("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "fast");
    class["metadata"]["labels"] = json!({"app": "web"});
    class["metadata"]["annotations"] = json!({"csi.storage.k8s.io/snapshotter-list-secret-name": "key",
        "csi.storage.k8s.io/snapshotter-list-secret-namespace": "vault"});
    let mut objects = vec![class, object("v1", "Secret", "vault/key")];
    if is_held {
        objects.push(object("v1", "Namespace", "vault"));
    }
    let world = || {
        let mut world = World::new(objects.clone());
        world.csi = true;
        world.spec = json!({"labelSelector": {"matchLabels": {"app": "web"}}});
        world
    };
    let (_, api) = world().restore().await;
    assert!(api.object("/api/v1/namespaces/vault").is_some());
    let (planned, _) = world().dry_run().await;
    let namespaces = planned.items.iter().filter(|item| item.resource == "namespaces");
    let found: Vec<_> = namespaces.map(|item| (item.item.as_str(), &item.would)).collect();
    assert_eq!(found, [("vault", &Would::Create)]);
}

/// An action reads its settings from the cluster, also those that the same restore has created. The dry run used to miss
/// these.
#[tokio::test]
async fn settings_of_an_action_that_are_restored_count_in_the_preview() {
    let settings = |name: &str| {
        let mut map = object("v1", "ConfigMap", &format!("lifeboat/{name}"));
        map["metadata"]["labels"] = json!({"velero.io/plugin-config": "",
            "velero.io/change-image-name": "RestoreItemAction"});
        map["data"] = json!({"1": "i,mirror/i"});
        map
    };
    let mut objects = shop();
    objects.push(settings("restored"));
    let world = || {
        let mut world = World::new(objects.clone());
        world.there.push(("/api/v1/namespaces/lifeboat/configmaps/live", settings("live")));
        world
    };
    let (ended, _) = world().restore().await;
    let doubled = "found more than one ConfigMap";
    assert!(ended.results.errors.namespaces["shop"].iter().any(|error| error.contains(doubled)));
    let (planned, _) = world().dry_run().await;
    let pod = planned.items.iter().find(|item| item.resource == "pods").unwrap();
    assert!(matches!(&pod.would, Would::Fail(why) if why.contains(doubled)), "{pod:?}");
}
