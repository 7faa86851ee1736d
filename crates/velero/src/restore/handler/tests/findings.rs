//! What must not get lost, and what must not get in: places that two items want, answers that are lost, types under false
//! names, objects that would make the server act, claims without volumes, actions that hang.

use super::*;
use lifeboat_items::preview::Would;

#[tokio::test]
async fn items_that_go_to_one_place_are_named_and_none_is_lost_silently() {
    let mut other = object("v1", "ConfigMap", "b/settings");
    other["data"] = json!({"a": "other"});
    let objects = vec![
        object("v1", "Namespace", "a"),
        object("v1", "Namespace", "b"),
        object("v1", "ConfigMap", "a/settings"),
        other,
        object("v1", "ConfigMap", "b/own"),
    ];
    for mapping in [json!({"a": "x", "b": "x"}), json!({"a": "b"})] {
        let mut world = World::new(objects.clone());
        world.spec = json!({"namespaceMapping": mapping});
        let (ended, api) = world.restore().await;
        let errors: Vec<&String> = ended.results.errors.namespaces.values().flatten().collect();
        assert_eq!(errors.len(), 1, "{:?}", ended.results);
        assert!(errors[0].contains("configmaps a/settings") && errors[0].contains("configmaps b/settings"));
        assert!(api.created().iter().any(|path| path.ends_with("/configmaps/own")));
        let mut world = World::new(objects.clone());
        world.spec = json!({"namespaceMapping": mapping});
        let (planned, _) = world.dry_run().await;
        let failing = planned.items.iter().filter(|item| matches!(item.would, Would::Fail(_)));
        assert_eq!(failing.count(), 1, "{:?}", planned.items);
    }
}

#[tokio::test]
async fn status_and_owners_come_back_though_the_answer_to_the_create_is_lost() {
    let mut objects = shop();
    objects[4]["metadata"]["managedFields"] = json!([{"manager": "argo", "operation": "Apply"}]);
    let mut world = World::new(objects);
    world.spec = json!({"restoreStatus": {"includedResources": ["configmaps"]}});
    world.rule = Box::new(|asked, api| {
        let lost = asked.method == "POST"
            && asked.path.ends_with("/configmaps")
            && api.object("/api/v1/namespaces/shop/configmaps/settings").is_none();
        lost.then(|| {
            api.server.carry_out(asked);
            failure(504, "Timeout")
        })
    });
    let (ended, api) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    let settings = api.object("/api/v1/namespaces/shop/configmaps/settings").unwrap();
    assert_eq!(settings["status"], json!({"x": 1}));
    assert_eq!(settings["metadata"]["managedFields"][0]["manager"], "argo");
}

#[tokio::test]
async fn an_object_that_exists_and_cannot_be_read_is_an_error() {
    let path = "/api/v1/namespaces/shop/configmaps/settings";
    let mut world = World::new(shop());
    let mut other = object("v1", "ConfigMap", "shop/settings");
    other["data"] = json!({"a": "other"});
    world.there.push((path, other));
    world.rule = Box::new(move |asked, _| {
        (asked.method == "GET" && asked.path == path).then(|| failure(403, "Forbidden"))
    });
    let (ended, _) = world.restore().await;
    let errors: Vec<&String> = ended.results.errors.namespaces.values().flatten().collect();
    assert_eq!(errors.len(), 1, "{:?}", ended.results);
    assert!(
        errors[0].contains("settings")
            && errors[0].contains("it exists already, and the existing object cannot be read"),
        "{errors:?}"
    );
}

#[tokio::test]
async fn a_pod_that_an_earlier_restore_made_does_not_wait_for_that_ones_data() {
    let mut pod = object("v1", "Pod", "shop/db-0");
    pod["spec"] = json!({"containers": [{"name": "main"}],
        "initContainers": [{"name": "restore-wait", "args": ["restore-wait", "old"]}, {"name": "own"}]});
    let world = World::new(vec![object("v1", "Namespace", "shop"), pod]);
    let (ended, api) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    let made = api.object("/api/v1/namespaces/shop/pods/db-0").unwrap();
    assert_eq!(made["spec"]["initContainers"], json!([{"name": "own"}]));
}

#[tokio::test]
async fn an_object_that_was_going_and_is_made_anew_gets_its_status() {
    let mut world = World::new(shop());
    world.spec = json!({"restoreStatus": {"includedResources": ["configmaps"]}});
    let mut going = object("v1", "ConfigMap", "shop/settings");
    going["metadata"]["deletionTimestamp"] = json!("t");
    let path = "/api/v1/namespaces/shop/configmaps/settings";
    world.there.push((path, going));
    let looks = AtomicUsize::new(0);
    world.rule = Box::new(move |asked, api| {
        if asked.method == "GET" && asked.path == path && looks.fetch_add(1, Ordering::Relaxed) == 1 {
            api.server.remove(path);
        }
        None
    });
    let (ended, api) = world.restore().await;
    assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
    assert_eq!(api.object(path).unwrap()["status"], json!({"x": 1}));
}

/// Makes another kind of every config map.
struct Turns;

#[async_trait]
impl RestoreItemAction for Turns {
    fn name(&self) -> &'static str {
        "example.com/turns"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["configmaps"]))
    }

    async fn execute(
        &self,
        mut input: RestoreInput<'_>,
        _: &dyn Lookup,
    ) -> Result<RestoreOutcome, ActionError> {
        input.item["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
        input.item["kind"] = json!("Role");
        Ok(RestoreOutcome::item(input.item))
    }
}

#[tokio::test]
async fn what_becomes_a_right_on_its_way_is_judged_as_one() {
    for untrusted in [true, false] {
        let mut objects = shop();
        objects.push(object("rbac.authorization.k8s.io/v1", "Role", "shop/known"));
        let mut world = World::new(objects);
        world.actions = vec![Arc::new(Turns)];
        world.untrusted = untrusted.then(|| "theirs".into());
        let (ended, api) = world.restore().await;
        let made = api.created().iter().any(|path| path.ends_with("/roles/settings"));
        assert_eq!(made, !untrusted, "{:?}", ended.results);
        assert_eq!(ended.results.warnings.count(), if untrusted { 2 } else { 0 }, "{:?}", ended.results);
    }
}

#[tokio::test]
async fn objects_that_make_the_server_act_do_not_come_back() {
    let commands = [
        ("DeleteBackupRequest", "deletebackuprequests"),
        ("DownloadRequest", "downloadrequests"),
        ("PodVolumeRestore", "podvolumerestores"),
        ("DataUpload", "datauploads"),
        ("Backup", "backups"),
    ];
    for untrusted in [true, false] {
        let mut objects: Vec<Value> =
            commands.iter().map(|(kind, _)| object("velero.io/v1", kind, "lifeboat/x")).collect();
        objects.push(object("velero.io/v1", "Schedule", "lifeboat/nightly"));
        let mut world = World::new(objects);
        world.untrusted = untrusted.then(|| "theirs".into());
        let (ended, api) = world.restore().await;
        assert!(ended.results.errors.is_empty(), "{:?}", ended.results);
        let created = api.created();
        for (_, plural) in commands {
            assert!(!created.iter().any(|path| path.contains(plural)), "{created:?}");
        }
        assert_eq!(created.iter().any(|path| path.contains("schedules")), !untrusted, "{created:?}");
        assert_eq!(ended.results.warnings.count(), usize::from(untrusted), "{:?}", ended.results);
    }
}

#[tokio::test]
async fn a_claim_whose_volume_is_nowhere_gets_a_new_one_and_is_named() {
    let mut claim = object("v1", "PersistentVolumeClaim", "shop/data");
    claim["spec"] = json!({"volumeName": "pv-1"});
    let volume = object("v1", "PersistentVolume", "pv-1");
    for there in [false, true] {
        let mut other = object("v1", "PersistentVolume", "pv-2");
        other["spec"] = json!({"persistentVolumeReclaimPolicy": "Retain"});
        let objects = vec![object("v1", "Namespace", "shop"), claim.clone(), other];
        let world = || {
            let mut world = World::new(objects.clone());
            if there {
                world.there.push(("/api/v1/persistentvolumes/pv-1", volume.clone()));
            }
            world
        };
        let (ended, api) = world().restore().await;
        let made = api.object("/api/v1/namespaces/shop/persistentvolumeclaims/data").unwrap();
        let bound = made.pointer("/spec/volumeName").and_then(Value::as_str);
        assert_eq!(bound, there.then_some("pv-1"), "{made}");
        let warned: Vec<&String> = ended.results.warnings.namespaces.values().flatten().collect();
        assert_eq!(warned.len(), usize::from(!there), "{:?}", ended.results);
        assert!(warned.iter().all(|message| message.contains("pv-1")), "{warned:?}");
        let (planned, _) = world().dry_run().await;
        assert_eq!(planned.notes.len(), usize::from(!there), "{:?}", planned.notes);
    }
}

/// Never answers.
struct Hangs;

#[async_trait]
impl RestoreItemAction for Hangs {
    fn name(&self) -> &'static str {
        "example.com/hangs"
    }

    async fn applies_to(&self) -> Result<AppliesTo, ActionError> {
        Ok(AppliesTo::resources(&["configmaps"]))
    }

    async fn execute(&self, _: RestoreInput<'_>, _: &dyn Lookup) -> Result<RestoreOutcome, ActionError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn an_action_that_hangs_fails_its_item_and_holds_nothing_else() {
    let mut world = World::new(shop());
    world.actions = vec![Arc::new(Hangs)];
    world.times.action = Duration::from_millis(50);
    let (ended, api) = tokio::time::timeout(Duration::from_secs(20), world.restore()).await.unwrap();
    let errors = &ended.results.errors.namespaces["shop"];
    assert!(errors[0].contains("example.com/hangs did not end in time"), "{errors:?}");
    assert!(api.object("/apis/apps/v1/namespaces/shop/deployments/web").is_some());
}

#[tokio::test]
async fn a_server_that_may_not_create_namespaces_restores_into_those_that_exist() {
    let mut objects = shop();
    objects.push(object("v1", "Namespace", "gone"));
    objects.push(object("v1", "ConfigMap", "gone/settings"));
    let mut world = World::new(objects);
    world.there.push(("/api/v1/namespaces/shop", object("v1", "Namespace", "shop")));
    world.rule = Box::new(|asked, _| {
        (asked.method == "POST" && asked.path == "/api/v1/namespaces")
            .then(|| failure(403, "namespaces is forbidden"))
    });
    let (ended, api) = world.restore().await;
    assert!(api.object("/api/v1/namespaces/shop/configmaps/settings").is_some(), "{:?}", ended.results);
    let errors = &ended.results.errors;
    assert_eq!(errors.count(), 1, "{errors:?}");
    assert!(errors.velero[0].contains("error creating namespace gone"), "{errors:?}");
}
