//! Pod volumes in a pass: what is created, what is waited for, what is reported.

use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_mover::report::LogLine;
use lifeboat_transfer::movers::{MoverObserver, PlaceRequest, Reserved};

use super::*;
use crate::repositories;

const COPIES: &str = "/apis/velero.io/v1/namespaces/lifeboat/podvolumebackups";

/// Nothing is shown.
struct Quiet;

#[async_trait]
impl MoverObserver for Quiet {
    async fn queued(&self, _: &str) {}
    async fn preparing(&self, _: &str) {}
    async fn running(&self, _: &str) {}
    async fn line(&self, _: &LogLine) {}
}

/// A running pod whose container mounts its claims.
fn pod(world: &World, name: &str, claims: &[&str], hooks: bool) {
    world.pod("shop", name, claims, hooks);
    let mounts: Vec<_> = claims.iter().map(|claim| json!({"name": claim})).collect();
    let spec = json!({"spec": {"nodeName": "a", "containers": [{"name": "main", "volumeMounts": mounts}]}});
    world.change(&format!("/api/v1/namespaces/shop/pods/{name}"), &spec);
}

/// How copies end when they are polled.
fn end_copies(world: &World, status: Value) {
    world.on_list(move |world, path| {
        if path != COPIES {
            return;
        }
        for path in world.paths("/podvolumebackups/") {
            let object = world.get(&path).unwrap();
            if object["status"]["phase"] == "New" {
                let pod = object["spec"]["pod"]["name"].as_str().unwrap();
                world.commands.lock().unwrap().push(format!("copied {pod}"));
                world.change(&path, &json!({"status": status}));
            }
        }
    });
}

async fn hurried(world: &World, spec: Value, stop: CancellationToken) -> PassInput {
    let mut input = input(world, spec, Arc::new(Store::memory()), stop).await;
    let movers = movers(world, MoverSettings::default()).await;
    let mut copying = Copying::new(&input.client, "lifeboat", &movers);
    copying.followed.pace = Duration::from_millis(5);
    input.copying = Arc::new(copying);
    input
}

async fn ended(world: &World, spec: Value) -> Outcome {
    let input = hurried(world, spec, CancellationToken::new()).await;
    let ended = tokio::time::timeout(Duration::from_secs(30), Box::pin(run(input))).await;
    ended.expect("the pass does not end").unwrap()
}

fn all() -> Value {
    json!({"defaultVolumesToFsBackup": true})
}

fn completed() -> Value {
    json!({"phase": "Completed", "snapshotID": "abc", "progress": {"totalBytes": 70}, "incrementalBytes": 7})
}

#[tokio::test]
async fn a_pods_post_hooks_run_when_its_volumes_are_copied() {
    let world = shop();
    pod(&world, "db-0", &["data"], true);
    end_copies(&world, completed());
    let outcome = ended(&world, all()).await;
    assert_eq!(world.ran(), ["pre db-0", "copied db-0", "post db-0"]);
    assert_eq!(outcome.results.errors.count(), 0, "{:?}", outcome.results);
    let object = &outcome.copies[0];
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/consistency"], "Quiesced");
    assert_eq!(object["spec"]["tags"]["backup-uid"], "u");
    let info = &outcome.volumes[0];
    assert_eq!((info.backup_method.as_str(), info.result.as_str()), ("PodVolumeBackup", "succeeded"));
    let of_pod = info.pvb_info.as_ref().unwrap();
    assert_eq!((of_pod.snapshot_handle.as_str(), of_pod.size, of_pod.incremental_size), ("abc", 70, 7));
    assert_eq!((info.pvc_name.as_str(), info.pv_name.as_str()), ("data", "pv-data"));
}

/// A place that a mover of another backup has.
async fn taken(movers: &Movers, repository: &str) -> Reserved {
    let wanted = PlaceRequest {
        name: "other".to_owned(),
        group: "other".to_owned(),
        node: None,
        repository: repository.to_owned(),
        pods: BTreeSet::new(),
    };
    movers.reserve(wanted, &Quiet, &CancellationToken::new()).await.unwrap()
}

async fn with_movers(world: &World, movers: &Movers) -> PassInput {
    let mut input = hurried(world, all(), CancellationToken::new()).await;
    let mut copying = Copying::new(&input.client, "lifeboat", movers);
    copying.followed.pace = Duration::from_millis(5);
    input.copying = Arc::new(copying);
    input
}

#[tokio::test]
async fn a_pod_is_not_quiesced_while_its_volumes_would_wait_for_a_mover() {
    let world = shop();
    pod(&world, "db-0", &["data"], true);
    end_copies(&world, completed());
    let one = MoverSettings { at_once_on_repository: 1, ..MoverSettings::default() };
    let movers = movers(&world, one).await;
    let repository = repositories::key(&LocationName::new(""), &NamespaceName::new("shop")).to_string();
    let other = taken(&movers, &repository).await;
    let input = with_movers(&world, &movers).await;
    let later = async {
        while !movers.awaits_place("u/uid-db-0") {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.ran(), Vec::<String>::new(), "no mover could start until now");
        drop(other);
    };
    let both = async { tokio::join!(Box::pin(run(input)), later) };
    let (outcome, ()) =
        tokio::time::timeout(Duration::from_secs(30), both).await.expect("the pass does not end");
    assert_eq!(world.ran(), ["pre db-0", "copied db-0", "post db-0"]);
    assert_eq!(outcome.unwrap().volumes[0].result, "succeeded");
}

#[tokio::test]
async fn where_no_mover_can_start_in_time_the_volume_is_missed_and_the_hooks_run() {
    let world = shop();
    pod(&world, "db-0", &["data"], true);
    let one = MoverSettings { at_once: 1, queue_timeout: Duration::ZERO, ..MoverSettings::default() };
    let movers = movers(&world, one).await;
    let _other = taken(&movers, "elsewhere").await;
    let outcome = Box::pin(run(with_movers(&world, &movers).await)).await.unwrap();
    assert_eq!(world.ran(), ["pre db-0", "post db-0"]);
    let errors: Vec<_> = outcome.results.errors.all().map(|(_, message)| message.to_owned()).collect();
    assert!(errors.iter().any(|error| error.contains("--mover-queue-timeout")), "{errors:?}");
}

#[tokio::test]
async fn a_listed_pod_is_finished_when_its_volumes_are_copied() {
    let world = shop();
    pod(&world, "a", &["one"], true);
    pod(&world, "b", &["two"], true);
    end_copies(&world, completed());
    let spec = json!({"defaultVolumesToFsBackup": true, "orderedResources": {"pods": "shop/b,shop/a"}});
    ended(&world, spec).await;
    assert_eq!(world.ran(), ["pre b", "copied b", "post b", "pre a", "copied a", "post a"]);
}

#[tokio::test]
async fn what_an_interrupted_attempt_copied_is_not_copied_twice() {
    let world = shop();
    pod(&world, "db-0", &["data"], false);
    end_copies(&world, completed());
    ended(&world, all()).await;
    assert_eq!(world.paths("/podvolumebackups/").len(), 1);
    let outcome = ended(&world, all()).await;
    assert_eq!(world.ran(), ["copied db-0"]);
    assert_eq!(outcome.copies[0]["status"]["snapshotID"], "abc");
    assert_eq!(outcome.volumes[0].result, "succeeded");
}

#[tokio::test]
async fn a_claim_of_several_pods_is_copied_once() {
    let world = shop();
    pod(&world, "a", &["data"], false);
    pod(&world, "b", &["data"], false);
    end_copies(&world, completed());
    let outcome = ended(&world, all()).await;
    assert_eq!((outcome.copies.len(), outcome.volumes.len()), (1, 1));
    assert_eq!(outcome.results.errors.count(), 0);
}

#[rstest]
#[case::failed(json!({"phase": "Failed", "message": "the disk is gone"}), "the disk is gone")]
#[case::cancelled(json!({"phase": "Canceled", "message": "it was cancelled (spec.cancel)"}), "it was cancelled")]
#[tokio::test]
async fn a_volume_that_is_not_copied_is_an_error_that_names_it(#[case] status: Value, #[case] message: &str) {
    let world = shop();
    pod(&world, "db-0", &["data"], false);
    end_copies(&world, status);
    let outcome = ended(&world, all()).await;
    let errors: Vec<_> = outcome.results.errors.all().map(|(_, message)| message.to_owned()).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("volume data of pod shop/db-0 was not copied") && errors[0].contains(message),
        "{errors:?}"
    );
    assert_eq!(outcome.volumes[0].result, "failed");
}

#[tokio::test]
async fn the_claim_of_a_pod_that_does_not_run_is_missed() {
    let world = shop();
    pod(&world, "db-0", &["data"], false);
    world.change("/api/v1/namespaces/shop/pods/db-0", &json!({"status": {"phase": "Pending"}}));
    let outcome = ended(&world, all()).await;
    assert_eq!(outcome.copies.len(), 0);
    let errors: Vec<_> = outcome.results.errors.all().map(|(_, message)| message.to_owned()).collect();
    assert!(errors.len() == 1 && errors[0].contains("not running (phase Pending)"), "{errors:?}");
    assert_eq!((outcome.volumes[0].skipped, outcome.volumes[0].result.as_str()), (false, "failed"));
}

#[tokio::test]
async fn a_pass_that_is_told_to_stop_waits_for_no_copy_and_lets_its_pod_go() {
    let world = shop();
    pod(&world, "db-0", &["data"], true);
    let stop = CancellationToken::new();
    let token = stop.clone();
    world.on_list(move |_, path| {
        if path == COPIES {
            token.cancel();
        }
    });
    let input = hurried(&world, all(), stop).await;
    let outcome = tokio::time::timeout(Duration::from_secs(30), Box::pin(run(input))).await.unwrap();
    assert!(matches!(outcome, Err(PassError::Stopped)));
    assert_eq!(world.ran(), ["pre db-0", "post db-0"]);
    let object = world.get(&world.paths("/podvolumebackups/")[0]).unwrap();
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/consistency"], "Live");
}

#[rstest]
#[case::all_have_hooks(true, "Quiesced")]
#[case::one_has_none(false, "Live")]
#[tokio::test]
async fn the_copy_of_a_shared_claim_is_quiesced_if_all_its_pods_are(
    #[case] hooks: bool,
    #[case] expected: &str,
) {
    let world = shop();
    pod(&world, "db-0", &["data"], true);
    pod(&world, "db-1", &["data"], hooks);
    end_copies(&world, completed());
    let mut spec = all();
    spec["orderedResources"] = json!({"pods": "shop/db-0"});
    let outcome = ended(&world, spec).await;
    assert_eq!(outcome.copies.len(), 1);
    assert_eq!(outcome.copies[0]["metadata"]["annotations"]["lifeboat.io/consistency"], expected);
    let ran = world.ran();
    assert!(
        ran.ends_with(&if hooks {
            vec!["post db-0".to_owned(), "post db-1".to_owned()]
        } else {
            vec!["post db-0".to_owned()]
        }),
        "{ran:?}"
    );
}
