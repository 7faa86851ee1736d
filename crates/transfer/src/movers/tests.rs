pub(crate) mod cluster;
mod looks;
mod namespaces;
mod time;

use lifeboat_control::testing::{Requests, Verb, When};
use lifeboat_mover::report::{BackedUp, Cause, Failure, Outcome};
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use cluster::{Fake, Notes, Password, ended, job, reported, request, running, starting};

fn done() -> Outcome {
    Outcome::BackedUp(BackedUp { snapshot: "s".into(), ..BackedUp::default() })
}

fn stopped() -> Outcome {
    Outcome::Failed(Failure { cause: Cause::Stopped, message: "told to end".into() })
}

async fn carry_out(fake: &Fake, uid: &str, watcher: &Notes, cancel: &CancellationToken) -> MoverEnd {
    let movers = fake.movers.clone();
    let mut request = request(uid);
    request.job.pod = movers.settings.pod("lifeboat");
    let ended = movers.carry_out(request, watcher, cancel);
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("it hangs").unwrap()
}

async fn simply(fake: &Fake, uid: &str) -> MoverEnd {
    carry_out(fake, uid, &Notes::default(), &CancellationToken::new()).await
}

#[track_caller]
fn died(ended: MoverEnd) -> Death {
    match ended {
        MoverEnd::Died(death) => death,
        other => panic!("it did not die: {other:?}"),
    }
}

#[tokio::test]
async fn a_mover_is_made_followed_to_its_result_and_cleared() {
    let fake = Fake::new().await;
    fake.script(&[
        Value::Null,
        Value::Null,
        starting(),
        running(),
        running(),
        running(),
        reported("THIS", done()),
    ]);
    fake.pods.lock().unwrap().log =
        "2026-01-01T00:00:00.1Z {\"line\":\"waiting\",\"holder\":\"h\",\"until\":null}\n\
                       2026-01-01T00:00:00.2Z nonsense\n"
            .to_owned();
    let watcher = Notes::default();
    let ended = carry_out(&fake, "a-1", &watcher, &CancellationToken::new()).await;
    assert!(matches!(&ended, MoverEnd::Reported { result, .. } if result.outcome == done()), "{ended:?}");
    assert_eq!(
        watcher.all(),
        [
            "preparing: waits for its pod",
            "preparing: starts on node a",
            "running: a",
            "line: Waiting { holder: \"h\", until: None }"
        ]
    );
    // The Secret before the Job that needs it; tied to it then.
    assert_eq!(fake.changes(), ["POST secrets", "POST jobs", "PATCH secrets/mover-a-1"]);
    let (secret, job) = (fake.object("secrets/mover-a-1").unwrap(), fake.object("jobs/mover-a-1").unwrap());
    assert!(job["metadata"]["uid"].is_string());
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"]);
    assert_eq!(secret["data"]["password-0"], "c2VjcmV0");
    assert!(secret["data"]["task.json"].is_string());
    let job = job.to_string();
    assert!(!job.contains("c2VjcmV0") && !job.contains("\"secret\","), "no secret in the Job: {job}");
    fake.movers.clear("lifeboat-movers", &TaskId::new("a-1")).await.unwrap();
    assert!(!fake.has("jobs/mover-a-1") && !fake.has("secrets/mover-a-1"));
    fake.movers.clear("lifeboat-movers", &TaskId::new("a-1")).await.unwrap();
}

#[rstest]
#[case::that_runs(&[running(), reported("a-1", done())])]
#[case::that_ended(&[reported("a-1", done())])]
#[tokio::test]
async fn a_job_that_is_there_is_adopted_and_no_second_one_is_made(#[case] states: &[Value]) {
    let fake = Fake::with(|settings| settings.at_once = 1).await;
    fake.put_job(&job("a-1"), states);
    fake.put_job(&job("b-1"), &[running()]);
    assert!(matches!(simply(&fake, "a-1").await, MoverEnd::Reported { .. }));
    assert!(!fake.changes().contains(&"POST jobs".to_owned()));
}

#[tokio::test]
async fn a_secret_that_an_interrupted_try_left_is_used_with_the_content_of_now() {
    let fake = Fake::new().await;
    fake.script(&[running(), reported("THIS", done())]);
    let left = json!({"metadata": {"name": "mover-a-1"}, "data": {"password-0": "b2xk"}});
    fake.put("secrets/mover-a-1", left);
    assert!(matches!(simply(&fake, "a-1").await, MoverEnd::Reported { .. }));
    assert_eq!(fake.object("secrets/mover-a-1").unwrap()["data"]["password-0"], "c2VjcmV0");
}

#[tokio::test]
async fn a_job_whose_secret_is_gone_gets_it_again() {
    let fake = Fake::new().await;
    fake.put_job(&job("a-1"), &[starting(), running(), reported("a-1", done())]);
    assert!(matches!(simply(&fake, "a-1").await, MoverEnd::Reported { .. }));
    let secret = fake.object("secrets/mover-a-1").unwrap();
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], "job-uid");
}

#[rstest]
#[case::it_stops(Some(reported("a-1", stopped())), true, true)]
#[case::it_is_killed(Some(ended("Error", 137, "")), true, true)]
#[case::it_goes(None, true, false)]
#[case::it_had_just_ended(Some(reported("a-1", done())), false, false)]
#[tokio::test]
async fn a_mover_that_is_cancelled_is_told_to_end(
    #[case] becomes: Option<Value>,
    #[case] cancelled: bool,
    #[case] reported: bool,
) {
    let fake = Fake::new().await;
    fake.put_job(&job("a-1"), &[running()]);
    fake.pods.lock().unwrap().on_delete = becomes;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let ended = carry_out(&fake, "a-1", &Notes::default(), &cancel).await;
    assert_eq!(matches!(ended, MoverEnd::Cancelled { .. }), cancelled, "{ended:?}");
    assert_eq!(matches!(ended, MoverEnd::Reported { .. }), !cancelled, "{ended:?}");
    let owner = matches!(&ended, MoverEnd::Cancelled { dead_owner: Some(owner), is_over: true } if owner == "cluster-uid/pod-uid");
    assert_eq!(owner, reported, "its locks may go where its end was reported: {ended:?}");
    let deleted = fake.changes().iter().filter(|change| *change == "DELETE pods/mover-a-1").count();
    assert_eq!(deleted, 1);
}

#[tokio::test]
async fn a_mover_that_is_cancelled_before_it_began_is_gone_at_once() {
    let fake = Fake::new().await;
    fake.put_job(&job("a-1"), &[starting()]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let ended = carry_out(&fake, "a-1", &Notes::default(), &cancel).await;
    assert!(matches!(ended, MoverEnd::Cancelled { .. }), "{ended:?}");
    assert_eq!(fake.changes().last().unwrap(), "DELETE pods/mover-a-1");
    assert!(matches!(carry_out(&fake, "b-1", &Notes::default(), &cancel).await, MoverEnd::Cancelled { .. }));
    assert!(!fake.has("jobs/mover-b-1"), "and one without a Job gets none");
}

#[rstest]
#[case::its_end_is_reported(Some(ended("Error", 137, "")), true)]
#[case::its_pod_is_gone_without_a_report(None, false)]
#[tokio::test]
async fn a_mover_whose_start_is_not_reported_yet_is_waited_for_when_it_is_cancelled(
    #[case] becomes: Option<Value>,
    #[case] expected: bool,
) {
    let fake = Fake::new().await;
    fake.put_job(&job("a-1"), &[starting()]);
    fake.pods.lock().unwrap().on_delete = becomes;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let ended = carry_out(&fake, "a-1", &Notes::default(), &cancel).await;
    let MoverEnd::Cancelled { is_over, .. } = ended else { panic!("{ended:?}") };
    assert_eq!(is_over, expected, "a pod on a node may have run");
    assert_eq!(fake.changes().last().unwrap(), "DELETE pods/mover-a-1");
}

#[tokio::test]
async fn a_server_that_rests_leaves_the_job_alone() {
    let fake = Fake::new().await;
    fake.script(&[running()]);
    let shutdown = CancellationToken::new();
    fake.movers.begin_term(&shutdown);
    let rests = async {
        while !fake.has("jobs/mover-a-1") {
            tokio::task::yield_now().await;
        }
        shutdown.cancel();
    };
    let (ended, ()) = tokio::join!(simply(&fake, "a-1"), rests);
    assert!(matches!(ended, MoverEnd::Left), "{ended:?}");
    assert!(fake.has("jobs/mover-a-1") && fake.has("secrets/mover-a-1"));
    assert!(matches!(simply(&fake, "b-1").await, MoverEnd::Left));
    assert!(!fake.has("jobs/mover-b-1"));
}

#[rstest]
#[case::out_of_memory(ended("OOMKilled", 137, ""), DeathCause::OutOfMemory, Some("cluster-uid/pod-uid"))]
#[case::killed(ended("Error", 137, ""), DeathCause::Killed, Some("cluster-uid/pod-uid"))]
#[case::result_of_another_task(reported("b-9", done()), DeathCause::Killed, Some("cluster-uid/pod-uid"))]
#[case::no_result(ended("Error", 1, "panicked"), DeathCause::Killed, Some("cluster-uid/pod-uid"))]
#[case::pod_gone(Value::Null, DeathCause::Deleted, None)]
#[tokio::test]
async fn a_mover_that_died_says_who_may_be_held_responsible(
    #[case] state: Value,
    #[case] cause: DeathCause,
    #[case] dead_owner: Option<&str>,
) {
    let fake = Fake::new().await;
    fake.script(&[running(), state]);
    let death = died(simply(&fake, "a-1").await);
    assert_eq!((death.cause, death.dead_owner.as_deref()), (cause, dead_owner), "{}", death.message);
    assert!(fake.has("jobs/mover-a-1"), "whoever records it clears it");
}

#[tokio::test]
async fn a_mover_that_was_evicted_and_stopped_in_good_order_was_evicted() {
    let fake = Fake::new().await;
    let mut state = reported("a-1", stopped());
    state["status"]["reason"] = json!("Evicted");
    fake.put_job(&job("a-1"), &[state]);
    let death = died(simply(&fake, "a-1").await);
    assert_eq!((death.cause, death.may_retry), (DeathCause::Evicted, true));
}

#[tokio::test]
async fn a_node_that_is_gone_is_no_proof_that_the_mover_is() {
    let fake = Fake::new().await;
    fake.put_job(&job("a-1"), &[running()]);
    fake.server.remove("/api/v1/nodes/a");
    let death = died(simply(&fake, "a-1").await);
    assert_eq!((death.cause, death.dead_owner, death.may_retry), (DeathCause::NodeLost, None, true));
}

#[rstest]
#[case::no_image(|settings: &mut crate::settings::MoverSettings| settings.image.clear(), "--mover-image")]
#[case::no_node_access(|settings: &mut crate::settings::MoverSettings| settings.node_access = false, "--node-access")]
#[tokio::test]
async fn what_the_admin_did_not_allow_is_refused_before_anything_is_made(
    #[case] change: fn(&mut crate::settings::MoverSettings),
    #[case] flag: &str,
) {
    let fake = Fake::with(change).await;
    let death = died(simply(&fake, "a-1").await);
    assert_eq!((death.cause, death.may_retry), (DeathCause::Refused, false));
    assert!(death.message.contains(flag), "{}", death.message);
    assert!(fake.changes().is_empty());
}

#[rstest]
#[case::no_namespace(404, "lifeboat install")]
#[case::quota(403, "quota")]
#[case::wrong_flag(422, "--mover-")]
#[tokio::test]
async fn what_the_api_server_will_never_take_is_an_end(#[case] code: u16, #[case] next: &str) {
    let fake = Fake::new().await;
    fake.server.fail(Requests::new(Verb::Create, "*"), When::Always, code);
    let death = died(simply(&fake, "a-1").await);
    assert_eq!(death.cause, DeathCause::Refused);
    assert!(death.message.contains(next), "{}", death.message);
}

#[tokio::test]
async fn trouble_with_the_api_server_ends_no_mover() {
    let fake = Fake::new().await;
    fake.put_job(&job("a-1"), &[running(), reported("a-1", done())]);
    for (number, code) in [(1, 429), (2, 500), (3, 503)] {
        fake.server.fail(Requests::new(Verb::List, "*/pods"), When::Nth(number), code);
    }
    assert!(matches!(simply(&fake, "a-1").await, MoverEnd::Reported { .. }));
}

#[tokio::test]
async fn never_more_run_than_the_limit_and_those_who_wait_are_told_why() {
    let fake = Fake::with(|settings| settings.at_once_on_node = 2).await;
    fake.script(&[starting(), running(), reported("THIS", done())]);
    let watchers: Vec<Notes> = (0..6).map(|_| Notes::default()).collect();
    let runs = watchers.iter().enumerate().map(|(number, watcher)| {
        let fake = &fake;
        async move {
            let uid = format!("{number}-1");
            let ended = carry_out(fake, &uid, watcher, &CancellationToken::new()).await;
            assert!(matches!(ended, MoverEnd::Reported { .. }), "{ended:?}");
            fake.movers.clear("lifeboat-movers", &TaskId::new(uid)).await.unwrap();
        }
    });
    futures::future::join_all(runs).await;
    assert!(fake.pods.lock().unwrap().most <= 3, "two run, and one that ended may not be cleared yet");
    let queued =
        watchers.iter().flat_map(Notes::all).filter(|note| note.starts_with("queued: ")).collect::<Vec<_>>();
    assert!(
        queued.iter().any(|told| told.contains("2 movers run on node a (limit 2, --movers-per-node)")),
        "{queued:?}"
    );
}

#[tokio::test]
async fn jobs_of_the_term_before_count_until_they_end() {
    let fake = Fake::with(|settings| settings.at_once = 1).await;
    fake.put_job(&job("old-1"), &[running()]);
    fake.script(&[reported("THIS", done())]);
    let watcher = Notes::default();
    let ends = async {
        while watcher.all().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(!fake.has("jobs/mover-a-1"));
        fake.movers.recount().await.unwrap();
        assert!(!fake.has("jobs/mover-a-1"));
        fake.remove("jobs/mover-old-1");
        fake.movers.recount().await.unwrap();
    };
    let cancel = CancellationToken::new();
    let (ended, ()) = tokio::join!(carry_out(&fake, "a-1", &watcher, &cancel), ends);
    assert!(matches!(ended, MoverEnd::Reported { .. }), "{ended:?}");
    assert!(
        watcher.all()[0].starts_with("queued: waits for its turn: 1 mover runs in all"),
        "{:?}",
        watcher.all()
    );
}

#[tokio::test]
async fn a_mover_gets_the_credentials_that_hold_when_its_turn_comes() {
    let fake = Fake::with(|settings| settings.at_once = 1).await;
    fake.put_job(&job("old-1"), &[running()]);
    fake.script(&[reported("THIS", done())]);
    let (watcher, cancel) = (Notes::default(), CancellationToken::new());
    let password = Arc::new(Password::default());
    let waits = MoverRequest { keys: password.clone(), ..request("a-1") };
    let ends = async {
        while watcher.all().is_empty() {
            tokio::task::yield_now().await;
        }
        *password.0.lock().unwrap() = Some("new");
        fake.remove("jobs/mover-old-1");
        fake.movers.recount().await.unwrap();
    };
    let movers = fake.movers.clone();
    let (ended, ()) = tokio::join!(movers.carry_out(waits, &watcher, &cancel), ends);
    assert!(matches!(ended.unwrap(), MoverEnd::Reported { .. }));
    assert_eq!(fake.object("secrets/mover-a-1").unwrap()["data"]["password-0"], "bmV3");
}

#[tokio::test]
async fn a_repository_that_nothing_opens_any_more_is_named() {
    let fake = Fake::new().await;
    let keys = Arc::new(Password(std::sync::Mutex::new(None)));
    let locked_out = MoverRequest { keys, ..request("a-1") };
    let (watcher, cancel) = (Notes::default(), CancellationToken::new());
    let ended = fake.movers.carry_out(locked_out, &watcher, &cancel).await.unwrap();
    let death = died(ended);
    assert_eq!((death.cause, death.may_retry), (DeathCause::Refused, false));
    assert!(death.message.contains("default/shop cannot be used: no password"), "{}", death.message);
    assert!(fake.changes().is_empty());
}

#[tokio::test]
async fn whoever_gives_up_waiting_gives_its_place_back() {
    let fake = Fake::with(|settings| settings.at_once = 1).await;
    fake.put_job(&job("old-1"), &[running()]);
    let (watcher, cancel) = (Notes::default(), CancellationToken::new());
    let waits = async {
        while watcher.all().is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(carry_out(&fake, "a-1", &watcher, &cancel), waits);
    assert!(matches!(ended, MoverEnd::Cancelled { .. }), "{ended:?}");
    assert!(fake.changes().is_empty());
}

#[tokio::test]
async fn a_sweep_removes_what_nobody_needs_and_nothing_else() {
    let fake = Fake::new().await;
    let owner = |uid: &str, phase: &str| {
        json!({"apiVersion": "velero.io/v1", "kind": "PodVolumeBackup",
            "metadata": {"name": format!("pvb-{uid}"), "uid": format!("owner-{uid}")}, "status": {"phase": phase}})
    };
    for uid in ["needed", "over", "ownerless", "other"] {
        fake.put_job(&job(uid), &[running()]);
    }
    for (name, created) in
        [("needed", "2026-01-01T00:00:00Z"), ("old", "2026-01-01T00:00:00Z"), ("new", "2999-01-01T00:00:00Z")]
    {
        let mut secret = lifeboat_plan::transfer::movers::job::secret(&job(name));
        secret["metadata"]["creationTimestamp"] = json!(created);
        fake.put(&format!("secrets/mover-{name}"), secret);
    }
    fake.put("podvolumebackups/pvb-needed", owner("needed", "InProgress"));
    fake.put("podvolumebackups/pvb-over", owner("over", "Completed"));
    let mut other = owner("other", "InProgress");
    other["metadata"]["uid"] = json!("another one of that name");
    fake.put("podvolumebackups/pvb-other", other);
    fake.movers.sweep().await.unwrap();
    assert_eq!(fake.left(), ["jobs/mover-needed", "secrets/mover-needed", "secrets/mover-new"]);
}
