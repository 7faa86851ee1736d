//! Operations over a cluster in memory, with a snapshotter made of functions.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use lifeboat_archive::{Level, RunLog};
use lifeboat_plugin::volume::{SnapshotRequest, VolumeInfo, VolumeProgress, VolumeRequest};
use rstest::rstest;
use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::testing::Cluster;

type Answer<T> = Result<T, ActionError>;
type Does<Q, A> = dyn Fn(&Q) -> Answer<A> + Send + Sync;

/// A snapshotter made of functions; what is not set does what a plain snapshotter does.
pub(crate) struct FakeSnapshotter {
    pub(crate) id: Box<Does<Value, Option<String>>>,
    pub(crate) info: Box<Does<str, VolumeInfo>>,
    pub(crate) create: Box<Does<SnapshotRequest, String>>,
    pub(crate) delete: Box<Does<str, ()>>,
    pub(crate) restore: Box<Does<VolumeRequest, String>>,
    /// The answers about progress, one after the other; the last one stays. None: there is no such service.
    pub(crate) progress: Option<Mutex<VecDeque<Answer<Option<VolumeProgress>>>>>,
    /// The calls return only after so many answers about their progress were given.
    pub(crate) returns_after: usize,
    pub(crate) hangs: bool,
    pub(crate) asked: Mutex<Vec<ProgressOf>>,
    pub(crate) calls: Mutex<Vec<String>>,
    pub(crate) answered: Notify,
}

impl Default for FakeSnapshotter {
    fn default() -> Self {
        Self {
            id: Box::new(|volume| {
                Ok(volume.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned))
            }),
            info: Box::new(|_| Ok(VolumeInfo { volume_type: "ssd".into(), iops: Some(100) })),
            create: Box::new(|request| Ok(format!("snap-{}", request.volume_id))),
            delete: Box::new(|_| Ok(())),
            restore: Box::new(|request| Ok(format!("vol-{}", request.snapshot_id))),
            progress: None,
            returns_after: 0,
            hangs: false,
            asked: Mutex::default(),
            calls: Mutex::default(),
            answered: Notify::new(),
        }
    }
}

impl FakeSnapshotter {
    pub(crate) fn with_progress(answers: Vec<Answer<Option<VolumeProgress>>>) -> Self {
        Self { returns_after: answers.len(), progress: Some(Mutex::new(answers.into())), ..Self::default() }
    }

    fn note(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    async fn take_time(&self) {
        while self.asked.lock().unwrap().len() < self.returns_after {
            self.answered.notified().await;
        }
        if self.hangs {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl VolumeSnapshotter for FakeSnapshotter {
    fn name(&self) -> &'static str {
        "example.com/fake"
    }
    async fn volume_id(&self, volume: &Value) -> Answer<Option<String>> {
        (self.id)(volume)
    }
    async fn with_volume_id(&self, volume: &Value, volume_id: &str) -> Answer<Value> {
        let mut volume = volume.clone();
        volume["spec"]["fake"] = volume_id.into();
        Ok(volume)
    }
    async fn volume_info(&self, volume_id: &str, _zone: &str) -> Answer<VolumeInfo> {
        (self.info)(volume_id)
    }
    async fn create_snapshot(&self, request: &SnapshotRequest) -> Answer<String> {
        self.note(format!("create {}", request.volume_id));
        self.take_time().await;
        (self.create)(request)
    }
    async fn delete_snapshot(&self, snapshot_id: &str) -> Answer<()> {
        self.note(format!("delete {snapshot_id}"));
        (self.delete)(snapshot_id)
    }
    async fn create_volume(&self, request: &VolumeRequest) -> Answer<String> {
        self.note(format!("restore {}", request.snapshot_id));
        self.take_time().await;
        (self.restore)(request)
    }
    async fn reports_progress(&self) -> Answer<bool> {
        Ok(self.progress.is_some())
    }
    async fn progress(&self, of: &ProgressOf) -> Answer<Option<VolumeProgress>> {
        let Some(answers) = &self.progress else { return Ok(None) };
        self.asked.lock().unwrap().push(of.clone());
        self.answered.notify_waiters();
        self.answered.notify_one();
        let mut answers = answers.lock().unwrap();
        let copy = |answer: &Answer<Option<VolumeProgress>>| match answer {
            Ok(progress) => Ok(progress.clone()),
            Err(error) => Err(ActionError::Failed(error.to_string())),
        };
        match answers.len() {
            0 => Ok(None),
            1 => copy(&answers[0]),
            _ => answers.pop_front().unwrap(),
        }
    }
}

#[allow(clippy::unnecessary_wraps)] // what a snapshotter answers
pub(crate) fn bytes(done: i64, total: i64) -> Answer<Option<VolumeProgress>> {
    Ok(Some(VolumeProgress { bytes_done: done, total_bytes: total, ..VolumeProgress::default() }))
}

#[allow(clippy::unnecessary_wraps)] // what a snapshotter answers
pub(crate) fn phase(word: &str) -> Answer<Option<VolumeProgress>> {
    let progress =
        VolumeProgress { phase: word.into(), bytes_done: 7, total_bytes: 9, ..VolumeProgress::default() };
    Ok(Some(progress))
}

fn subject(kind: Kind) -> Subject {
    Subject {
        kind,
        namespace: "lifeboat".into(),
        owner: ("b".into(), "uid-b".into()),
        backup: "b".into(),
        plugin: "example.com/fake".into(),
        location: "disk".into(),
        volume: "pv".into(),
        snapshot_id: if kind == Kind::Backup { String::new() } else { "snap-pv".into() },
    }
}

async fn called(cluster: &Cluster, kind: Kind, snapshotter: &FakeSnapshotter) -> Called {
    let subject = subject(kind);
    let log = RunLog::create(&std::env::temp_dir(), &[], Level::Info).unwrap();
    let request = SnapshotRequest { volume_id: "pv".into(), ..SnapshotRequest::default() };
    let of = match kind {
        Kind::Backup => ProgressOf::Snapshotting(request.clone()),
        Kind::Restore => ProgressOf::Restore { snapshot_id: "snap-pv".into(), volume_id: None },
    };
    let operation = Operation {
        client: DatedClient::of(&cluster.context),
        subject: &subject,
        snapshotter,
        of,
        limit: Duration::from_secs(if snapshotter.hangs { 0 } else { 60 }),
        log: &log,
        pace: Duration::ZERO,
    };
    match kind {
        Kind::Backup => run(&operation, snapshotter.create_snapshot(&request)).await,
        Kind::Restore => {
            let request = VolumeRequest { snapshot_id: "snap-pv".into(), ..VolumeRequest::default() };
            run(&operation, snapshotter.create_volume(&request)).await
        }
    }
}

#[rstest]
#[case(Kind::Backup, "/status/snapshotID", "snap-pv")]
#[case(Kind::Restore, "/status/volumeID", "pv")]
#[tokio::test]
async fn a_plugin_that_says_nothing_gets_phase_and_times(
    #[case] kind: Kind,
    #[case] field: &str,
    #[case] made: &str,
) {
    let cluster = Cluster::new().await;
    let done = called(&cluster, kind, &FakeSnapshotter::default()).await;
    assert_eq!(done.standing, OperationState::Completed);
    let names = cluster.names(kind.plural());
    assert_eq!(names, [subject(kind).name()]);
    let object = cluster.get(kind.plural(), &names[0]).unwrap();
    assert_eq!(object["status"]["phase"], "Completed");
    assert!(
        object["status"]["startTimestamp"].is_string() && object["status"]["completionTimestamp"].is_string()
    );
    assert_eq!(object.pointer(field), Some(&json!(made)));
    assert_eq!(done.object.unwrap()["metadata"]["name"], names[0]);
    assert_eq!(object["metadata"]["labels"]["velero.io/snapshot-id"], "snap-pv");
}

#[tokio::test]
async fn progress_is_shown_while_the_call_runs_and_never_backwards() {
    let cluster = Cluster::new().await;
    let snapshotter = FakeSnapshotter {
        returns_after: 4,
        ..FakeSnapshotter::with_progress(vec![bytes(5, 10), bytes(3, 10), bytes(99, 10), Ok(None)])
    };
    let done = called(&cluster, Kind::Backup, &snapshotter).await;
    assert_eq!(
        done.standing,
        OperationState::Completed,
        "a snapshot that its own plugin does not know is the call's"
    );
    let progress = done.object.unwrap()["status"]["progress"].clone();
    assert_eq!(progress, json!({"bytesDone": 10, "totalBytes": 10, "BytesDone": 10, "TotalBytes": 10}));
    let asked = snapshotter.asked.lock().unwrap();
    assert!(matches!(asked[0], ProgressOf::Snapshotting(_)));
    assert_eq!(asked.last(), Some(&ProgressOf::Snapshot { snapshot_id: "snap-pv".into() }));
}

#[tokio::test]
async fn an_upload_that_goes_on_after_the_call_stays_open_until_it_ends() {
    let cluster = Cluster::new().await;
    let snapshotter = FakeSnapshotter::with_progress(vec![bytes(1, 9), phase("Uploading")]);
    let done = called(&cluster, Kind::Backup, &snapshotter).await;
    assert_eq!(done.standing, OperationState::Open);
    let object = done.object.unwrap();
    assert_eq!(
        (&object["status"]["phase"], &object["status"]["snapshotID"]),
        (&json!("Uploading"), &json!("snap-pv"))
    );
    let client = DatedClient::of(&cluster.context);
    let (same, standing) = poll(client, Kind::Backup, "lifeboat", &object, &snapshotter).await.unwrap();
    assert_eq!((standing, &same["status"]), (OperationState::Open, &object["status"]));
    let ended = FakeSnapshotter::with_progress(vec![phase("completed")]);
    let (object, standing) = poll(client, Kind::Backup, "lifeboat", &object, &ended).await.unwrap();
    assert_eq!(standing, OperationState::Completed);
    assert_eq!(object["status"]["progress"]["bytesDone"], 9);
    assert!(object["status"]["completionTimestamp"].is_string());
}

#[rstest]
#[case::says_failed(phase("FAILED"), OperationState::Failed("the plugin gives no reason".into()))]
#[case::cannot_be_asked(Err(ActionError::Failed("gone".into())), OperationState::Open)]
#[tokio::test]
async fn what_the_plugin_says_after_the_call_counts(
    #[case] answer: Answer<Option<VolumeProgress>>,
    #[case] expected: OperationState,
) {
    let cluster = Cluster::new().await;
    let done = called(&cluster, Kind::Backup, &FakeSnapshotter::with_progress(vec![answer])).await;
    assert_eq!((done.standing, done.made), (expected, Ok("snap-pv".to_owned())));
}

#[rstest]
#[case::error(FakeSnapshotter { create: Box::new(|_| Err(ActionError::Failed("no quota".into()))), ..FakeSnapshotter::default() }, "no quota")]
#[case::empty(FakeSnapshotter { create: Box::new(|_| Ok(String::new())), ..FakeSnapshotter::default() }, "an empty ID")]
#[case::hangs(FakeSnapshotter { hangs: true, ..FakeSnapshotter::default() }, "did not answer within")]
#[tokio::test]
async fn a_call_that_fails_is_in_its_object(#[case] snapshotter: FakeSnapshotter, #[case] message: &str) {
    let cluster = Cluster::new().await;
    let done = called(&cluster, Kind::Backup, &snapshotter).await;
    assert!(done.made.unwrap_err().to_string().contains(message));
    let object = cluster.get("volumepluginbackups", &subject(Kind::Backup).name()).unwrap();
    assert_eq!(object["status"]["phase"], "Failed");
    assert!(object["status"]["message"].as_str().unwrap().contains(message), "{object}");
    assert!(object["status"]["completionTimestamp"].is_string());
}

/// Makes the plugin's own object while the call runs.
fn with_own(cluster: &Cluster, kind: Kind, name: &str, status: &Value) -> FakeSnapshotter {
    let (spec, plural) = match kind {
        Kind::Backup => (json!({"backup": "b", "volume": "pv", "plugin": "example.com/fake"}), kind.plural()),
        Kind::Restore => {
            (json!({"backup": "b", "snapshotID": "snap-pv", "plugin": "example.com/fake"}), kind.plural())
        }
    };
    let own = json!({"apiVersion": "velero.io/v1", "kind": kind.name(), "metadata": {"name": name},
        "spec": spec, "status": status});
    let (one, other) = (cluster.shared(), cluster.shared());
    let again = own.clone();
    FakeSnapshotter {
        create: Box::new(move |_| {
            one.put(plural, &own);
            Ok("snap-pv".into())
        }),
        restore: Box::new(move |_| {
            other.put(plural, &again);
            Ok("vol".into())
        }),
        ..FakeSnapshotter::default()
    }
}

#[rstest]
#[case::named_by_the_snapshot(Kind::Backup, "snap-pv", json!({"phase": "Completed"}), OperationState::Completed)]
#[case::named_otherwise(Kind::Backup, "any", json!({"phase": "Uploading"}), OperationState::Open)]
#[case::of_a_restore(Kind::Restore, "any", json!({"phase": "Uploading"}), OperationState::Open)]
#[case::failed(Kind::Restore, "any", json!({"phase": "Failed", "message": "full"}), OperationState::Failed("full".into()))]
#[tokio::test]
async fn a_plugins_own_object_is_adopted_and_ours_goes(
    #[case] kind: Kind,
    #[case] name: &str,
    #[case] status: Value,
    #[case] expected: OperationState,
) {
    let cluster = Cluster::new().await;
    let snapshotter = with_own(&cluster, kind, name, &status);
    let done = called(&cluster, kind, &snapshotter).await;
    assert_eq!(done.standing, expected);
    assert_eq!(cluster.names(kind.plural()), [name]);
    let own = cluster.get(kind.plural(), name).unwrap();
    assert_eq!(own["status"], status, "the plugin's to write");
    assert_eq!(own["metadata"]["labels"]["velero.io/backup-name"], "b");
    assert_eq!(own["metadata"]["labels"]["velero.io/snapshot-id"], "snap-pv");
    assert_eq!(own["metadata"]["ownerReferences"][0]["uid"], "uid-b");
    if expected == OperationState::Open {
        let message = "its time is over";
        give_up(DatedClient::of(&cluster.context), kind, "lifeboat", name, message).await.unwrap();
        assert_eq!(cluster.get(kind.plural(), name).unwrap()["status"]["phase"], "Failed");
    }
}

#[rstest]
#[case(Kind::Backup)]
#[case(Kind::Restore)]
#[tokio::test]
async fn ours_goes_even_where_the_call_returns_while_it_is_written(#[case] kind: Kind) {
    let cluster = Cluster::new().await;
    let snapshotter = FakeSnapshotter {
        progress: Some(Mutex::new([bytes(5, 10)].into())),
        // The call returns when progress was asked for, before it is written.
        returns_after: 1,
        ..with_own(&cluster, kind, "own", &json!({"phase": "Completed"}))
    };
    let done = called(&cluster, kind, &snapshotter).await;
    assert_eq!(done.object.unwrap()["metadata"]["name"], "own");
    assert_eq!(cluster.names(kind.plural()), ["own"]);
}

#[tokio::test]
async fn what_ended_by_itself_is_not_given_up() {
    let cluster = Cluster::new().await;
    let snapshotter = with_own(&cluster, Kind::Backup, "snap-pv", &json!({"phase": "Completed"}));
    called(&cluster, Kind::Backup, &snapshotter).await;
    let client = DatedClient::of(&cluster.context);
    let left = give_up(client, Kind::Backup, "lifeboat", "snap-pv", "too late").await.unwrap().unwrap();
    assert_eq!(left["status"], json!({"phase": "Completed"}));
}

#[tokio::test]
async fn an_object_that_is_deleted_while_it_runs_is_made_again() {
    let cluster = Cluster::new().await;
    let (shared, name) = (cluster.shared(), subject(Kind::Backup).name());
    let gone = name.clone();
    let snapshotter = FakeSnapshotter {
        create: Box::new(move |_| {
            shared.remove("volumepluginbackups", &gone);
            Ok("snap-pv".into())
        }),
        ..FakeSnapshotter::with_progress(vec![bytes(1, 9), bytes(2, 9)])
    };
    let done = called(&cluster, Kind::Backup, &snapshotter).await;
    assert_eq!(done.standing, OperationState::Open);
    assert_eq!(cluster.names("volumepluginbackups"), [name.as_str()]);
    cluster.shared().remove("volumepluginbackups", &name);
    let object = done.object.unwrap();
    poll(DatedClient::of(&cluster.context), Kind::Backup, "lifeboat", &object, &snapshotter).await.unwrap();
    assert_eq!(cluster.names("volumepluginbackups"), [name]);
}

#[tokio::test]
async fn a_second_attempt_takes_over_the_object_of_the_first() {
    let cluster = Cluster::new().await;
    let failing = FakeSnapshotter {
        create: Box::new(|_| Err(ActionError::Failed("x".into()))),
        ..FakeSnapshotter::default()
    };
    called(&cluster, Kind::Backup, &failing).await;
    let done = called(&cluster, Kind::Backup, &FakeSnapshotter::default()).await;
    let object = done.object.unwrap();
    assert_eq!(object["status"]["phase"], "Completed");
    assert_eq!(object["status"].get("message"), None);
    assert_eq!(cluster.names("volumepluginbackups").len(), 1);
}

#[tokio::test]
async fn what_is_open_when_its_owner_ends_is_ended_and_goes_with_it() {
    let cluster = Cluster::new().await;
    let snapshotter = FakeSnapshotter::with_progress(vec![phase("Uploading")]);
    called(&cluster, Kind::Backup, &snapshotter).await;
    let client = DatedClient::of(&cluster.context);
    end_open(client, Kind::Backup, "lifeboat", "uid-b", "the backup was cancelled").await;
    let object = cluster.get("volumepluginbackups", &subject(Kind::Backup).name()).unwrap();
    assert_eq!(object["status"]["message"], "the backup was cancelled");
    delete_all(client.client, Kind::Backup, "lifeboat", "b").await.unwrap();
    assert!(cluster.names("volumepluginbackups").is_empty());
}
