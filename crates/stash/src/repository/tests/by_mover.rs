//! Repositories that only movers open: made, looked at, forgotten from by movers in their namespace, and used like any other.

use std::sync::Arc;

use lifeboat_api::common::NamespaceName;
use lifeboat_control::locked;
use lifeboat_mover::task::{TaskWork, Transport};
use lifeboat_plan::stash::repository::mover_work::REPOSITORY_TASK;
use lifeboat_transfer::attempts::testing::died;
use rstest::rstest;
use serde_json::Value;

use super::*;
use crate::repository::controller::task_state;
use crate::testing::movers::MemoryMovers;

/// A world whose Repository `local` is on a volume, with a BackupConfiguration that uses it.
async fn world() -> (World, Arc<MemoryMovers>, RepositoryKey) {
    let mut world = World::new().await;
    let movers = Arc::new(MemoryMovers::default());
    world.context.effects = Some(movers.clone());
    world.admit_movers();
    let claim =
        json!({"local": {"persistentVolumeClaim": {"claimName": "c"}, "mountPath": "/safe", "subPath": "a"}});
    let key = world.put_backend("local", claim);
    put_invoker(&world, "nightly", "local");
    (world, movers, key)
}

/// A BackupConfiguration whose runtimeSettings name a service account.
fn put_invoker(world: &World, name: &str, repository: &str) {
    let object = json!({
        "apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupConfiguration", "metadata": {"uid": name},
        "spec": {"repository": {"name": repository}, "runtimeSettings": {"pod": {"serviceAccountName": "cloud"}}},
    });
    let path = format!("/apis/stash.appscode.com/v1beta1/namespaces/{SHOP}/backupconfigurations/{name}");
    world.server.put(&path, object);
}

fn task_on_record(world: &World, name: &str) -> Value {
    world.repository(name)["metadata"]["annotations"][REPOSITORY_TASK].clone()
}

#[tokio::test]
async fn a_repository_on_a_volume_is_made_by_one_mover_and_put_on_record() {
    let (world, movers, key) = world().await;
    let first = ready(&world.context, &key).await.unwrap();
    let second = ready(&world.context, &key).await.unwrap();
    assert_eq!(first.id, second.id);
    let object = world.repository("local");
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/repository-id"], first.id);
    assert_eq!(object["status"]["snapshotCount"], 0);
    assert_eq!(condition(&object, "RepositoryReachable").0, "True");
    let sent = movers.sent();
    assert_eq!(sent.len(), 1, "one mover makes it and looks into it");
    let (job, task) = &sent[0];
    assert!(matches!(task.parts[0].work, TaskWork::Init) && matches!(task.parts[1].work, TaskWork::Look(_)));
    assert_eq!((job.namespace.as_str(), job.owner.kind.as_str()), (SHOP, "Repository"));
    assert_eq!(job.pod.service_account.as_deref(), Some("cloud"), "as the invoker says");
    assert_eq!(job.pod.repository_volume.as_ref().unwrap()["persistentVolumeClaim"]["claimName"], "c");
    let transport = &task.repository.as_ref().unwrap().transport;
    assert_eq!(*transport, Transport::Directory { path: "/mover/repository/a".into() });
    assert_eq!(movers.cleared(), [TaskId::new(&*task.uid)]);
    assert!(task_on_record(&world, "local").is_null());
}

/// A restore that is younger than its policies was checked; an older one never was.
#[tokio::test]
async fn a_mover_of_the_repository_gets_settings_of_objects_that_were_checked_only() {
    let (world, _, _) = world().await;
    let repository = object::read(&world.context, SHOP, "local").await.unwrap();
    let account = async || {
        let settings = used_by::runtime_settings(&world.context, &repository).await.unwrap();
        settings.and_then(|settings| settings.pod).and_then(|pod| pod.service_account_name)
    };
    assert_eq!(account().await.as_deref(), Some("cloud"));
    let mut policies = lifeboat_plan::install::policies::objects("lifeboat");
    let of_configurations =
        |policy: &Value| policy["metadata"]["name"].as_str().unwrap().starts_with("backupconfigurations.");
    policies.retain(|policy| !of_configurations(policy));
    for policy in &mut policies {
        policy["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
    }
    world.context.policies.set("lifeboat", &policies);
    assert_eq!(account().await, None, "nothing checks who writes a BackupConfiguration");
    for (name, created) in [("older", "2026-01-31T00:00:00Z"), ("younger", "2026-02-02T00:00:00Z")] {
        let restore = json!({
            "apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession",
            "metadata": {"uid": name, "creationTimestamp": created},
            "spec": {"repository": {"name": "local"}, "runtimeSettings": {"pod": {"serviceAccountName": name}}},
        });
        world.server.put(
            &format!("/apis/stash.appscode.com/v1beta1/namespaces/{SHOP}/restoresessions/{name}"),
            restore,
        );
        let expected = Some(name).filter(|name| *name == "younger");
        assert_eq!(account().await.as_deref(), expected);
    }
}

#[tokio::test]
async fn a_bucket_without_keys_is_opened_by_pods_with_the_identity_of_their_service_account() {
    let (world, movers, _) = world().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"RESTIC_PASSWORD": "cHc="}});
    world.server.put("/api/v1/namespaces/shop/secrets/keys", secret);
    let key = world.put_repository("cloud");
    put_invoker(&world, "other", "cloud");
    let id = ready(&world.context, &key).await.unwrap().id;
    assert_eq!(world.repository("cloud")["metadata"]["annotations"]["lifeboat.io/repository-id"], id);
    let (job, task) = movers.sent().remove(0);
    let task_uid = task.uid;
    assert_eq!((job.pod.service_account.as_deref(), job.pod.repository_volume), (Some("cloud"), None));
    let Transport::Direct(direct) = &task.repository.unwrap().transport else { panic!("{task_uid}") };
    assert_eq!((direct.bucket.as_str(), direct.credentials.as_ref()), ("bkt", None));
}

#[tokio::test]
async fn its_task_counts_while_it_is_on_record_and_what_a_server_left_is_cleared() {
    let (world, movers, key) = world().await;
    let owner = Owner {
        kind: "Repository".into(),
        namespace: NamespaceName::new(SHOP),
        name: "local".into(),
        uid: "uid-shop-local".into(),
    };
    world.change("local", &json!({"metadata": {"annotations": {REPOSITORY_TASK: "7"}}}));
    let left = TaskId::new("uid-shop-local-t7");
    let state = |task: &TaskId| task_state(&world.repository("local"), &owner, task);
    assert_eq!(state(&left), lifeboat_transfer::movers::TaskState::Open);
    assert_eq!(state(&TaskId::new("uid-shop-local-t8")), lifeboat_transfer::movers::TaskState::Over);
    ready(&world.context, &key).await.unwrap();
    assert_eq!(movers.cleared().first(), Some(&left));
    assert_eq!(state(&left), lifeboat_transfer::movers::TaskState::Over);
}

#[tokio::test]
async fn snapshots_are_listed_by_one_mover_for_a_while_and_forgotten_by_another() {
    let (world, movers, key) = world().await;
    ready(&world.context, &key).await.unwrap();
    let ids = stored(&movers, &key, &["app", "db"]).await;
    world.context.looks.changed(&key);
    for _ in 0..3 {
        let listed = snapshots(&world.context, &key).await.unwrap();
        assert_eq!(listed.len(), 2, "{listed:?}");
    }
    assert_eq!(movers.works().len(), 2, "one mover made it, one looked");
    forget(&world.context, &key, &ids[..1]).await.unwrap();
    let left = snapshots(&world.context, &key).await.unwrap();
    assert_eq!(left.iter().map(|snapshot| &snapshot.id).collect::<Vec<_>>(), [&ids[1]]);
    assert!(world.repository("local")["metadata"]["annotations"]["lifeboat.io/emptied"].is_null());
    forget(&world.context, &key, &ids[1..]).await.unwrap();
    assert!(world.repository("local")["metadata"]["annotations"]["lifeboat.io/emptied"].is_string());
    assert_eq!(movers.works().len(), 4);
}

/// Snapshots that other movers stored.
async fn stored(movers: &MemoryMovers, key: &RepositoryKey, hosts: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for host in hosts {
        ids.push(World::snapshot_in(movers.store(key), host, &[]).await);
    }
    ids
}

#[tokio::test]
async fn lines_that_were_lost_from_the_log_are_asked_for_again() {
    let (world, movers, key) = world().await;
    ready(&world.context, &key).await.unwrap();
    stored(&movers, &key, &["app", "db"]).await;
    world.context.looks.changed(&key);
    *locked(&movers.lost) = 1;
    assert_eq!(snapshots(&world.context, &key).await.unwrap().len(), 2);
    assert_eq!(movers.works().len(), 3, "two looks");
}

#[tokio::test]
async fn a_mover_that_fails_is_the_reason_and_no_other_follows_at_once() {
    let (world, movers, key) = world().await;
    movers.will(died(false));
    for _ in 0..3 {
        let message = problem(&world, &key).await;
        assert!(message.contains("the mover was killed"), "{message}");
    }
    assert_eq!(movers.works().len(), 1);
    assert!(task_on_record(&world, "local").is_null());
    let annotations = world.repository("local")["metadata"]["annotations"].to_string();
    assert!(
        annotations.contains("cluster/mover-pod"),
        "its locks are noted for the next mover: {annotations}"
    );
    // A changed spec is tried at once, and the next mover removes the locks.
    world.change("local", &json!({"metadata": {"generation": 2}}));
    ready(&world.context, &key).await.unwrap();
    assert_eq!(movers.sent()[1].1.lock.dead_owners, ["cluster/mover-pod"]);
    let annotations = world.repository("local")["metadata"]["annotations"].to_string();
    assert!(!annotations.contains("mover-pod"), "{annotations}");
}

#[rstest]
#[case::exchanged(true, "it was exchanged, or made anew")]
#[case::wrong_password(false, "password")]
#[tokio::test]
async fn what_a_mover_finds_is_compared_with_the_record(#[case] is_exchanged: bool, #[case] says: &str) {
    let (world, movers, key) = world().await;
    ready(&world.context, &key).await.unwrap();
    if is_exchanged {
        movers.exchange(&key);
        World::make_in(movers.store(&key)).await;
    } else {
        world.put_secret(SHOP, "another");
    }
    world.context.looks.changed(&key);
    let message = snapshots(&world.context, &key).await.err().unwrap().chain();
    assert!(message.contains(says), "{message}");
}

#[tokio::test]
async fn a_mover_through_a_nodes_directory_gets_no_such_repository() {
    let (world, _, key) = world().await;
    let context = &world.context;
    let job = MoverJob {
        task: TaskId::new("t"),
        owner: Owner {
            kind: "X".into(),
            namespace: NamespaceName::new(SHOP),
            name: "x".into(),
            uid: "u".into(),
        },
        place: MoverPlace::NodeDirectory { node: "n".into(), directory: "/d".into(), writable: false },
        repository: key.to_string(),
        group: String::new(),
        deadline_seconds: 1,
        namespace: NamespaceName::new("lifeboat-movers"),
        pod: context.movers.settings().pod(&context.namespace),
    };
    let request = PodRequest { job: &job, runtime: None, target: None };
    let refused = pod_settings(&context.core, context.movers.settings(), &request).await.unwrap();
    assert!(refused.unwrap_err().to_string().contains("it is on a volume"));
    let usual = MoverJob { repository: world.put_repository("r").to_string(), ..job };
    let request = PodRequest { job: &usual, runtime: None, target: None };
    pod_settings(&context.core, context.movers.settings(), &request).await.unwrap().unwrap();
}
