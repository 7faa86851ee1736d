//! Passes over a cluster in memory, into memory.

mod actions;
mod copies;
mod faults;
mod order;

use lifeboat_archive::{Level, RunLog};
use lifeboat_cluster::discovery::discover;
use lifeboat_plan::velero::backup::validate::{Input, LocationFacts, validate};
use lifeboat_store::Store;
use lifeboat_transfer::movers::Movers;
use lifeboat_transfer::{MoverSettings, TransferService};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::backup::world::{World, archived};

const ARCHIVE: &str = "backups/b/b.tar.gz";

/// A cluster with two namespaces and a little of everything.
fn shop() -> World {
    let world = World::default();
    world.namespace("shop").namespace("blog");
    world.add("configmaps", "shop", "settings", json!({"data": {"a": "1"}}));
    world.add("configmaps", "blog", "other", json!({}));
    world
}

async fn movers(world: &World, settings: MoverSettings) -> Movers {
    TransferService::new(&world.server.core().await, settings).movers
}

async fn input(
    world: &World,
    spec: Value,
    store: Arc<dyn ObjectStore>,
    stop: CancellationToken,
) -> PassInput {
    let client = world.client().await;
    let backup: Backup = serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": "b", "namespace": "lifeboat", "uid": "u"}, "spec": spec}))
    .unwrap();
    let catalogue = discover(&client).await.unwrap().catalogue;
    let valid = validate(Input {
        spec: &backup.spec,
        catalogue: &catalogue,
        namespaces: &["shop".to_owned(), "blog".to_owned()],
        location: Some(LocationFacts { read_only: false, available: true }),
        snapshot_locations: &[],
        default_snapshot_locations: &BTreeMap::new(),
        policies: None,
        own: lifeboat_plan::own::OwnObjects::default(),
    })
    .unwrap();
    let log = RunLog::create(&std::env::temp_dir(), &[], Level::Info).unwrap();
    PassInput {
        fence: None,
        snapshotters: Arc::default(),
        copying: Arc::new(Copying::new(&client, "lifeboat", &movers(world, MoverSettings::default()).await)),
        velero_compatible: false,
        outage: Outage::default(),
        journal: Journal::new(client.clone(), "lifeboat", &backup),
        client,
        clock: Clock::default(),
        backup,
        valid,
        catalogue: Arc::new(catalogue),
        registry: Registry {
            backup: lifeboat_plugin::builtin::backup::actions(),
            blocks: lifeboat_plugin::builtin::backup::blocks(),
            ..Registry::default()
        },
        commands: Arc::new(world.clone()),
        report: Report::new(log),
        store,
        counters: Arc::default(),
        stop,
        page_size: 2,
        workers: 8,
        all_versions: false,
        directory: std::env::temp_dir(),
    }
}

/// What a pass gave and what is in its archive.
async fn pass(world: &World, spec: Value) -> (Outcome, Vec<String>) {
    let store: Arc<dyn ObjectStore> = Arc::new(Store::memory());
    let outcome = run(input(world, spec, store.clone(), CancellationToken::new()).await).await.unwrap();
    (outcome, archived(store.as_ref(), ARCHIVE).await)
}

fn place(names: &[String], name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| panic!("{name} is not among {names:?}"))
}

#[tokio::test]
async fn a_namespace_is_taken_with_all_that_belongs_to_it() {
    let world = shop();
    world.pod("shop", "db-0", &["data"], false);
    world.add("serviceaccounts", "shop", "web", json!({}));
    world.add("clusterroles", "", "view", json!({}));
    world.add("clusterroles", "", "unrelated", json!({}));
    world.add(
        "clusterrolebindings",
        "",
        "web",
        json!({"roleRef": {"name": "view"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "shop", "name": "web"}]}),
    );
    world.add("widgets", "shop", "w", json!({"apiVersion": "example.com/v1", "kind": "Widget"}));
    world.add("customresourcedefinitions", "", "widgets.example.com", json!({}));
    world.add("customresourcedefinitions", "", "others.example.com", json!({}));
    let spec = json!({"includedNamespaces": ["shop"], "snapshotVolumes": false});
    let (outcome, mut names) = pass(&world, spec).await;
    let (volume, claim, pod) = (
        place(&names, "persistentvolumes/cluster/pv-data"),
        place(&names, "persistentvolumeclaims/namespaces/shop/data"),
        place(&names, "pods/namespaces/shop/db-0"),
    );
    assert!(volume < claim && claim < pod, "{names:?}");
    names.sort();
    let expected = [
        "clusterrolebindings.rbac.authorization.k8s.io/cluster/web",
        "clusterroles.rbac.authorization.k8s.io/cluster/view",
        "configmaps/namespaces/shop/settings",
        "customresourcedefinitions.apiextensions.k8s.io/cluster/widgets.example.com",
        "namespaces/cluster/shop",
        "persistentvolumeclaims/namespaces/shop/data",
        "persistentvolumes/cluster/pv-data",
        "pods/namespaces/shop/db-0",
        "serviceaccounts/namespaces/shop/web",
        "widgets.example.com/namespaces/shop/w",
    ];
    assert_eq!(names, expected);
    assert_eq!((outcome.counts.items, outcome.counts.errors, outcome.counts.warnings), (10, 0, 0));
    assert_eq!(outcome.resources.count(), 10);
    assert!(outcome.volumes[0].declined, "{:?}", outcome.volumes);
}

#[tokio::test]
async fn the_whole_cluster_is_taken_where_nothing_narrows_it_down() {
    let world = shop();
    world.add("clusterroles", "", "unrelated", json!({}));
    let (_, names) = pass(&world, json!({})).await;
    for name in ["configmaps/namespaces/blog/other", "namespaces/cluster/blog"] {
        place(&names, name);
    }
    place(&names, "clusterroles.rbac.authorization.k8s.io/cluster/unrelated");
}

#[tokio::test]
async fn objects_that_exclude_themselves_or_are_being_deleted_stay_out() {
    let world = shop();
    let label = json!({"metadata": {"labels": {"velero.io/exclude-from-backup": "true"}}});
    world.add("secrets", "shop", "excluded", label);
    world.add("secrets", "shop", "going", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let (outcome, names) = pass(&world, json!({"includedNamespaces": ["shop"]})).await;
    assert!(names.iter().all(|name| !name.contains("secrets")), "{names:?}");
    assert_eq!(outcome.counts.errors, 0);
}

#[rstest]
#[case::plural("pods", "shop/c,blog/a,shop/b")]
#[case::singular("pod", "shop/c,blog/a,shop/b")]
#[case::short("po", "shop/c, blog/a, shop/b")]
#[case::kind_and_globs("Pod", "*/c,blog/?,shop/b*")]
#[case::regex("pods", "~shop/(c|x),~blog/.,~.*/b")]
#[tokio::test]
async fn ordered_pods_are_finished_one_after_the_other_with_eight_workers(
    #[case] key: &str,
    #[case] list: &str,
) {
    let world = shop();
    for (namespace, name) in [("blog", "a"), ("shop", "b"), ("shop", "c"), ("shop", "d"), ("blog", "ee")] {
        world.pod(namespace, name, &[], true);
    }
    let (outcome, names) = pass(&world, json!({"orderedResources": {key: list}})).await;
    let ran = world.ran();
    assert_eq!(ran[..6], ["pre c", "post c", "pre a", "post a", "pre b", "post b"]);
    assert_eq!(ran.len(), 10);
    assert_eq!(outcome.counts.warnings, 0, "{:?}", outcome.results.warnings);
    assert_eq!((outcome.counts.hooks_attempted, outcome.counts.hooks_failed), (10, 0));
    let pods: Vec<_> = names.iter().filter(|name| name.starts_with("pods/")).collect();
    assert_eq!(pods[..3], ["pods/namespaces/shop/c", "pods/namespaces/blog/a", "pods/namespaces/shop/b"]);
}

#[tokio::test]
async fn a_list_of_claims_orders_the_pods_that_mount_them() {
    let world = shop();
    for name in ["a", "b", "c"] {
        world.pod("shop", name, &[&format!("data-{name}")], true);
    }
    let order = json!({"persistentvolumeclaims": "shop/data-c,shop/data-a"});
    let spec = json!({"orderedResources": order, "snapshotVolumes": false});
    let (outcome, _) = pass(&world, spec).await;
    assert_eq!(world.ran()[..4], ["pre c", "post c", "pre a", "post a"]);
    assert_eq!(outcome.counts.warnings, 0);
}

#[tokio::test]
async fn other_types_and_namespaces_have_their_order_too() {
    let world = shop();
    for name in ["a", "b", "c"] {
        world.add("configmaps", "shop", name, json!({}));
    }
    let (_, names) =
        pass(&world, json!({"orderedResources": {"configmaps": "shop/c,shop/a", "namespaces": "shop,blog"}}))
            .await;
    let (c, a, b) = (
        place(&names, "configmaps/namespaces/shop/c"),
        place(&names, "configmaps/namespaces/shop/a"),
        place(&names, "configmaps/namespaces/shop/b"),
    );
    assert!(c < a && a < b, "{names:?}");
    assert!(place(&names, "namespaces/cluster/shop") < place(&names, "namespaces/cluster/blog"));
}

#[rstest]
#[case::name(json!({"pods": "shop/gone"}))]
#[case::unknown_type(json!({"gadgets": "a"}))]
#[case::empty(json!({"pods": ""}))]
#[tokio::test]
async fn an_order_without_effect_is_a_warning(#[case] order: Value) {
    let (outcome, _) = pass(&shop(), json!({"orderedResources": order})).await;
    assert_eq!((outcome.counts.warnings, outcome.counts.errors), (1, 0));
    assert_eq!(outcome.results.warnings.velero.len(), 1);
}

#[tokio::test]
async fn pods_that_share_a_claim_are_one_block() {
    let world = shop();
    world.pod("shop", "a", &["data"], true).pod("shop", "b", &["data"], true);
    pass(&world, json!({})).await;
    assert_eq!(world.ran(), ["pre a", "pre b", "post a", "post b"]);
}

#[tokio::test]
async fn a_pre_hook_that_must_not_fail_keeps_its_pod_out_and_is_followed_by_its_post_hook() {
    let world = shop();
    world.pod("shop", "a", &[], true).pod("shop", "b", &[], true);
    let annotation = json!({"metadata": {"annotations": {"pre.hook.backup.velero.io/on-error": "Fail"}}});
    world.change("/api/v1/namespaces/shop/pods/a", &annotation);
    world.fail_commands_in("a");
    world.fail_commands_in("b");
    let (outcome, names) = pass(&world, json!({})).await;
    assert!(!names.contains(&"pods/namespaces/shop/a".to_owned()));
    place(&names, "pods/namespaces/shop/b");
    let mut ran = world.ran();
    ran.sort();
    assert_eq!(ran, ["post a", "post b", "pre a", "pre b"]);
    assert_eq!((outcome.counts.hooks_attempted, outcome.counts.hooks_failed), (4, 4));
    assert!(outcome.results.errors.namespaces["shop"][0].contains("resource: /pods name: /"));
}

#[tokio::test]
async fn the_journal_holds_a_pod_exactly_while_its_hooks_are_open() {
    const JOURNAL: &str = "/api/v1/namespaces/lifeboat/configmaps/lifeboat-journal-u";
    let world = shop();
    world.pod("shop", "a", &[], true);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    world.on_command(move |world, command| {
        let journal = world.get(JOURNAL).unwrap_or_default();
        let open = journal["data"]["hook.uid-a"].as_str().is_some_and(|entry| entry.contains("\"post\""));
        record.lock().unwrap().push((command.to_owned(), open));
    });
    pass(&world, json!({"includedNamespaces": ["shop"]})).await;
    assert_eq!(*seen.lock().unwrap(), [("pre a".to_owned(), true), ("post a".to_owned(), true)]);
    assert_eq!(world.get(JOURNAL).unwrap()["data"], json!({}));
}

#[rstest]
#[case::problem(400, 1, 0)]
#[case::the_type_went_away(404, 0, 1)]
#[tokio::test]
async fn a_type_that_cannot_be_listed_leaves_the_others(
    #[case] code: u16,
    #[case] errors: usize,
    #[case] warnings: usize,
) {
    let world = shop();
    world.break_list("/apis/apps/v1/deployments", code);
    let (outcome, names) = pass(&world, json!({})).await;
    place(&names, "configmaps/namespaces/shop/settings");
    assert_eq!((outcome.counts.errors, outcome.counts.warnings), (errors, warnings));
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_an_error() {
    let (outcome, _) = pass(&shop(), json!({"includedNamespaces": ["shop", "gone"]})).await;
    assert_eq!(outcome.counts.errors, 1);
    assert!(outcome.results.errors.namespaces["gone"][0].contains("does not exist"));
}

#[tokio::test]
async fn volume_data_that_is_asked_for_makes_the_backup_partial() {
    let world = shop();
    world.pod("shop", "db-0", &["data"], false);
    let (outcome, _) = pass(&world, json!({"snapshotVolumes": true})).await;
    assert_eq!(outcome.counts.errors, 1);
    assert!(outcome.results.errors.namespaces["shop"][0].contains("pv-data of claim shop/data"));
    assert_eq!(outcome.volumes[0].result, "failed");
    assert!(!outcome.volumes[0].skipped);
}

#[tokio::test]
async fn a_pass_that_is_told_to_stop_ends_its_hooks_and_leaves_nothing() {
    let world = shop();
    world.pod("shop", "a", &[], true);
    let (stop, store) = (CancellationToken::new(), Arc::new(Store::memory()));
    let token = stop.clone();
    world.on_command(move |_, command| {
        if command == "pre a" {
            token.cancel();
        }
    });
    let ended = run(input(&world, json!({}), store.clone(), stop).await).await;
    assert!(matches!(ended, Err(PassError::Stopped)));
    assert_eq!(world.ran(), ["pre a", "post a"]);
    assert_eq!(ObjectStore::keys(store.as_ref(), "").await.unwrap(), Vec::<String>::new());
}
