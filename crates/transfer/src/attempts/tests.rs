//! A transfer with several parts, in a namespace of others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::common::{NamespaceName, RepositoryName, StorageName};
use lifeboat_cluster::ApiError;
use lifeboat_control::testing::ApiServer;
use lifeboat_mover::report::{BackedUp, Cause, Failure, Outcome, PartResult, PartResults, Restored};
use lifeboat_mover::task::{BackupWork, Part, RestoreWork, Source, Target, TaskWork};
use lifeboat_plan::transfer::limits::Counted;
use lifeboat_plan::transfer::movers::{MoverPlace, MoverVolume, Owner, data};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::testing::{FakeEffects, died, reported};
use super::*;
use crate::movers::{Death, DeathCause, MoverEnd};
use crate::repositories::RepositoryKey;

/// Notes what is recorded.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    #[allow(clippy::unnecessary_wraps, reason = "the answer of every write of a record")]
    fn add(&self, text: String) -> Result<bool, ApiError> {
        self.0.lock().unwrap().push(text);
        Ok(true)
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl AttemptRecord for Notes {
    fn owner(&self) -> Owner {
        Owner {
            kind: "BackupSession".into(),
            namespace: NamespaceName::new("shop"),
            name: "nightly".into(),
            uid: "6f1c".into(),
        }
    }

    fn limit_setting(&self) -> String {
        "spec.timeOut".into()
    }

    async fn accept(&self, accepted: Accepted<'_>) -> Result<bool, ApiError> {
        self.add(format!("accept {}", accepted.attempt))
    }

    async fn again(&self, attempt: u64, _: &[String], _: &str) -> Result<bool, ApiError> {
        self.add(format!("again {attempt}"))
    }

    async fn waiting(&self, _: &str) -> Result<bool, ApiError> {
        Ok(true)
    }

    async fn preparing(&self, _: &str) -> Result<bool, ApiError> {
        Ok(true)
    }

    async fn running(&self, _: &str) -> Result<bool, ApiError> {
        Ok(true)
    }

    async fn progress(&self, _: u64, _: u64) -> Result<bool, ApiError> {
        Ok(true)
    }

    async fn end(&self, end: End<'_>) -> Result<bool, ApiError> {
        self.add(format!("end {end:?}"))
    }

    async fn warn(&self, _: &str, _: &str) {}
}

/// One host of a session: two paths, two claims.
struct Host {
    transfer: Transfer,
    notes: Arc<Notes>,
    restores: bool,
    /// The volume is reached on another node by now.
    has_moved: bool,
}

impl Host {
    fn work(&self, number: usize) -> TaskWork {
        let path = data(number).into();
        if self.restores {
            return TaskWork::Restore(RestoreWork::new("5", Target::Path { path, proof: None }));
        }
        TaskWork::Backup(BackupWork::new(Source::Path { path, proof: None }, "app"))
    }
}

#[async_trait]
impl Steps for Host {
    fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    async fn prepare(&self, _: &CancellationToken) -> Result<Prepared, NotPrepared> {
        let part = |number| Part { uid: self.transfer.part(number), work: self.work(number) };
        let volume = |claim: &str| MoverVolume { claim: claim.into(), block: false, writable: self.restores };
        let mut pod = self.transfer.work.settings.pod("lifeboat");
        pod.service_account = Some("default".into());
        Ok(Prepared {
            parts: vec![part(0), part(1)],
            place: MoverPlace::Volumes { volumes: vec![volume("one"), volume("two")], node: None },
            pod,
            rates: Rates { upload: Some(102_400), download: Some(2_048) },
            threads: None,
            shown: json!({}),
        })
    }

    async fn done(&self, outcome: Outcome) -> Result<(), ApiError> {
        let Outcome::Parts(results) = outcome else { panic!("{outcome:?}") };
        let stored = self.transfer.stored_parts().await.unwrap();
        for part in results.parts {
            let snapshot = stored.get(&part.uid).map(|stored| stored.snapshot.id.clone());
            self.notes.add(format!("{} done {} {snapshot:?}", part.uid, part.outcome.is_done()))?;
        }
        self.transfer.clear().await
    }

    async fn unreported(&self, message: &str) -> Result<(), ApiError> {
        failed(self, message).await
    }

    async fn is_undone(&self) -> bool {
        self.transfer.stored_nothing().await
    }

    async fn has_moved(&self, death: &Death) -> bool {
        self.has_moved && death.cause == DeathCause::Volume
    }

    async fn clean(&self) -> Result<String, ApiError> {
        self.transfer.clear().await?;
        Ok(self.transfer.forget_all().await)
    }

    async fn recorded(&self) -> Result<Option<Value>, ApiError> {
        Ok(None)
    }
}

async fn host(effects: &Arc<FakeEffects>, restores: bool) -> Host {
    let core = ApiServer::default().core().await;
    let mut work = WorkContext::new(&core, Arc::default(), effects.clone());
    work.pace = Duration::from_millis(1);
    let notes = Arc::new(Notes::default());
    let spec = TransferSpec {
        task_base: "6f1c.0.ab".into(),
        namespace: "shop".into(),
        key: RepositoryKey::new(StorageName::new("stash"), RepositoryName::new("shop/repo")),
        repository: "Repository shop/repo".into(),
        make: !restores,
        group: "nightly".into(),
        created: None,
        limit: Duration::from_hours(1),
        counted: Counted::FromCreation,
        was_running: false,
        pod: None,
        is_new: true,
        attempt: None,
        dead_owners: Vec::new(),
    };
    Host { transfer: Transfer::new(&work, notes.clone(), spec), notes, restores, has_moved: false }
}

fn results(uids: [&str; 2], outcomes: [Outcome; 2]) -> Outcome {
    let parts = uids.into_iter().zip(outcomes).map(|(uid, outcome)| PartResult { uid: uid.into(), outcome });
    Outcome::Parts(PartResults { parts: parts.collect(), ..PartResults::default() })
}

fn broken() -> Outcome {
    Outcome::Failed(Failure { cause: Cause::Source, message: "it is gone".into() })
}

#[tokio::test]
async fn the_mover_gets_all_parts_in_the_transfers_own_namespace() {
    let effects = Arc::new(FakeEffects::default());
    effects.well.store(true, std::sync::atomic::Ordering::Relaxed);
    let host = host(&effects, false).await;
    run_transfer(&host, &CancellationToken::new()).await.unwrap();
    let requests = effects.requests.lock().unwrap();
    let (job, task) = (&requests[0].job, &requests[0].task);
    assert_eq!(
        (job.task.as_str(), job.namespace.as_str(), &*task.uid),
        ("6f1c.0.ab-1", "shop", "6f1c.0.ab-1")
    );
    assert_eq!((job.owner.namespace.as_str(), job.pod.service_account.as_deref()), ("shop", Some("default")));
    let uids: Vec<_> = task.parts.iter().map(|part| part.uid.as_str()).collect();
    assert_eq!(uids, ["6f1c.0.ab-1.0", "6f1c.0.ab-1.1"]);
    assert_eq!(
        host.notes.all(),
        [
            "accept 1",
            "6f1c.0.ab-1.0 done true Some(\"snapshot-6f1c.0.ab-1.0\")",
            "6f1c.0.ab-1.1 done true Some(\"snapshot-6f1c.0.ab-1.1\")",
        ]
    );
    assert_eq!(*effects.cleared_in.lock().unwrap(), ["shop"]);
    assert_eq!((task.limits.upload, task.limits.download), (Some(102_400), Some(2_048)));
}

fn dead(cause: DeathCause) -> MoverEnd {
    MoverEnd::Died(Death { cause, message: "the mover died".into(), dead_owner: None, may_retry: false })
}

#[rstest::rstest]
#[case::the_volume_moved(true, DeathCause::Volume, &["accept 1", "again 2", "accept 2"])]
#[case::the_volume_is_where_it_was(false, DeathCause::Volume, &["accept 1", "end Failed(\"the mover died\")"])]
#[case::for_another_reason(true, DeathCause::Refused, &["accept 1", "end Failed(\"the mover died\")"])]
#[case::out_of_time(false, DeathCause::Deadline, &["accept 1", "end Failed(\"it did not end within 1h0m0s (spec.timeOut)\")"])]
#[tokio::test]
async fn a_mover_that_could_not_start_is_followed_by_another_only_where_the_volume_moved(
    #[case] has_moved: bool,
    #[case] cause: DeathCause,
    #[case] expected: &[&str],
) {
    let effects = Arc::new(FakeEffects::default());
    effects.will(dead(cause));
    let host = Host { has_moved, ..host(&effects, false).await };
    run_transfer(&host, &CancellationToken::new()).await.unwrap();
    assert_eq!(host.notes.all(), expected);
}

#[tokio::test]
async fn parts_that_failed_are_the_steps_to_judge_and_locks_that_may_be_left_go() {
    let effects = Arc::new(FakeEffects::default());
    effects.holds("6f1c.0.ab-1.0", "first");
    let uids = ["6f1c.0.ab-1.0", "6f1c.0.ab-1.1"];
    effects.will(reported(results(uids, [Outcome::BackedUp(BackedUp::default()), broken()])));
    let host = host(&effects, false).await;
    run_transfer(&host, &CancellationToken::new()).await.unwrap();
    assert_eq!(
        host.notes.all(),
        ["accept 1", "6f1c.0.ab-1.0 done true Some(\"first\")", "6f1c.0.ab-1.1 done false None"]
    );
    assert_eq!(effects.calls_to("unlock"), ["unlock cluster/mover-pod"]);
}

/// A copy that is not wanted any more is forgotten with all of its parts; a volume that was filled is filled.
#[rstest::rstest]
#[case::backup(false, "end Cancelled")]
#[case::restore(true, "6f1c.0.ab-1.0 done true")]
#[tokio::test]
async fn a_transfer_that_is_cancelled_while_its_mover_ends(#[case] restores: bool, #[case] expected: &str) {
    let effects = Arc::new(FakeEffects::default());
    effects.late.store(true, std::sync::atomic::Ordering::Relaxed);
    effects.holds("6f1c.0.ab-1.0", "first");
    effects.holds("6f1c.0.ab-1.1", "second");
    effects.holds("6f1c.0.ab-12.0", "of another task");
    let outcome = || {
        if restores { Outcome::Restored(Restored::default()) } else { Outcome::BackedUp(BackedUp::default()) }
    };
    effects.will(reported(results(["6f1c.0.ab-1.0", "6f1c.0.ab-1.1"], [outcome(), outcome()])));
    let host = host(&effects, restores).await;
    run_transfer(&host, &CancellationToken::new()).await.unwrap();
    assert!(host.notes.all()[1].starts_with(expected), "{:?}", host.notes.all());
    let forgotten: &[&str] = if restores { &[] } else { &["forget shop/repo first,second"] };
    assert_eq!(effects.calls_to("forget"), forgotten);
}

#[rstest::rstest]
#[case::nothing_is_stored(None, &["accept 1", "again 2", "accept 2"])]
#[case::a_part_is_stored(Some("6f1c.0.ab-1.1"), &["accept 1"])]
#[tokio::test]
async fn a_mover_that_died_is_followed_by_another_unless_a_part_is_done(
    #[case] stored: Option<&str>,
    #[case] expected: &[&str],
) {
    let effects = Arc::new(FakeEffects::default());
    if let Some(part) = stored {
        effects.holds(part, "stored");
    }
    effects.will(died(true));
    let host = host(&effects, false).await;
    run_transfer(&host, &CancellationToken::new()).await.unwrap();
    let notes: Vec<_> = host.notes.all().into_iter().filter(|note| !note.starts_with("end")).collect();
    assert_eq!(notes, expected);
}
