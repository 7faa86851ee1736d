mod actions;
mod agreement;
mod findings;
mod generated;
mod hooks;
mod journal;
mod plan;
mod trust;
mod waits;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::velero::Restore;
use lifeboat_archive::documents::ResourceList;
use lifeboat_archive::{ObjectReading, Spool, SpoolLimits};
use lifeboat_cluster::testing::failure;
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::items::modifiers::Modifiers;
use lifeboat_plugin::actions::{
    ActionError, AppliesTo, Lookup, RestoreInput, RestoreItemAction, RestoreOutcome,
};
use serde_json::{Value, json};

use world::{World, object};

/// A namespace with a pod, its ReplicaSet and Deployment, a claim and settings.
fn shop() -> Vec<Value> {
    let mut pod = object("v1", "Pod", "shop/web-1");
    pod["metadata"]["ownerReferences"] = json!([{"uid": "ReplicaSet-shop/web"}]);
    pod["spec"] = json!({"nodeName": "n1", "containers": [{"name": "main"}],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]});
    let mut set = object("apps/v1", "ReplicaSet", "shop/web");
    set["metadata"]["ownerReferences"] = json!([{"uid": "Deployment-shop/web"}]);
    let mut namespace = object("v1", "Namespace", "shop");
    namespace["metadata"]["labels"] = json!({"team": "a"});
    let mut settings = object("v1", "ConfigMap", "shop/settings");
    settings["data"] = json!({"a": "1"});
    settings["status"] = json!({"x": 1});
    vec![
        object("apps/v1", "Deployment", "shop/web"),
        set,
        pod,
        object("v1", "PersistentVolumeClaim", "shop/data"),
        settings,
        namespace,
    ]
}

fn listed(list: &ResourceList) -> Vec<String> {
    list.types().flat_map(|(kind, items)| items.iter().map(move |item| format!("{kind} {item}"))).collect()
}

fn place(created: &[String], part: &str) -> usize {
    created.iter().position(|path| path.contains(part)).unwrap_or_else(|| panic!("no {part} in {created:?}"))
}

#[tokio::test]
async fn a_namespace_comes_back_in_order() {
    let (ended, api) = World::new(shop()).restore().await;
    assert!(ended.results.errors.is_empty() && ended.results.warnings.is_empty(), "{:?}", ended.results);
    let created = api.created();
    let order =
        ["/namespaces/shop", "persistentvolumeclaims", "configmaps", "/pods/", "replicasets", "deployments"];
    let places: Vec<usize> =
        order.iter().map(|part| created.iter().rposition(|path| path.contains(part)).unwrap()).collect();
    let _ = places;
    assert!(place(&created, "/pods/") < place(&created, "replicasets"));
    assert!(place(&created, "replicasets") < place(&created, "deployments"));
    assert!(place(&created, "persistentvolumeclaims") < place(&created, "/pods/"));
    let pod = api.object("/api/v1/namespaces/shop/pods/web-1").unwrap();
    assert_eq!(pod["spec"].get("nodeName"), None);
    assert_eq!(pod["metadata"].get("ownerReferences"), None);
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"velero.io/backup-name": "b", "velero.io/restore-name": "r"})
    );
    let namespace = api.object("/api/v1/namespaces/shop").unwrap();
    assert_eq!(namespace["metadata"]["labels"], json!({"team": "a"}));
    assert_eq!(
        listed(&ended.list),
        [
            "apps/v1/Deployment shop/web(created)",
            "apps/v1/ReplicaSet shop/web(created)",
            "v1/ConfigMap shop/settings(created)",
            "v1/Namespace shop(created)",
            "v1/PersistentVolumeClaim shop/data(created)",
            "v1/Pod shop/web-1(created)",
        ]
    );
}

#[tokio::test]
async fn a_namespace_goes_where_it_is_mapped() {
    let mut world = World::new(shop());
    world.spec = json!({"namespaceMapping": {"shop": "copy"}, "includedNamespaces": ["shop"]});
    let (ended, api) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    assert!(api.object("/api/v1/namespaces/shop").is_none());
    let settings = api.object("/api/v1/namespaces/copy/configmaps/settings").unwrap();
    assert_eq!(settings["metadata"]["namespace"], "copy");
    assert!(listed(&ended.list).contains(&"v1/Pod copy/web-1(created)".to_owned()));
}

#[tokio::test]
async fn what_is_there_stays_and_is_named_or_is_updated() {
    let there = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}, "data": {"a": "2"}});
    let path = "/api/v1/namespaces/shop/configmaps/settings";
    for (policy, value, word) in
        [(None, "2", "failed"), (Some("none"), "2", "failed"), (Some("update"), "1", "updated")]
    {
        let mut world = World::new(shop());
        world.there.push((path, there.clone()));
        if let Some(policy) = policy {
            world.spec = json!({"existingResourcePolicy": policy});
        }
        let (ended, api) = world.restore().await;
        assert_eq!(api.object(path).unwrap()["data"]["a"], value, "{policy:?}");
        assert_eq!(ended.results.warnings.count(), usize::from(value == "2"), "{:?}", ended.results);
        assert!(
            listed(&ended.list).contains(&format!("v1/ConfigMap shop/settings({word})")),
            "{:?}",
            listed(&ended.list)
        );
    }
}

#[tokio::test]
async fn objects_of_an_earlier_try_are_gone_on_with() {
    let mut ours = object("v1", "ConfigMap", "shop/settings");
    ours["metadata"]["labels"] = json!({"velero.io/restore-name": "r"});
    ours["metadata"]["creationTimestamp"] = json!("2026-11-15T23:00:01Z");
    let mut world = World::new(shop());
    world.there.push(("/api/v1/namespaces/shop/configmaps/settings", ours.clone()));
    let (ended, _) = world.restore().await;
    assert_eq!(ended.results.warnings.count(), 0, "{:?}", ended.results);
    assert!(listed(&ended.list).contains(&"v1/ConfigMap shop/settings(created)".to_owned()));
    // An object with the same label that is older than this Restore was created by another one.
    ours["metadata"]["creationTimestamp"] = json!("2026-11-15T22:00:00Z");
    let mut world = World::new(shop());
    world.there.push(("/api/v1/namespaces/shop/configmaps/settings", ours));
    let (ended, _) = world.restore().await;
    assert_eq!(ended.results.warnings.count(), 1);
}

#[tokio::test]
async fn a_refused_object_is_named_and_the_others_come() {
    let mut world = World::new(shop());
    world.rule = Box::new(|asked, _| {
        (asked.method == "POST" && asked.path.ends_with("/configmaps"))
            .then(|| failure(403, "exceeded quota"))
    });
    let (ended, api) = world.restore().await;
    assert_eq!(
        ended.results.errors.namespaces["shop"],
        ["error restoring configmaps/shop/settings: exceeded quota"]
    );
    assert!(api.object("/apis/apps/v1/namespaces/shop/deployments/web").is_some());
}

#[tokio::test]
async fn a_namespace_that_does_not_go_holds_only_its_own_objects() {
    let mut objects = shop();
    objects.extend([object("v1", "Namespace", "other"), object("v1", "Secret", "other/s")]);
    let mut world = World::new(objects);
    let leaving = json!({"metadata": {"name": "shop", "deletionTimestamp": "t"}});
    world.there.push(("/api/v1/namespaces/shop", leaving));
    let (ended, api) = world.restore().await;
    assert_eq!(ended.results.errors.velero.len(), 1, "{:?}", ended.results);
    assert!(
        ended.results.errors.velero[0]
            .starts_with("timed out waiting for terminating namespace shop to disappear")
    );
    assert!(api.object("/api/v1/namespaces/other/secrets/s").is_some());
    assert!(listed(&ended.list).contains(&"v1/Pod shop/web-1(failed)".to_owned()));
}

#[tokio::test]
async fn a_namespace_that_goes_in_time_is_made_anew() {
    let mut world = World::new(shop());
    let leaving = json!({"metadata": {"name": "shop", "deletionTimestamp": "t"}});
    world.there.push(("/api/v1/namespaces/shop", leaving));
    let looks = AtomicUsize::new(0);
    world.rule = Box::new(move |asked, api| {
        if asked.method == "GET"
            && asked.path == "/api/v1/namespaces/shop"
            && looks.fetch_add(1, Ordering::Relaxed) == 2
        {
            api.server.remove("/api/v1/namespaces/shop");
        }
        None
    });
    let (ended, _) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
}

#[tokio::test]
async fn a_busy_api_server_only_slows_the_restore() {
    let mut world = World::new(shop());
    let asked_before = AtomicUsize::new(0);
    world.rule = Box::new(move |asked, _| {
        (asked.method == "POST" && asked_before.fetch_add(1, Ordering::Relaxed).is_multiple_of(3))
            .then(|| failure(429, "TooManyRequests"))
    });
    let (ended, _) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    assert_eq!(ended.list.count(), 6);
}

/// Asks for a Secret before each pod and waits for it.
struct Waits {
    /// How many answers are no.
    noes: usize,
    asked: AtomicUsize,
}

#[async_trait]
impl RestoreItemAction for Waits {
    fn name(&self) -> &'static str {
        "example.com/waits"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["pods"]))
    }

    async fn execute(&self, input: RestoreInput<'_>, _: &dyn Lookup) -> Result<RestoreOutcome, ActionError> {
        let secret = ItemId::namespaced(GroupResource::new("", "secrets"), "shop", "key");
        let gone = ItemId::namespaced(GroupResource::new("", "secrets"), "shop", "gone");
        Ok(RestoreOutcome {
            additional_items: vec![secret, gone],
            wait_for_additional_items: true,
            ..RestoreOutcome::item(input.item)
        })
    }

    async fn are_ready(
        &self,
        items: &[ItemId],
        _: &Restore,
        _: &dyn Lookup,
        _: Duration,
    ) -> Result<bool, ActionError> {
        assert_eq!(items.len(), 1, "what is not there is left out of the question");
        Ok(self.asked.fetch_add(1, Ordering::Relaxed) >= self.noes)
    }
}

#[tokio::test]
async fn an_item_waits_for_its_additional_items_and_holds_its_controllers() {
    let mut objects = shop();
    objects
        .extend([object("v1", "Secret", "shop/key"), object("networking.k8s.io/v1", "Ingress", "shop/way")]);
    let mut world = World::new(objects);
    world.spec = json!({"labelSelector": {}});
    world.actions = vec![Arc::new(Waits { noes: 2, asked: AtomicUsize::new(0) })];
    let (ended, api) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    assert_eq!(ended.results.warnings.count(), 1, "the item that is not in the backup is named");
    let created = api.created();
    assert!(place(&created, "ingress") < place(&created, "/pods/"), "{created:?}");
    assert!(place(&created, "/pods/") < place(&created, "replicasets"), "{created:?}");
    assert!(place(&created, "replicasets") < place(&created, "deployments"), "{created:?}");
}

#[tokio::test]
async fn an_item_whose_additional_items_are_never_ready_is_attempted_and_named() {
    let mut objects = shop();
    objects.push(object("v1", "Secret", "shop/key"));
    let mut world = World::new(objects);
    world.actions = vec![Arc::new(Waits { noes: usize::MAX, asked: AtomicUsize::new(0) })];
    let (ended, api) = world.restore().await;
    let errors = &ended.results.errors.namespaces["shop"];
    let message = "error verifying additional items are ready to use: context deadline exceeded: not ready after 400ms: \
        secrets shop/key (action example.com/waits for pods/shop/web-1, which was then restored all the same)";
    assert_eq!(errors, &[message]);
    assert!(api.object("/api/v1/namespaces/shop/pods/web-1").is_some());
}

#[tokio::test]
async fn an_untrusted_location_brings_no_rights() {
    let mut objects = shop();
    objects.push(object("rbac.authorization.k8s.io/v1", "ClusterRole", "admin-too"));
    objects[2]["metadata"]["annotations"] = json!({"post.hook.restore.velero.io/command": "evil"});
    let mut world = World::new(objects.clone());
    world.untrusted = Some("theirs".into());
    let (ended, api) = world.restore().await;
    assert!(!api.created().iter().any(|path| path.contains("clusterroles")));
    assert_eq!(ended.results.warnings.count(), 2, "{:?}", ended.results);
    assert_eq!(ended.hooks.attempted, 0);
    let mut world = World::new(objects);
    world.untrusted = Some("theirs".into());
    world.annotations = json!({"lifeboat.io/allow-privileged": "true"});
    world.spec = json!({"includedResources": ["clusterroles.rbac.authorization.k8s.io"]});
    let (_, api) = world.restore().await;
    assert!(api.created().iter().any(|path| path.contains("clusterroles")));
}

#[tokio::test]
async fn objects_of_a_definition_come_after_it() {
    let mut definition = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com");
    definition["spec"] = json!({"group": "example.com"});
    let objects =
        vec![object("example.com/v1", "Widget", "shop/w"), definition, object("v1", "Namespace", "shop")];
    let (ended, api) = World::new(objects).restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    let created = api.created();
    assert!(place(&created, "customresourcedefinitions") < place(&created, "widgets/w"));
}

#[tokio::test]
async fn modifiers_status_and_owners_of_fields_are_applied() {
    let mut objects = shop();
    objects[4]["metadata"]["managedFields"] = json!([{"manager": "argo", "operation": "Apply"}]);
    let mut world = World::new(objects);
    world.spec = json!({"restoreStatus": {"includedResources": ["configmaps"]}});
    world.modifiers = Modifiers::parse(
        "version: v1\nresourceModifierRules: [{conditions: {groupResource: configmaps}, mergePatches: [{patchData: '{\"data\": {\"b\": \"2\"}}'}]}]",
    )
    .unwrap();
    let (ended, api) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    let settings = api.object("/api/v1/namespaces/shop/configmaps/settings").unwrap();
    assert_eq!(settings["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(settings["status"], json!({"x": 1}));
    assert_eq!(settings["metadata"]["managedFields"][0]["manager"], "argo");
}

#[tokio::test]
async fn a_cancelled_restore_ends_soon() {
    let mut objects = shop();
    objects.push(object("v1", "Secret", "shop/key"));
    let mut world = World::new(objects);
    world.times.ready = Duration::from_hours(1);
    world.actions = vec![Arc::new(Waits { noes: usize::MAX, asked: AtomicUsize::new(0) })];
    let cancel = world.cancel.clone();
    world.rule = Box::new(move |asked, _| {
        if asked.path.contains("configmaps") {
            cancel.cancel();
        }
        None
    });
    let (_, api) = tokio::time::timeout(Duration::from_secs(20), world.restore()).await.unwrap();
    assert!(api.object("/apis/apps/v1/namespaces/shop/deployments/web").is_none());
}

#[tokio::test]
async fn many_objects_are_under_way_at_once() {
    let mut objects = vec![object("v1", "Namespace", "shop")];
    objects.extend((0..600).map(|number| object("v1", "Secret", &format!("shop/s{number}"))));
    let (ended, api) = World::new(objects).restore().await;
    assert_eq!(ended.list.count(), 601);
    assert_eq!(api.created().len(), 601, "one write for each object");
}

#[tokio::test]
async fn what_genuine_velero_backed_up_comes_back() {
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../archive/tests/golden/velero-1.18.3/bucket/backups/golden/golden.tar.gz"
    );
    let stored = bytes::Bytes::from(std::fs::read(golden).unwrap());
    let read = || {
        let body = futures::stream::iter([Ok(stored.clone())]);
        ObjectReading { size: None, body: Box::pin(body) }
    };
    let directory = tempfile::tempdir().unwrap();
    let spool = Spool::read(read(), directory.path(), SpoolLimits::default()).await.unwrap();
    let (ended, _) = World::new(Vec::new()).restore_from(spool).await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    let found = listed(&ended.list);
    for expected in [
        "apps/v1/Deployment golden/web(created)",
        "v1/Namespace golden(created)",
        "v1/PersistentVolumeClaim golden/data(created)",
        "rbac.authorization.k8s.io/v1/RoleBinding golden/reader(created)",
    ] {
        assert!(found.contains(&expected.to_owned()), "{expected} in {found:?}");
    }
    assert!(
        found.iter().any(|line| line.starts_with("v1/PersistentVolume ") && line.ends_with("(skipped)")),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_type_that_the_cluster_does_not_serve_is_named_at_once() {
    let mut objects = shop();
    objects.push(object("example.org/v1", "Gadget", "shop/g"));
    let (ended, _) =
        tokio::time::timeout(Duration::from_secs(5), World::new(objects).restore()).await.unwrap();
    let errors = &ended.results.errors.namespaces["shop"];
    assert!(errors[0].contains("the cluster does not serve gadgets.example.org"), "{errors:?}");
}
