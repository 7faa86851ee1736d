//! Standstills of a Deployment on the API server in memory: what is written, in which order, and what a server that follows finds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lifeboat_cluster::testing::failure;
use lifeboat_control::locked;
use lifeboat_control::testing::{ApiServer, Requests, Verb, When};
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::in_place::{RestoreName, STANDSTILL, StopPlan};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::target::TargetName;

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const PODS: &str = "/api/v1/namespaces/shop/pods/";
const PACE: Duration = Duration::from_millis(20);

/// A cluster with a Deployment whose pods follow its scale.
fn cluster(replicas: u32) -> ApiServer {
    let server = ApiServer::default();
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid"}, "spec": {"replicas": replicas},
    });
    server.put(DEPLOYMENT, object);
    follow(&server);
    server.on_write(|server, write| {
        if write.path == DEPLOYMENT {
            follow(server);
        }
    });
    server
}

fn follow(server: &ApiServer) {
    let wanted = replicas(server);
    for path in server.paths(PODS) {
        server.remove(&path);
    }
    for number in 0..wanted {
        let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": [volume]}});
        server.put(&format!("{PODS}web-{number}"), pod);
    }
}

fn replicas(server: &ApiServer) -> u64 {
    server.get(DEPLOYMENT).and_then(|web| web["spec"]["replicas"].as_u64()).unwrap_or_default()
}

fn annotation(server: &ApiServer) -> Value {
    let text = server.get(DEPLOYMENT).unwrap()["metadata"]["annotations"][STANDSTILL].clone();
    text.as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

/// A restore whose movers end as the test asks.
struct Restore {
    server: ApiServer,
    record: Mutex<Option<Standstill>>,
    steps: Mutex<Vec<Step>>,
    copy: Mutex<Work>,
    data: Mutex<Work>,
    /// How movers of data end; None: they run until they are cancelled.
    end: Option<Work>,
    give_up: Mutex<Option<String>>,
    /// The write of this step finds no restore.
    vanishes: Option<Step>,
}

impl Restore {
    fn new(server: &ApiServer, end: Option<Work>) -> Self {
        let plan =
            StopPlan { replicas: 2, safety_copy: true, safety_of: None, held_by: None, forced: Vec::new() };
        let restore = RestoreName {
            kind: "RestoreSession".into(),
            namespace: "shop".into(),
            name: "back".into(),
            uid: "r".into(),
        };
        Self {
            server: server.clone(),
            record: Mutex::new(Some(Standstill::new(TargetKind::Deployment, ("web", "uid"), &plan, restore))),
            steps: Mutex::default(),
            copy: Mutex::new(Work::NotBegun),
            data: Mutex::new(Work::NotBegun),
            end,
            give_up: Mutex::default(),
            vanishes: None,
        }
    }

    fn step(&self) -> Step {
        locked(&self.record).as_ref().unwrap().step
    }
}

#[async_trait]
impl Restoring for Restore {
    async fn record(&self) -> Option<Standstill> {
        locked(&self.record).clone()
    }

    async fn write(&self, record: Standstill) -> Result<bool, ApiError> {
        let mut held = locked(&self.record);
        if self.vanishes == Some(record.step) {
            return Ok(false);
        }
        locked(&self.steps).push(record.step);
        *held = Some(record);
        Ok(true)
    }

    async fn work(&self, step: Step) -> Work {
        match step {
            Step::SafetyCopy => locked(&self.copy).clone(),
            Step::Restoring => locked(&self.data).clone(),
            _ => Work::NotBegun,
        }
    }

    async fn run(&self, step: Step, cancel: &CancellationToken) -> Result<(), ApiError> {
        if !cancel.is_cancelled() {
            assert_eq!(replicas(&self.server), 0, "movers work on volumes at rest");
            assert_eq!(self.server.paths(PODS), Vec::<String>::new());
        }
        if step == Step::Restoring && !cancel.is_cancelled() {
            // A restore that follows reads it where this one and its record vanish.
            assert_eq!(annotation(&self.server)["step"], "Restoring");
        }
        if step == Step::SafetyCopy {
            *locked(&self.copy) = Work::Done;
            return Ok(());
        }
        *locked(&self.data) = Work::Running;
        if let (Some(end), false) = (&self.end, cancel.is_cancelled()) {
            *locked(&self.data) = end.clone();
            return Ok(());
        }
        cancel.cancelled().await;
        Ok(())
    }

    async fn cancelled(&self, reason: &str) -> Result<(), ApiError> {
        *locked(&self.data) = Work::Failed(reason.to_owned());
        Ok(())
    }

    async fn give_up(&self) -> Option<String> {
        locked(&self.give_up).clone()
    }

    async fn waiting(&self, _message: &str) -> Result<(), ApiError> {
        Ok(())
    }
}

async fn carried_out(server: &ApiServer, restore: &Restore) -> Ended {
    // However slow the machine is, a webhook that comes back is waited for.
    carried_out_within(server, restore, Duration::from_mins(10)).await
}

type Ended = Result<StandstillEnd, ApiError>;

/// `webhooks`: how long a webhook that fails is waited for.
async fn carried_out_within(server: &ApiServer, restore: &Restore, webhooks: Duration) -> Ended {
    let core = server.core().await;
    let workload = Workload {
        core: &core,
        target: TargetName { kind: TargetKind::Deployment, namespace: "shop", name: "web" },
        claims: std::iter::once("data".to_owned()).collect(),
        session: "r",
        grace: Duration::from_secs(30),
        webhooks,
    };
    carry_out(&workload, restore, PACE).await
}

#[tokio::test]
async fn a_workload_is_stopped_and_gets_its_scale_back() {
    let server = cluster(2);
    let restore = Restore::new(&server, Some(Work::Done));
    let ended = carried_out(&server, &restore).await.unwrap();
    assert_eq!(ended, StandstillEnd::Over { failure: None });
    assert_eq!((replicas(&server), annotation(&server)), (2, Value::Null));
    let expected = [
        Step::Stopping,
        Step::Stopped,
        Step::SafetyCopy,
        Step::Restoring,
        Step::Verified,
        Step::Starting,
        Step::Started,
    ];
    assert_eq!(*locked(&restore.steps), expected);
}

#[tokio::test]
async fn after_a_failure_it_stays_down_and_carries_the_record() {
    let server = cluster(2);
    let restore = Restore::new(&server, Some(Work::Failed("no space left".into())));
    let StandstillEnd::Over { failure: Some(failure) } = carried_out(&server, &restore).await.unwrap() else {
        panic!()
    };
    assert!(failure.contains("no space left") && failure.contains("lifeboat stash rollback"), "{failure}");
    assert_eq!((replicas(&server), restore.step()), (0, Step::HeldDown));
    let carried = annotation(&server);
    assert_eq!((&carried["step"], &carried["replicas"]), (&json!("HeldDown"), &json!(2)));
    assert_eq!(carried["safetyOf"]["name"], "back");
    assert_eq!(earlier(&server.get(DEPLOYMENT).unwrap()).unwrap().replicas, 2);
}

#[tokio::test]
async fn movers_are_cancelled_when_someone_scales_up() {
    let server = cluster(2);
    let restore = Restore::new(&server, None);
    let scaling = async {
        while *locked(&restore.data) != Work::Running {
            tokio::time::sleep(PACE).await;
        }
        server.change(DEPLOYMENT, &json!({"spec": {"replicas": 1}}));
    };
    let (ended, ()) = tokio::join!(carried_out(&server, &restore), scaling);
    let StandstillEnd::Over { failure: Some(failure) } = ended.unwrap() else { panic!() };
    assert!(failure.contains("was scaled to 1") && failure.contains("runs with 1 replicas"), "{failure}");
    assert_eq!(restore.step(), Step::HeldDown);
}

#[tokio::test]
async fn a_restore_that_is_given_up_before_it_writes_leaves_everything_as_before() {
    let server = cluster(2);
    let restore = Restore::new(&server, Some(Work::Done));
    *locked(&restore.give_up) = Some("the restore was deleted".into());
    let ended = carried_out(&server, &restore).await.unwrap();
    assert_eq!(ended, StandstillEnd::Over { failure: Some("the restore was deleted".into()) });
    assert_eq!((replicas(&server), annotation(&server)), (2, Value::Null));
    assert_eq!(*locked(&restore.data), Work::NotBegun);
}

#[tokio::test]
async fn a_scale_that_may_not_be_changed_fails_the_restore() {
    let server = cluster(2);
    server.fail(Requests::new(Verb::Patch, DEPLOYMENT), When::Next, 403);
    let restore = Restore::new(&server, Some(Work::Done));
    let StandstillEnd::Over { failure: Some(failure) } = carried_out(&server, &restore).await.unwrap() else {
        panic!()
    };
    assert!(failure.contains("scale Deployment web to 0"), "{failure}");
    assert_eq!((replicas(&server), restore.step()), (2, Step::Started));
}

/// The first change of the workload stops it, the second is its record.
#[tokio::test]
async fn a_workload_that_may_not_be_started_is_not_tried_without_end() {
    let server = cluster(2);
    server.fail(Requests::new(Verb::Patch, DEPLOYMENT), When::From(3), 403);
    let restore = Restore::new(&server, Some(Work::Done));
    let StandstillEnd::Over { failure: Some(failure) } = carried_out(&server, &restore).await.unwrap() else {
        panic!()
    };
    assert!(failure.contains("could not be started") && failure.contains("Deployment web to 2"), "{failure}");
    assert_eq!((replicas(&server), restore.step()), (0, Step::HeldDown));
    assert_eq!(annotation(&server)["step"], "Restoring", "a restore that follows finds its scale");
}

const AWAY: &str = "Internal error occurred: failed calling webhook \"policy.example\": connection refused";

/// A webhook that does not answer while the workload is changed so; `times`: for how many requests.
fn webhook_away(server: &ApiServer, times: usize, is_hit: impl Fn(&Value) -> bool + Send + Sync + 'static) {
    let asked_already = AtomicUsize::new(0);
    server.answer(move |_, asked| {
        let is_change = asked.method == "PATCH" && asked.path == DEPLOYMENT && is_hit(&asked.body);
        let is_away = is_change && asked_already.fetch_add(1, Ordering::SeqCst) < times;
        is_away.then(|| failure(500, AWAY))
    });
}

fn failure_of(ended: StandstillEnd) -> String {
    let StandstillEnd::Over { failure: Some(failure) } = ended else { panic!("{ended:?}") };
    failure
}

#[tokio::test]
async fn a_webhook_that_comes_back_is_waited_for() {
    let server = cluster(2);
    webhook_away(&server, 2, |_| true);
    let restore = Restore::new(&server, Some(Work::Done));
    let ended = carried_out(&server, &restore).await.unwrap();
    assert_eq!(ended, StandstillEnd::Over { failure: None });
    assert_eq!((replicas(&server), annotation(&server)), (2, Value::Null));
}

#[tokio::test]
async fn a_webhook_that_stays_away_while_the_workload_is_stopped_fails_the_restore() {
    let server = cluster(2);
    webhook_away(&server, usize::MAX, |_| true);
    let restore = Restore::new(&server, Some(Work::Done));
    let failure = failure_of(carried_out_within(&server, &restore, PACE * 3).await.unwrap());
    assert!(failure.contains("policy.example") && failure.contains("kubectl replace --force"), "{failure}");
    assert_eq!((replicas(&server), restore.step()), (2, Step::Started));
    assert_eq!(*locked(&restore.copy), Work::NotBegun, "nothing was copied");
}

#[tokio::test]
async fn a_webhook_that_stays_away_while_the_workload_is_started_leaves_it_down_with_the_command() {
    let server = cluster(2);
    webhook_away(&server, usize::MAX, |change| change["spec"]["replicas"] == 2);
    let restore = Restore::new(&server, Some(Work::Done));
    let failure = failure_of(carried_out_within(&server, &restore, PACE * 3).await.unwrap());
    assert!(failure.contains("all data was restored") && failure.contains("policy.example"), "{failure}");
    assert!(failure.contains("kubectl -n shop scale deployment/web --replicas=2"), "{failure}");
    assert_eq!((replicas(&server), restore.step()), (0, Step::HeldDown));
}

/// Without the record on the workload nothing is written: the restore might vanish.
#[rstest]
#[case::a_webhook_is_away(500, AWAY)]
#[case::a_policy_refuses_it(403, "admission webhook denied the request")]
#[tokio::test]
async fn a_workload_that_cannot_carry_the_record_is_not_restored(
    #[case] code: u16,
    #[case] message: &'static str,
) {
    let server = cluster(2);
    server.answer(move |_, asked| {
        let is_record = asked.method == "PATCH" && asked.path == DEPLOYMENT && asked.body["spec"].is_null();
        is_record.then(|| failure(code, message))
    });
    let restore = Restore::new(&server, Some(Work::Done));
    let failure = failure_of(carried_out_within(&server, &restore, PACE * 3).await.unwrap());
    assert!(failure.contains(message) && failure.contains("kubectl replace --force"), "{failure}");
    assert_eq!((replicas(&server), restore.step()), (2, Step::Started));
    assert_eq!(*locked(&restore.data), Work::NotBegun, "nothing was written");
}

/// The policy is changed after the restore was decided.
#[tokio::test]
async fn a_workload_whose_claims_would_go_with_its_pods_is_never_scaled_down() {
    let server = cluster(2);
    server.change(
        DEPLOYMENT,
        &json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}}),
    );
    let restore = Restore::new(&server, Some(Work::Done));
    let StandstillEnd::Over { failure: Some(failure) } = carried_out(&server, &restore).await.unwrap() else {
        panic!()
    };
    assert!(failure.contains("whenScaled: Delete"), "{failure}");
    assert_eq!((replicas(&server), restore.step(), annotation(&server)), (2, Step::Started, Value::Null));
    assert!(!server.writes().iter().any(|write| write.contains(DEPLOYMENT)), "{:?}", server.writes());
}

/// Its restore is gone, and what an earlier one left down stays down.
#[tokio::test]
async fn a_workload_that_was_down_before_is_not_started_when_its_restore_vanishes() {
    let server = cluster(0);
    let restore = Restore { vanishes: Some(Step::SafetyCopy), ..Restore::new(&server, Some(Work::Done)) };
    let earlier = RestoreName { name: "first".into(), ..RestoreName::default() };
    if let Some(record) = locked(&restore.record).as_mut() {
        record.held_by = Some(earlier);
    }
    assert_eq!(carried_out(&server, &restore).await.unwrap(), StandstillEnd::Gone);
    assert_eq!(replicas(&server), 0);
}

#[rstest]
#[case::before_the_copy(Step::SafetyCopy, 2, Value::Null)]
#[case::after_data_was_written(Step::Verified, 0, json!("HeldDown"))]
#[tokio::test]
async fn a_workload_whose_restore_is_gone_is_started_unless_data_was_written(
    #[case] vanishes: Step,
    #[case] expected: u64,
    #[case] step: Value,
) {
    let server = cluster(2);
    let restore = Restore { vanishes: Some(vanishes), ..Restore::new(&server, Some(Work::Done)) };
    assert_eq!(carried_out(&server, &restore).await.unwrap(), StandstillEnd::Gone);
    assert_eq!((replicas(&server), annotation(&server)["step"].clone()), (expected, step));
}

/// The server is killed at each write to the workload: the next one comes to the same end.
#[rstest]
#[tokio::test]
async fn a_server_that_follows_comes_to_the_same_end(#[values(1, 2, 3)] nth: usize) {
    for end in [Work::Done, Work::Failed("no space left".into())] {
        let server = cluster(2);
        server.fail(Requests::new(Verb::Patch, DEPLOYMENT), When::Nth(nth), 500);
        let restore = Restore::new(&server, Some(end.clone()));
        let mut ended = carried_out(&server, &restore).await;
        if ended.is_err() {
            ended = carried_out(&server, &restore).await;
        }
        let expected = if end == Work::Done { (2, Step::Started) } else { (0, Step::HeldDown) };
        assert!(matches!(ended, Ok(StandstillEnd::Over { .. })), "{ended:?}");
        assert_eq!((replicas(&server), restore.step()), expected);
    }
}
