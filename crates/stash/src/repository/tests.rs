//! What invokers and sessions see of a repository.

mod by_mover;
mod reservations;
mod retention;
mod state;

use lifeboat_api::common::{NamespaceName, TaskId};
use lifeboat_plan::stash::repository::SnapshotFacts;
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner, PodSettings};
use serde_json::json;

use super::opened::put_on_record;
use super::*;
use crate::looks::Looked;
use crate::mover_pods::{PodRequest, pod_settings};
use crate::testing::{PASSWORD, SHOP, World, condition, path};

/// The problem for people.
async fn problem(world: &World, key: &RepositoryKey) -> String {
    ready(&world.context, key).await.err().unwrap().chain()
}

#[tokio::test]
async fn a_repository_is_made_once_and_put_on_record() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let first = ready(&world.context, &key).await.unwrap();
    let second = ready(&world.context, &key).await.unwrap();
    assert_eq!(first.id, second.id);
    assert_eq!(first.access.identifier, "s3:minio:9000/bkt/r");
    let object = world.repository("r");
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/repository-id"], first.id);
    assert!(world.store("r").exists("config").await.unwrap(), "the repository is the prefix itself");
}

#[tokio::test]
async fn two_repositories_for_one_bucket_have_one_id() {
    let world = World::new().await;
    let first = world.put_repository("r");
    let second = world.put_backend(
        "other",
        json!({"s3": {"endpoint": "https://minio:9000", "bucket": "bkt", "prefix": "/r/"}}),
    );
    let id = ready(&world.context, &first).await.unwrap().id;
    assert_eq!(ready(&world.context, &second).await.unwrap().id, id);
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named_with_what_to_do() {
    let world = World::new().await;
    let gone = problem(&world, &key_of(SHOP, "gone")).await;
    assert!(gone.contains("Repository 'gone' does not exist in namespace 'shop'"), "{gone}");
    let key = world.put_repository("r");
    world.server.remove("/api/v1/namespaces/shop/secrets/keys");
    let no_secret = problem(&world, &key).await;
    assert!(no_secret.contains("Secret 'keys' does not exist in namespace 'shop'"), "{no_secret}");
    world.server.put("/api/v1/namespaces/shop/secrets/keys", json!({"apiVersion": "v1", "kind": "Secret"}));
    let no_password = problem(&world, &key).await;
    assert!(no_password.contains("Secret 'keys' has no key 'RESTIC_PASSWORD'"), "{no_password}");
    let swift = world.put_backend("swift", json!({"swift": {"container": "c"}}));
    assert!(problem(&world, &swift).await.contains("S3 API"));
}

#[tokio::test]
async fn another_password_does_not_open_it_and_the_right_one_does_again() {
    let world = World::new().await;
    let key = world.put_repository("r");
    ready(&world.context, &key).await.unwrap();
    world.put_secret(SHOP, "another");
    let wrong = ready(&world.context, &key).await.err().unwrap();
    let message = wrong.chain();
    assert!(
        message.contains("password") && message.contains("key RESTIC_PASSWORD of Secret shop/keys"),
        "{message}"
    );
    world.put_secret(SHOP, PASSWORD);
    ready(&world.context, &key).await.unwrap();
}

#[tokio::test]
async fn a_repository_that_vanished_is_not_made_anew_until_a_person_says_so() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let id = ready(&world.context, &key).await.unwrap().id;
    world.store("r").delete("config").await.unwrap();
    let vanished = problem(&world, &key).await;
    assert!(vanished.contains(&id) && vanished.contains("remove annotation"), "{vanished}");
    assert!(!world.store("r").exists("config").await.unwrap());
    world.change("r", &json!({"metadata": {"annotations": {"lifeboat.io/repository-id": null}}}));
    for file in ["keys/", "data/"] {
        let listed = world.store("r").list_directory(file).await.unwrap();
        world.store("r").delete_many(listed.objects.iter().map(|info| &info.key)).await.unwrap();
    }
    assert_ne!(ready(&world.context, &key).await.unwrap().id, id);
}

#[tokio::test]
async fn a_repository_that_was_exchanged_is_not_used() {
    let world = World::new().await;
    let key = world.put_repository("r");
    ready(&world.context, &key).await.unwrap();
    let other = world.put_repository("other");
    ready(&world.context, &other).await.unwrap();
    // The backend of another repository in the place of this one.
    let annotations = json!({"lifeboat.io/repository-id": "0".repeat(64)});
    world.change("r", &json!({"metadata": {"annotations": annotations}}));
    let exchanged = problem(&world, &key).await;
    assert!(exchanged.contains("is on record"), "{exchanged}");
    // Another prefix is another repository.
    world.change("r", &json!({"spec": {"backend": {"s3": {"prefix": "elsewhere"}}}}));
    ready(&world.context, &key).await.unwrap();
}

#[tokio::test]
async fn what_only_movers_open_is_left_to_them() {
    let world = World::new().await;
    let claim = json!({"local": {"persistentVolumeClaim": {"claimName": "c"}, "mountPath": "/safe", "subPath": "a/b"}});
    let key = world.put_backend("local", claim);
    let problem = ready(&world.context, &key).await.err().unwrap();
    assert!(matches!(problem, RepositoryProblem::MoversOnly(_)), "{}", problem.chain());
    put_on_record(&world.context, &key, "abc").await.unwrap();
    assert_eq!(world.repository("local")["metadata"]["annotations"]["lifeboat.io/repository-id"], "abc");
    assert!(put_on_record(&world.context, &key, "def").await.is_err());
    // The mover finds the directory inside the volume.
    let repository = object::read(&world.context, SHOP, "local").await.unwrap();
    let found = host::access_of(&world.context, &repository).await.unwrap();
    let expected = lifeboat_mover::task::Transport::Directory { path: "/mover/repository/a/b".into() };
    assert_eq!(found.access.task.transport, expected);
    let pod = pod_of(&world, &key, SHOP).await;
    assert_eq!(pod.repository_volume.unwrap()["persistentVolumeClaim"]["claimName"], "c");
    // The claim of that name in another namespace belongs to another tenant.
    assert_eq!(pod_of(&world, &key, "bank").await.repository_volume, None);
}

/// The pod of a mover in a namespace that looks at a repository.
async fn pod_of(world: &World, key: &RepositoryKey, namespace: &str) -> PodSettings {
    world.admit_movers();
    let context = &world.context;
    let job = MoverJob {
        task: TaskId::new("t"),
        owner: Owner {
            kind: "Repository".into(),
            namespace: NamespaceName::new(SHOP),
            name: "r".into(),
            uid: "u".into(),
        },
        place: MoverPlace::Anywhere,
        repository: key.to_string(),
        group: String::new(),
        deadline_seconds: 1,
        namespace: NamespaceName::new(namespace),
        pod: context.movers.settings().pod(&context.namespace),
    };
    let request = PodRequest { job: &job, runtime: None, target: None };
    pod_settings(&context.core, context.movers.settings(), &request).await.unwrap().unwrap()
}

#[tokio::test]
async fn snapshots_are_listed_and_forgotten() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let first = world.snapshot(&key, "app", &[]).await;
    let second = world.snapshot(&key, "db", &["t"]).await;
    let listed = snapshots(&world.context, &key).await.unwrap();
    let hosts: Vec<&str> = listed.iter().map(|snapshot| snapshot.hostname.as_str()).collect();
    assert_eq!(hosts, ["app", "db"]);
    assert!(!listed[0].tree.is_empty());
    forget(&world.context, &key, std::slice::from_ref(&first)).await.unwrap();
    let left: Vec<String> =
        snapshots(&world.context, &key).await.unwrap().into_iter().map(|s| s.id).collect();
    assert_eq!(left, [second.clone()]);
    assert!(world.repository("r")["metadata"]["annotations"]["lifeboat.io/emptied"].is_null());
    forget(&world.context, &key, &[second]).await.unwrap();
    assert!(world.repository("r")["metadata"]["annotations"]["lifeboat.io/emptied"].is_string());
}

fn end() -> SessionEnd {
    SessionEnd {
        invoker: json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupConfiguration",
            "metadata": {"name": "nightly", "namespace": SHOP, "uid": "u"}, "spec": {"schedule": "0 0 * * *"}}),
        hosts: vec!["app".into()],
        backed_up_at: "2026-11-18T12:00:00Z".parse().ok(),
        removed: Some(3),
        prune: true,
        ..SessionEnd::default()
    }
}

#[tokio::test]
async fn a_session_leaves_status_objects_state_metrics_and_the_request_for_a_prune() {
    let world = World::new().await;
    let key = world.put_repository("r");
    let id = world.snapshot(&key, "app", &[]).await;
    after_session(&world.context, &key, &end()).await.unwrap();
    let object = world.repository("r");
    let status = &object["status"];
    assert_eq!((&status["snapshotCount"], &status["snapshotsRemovedOnLastCleanup"]), (&json!(1), &json!(3)));
    assert!(status["totalSize"].as_str().unwrap().ends_with('B'), "{status}");
    assert_eq!(condition(&object, "RepositoryReachable").0, "True");
    assert!(object["metadata"]["annotations"]["lifeboat.io/maintain-since"].is_string());
    let shown =
        format!("/apis/repositories.stash.appscode.com/v1alpha1/namespaces/shop/snapshots/r-{}", &id[..8]);
    assert_eq!(world.server.get(&shown).unwrap()["status"]["id"], id);
    let states = super::state::read_all(&world.opened(&key).await).await.unwrap();
    assert_eq!(states[0].invoker["metadata"]["name"], "nightly");
    assert_eq!(states[0].repository["spec"]["backend"]["s3"]["bucket"], "bkt");
    let metrics = world.context.core.metrics.render();
    assert!(
        metrics.contains("stash_repository_snapshot_count{namespace=\"shop\",name=\"r\",backend=\"s3\""),
        "{metrics}"
    );
}

#[tokio::test]
async fn what_a_mover_found_is_recorded_where_the_server_cannot_look() {
    let world = World::new().await;
    let key =
        world.put_backend("local", json!({"local": {"hostPath": {"path": "/x"}, "mountPath": "/safe"}}));
    let facts = SnapshotFacts { id: "a".repeat(64), hostname: "app".into(), ..SnapshotFacts::default() };
    let looked = Looked { id: "abc".into(), snapshots: vec![facts], bytes: Some(2048) };
    after_session(&world.context, &key, &SessionEnd { looked: Some(looked), ..end() }).await.unwrap();
    let status = &world.repository("local")["status"];
    assert_eq!((&status["snapshotCount"], &status["totalSize"]), (&json!(1), &json!("2.000 KiB")));
    assert_eq!(world.server.paths("/snapshots/").len(), 1);
}

#[tokio::test]
async fn a_repository_that_is_being_deleted_opens_no_more() {
    let world = World::new().await;
    let key = world.put_repository("r");
    world.change("r", &json!({"metadata": {"deletionTimestamp": "2026-11-18T12:00:00Z"}}));
    use lifeboat_transfer::repositories::AccessSource;
    let refused = TenantRepositories(world.context.clone()).access(&key).await.err().unwrap();
    assert!(refused.chain().contains("is being deleted"), "{}", refused.chain());
    assert!(world.server.get(&path(SHOP, "r")).is_some());
}
