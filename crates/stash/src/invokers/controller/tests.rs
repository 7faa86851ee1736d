//! Invokers become Ready when all that they need is there, reserve their repository, and make a session for each due time.

mod claims;
mod races;
mod restics;
mod slow;
mod snapshotter;

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::{World, condition};

const STASH: &str = "/apis/stash.appscode.com/v1beta1/namespaces/shop";

async fn world() -> World {
    let world = World::new().await;
    world.put_repository("r");
    for name in ["web", "db"] {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}});
        world.server.put(&format!("/apis/apps/v1/namespaces/shop/deployments/{name}"), deployment);
    }
    world
}

fn target(name: &str, alias: &str) -> Value {
    let alias = if alias.is_empty() { Value::Null } else { json!(alias) };
    json!({"alias": alias, "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]})
}

fn path(kind: &InvokerKind, name: &str) -> String {
    let plural = if *kind == InvokerKind::BackupBatch { "backupbatches" } else { "backupconfigurations" };
    format!("{STASH}/{plural}/{name}")
}

/// An invoker that was created long ago, so that a session of it is due.
fn put(world: &World, kind: &InvokerKind, name: &str, changes: &Value) {
    let mut spec = json!({
        "schedule": "*/5 * * * *",
        "repository": {"name": "r"},
        "retentionPolicy": {"name": "keep", "keepLast": 2, "prune": false},
    });
    lifeboat_cluster::testing::merge(&mut spec, changes);
    let metadata =
        json!({"creationTimestamp": "2026-01-01T00:00:00Z", "uid": format!("u-{name}"), "generation": 1});
    let object = json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": kind.as_str(), "metadata": metadata, "spec": spec});
    world.server.put(&path(kind, name), object);
}

fn put_configuration(world: &World, name: &str) {
    put(world, &InvokerKind::BackupConfiguration, name, &json!({"target": target("web", name)}));
}

fn put_batch(world: &World, name: &str, targets: &[Value]) {
    let members: Vec<Value> = targets.iter().map(|target| json!({"target": target})).collect();
    put(world, &InvokerKind::BackupBatch, name, &json!({"members": members}));
}

/// Reconciles an invoker and gives it as it is then.
async fn reconciled(world: &World, kind: &InvokerKind, name: &str) -> Value {
    let state =
        Arc::new(State::new(&world.context.core.metrics, kind.clone(), invoker_resource(kind).unwrap()));
    reconciled_with(world, &state, name).await;
    let mut object = world.server.get(&path(kind, name)).unwrap();
    while condition(&object, "RepositoryFound").1.contains("is being opened") {
        // The machine is slow: the next reconcile takes what was opened.
        state.openings.ended().await;
        reconciled_with(world, &state, name).await;
        object = world.server.get(&path(kind, name)).unwrap();
    }
    object
}

async fn reconciled_with(world: &World, state: &Arc<State>, name: &str) -> Action {
    let object = world.server.get(&path(&state.kind, name)).unwrap();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    reconcile(Arc::new(object), world.context.clone(), state.clone()).await.unwrap()
}

fn sessions(world: &World) -> Vec<String> {
    world.server.paths("/backupsessions/")
}

#[tokio::test]
async fn an_invoker_is_ready_before_its_first_session_is_made_and_each_due_time_has_one() {
    let (world, kind) = (world().await, InvokerKind::BackupConfiguration);
    put_configuration(&world, "nightly");
    let object = reconciled(&world, &kind, "nightly").await;
    assert_eq!(object["status"]["phase"], "Ready", "{object}");
    for wanted in
        ["RepositoryFound", "BackendSecretFound", "ValidationPassed", "BackupTargetFound", "CronJobCreated"]
    {
        assert_eq!(condition(&object, wanted).0, "True", "{object}");
    }
    assert_eq!(sessions(&world), Vec::<String>::new());
    let object = reconciled(&world, &kind, "nightly").await;
    let made = sessions(&world);
    assert_eq!(made.len(), 1, "a time that was missed is made up once");
    let session = world.server.get(&made[0]).unwrap();
    assert_eq!(session["spec"]["invoker"]["name"], "nightly");
    assert_eq!(session["metadata"]["ownerReferences"][0]["uid"], "u-nightly");
    assert!(session["metadata"]["annotations"]["lifeboat.io/due-time"].is_string(), "{session}");
    assert!(object["status"]["lastScheduleTime"].is_string(), "{object}");
    // A server that died before it recorded the time makes no second one.
    world.server.change(&path(&kind, "nightly"), &json!({"status": {"lastScheduleTime": null}}));
    reconciled(&world, &kind, "nightly").await;
    assert_eq!(sessions(&world).len(), 1);
}

/// The requests for anything but the namespace of the invoker, which a server knows from its watch.
fn requests(world: &World) -> usize {
    let all = world.server.requests(&lifeboat_control::testing::Requests::any("*"));
    all.iter().filter(|asked| asked.path != "/api/v1/namespaces/shop").count()
}

#[tokio::test]
async fn an_invoker_at_rest_costs_no_requests_until_it_is_changed() {
    let (world, kind) = (world().await, InvokerKind::BackupConfiguration);
    put_configuration(&world, "nightly");
    // Once in four years.
    world.server.change(&path(&kind, "nightly"), &json!({"spec": {"schedule": "0 3 29 2 *"}}));
    for _ in 0..2 {
        assert_eq!(reconciled(&world, &kind, "nightly").await["status"]["phase"], "Ready");
    }
    let before = requests(&world);
    reconciled(&world, &kind, "nightly").await;
    assert_eq!(requests(&world), before);
    let changed = json!({"metadata": {"generation": 2}, "spec": {"target": target("gone", "a")}});
    world.server.change(&path(&kind, "nightly"), &changed);
    assert_eq!(reconciled(&world, &kind, "nightly").await["status"]["phase"], "NotReady");
}

/// An invoker that is Ready, with a schedule that is due once in four years.
async fn at_rest() -> World {
    let world = world().await;
    put_configuration(&world, "nightly");
    let kind = InvokerKind::BackupConfiguration;
    world.server.change(&path(&kind, "nightly"), &json!({"spec": {"schedule": "0 3 29 2 *"}}));
    for _ in 0..2 {
        assert_eq!(reconciled(&world, &kind, "nightly").await["status"]["phase"], "Ready");
    }
    world
}

#[tokio::test]
async fn after_a_session_failed_its_invoker_looks_again_and_names_the_cause_in_status_and_event() {
    let (world, kind) = (at_rest().await, InvokerKind::BackupConfiguration);
    world.server.remove("/api/v1/namespaces/shop/secrets/keys");
    let object = reconciled(&world, &kind, "nightly").await;
    assert_eq!(object["status"]["phase"], "Ready", "nothing polls what an invoker at rest needs");
    world.context.invoker_doubts.add("u-nightly");
    let object = reconciled(&world, &kind, "nightly").await;
    assert_eq!(object["status"]["phase"], "NotReady", "{object}");
    assert_eq!(condition(&object, "BackendSecretFound").0, "False", "{object}");
    assert_eq!(world.server.events(), ["NotReady"]);
    reconciled(&world, &kind, "nightly").await;
    assert_eq!(world.server.events(), ["NotReady"], "the cause is told once");
    world.put_secret("shop", crate::testing::PASSWORD);
    assert_eq!(reconciled(&world, &kind, "nightly").await["status"]["phase"], "Ready");
}

#[tokio::test]
async fn a_volume_that_the_target_does_not_have_is_named_before_a_session_fails() {
    let world = world().await;
    let volumes = json!([{"name": "files", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "token", "projected": {"sources": []}}]);
    world.server.change(
        "/apis/apps/v1/namespaces/shop/deployments/web",
        &json!({"spec": {"template": {"spec": {"volumes": volumes}}}}),
    );
    put_configuration(&world, "nightly");
    let kind = InvokerKind::BackupConfiguration;
    let object = reconciled(&world, &kind, "nightly").await;
    let (status, message) = condition(&object, "BackupTargetIncomplete");
    assert!(
        status == "True" && message.contains("\"data\"") && message.ends_with("one of files"),
        "{object}"
    );
    assert_eq!(object["status"]["phase"], "Ready", "a volume may be in the pods only");
    assert_eq!(world.server.events(), ["TargetIncomplete"]);
}

#[tokio::test]
async fn a_task_that_does_not_exist_is_named_before_a_session_fails() {
    let world = world().await;
    let changes = json!({"target": target("web", "a"), "task": {"name": "postgress-backup-15"}});
    put(&world, &InvokerKind::BackupConfiguration, "nightly", &changes);
    let object = reconciled(&world, &InvokerKind::BackupConfiguration, "nightly").await;
    let (status, message) = condition(&object, "BackupTargetIncomplete");
    assert!(status == "True" && message.contains("postgress-backup-15"), "{object}");
}

#[tokio::test]
async fn a_paused_invoker_makes_no_session() {
    let (world, kind) = (world().await, InvokerKind::BackupConfiguration);
    put_configuration(&world, "nightly");
    world.server.change(&path(&kind, "nightly"), &json!({"spec": {"paused": true}}));
    for _ in 0..2 {
        reconciled(&world, &kind, "nightly").await;
    }
    assert_eq!(sessions(&world), Vec::<String>::new());
}

#[rstest]
#[case::repository(
    "/apis/stash.appscode.com/v1alpha1/namespaces/shop/repositories/r",
    "RepositoryFound",
    "shop/r"
)]
#[case::secret("/api/v1/namespaces/shop/secrets/keys", "BackendSecretFound", "shop/keys")]
#[case::target("/apis/apps/v1/namespaces/shop/deployments/web", "BackupTargetFound", "shop/web")]
#[tokio::test]
async fn what_is_missing_is_named_and_no_session_is_made(
    #[case] missing: &str,
    #[case] kind: &str,
    #[case] text: &str,
) {
    let world = world().await;
    world.server.remove(missing);
    put_configuration(&world, "nightly");
    for _ in 0..2 {
        let object = reconciled(&world, &InvokerKind::BackupConfiguration, "nightly").await;
        assert_eq!(object["status"]["phase"], "NotReady", "{object}");
        let (status, message) = condition(&object, kind);
        assert!(status == "False" && message.contains(text), "{object}");
    }
    assert_eq!(sessions(&world), Vec::<String>::new());
}

#[tokio::test]
async fn a_wrong_password_is_in_the_status() {
    let world = world().await;
    world.opened(&crate::repository::key_of("shop", "r")).await;
    world.put_secret("shop", "another password");
    put_configuration(&world, "nightly");
    let object = reconciled(&world, &InvokerKind::BackupConfiguration, "nightly").await;
    assert_eq!(object["status"]["phase"], "NotReady", "{object}");
    assert!(condition(&object, "RepositoryFound").1.contains("password"), "{object}");
}

#[tokio::test]
async fn members_with_equal_hosts_are_invalid_and_both_are_named() {
    let world = world().await;
    put_batch(&world, "all", &[target("web", ""), target("db", "")]);
    for _ in 0..2 {
        let object = reconciled(&world, &InvokerKind::BackupBatch, "all").await;
        assert_eq!(object["status"]["phase"], "Invalid", "{object}");
        let (_, message) = condition(&object, "ValidationPassed");
        assert!(message.contains("Deployment web") && message.contains("Deployment db"), "{message}");
    }
    assert_eq!(sessions(&world), Vec::<String>::new());
}

#[tokio::test]
async fn a_repository_takes_one_batch_and_the_other_is_ready_when_the_first_goes_or_moves() {
    let (world, kind) = (world().await, InvokerKind::BackupBatch);
    put_batch(&world, "first", &[target("web", "a")]);
    put_batch(&world, "second", &[target("db", "b")]);
    assert_eq!(reconciled(&world, &kind, "first").await["status"]["phase"], "Ready");
    let object = reconciled(&world, &kind, "second").await;
    assert_eq!(object["status"]["phase"], "Invalid", "{object}");
    assert!(object["status"].to_string().contains("RepositoryInUse"), "{object}");
    assert!(condition(&object, "ValidationPassed").1.contains("BackupBatch shop/first"), "{object}");
    // The first one moves to another Repository.
    world.put_repository("elsewhere");
    let moved = json!({"metadata": {"generation": 2}, "spec": {"repository": {"name": "elsewhere"}}});
    world.server.change(&path(&kind, "first"), &moved);
    assert_eq!(
        reconciled(&world, &kind, "second").await["status"]["phase"],
        "Invalid",
        "it has not been looked at"
    );
    reconciled(&world, &kind, "first").await;
    assert_eq!(reconciled(&world, &kind, "second").await["status"]["phase"], "Ready");
    // Another one waits for the second, which goes.
    put_batch(&world, "third", &[target("web", "c")]);
    assert_eq!(reconciled(&world, &kind, "third").await["status"]["phase"], "Invalid");
    world.server.remove(&path(&kind, "second"));
    assert_eq!(reconciled(&world, &kind, "third").await["status"]["phase"], "Ready");
}

#[tokio::test]
async fn a_repository_of_another_namespace_is_used_only_where_it_allows_that() {
    let world = world().await;
    world.put_secret("bank", crate::testing::PASSWORD);
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "bank"}});
    world.put_repository_in("bank", "r", backend);
    let kind = InvokerKind::BackupConfiguration;
    put(
        &world,
        &kind,
        "nightly",
        &json!({"target": target("web", "a"), "repository": {"namespace": "bank"}}),
    );
    let object = reconciled(&world, &kind, "nightly").await;
    assert_eq!(object["status"]["phase"], "NotReady", "{object}");
    assert!(condition(&object, "RepositoryFound").1.contains("usagePolicy"), "{object}");
    let policy = json!({"spec": {"usagePolicy": {"allowedNamespaces": {"from": "All"}}}});
    world.server.change(&crate::testing::path("bank", "r"), &policy);
    let object = reconciled(&world, &kind, "nightly").await;
    assert_eq!(object["status"]["phase"], "Ready", "{object}");
}

#[rstest]
#[case::configuration(InvokerKind::BackupConfiguration, "backupconfigurations")]
#[case::batch(InvokerKind::BackupBatch, "backupbatches-exec")]
#[case::its_repository(InvokerKind::BackupBatch, "repositories")]
#[tokio::test]
async fn nothing_is_done_for_an_invoker_while_nothing_checks_who_may_write_it(
    #[case] kind: InvokerKind,
    #[case] missing: &str,
) {
    let world = world().await;
    put_configuration(&world, "nightly");
    put_batch(&world, "nightly", &[target("web", "web")]);
    let policies = lifeboat_plan::install::policies::objects("lifeboat");
    let name = format!("{missing}.lifeboat.lifeboat.io");
    let others: Vec<Value> =
        policies.iter().filter(|policy| policy["metadata"]["name"] != name.as_str()).cloned().collect();
    world.context.policies.set("lifeboat", &others);
    for _ in 0..2 {
        let object = reconciled(&world, &kind, "nightly").await;
        assert_eq!(object["status"]["phase"], "Invalid", "{object}");
        let (status, message) = condition(&object, "ValidationPassed");
        assert!(
            status == "False" && message.contains(&name) && message.contains("install --stash"),
            "{object}"
        );
    }
    assert!(sessions(&world).is_empty());
    assert!(
        world.server.writes().iter().all(|write| write.contains("/status")),
        "{:?}",
        world.server.writes()
    );
    world.context.policies.set("lifeboat", &policies);
    assert_eq!(reconciled(&world, &kind, "nightly").await["status"]["phase"], "Ready");
}
