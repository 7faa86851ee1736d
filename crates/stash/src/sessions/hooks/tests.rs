//! Calls of hooks by movers whose pods end as a test asks, and the container of a command.

use k8s_openapi::api::core::v1::TCPSocketAction;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use lifeboat_api::common::{NamespaceName, TaskId};
use lifeboat_api::stash::HookHandler;
use lifeboat_control::testing::{ApiServer, WriteKind};
use lifeboat_mover::report::{Called, TaskResult};
use lifeboat_plan::stash::hooks::HookPod;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::transfer::movers::job;
use lifeboat_transfer::MoverSettings;
use lifeboat_transfer::movers::{TaskRecords, TaskState};
use rstest::rstest;
use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::sessions::tasks::HookMark;
use crate::settings::StashSettings;
use crate::testing::{SHOP, World};

/// Every task is recorded.
struct OnRecord;

#[async_trait]
impl TaskRecords for OnRecord {
    async fn state(&self, _: &str, _: &Owner, _: &TaskId) -> Result<TaskState, ApiError> {
        Ok(TaskState::Open)
    }
}

fn tasks() -> HookTasks {
    HookTasks::of_host("s", 0, &HostName("app".into()), HookMark::Post)
}

/// The state of a mover's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    Running,
    Evicted,
    OutOfMemory,
    Done,
}

/// Writes the pod of a mover.
fn put_pod(server: &ApiServer, attempt: u64, becomes: Becomes) {
    let (task, job) = (tasks().task(attempt), job::name(&tasks().task(attempt)));
    let result = TaskResult::new(task.as_str(), Outcome::Called(Called::default()));
    let ended = |reason: &str, code: i64, message: &str| json!({"terminated": {"reason": reason, "exitCode": code, "message": message}});
    let in_state =
        |state: Value| json!({"phase": "Running", "containerStatuses": [{"name": "mover", "state": state}]});
    let status = match becomes {
        Becomes::Running => in_state(json!({"running": {}})),
        Becomes::Evicted => {
            json!({"phase": "Failed", "reason": "Evicted", "message": "the node is out of disk"})
        }
        Becomes::OutOfMemory => in_state(ended("OOMKilled", 137, "")),
        Becomes::Done => in_state(ended("Completed", 0, &serde_json::to_string(&result).unwrap())),
    };
    server.put(
        &format!("/api/v1/namespaces/{SHOP}/pods/{job}"),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"uid": format!("p-{attempt}"), "labels": {"batch.kubernetes.io/job-name": job}},
            "spec": {"nodeName": "a", "containers": [{"name": "mover"}]}, "status": status}),
    );
}

struct Calls {
    world: World,
    /// Notified when the second mover is started.
    second: Arc<Notify>,
}

impl Calls {
    /// A cluster in which the pods of the first and of the second mover have these states.
    async fn new(pods: [Becomes; 2]) -> Self {
        let settings = MoverSettings { image: "localhost/lifeboat:dev".into(), ..MoverSettings::default() };
        let world = World::with_movers(StashSettings::default(), settings).await;
        world.admit_movers();
        world
            .server
            .put("/api/v1/nodes/a", json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        world.context.movers.add_records(Arc::new(OnRecord));
        let second = Arc::new(Notify::new());
        let sent = second.clone();
        world.server.on_write(move |server, write| {
            if write.kind != WriteKind::Created {
                return;
            }
            for (attempt, becomes) in (1..).zip(pods) {
                if write.path.ends_with(&format!("/jobs/{}", job::name(&tasks().task(attempt)))) {
                    put_pod(server, attempt, becomes);
                    if attempt == 2 {
                        sent.notify_one();
                    }
                }
            }
        });
        Self { world, second }
    }

    async fn call(&self) -> Result<(), HookFailure> {
        let socket = TCPSocketAction { host: Some("quiescer.example".into()), port: IntOrString::Int(80) };
        let handler = HookHandler { tcp_socket: Some(socket), ..HookHandler::default() };
        let hook = ValidHook::parse(&handler, HookPod::Absent).unwrap();
        let owner = Owner {
            kind: "BackupSession".into(),
            namespace: NamespaceName::new(SHOP),
            name: "s".into(),
            uid: "s".into(),
        };
        let run = HookRun {
            hook: &hook,
            summary: &Summary::default(),
            pod: None,
            owner,
            tasks: tasks(),
            namespace: SHOP,
            annotations: &BTreeMap::new(),
        };
        super::run(&self.world.context, &run, &CancellationToken::new()).await
    }

    /// How many movers were started.
    fn sent(&self) -> usize {
        self.world.server.created().iter().filter(|path| path.contains("/jobs/")).count()
    }

    fn assert_nothing_is_left(&self) {
        for left in ["/jobs/mover-", "/secrets/mover-"] {
            assert_eq!(self.world.server.paths(left), Vec::<String>::new());
        }
    }
}

/// Otherwise a hook after a host could be lost, and its pod would stay quiesced.
#[rstest]
#[case::the_call_is_made([Becomes::Done, Becomes::Done], 1, None)]
#[case::the_first_mover_is_evicted([Becomes::Evicted, Becomes::Done], 2, None)]
#[case::both_are_evicted([Becomes::Evicted, Becomes::Evicted], 2, Some("evicted the mover"))]
#[case::it_lacks_memory([Becomes::OutOfMemory, Becomes::Done], 1, Some("memory"))]
#[tokio::test]
async fn a_call_whose_mover_dies_for_outside_reasons_is_made_once_more(
    #[case] pods: [Becomes; 2],
    #[case] sent: usize,
    #[case] error: Option<&str>,
) {
    let calls = Calls::new(pods).await;
    let ended = calls.call().await.map_err(|failure| failure.to_string());
    match (&ended, error) {
        (Ok(()), None) => {}
        (Err(message), Some(text)) => assert!(message.contains(text), "{message}"),
        _ => panic!("{ended:?}"),
    }
    assert_eq!(calls.sent(), sent);
    calls.assert_nothing_is_left();
}

#[tokio::test]
async fn a_server_that_follows_a_crash_goes_on_with_the_second_mover_of_a_call() {
    let calls = Calls::new([Becomes::Evicted, Becomes::Running]).await;
    tokio::select! {
        ended = calls.call() => panic!("{ended:?}"),
        () = calls.second.notified() => {}
    }
    put_pod(&calls.world.server, 2, Becomes::Done);
    calls.call().await.unwrap();
    assert_eq!(calls.sent(), 2, "none is sent again");
    calls.assert_nothing_is_left();
}

/// Records the container in which the only command ran.
#[derive(Default)]
struct OneCommand(std::sync::Mutex<Option<String>>);

#[async_trait]
impl Commands for OneCommand {
    async fn run(&self, request: &ExecRequest) -> Result<lifeboat_cluster::exec::ExecOutput, ExecError> {
        *self.0.lock().unwrap() = Some(request.container.clone());
        Ok(lifeboat_cluster::exec::ExecOutput::default())
    }
}

#[tokio::test]
async fn a_command_runs_in_the_default_container_of_its_pod() {
    let mut world = World::new().await;
    let commands = Arc::new(OneCommand::default());
    world.context.commands = commands.clone();
    let exec = k8s_openapi::api::core::v1::ExecAction { command: Some(vec!["sync".into()]) };
    let handler = HookHandler { exec: Some(exec), ..HookHandler::default() };
    let hook = ValidHook::parse(&handler, HookPod::Present).unwrap();
    let pod = json!({
        "metadata": {"namespace": SHOP, "name": "web-1",
            "annotations": {"kubectl.kubernetes.io/default-container": "app"}},
        "spec": {"containers": [{"name": "proxy"}, {"name": "app"}]},
    });
    let owner = Owner {
        kind: "BackupSession".into(),
        namespace: NamespaceName::new(SHOP),
        name: "s".into(),
        uid: "s".into(),
    };
    let run = HookRun {
        hook: &hook,
        summary: &Summary::default(),
        pod: Some(&pod),
        owner,
        tasks: tasks(),
        namespace: SHOP,
        annotations: &BTreeMap::new(),
    };
    super::run(&world.context, &run, &CancellationToken::new()).await.unwrap();
    assert_eq!(commands.0.lock().unwrap().as_deref(), Some("app"));
}
