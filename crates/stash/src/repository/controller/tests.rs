//! Repositories are shown, their notes worked off, and their data deleted with them where that is safe.

mod by_mover;
mod wiping;

use kube::api::DynamicObject;
use lifeboat_api::common::NamespaceName;
use lifeboat_api::stash::RepositoryStatus;
use lifeboat_plan::transfer::repository_notes::{MAINTENANCE, give_up, note_dead};
use lifeboat_repository::lock::{Lock, LockKind, LockOptions};
use serde_json::{Value, json};

use super::*;
use crate::repository::{RepositoryKey, ready, snapshots};
use crate::settings::StashSettings;
use crate::testing::{SHOP, World, condition, path};

/// Reconciles a Repository of the tenant and gives it as it is then.
pub(super) async fn reconciled(world: &World, state: &Arc<State>, name: &str) -> Value {
    // What a look or a note wrote leads to the next reconcile.
    for _ in 0..3 {
        let Some(object) = world.server.get(&path(SHOP, name)) else { break };
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        reconcile(Arc::new(object), world.context.clone(), state.clone()).await.unwrap();
        for work in [&state.looks, &state.notes, &state.maintenances, &state.deletions] {
            work.ended().await;
        }
    }
    world.server.get(&path(SHOP, name)).unwrap_or_default()
}

pub(super) fn state() -> Arc<State> {
    Arc::new(State::new(&Metrics::new("0")))
}

#[tokio::test]
async fn a_repository_that_answers_is_reachable_and_not_made_before_it_is_needed() {
    let world = World::new().await;
    world.put_repository("r");
    let object = reconciled(&world, &state(), "r").await;
    assert_eq!(condition(&object, "BackendSecretFound").0, "True");
    assert_eq!(condition(&object, "RepositoryReachable").0, "True");
    assert_eq!(object["status"]["observedGeneration"], 1);
    assert!(!world.store("r").exists("config").await.unwrap());
}

#[tokio::test]
async fn a_missing_secret_and_a_refused_backend_are_in_the_status() {
    let world = World::new().await;
    world.put_repository("r");
    world.put_backend("swift", json!({"swift": {"container": "c"}}));
    world.put_backend("local", json!({"local": {"hostPath": {"path": "/x"}, "mountPath": "/safe"}}));
    let local = reconciled(&world, &state(), "local").await;
    assert_eq!(condition(&local, "RepositoryReachable").0, "Unknown");
    let swift = reconciled(&world, &state(), "swift").await;
    assert_eq!(condition(&swift, "BackendSecretFound").0, "True");
    let (status, message) = condition(&swift, "RepositoryReachable");
    assert!(status == "False" && message.contains("S3 API"), "{message}");
    world.server.remove("/api/v1/namespaces/shop/secrets/keys");
    let object = reconciled(&world, &state(), "r").await;
    let (status, message) = condition(&object, "BackendSecretFound");
    assert!(status == "False" && message.contains("'keys'"), "{message}");
}

#[tokio::test]
async fn a_repository_that_cannot_be_reached_any_more_is_told_once_and_looked_for_after_a_failed_session() {
    let world = World::new().await;
    world.put_repository("r");
    let state = state();
    assert_eq!(condition(&reconciled(&world, &state, "r").await, "RepositoryReachable").0, "True");
    world.server.remove("/api/v1/namespaces/shop/secrets/keys");
    assert_eq!(condition(&reconciled(&world, &state, "r").await, "RepositoryReachable").0, "True");
    for _ in 0..2 {
        world.context.repository_doubts.add(&crate::repository::key_of(SHOP, "r").to_string());
        let object = reconciled(&world, &state, "r").await;
        assert_eq!(condition(&object, "RepositoryReachable").0, "False", "{object}");
    }
    assert_eq!(world.server.events(), ["RepositoryNotReachable"]);
}

/// A Repository sends keys of any Secret of its namespace to any address.
#[tokio::test]
async fn a_repository_is_left_alone_while_nothing_checks_who_writes_it() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let policies = lifeboat_plan::install::policies::objects("lifeboat");
    world.context.policies.set("lifeboat", &[]);
    let object = reconciled(&world, &state(), "r").await;
    let (status, message) = condition(&object, "RepositoryReachable");
    assert!(
        status == "False" && message.contains("repositories.lifeboat.lifeboat.io is missing"),
        "{object}"
    );
    assert!(object["status"]["observedGeneration"].is_null(), "{object}");
    let refused = ready(&world.context, &key).await.err().unwrap();
    assert!(
        refused.retry() == lifeboat_repository::Retry::Later && refused.chain().contains("is missing"),
        "{}",
        refused.chain()
    );
    assert!(!world.store("r").exists("config").await.unwrap());
    world.context.policies.set("lifeboat", &policies);
    let object = reconciled(&world, &state(), "r").await;
    assert_eq!(condition(&object, "RepositoryReachable").0, "True");
    // What was looked at since goes on being used, until its spec is changed.
    world.context.policies.set("lifeboat", &[]);
    ready(&world.context, &key).await.unwrap();
    world.change("r", &json!({"metadata": {"generation": 2}}));
    assert!(ready(&world.context, &key).await.err().unwrap().chain().contains("is missing"));
}

#[tokio::test]
async fn what_a_repository_holds_is_in_status_and_objects_and_follows_it() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let first = world.snapshot(&key, "app", &[]).await;
    world.snapshot(&key, "app", &["lifeboat-safety"]).await;
    let object = reconciled(&world, &state(), "r").await;
    let status: RepositoryStatus = serde_json::from_value(object["status"].clone()).unwrap();
    assert_eq!(status.snapshot_count, Some(1), "safety copies do not count");
    assert!(
        status.total_size.is_some()
            && status.first_backup_time.is_some()
            && status.last_backup_time.is_some()
    );
    assert_eq!(world.server.paths("/snapshots/").len(), 2);
    crate::repository::forget(&world.context, &key, &[first]).await.unwrap();
    reconciled(&world, &state(), "r").await;
    // The status is fresh, so this server does not look again on its own; a changed spec makes it.
    world.change("r", &json!({"metadata": {"generation": 2}}));
    let object = reconciled(&world, &state(), "r").await;
    assert_eq!(object["status"]["snapshotCount"], 0);
    assert_eq!(world.server.paths("/snapshots/").len(), 1);
}

#[tokio::test]
async fn a_repository_at_rest_costs_no_requests() {
    let world = World::new().await;
    let key = world.put_repository("r");
    world.snapshot(&key, "app", &[]).await;
    let before = state();
    reconciled(&world, &before, "r").await;
    let writes = world.server.writes().len();
    let reads = Arc::new(Mutex::new(Vec::new()));
    let seen = reads.clone();
    world.server.answer(move |_, asked| {
        locked(&seen).push(format!("{} {}", asked.method, asked.path));
        None
    });
    for state in [before, state()] {
        let object: DynamicObject = serde_json::from_value(world.repository("r")).unwrap();
        let action = reconcile(Arc::new(object), world.context.clone(), state).await.unwrap();
        assert_ne!(action, Action::await_change());
    }
    assert_eq!(world.server.writes().len(), writes);
    // The label of the namespace is read where it is not watched, as here.
    let reads: Vec<String> =
        locked(&reads).iter().filter(|read| !read.ends_with("/namespaces/shop")).cloned().collect();
    assert_eq!(reads, Vec::<String>::new());
}

#[tokio::test]
async fn namespaces_of_other_servers_are_left_alone() {
    let settings = StashSettings { served_by: Some("test".into()), ..StashSettings::default() };
    let world = World::with_settings(settings).await;
    world.put_repository("r");
    assert!(reconciled(&world, &state(), "r").await["status"].is_null());
    world.server.change(
        "/api/v1/namespaces/shop",
        &json!({"metadata": {"labels": {"lifeboat.io/served-by": "test"}}}),
    );
    assert!(!reconciled(&world, &state(), "r").await["status"].is_null());
}

async fn hosts(world: &World, key: &RepositoryKey) -> Vec<String> {
    snapshots(&world.context, key).await.unwrap().into_iter().map(|snapshot| snapshot.hostname).collect()
}

#[tokio::test]
async fn what_movers_stored_after_they_were_given_up_is_forgotten_unless_a_session_lists_it() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let digest = lifeboat_plan::stash::repository::fate::host_digest;
    let mut listed = String::new();
    for host in ["failed", "listed", "gone"] {
        let session = if host == "gone" { "other" } else { "sess" };
        let task = format!("{session}.0.{}-1", digest(host));
        let id = world.snapshot(&key, host, &[&format!("lifeboat-task={task}.0")]).await;
        if host == "listed" {
            listed = id;
        }
        let until = "2100-01-01T00:00:00Z".parse().unwrap();
        world.change("r", &give_up(&TaskId::new(task), until));
    }
    let stats = json!([
        {"hostname": "failed", "phase": "Failed", "attempt": 1},
        {"hostname": "listed", "phase": "Succeeded", "attempt": 2, "snapshots": [{"name": listed}]},
    ]);
    let session = json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupSession", "metadata": {"uid": "sess"},
        "spec": {"invoker": {"kind": "BackupConfiguration", "name": "c"}}, "status": {"targets": [{"stats": stats}]}});
    world.server.put("/apis/stash.appscode.com/v1beta1/namespaces/shop/backupsessions/s", session);
    reconciled(&world, &state(), "r").await;
    assert_eq!(hosts(&world, &key).await, ["listed", "gone"]);
}

#[tokio::test]
async fn locks_of_dead_movers_are_removed() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let repository = world.opened(&key).await;
    let lock = Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await.unwrap();
    std::mem::forget(lock);
    let owner = repository.options().identity.host.clone();
    world.change("r", &note_dead(&owner));
    reconciled(&world, &state(), "r").await;
    assert!(world.store("r").list_directory("locks/").await.unwrap().objects.is_empty());
    let annotations = world.repository("r")["metadata"]["annotations"].to_string();
    assert!(!annotations.contains("dead-owner"), "{annotations}");
}

#[tokio::test]
async fn a_maintenance_that_cannot_run_is_in_the_status_and_tried_again_later() {
    let world = World::new().await;
    let key = world.put_repository("r");
    world.snapshot(&key, "app", &[]).await;
    world.change(
        "r",
        &json!({"metadata": {"annotations": {"lifeboat.io/maintain-since": "2026-01-01T00:00:00Z"}}}),
    );
    let state = state();
    // This server has no image for movers.
    let object = reconciled(&world, &state, "r").await;
    let (status, message) = condition(&object, "RepositoryMaintained");
    assert!(status == "False" && message.contains("image"), "{object}");
    assert!(object["metadata"]["annotations"][MAINTENANCE].is_null(), "{object}");
    assert_eq!(world.server.events(), ["MaintenanceFailed"]);
    reconciled(&world, &state, "r").await;
    assert_eq!(world.server.events().len(), 1, "not before an hour has passed");
}

#[tokio::test]
async fn a_maintenance_whose_end_is_recorded_is_only_taken_off() {
    let world = World::new().await;
    let key = world.put_repository("r");
    world.snapshot(&key, "app", &[]).await;
    let annotations =
        json!({MAINTENANCE: "1794830400", "lifeboat.io/maintain-since": "2026-11-16T11:00:00Z"});
    let status = json!({"lastPruneTime": "2026-11-16T12:00:00Z"});
    world.change("r", &json!({"metadata": {"annotations": annotations}, "status": status}));
    let object = reconciled(&world, &state(), "r").await;
    assert!(object["metadata"]["annotations"][MAINTENANCE].is_null(), "{object}");
    assert_eq!(condition(&object, "RepositoryMaintained").0, "");
}

#[tokio::test]
async fn a_task_is_on_record_while_its_maintenance_runs() {
    let object = json!({"metadata": {"uid": "u", "annotations": {MAINTENANCE: "7"}}});
    let owner = |uid: &str| Owner {
        kind: "Repository".into(),
        namespace: NamespaceName::new(SHOP),
        name: "r".into(),
        uid: uid.into(),
    };
    assert_eq!(task_state(&object, &owner("u"), &TaskId::new("u-m7")), TaskState::Open);
    assert_eq!(task_state(&object, &owner("u"), &TaskId::new("u-m6")), TaskState::Over);
    assert_eq!(task_state(&object, &owner("other"), &TaskId::new("u-m7")), TaskState::Over);
}
