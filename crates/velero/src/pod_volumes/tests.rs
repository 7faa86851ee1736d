//! Volumes of pods with effects that only note their calls: what is written when, and what is left behind.

mod ends;
mod restore;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lifeboat_api::velero::PodVolumeBackup;
use lifeboat_mover::report::{BackedUp, Cause, Failure, Listed, Outcome};
use lifeboat_mover::task::{Source, TaskWork};
use lifeboat_plan::transfer::movers::MoverPlace;
use lifeboat_transfer::MoverSettings;
use lifeboat_transfer::movers::MoverEnd;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::testing::Cluster;
use crate::transfers::{TransferKind, work_context};
use lifeboat_transfer::attempts::WorkContext;
use lifeboat_transfer::attempts::testing::{FakeEffects, died, killed_when_cancelled, lost, reported};

/// A cluster with a pod `db-0` on node `a` and a way to bring its objects to their ends.
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) fake: Arc<FakeEffects>,
    pub(super) work: WorkContext,
}

impl World {
    pub(super) async fn new() -> Self {
        Self::with_node_access(true).await
    }

    async fn with_node_access(node_access: bool) -> Self {
        let cluster = Cluster::with_movers(MoverSettings { node_access, ..MoverSettings::default() }).await;
        cluster.put("pods", &pod());
        cluster.put("nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}));
        cluster.put(
            "backups",
            &json!({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "b"}}),
        );
        let fake = Arc::new(FakeEffects::default());
        let work = WorkContext {
            effects: fake.clone(),
            pace: Duration::from_millis(1),
            ..work_context(&cluster.context)
        };
        Self { cluster, fake, work }
    }

    fn add(&self, more: &Value) {
        let mut object = json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": "o", "uid": "o-1", "creationTimestamp": jiff::Timestamp::now().to_string(),
                "labels": {"velero.io/backup-name": "b", "velero.io/backup-uid": "uid-b"},
                "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": "b", "uid": "uid-b"}]},
            "spec": {"node": "a", "pod": {"kind": "Pod", "namespace": "lifeboat", "name": "db-0", "uid": "p-1"},
                "volume": "tmp", "backupStorageLocation": "default", "repoIdentifier": "", "uploaderType": "restic",
                "tags": {"backup": "b", "volume": "tmp"}},
        });
        crate::testing::merge(&mut object, more);
        self.cluster.put("podvolumebackups", &object);
    }

    async fn run(&self, cancel: &CancellationToken) -> Value {
        let object = self.cluster.get("podvolumebackups", "o").unwrap();
        let object: PodVolumeBackup = serde_json::from_value(object).unwrap();
        object.run_transfer(&self.work, cancel).await.unwrap();
        self.cluster.get("podvolumebackups", "o").unwrap()
    }
}

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "lifeboat", "uid": "p-1"},
        "spec": {"nodeName": "a", "containers": [], "volumes": [{"name": "tmp", "emptyDir": {}}]},
        "status": {"phase": "Running"}})
}

fn backed_up(unreadable: u64) -> MoverEnd {
    let first = (0..unreadable).map(|number| format!("file-{number}")).collect();
    reported(Outcome::BackedUp(BackedUp {
        snapshot: "abc".into(),
        bytes: 100,
        bytes_added: 40,
        changed: Listed { count: 2, first: Vec::new() },
        unreadable: Listed { count: unreadable, first },
        ..BackedUp::default()
    }))
}

#[tokio::test]
async fn a_volume_is_copied_and_the_object_says_so() {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(backed_up(0));
    world.fake.holds("o-1-1", "abc");
    let object = world.run(&CancellationToken::new()).await;
    let status = &object["status"];
    assert_eq!(status["phase"], "Completed", "{status}");
    assert_eq!((&status["snapshotID"], &status["incrementalBytes"]), (&json!("abc"), &json!(40)));
    assert_eq!(status["path"], "/var/lib/kubelet/pods/p-1/volumes/kubernetes.io~empty-dir/tmp");
    assert!(status["startTimestamp"].is_string() && status["completionTimestamp"].is_string());
    assert_eq!(object["metadata"]["annotations"]["lifeboat.io/changed-files"], "2");
    assert_eq!(object["spec"]["repoIdentifier"], "s3:there");
    assert_eq!(world.fake.calls(), ["reach default/lifeboat or make", "send o-1-1", "clear o-1-1"]);
    let sent = world.fake.requests.lock().unwrap();
    let TaskWork::Backup(work) = &sent[0].task.parts[0].work else { unreachable!() };
    assert_eq!(
        (work.host.as_str(), work.excludes.as_slice()),
        ("lifeboat/db-0/tmp", &["/.velero".to_owned()][..])
    );
    assert_eq!(work.tags, ["backup=b", "volume=tmp"]);
    assert_eq!(work.report.as_deref(), Some("backups/b/movers/o-1-1.json.gz"));
    assert!(matches!(&work.source, Source::Path { path, .. } if path.ends_with("tmp")));
    let MoverPlace::NodeDirectory { node, writable, .. } = &sent[0].job.place else { unreachable!() };
    assert_eq!((node.as_str(), *writable), ("a", false));
}

#[rstest]
#[case::given(json!({"ParallelFilesUpload": "7"}), Some(7))]
#[case::not_given(json!({}), None)]
#[tokio::test]
async fn a_mover_reads_as_many_files_at_once_as_the_settings_say(
    #[case] settings: Value,
    #[case] threads: Option<usize>,
) {
    let world = World::new().await;
    world.add(&json!({"spec": {"uploaderSettings": settings}}));
    world.fake.will(backed_up(0));
    world.fake.holds("o-1-1", "abc");
    world.run(&CancellationToken::new()).await;
    assert_eq!(world.fake.requests.lock().unwrap()[0].task.limits.threads, threads);
}

#[tokio::test]
async fn a_copy_that_misses_files_has_failed_and_keeps_its_snapshot() {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(backed_up(2));
    world.fake.holds("o-1-1", "abc");
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!((&status["phase"], &status["snapshotID"]), (&json!("Failed"), &json!("abc")));
    assert!(status["message"].as_str().unwrap().contains("file-0, file-1"), "{status}");
    assert!(world.fake.calls_to("forget").is_empty());
}

#[rstest]
#[case::it_said_why(reported(Outcome::Failed(Failure { cause: Cause::Storage, message: "storage is away".into() })),
    "storage is away")]
#[case::it_did_not_find_the_volume(reported(Outcome::Failed(Failure { cause: Cause::WrongVolume, message: "it is not there".into() })),
    "pod lifeboat/db-0: it is not there")]
#[case::it_died(died(false), "the mover was killed")]
#[case::it_lied(backed_up(0), "the mover named snapshot abc, which is not in the repository")]
#[tokio::test]
async fn without_a_snapshot_it_has_failed(#[case] end: MoverEnd, #[case] words: &str) {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(end);
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!((&status["phase"], &status["message"]), (&json!("Failed"), &json!(words)));
    assert_eq!(world.fake.calls().last().unwrap(), "clear o-1-1");
    assert_eq!(world.cluster.events(), ["Failed"]);
}

#[tokio::test]
async fn another_server_goes_on_with_the_attempt_that_is_on_record() {
    let world = World::new().await;
    world.add(&json!({"metadata": {"annotations": {"lifeboat.io/attempt": "2"}},
        "status": {"phase": "InProgress", "startTimestamp": "2026-01-01T00:00:00Z"}}));
    world.fake.will(backed_up(0));
    world.fake.holds("o-1-2", "abc");
    world.fake.holds("o-1-1", "late");
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!(
        (&status["phase"], &status["startTimestamp"]),
        (&json!("Completed"), &json!("2026-01-01T00:00:00Z"))
    );
    assert!(world.fake.calls().contains(&"send o-1-2".to_owned()));
    assert!(world.fake.calls().contains(&"forget lifeboat late".to_owned()), "one copy is enough");
}

#[tokio::test]
async fn what_is_left_alone_stays_as_it_is() {
    let world = World::new().await;
    world.add(&json!({}));
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!(status["phase"], "InProgress");
    assert!(world.fake.calls_to("clear").is_empty());
}

#[tokio::test]
async fn a_cancelled_copy_leaves_nothing() {
    let world = World::new().await;
    world.add(&json!({"spec": {"cancel": true}, "metadata": {"annotations": {"lifeboat.io/attempt": "1"}}}));
    world.fake.holds("o-1-1", "abc");
    let cancel = CancellationToken::new();
    cancel.cancel();
    let status = world.run(&cancel).await["status"].clone();
    assert_eq!(status["phase"], "Canceled");
    assert_eq!(world.fake.calls(), ["clear o-1-1", "forget lifeboat abc", "give up o-1-1"]);
}

#[tokio::test]
async fn nobody_copies_for_a_backup_that_is_gone() {
    let world = World::new().await;
    world.cluster.shared().remove("backups", "b");
    world.add(&json!({}));
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!((&status["phase"], &status["message"]), (&json!("Canceled"), &json!("its Backup b is gone")));
}

#[rstest]
#[case::gone(json!(null))]
#[case::another(json!({"metadata": {"uid": "p-2"}}))]
#[case::ended(json!({"status": {"phase": "Succeeded"}}))]
#[case::going(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}}))]
#[tokio::test]
async fn a_copy_of_a_pod_that_went_meanwhile_is_none(#[case] change: Value) {
    let world = World::new().await;
    world.add(&json!({}));
    world.fake.will(backed_up(0));
    world.fake.holds("o-1-1", "abc");
    let shared = world.cluster.shared();
    world.fake.meanwhile(move || {
        if change.is_null() {
            return shared.remove("pods", "db-0");
        }
        let mut changed = pod();
        crate::testing::merge(&mut changed, &change);
        shared.put("pods", &changed);
    });
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!(status["phase"], "Failed", "{status}");
    assert_eq!(status["snapshotID"], Value::Null);
    assert!(world.fake.calls().contains(&"forget lifeboat abc".to_owned()), "{:?}", world.fake.calls());
}

#[rstest]
#[case::no_node_access(false, json!({}), "directories of nodes, which is off")]
#[case::kopia(true, json!({"spec": {"uploaderType": "kopia"}}), "kopia is not supported")]
#[case::no_such_volume(true, json!({"spec": {"volume": "other"}}), "has no volume other")]
#[case::another_pod(true, json!({"spec": {"pod": {"uid": "p-0"}}}), "pod lifeboat/db-0 is gone")]
#[case::no_number(true, json!({"spec": {"uploaderSettings": {"ParallelFilesUpload": "many"}}}),
    "ParallelFilesUpload is \"many\"; expected a number of files")]
#[case::late(true, json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}), "its mover did not start within 24h0m0s (--mover-queue-timeout)")]
#[tokio::test]
async fn what_cannot_be_copied_says_why(#[case] node_access: bool, #[case] more: Value, #[case] words: &str) {
    let world = World::with_node_access(node_access).await;
    world.add(&more);
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!(status["phase"], "Failed");
    assert!(status["message"].as_str().unwrap().contains(words), "{status}");
    assert!(world.fake.calls_to("send").is_empty());
}

#[rstest]
#[case::for_good(false, 1)]
#[case::for_long(true, 60)]
#[tokio::test]
async fn a_repository_that_cannot_be_used_is_named(#[case] may_pass: bool, #[case] tries: usize) {
    let world = World::new().await;
    world.add(&json!({}));
    *world.fake.unusable.lock().unwrap() = Some(("wrong password".into(), may_pass));
    let status = world.run(&CancellationToken::new()).await["status"].clone();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["message"], "the repository of namespace lifeboat cannot be used: wrong password");
    assert_eq!(world.fake.calls_to("reach").len(), tries);
}
