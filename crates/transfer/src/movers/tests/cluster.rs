//! A namespace of movers whose pods go through the states that a test gives.
#![allow(clippy::needless_pass_by_value)] // states are written where they are used

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::common::TaskId;
use lifeboat_cluster::ApiError;
use lifeboat_cluster::testing::{Asked, client, failure, merge};
use lifeboat_control::Core;
use lifeboat_mover::report::{LogLine, Outcome, TaskResult};
use lifeboat_mover::task::{Direct, LockTerms, MaintainWork, RepositoryAccess, Task, TaskWork, Transport};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner};
use lifeboat_web::Metrics;
use secrecy::SecretSlice;
use serde_json::{Value, json};

use crate::movers::{MoverObserver, MoverRequest, Movers, TaskRecords, TaskState};
use crate::repositories::{Key, Keys, RepositoryProblem};
use crate::settings::MoverSettings;

/// What the API server holds and was asked.
#[derive(Default)]
pub(super) struct Held {
    /// By the last part of their path, such as `jobs/mover-a-1`.
    pub(super) objects: BTreeMap<String, Value>,
    /// The states that the pod of each Job goes through, one at each look; the last one stays.
    pub(super) pods: BTreeMap<String, VecDeque<Value>>,
    /// What it becomes when it is deleted.
    pub(super) on_delete: Option<Value>,
    /// The states of pods whose Job is made later.
    pub(super) script: Vec<Value>,
    pub(super) log: String,
    /// Method and path of every request that changes something.
    pub(super) changes: Vec<String>,
    /// Codes with which the next looks at pods fail.
    pub(super) trouble: Vec<u16>,
    /// The code with which nothing is made.
    pub(super) refuses: Option<u16>,
    /// Whether the server may not list Jobs and Secrets of all namespaces.
    pub(super) is_limited: bool,
    /// The most Jobs that ran at once.
    pub(super) most: usize,
}

pub(super) struct Fake {
    pub(super) movers: Movers,
    held: Arc<Mutex<Held>>,
}

impl Fake {
    pub(super) async fn new() -> Self {
        Self::with(|settings| settings.at_once = 20).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut MoverSettings)) -> Self {
        let mut settings = MoverSettings {
            image: "localhost/lifeboat:dev".into(),
            node_access: true,
            ..MoverSettings::default()
        };
        change(&mut settings);
        let held = Arc::new(Mutex::new(Held::default()));
        held.lock().unwrap().objects.insert(
            "nodes/a".into(),
            json!({"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        );
        let kept = held.clone();
        let client = client(move |asked| answer(&mut kept.lock().unwrap(), &asked)).await;
        let core = Core::new(client, Metrics::new("0"), "lifeboat", "me");
        let movers = Movers { look: Duration::from_millis(5), ..Movers::new(&core, settings) };
        movers.add_records(Arc::new(HeldRecords(held.clone())));
        Self { movers, held }
    }

    pub(super) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }

    /// The pods of Jobs that are made from now on.
    pub(super) fn script(&self, states: &[Value]) {
        self.held().script = states.to_vec();
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.held().objects.contains_key(path)
    }

    /// A Job that is there, with these states of its pod.
    pub(super) fn put_job(&self, wanted: &MoverJob, states: &[Value]) {
        let mut job = lifeboat_plan::transfer::movers::job::job(wanted).unwrap();
        job["metadata"]["uid"] = json!("job-uid");
        let name = job["metadata"]["name"].as_str().unwrap().to_owned();
        let mut held = self.held();
        held.objects.insert(format!("jobs/{name}"), job);
        held.pods.insert(name, states.iter().cloned().collect());
    }
}

pub(super) fn pod(state: Value) -> Value {
    json!({
        "metadata": {"name": "pod", "uid": "pod-uid"},
        "spec": {"nodeName": "a", "containers": [{"name": "mover"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "mover", "state": state}]},
    })
}

pub(super) fn starting() -> Value {
    pod(json!({"waiting": {"reason": "ContainerCreating"}}))
}

pub(super) fn running() -> Value {
    pod(json!({"running": {}}))
}

pub(super) fn ended(reason: &str, code: i64, message: &str) -> Value {
    pod(json!({"terminated": {"reason": reason, "exitCode": code, "message": message}}))
}

pub(super) fn reported(uid: &str, outcome: Outcome) -> Value {
    let result = TaskResult::new(uid, outcome);
    ended("Completed", 0, &serde_json::to_string(&result).unwrap())
}

pub(super) fn job(uid: &str) -> MoverJob {
    let settings = MoverSettings { image: "localhost/lifeboat:dev".into(), ..MoverSettings::default() };
    MoverJob {
        task: TaskId::new(uid),
        owner: Owner {
            kind: "PodVolumeBackup".into(),
            namespace: "lifeboat".into(),
            name: format!("pvb-{uid}"),
            uid: format!("owner-{uid}"),
        },
        place: MoverPlace::NodeDirectory { node: "a".into(), directory: "/d".into(), writable: false },
        repository: "default/shop".into(),
        group: "nightly".into(),
        deadline_seconds: 60,
        namespace: settings.namespace.clone(),
        pod: settings.pod("lifeboat"),
    }
}

pub(super) fn request(uid: &str) -> MoverRequest {
    let repository =
        RepositoryAccess { transport: Transport::Direct(Direct::default()), passwords: Vec::new() };
    let lock = LockTerms { cluster: "cluster-uid".into(), ..LockTerms::default() };
    let task = Task::single(uid, TaskWork::Maintain(MaintainWork::default()), repository, lock);
    MoverRequest { job: job(uid), task, keys: Arc::new(Password::default()) }
}

/// What opens the repository: a password, as it is at the moment; none where it is missing.
pub(super) struct Password(pub(super) Mutex<Option<&'static str>>);

impl Default for Password {
    fn default() -> Self {
        Self(Mutex::new(Some("secret")))
    }
}

#[async_trait]
impl Keys for Password {
    async fn read(&self) -> Result<Key, RepositoryProblem> {
        let password = *self.0.lock().unwrap();
        let password = password.ok_or_else(|| RepositoryProblem::Unusable("no password".into()))?;
        let content = SecretSlice::from(password.as_bytes().to_vec());
        let repository =
            RepositoryAccess { transport: Transport::Direct(Direct::default()), passwords: Vec::new() };
        Ok(Key { repository: Some(repository), files: BTreeMap::from([("password-0".to_owned(), content)]) })
    }
}

/// Answers from the objects that the API server holds: they end with phase Completed.
struct HeldRecords(Arc<Mutex<Held>>);

#[async_trait]
impl TaskRecords for HeldRecords {
    async fn state(&self, _: &str, owner: &Owner, task: &TaskId) -> Result<TaskState, ApiError> {
        let held = self.0.lock().unwrap();
        let path = format!("{}s/{}", owner.kind.to_lowercase(), owner.name);
        let found = held.objects.get(&path).filter(|object| object["metadata"]["uid"] == *owner.uid);
        Ok(match found {
            None => TaskState::Over,
            Some(object) if object["status"]["phase"] == "Completed" => TaskState::Over,
            Some(object) if object["task"] == task.as_str() => TaskState::Open,
            Some(_) => TaskState::Unrecorded,
        })
    }
}

/// Keeps what it learns.
#[derive(Default)]
pub(super) struct Notes(pub(super) Mutex<Vec<String>>);

impl Notes {
    fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl MoverObserver for Notes {
    async fn queued(&self, message: &str) {
        self.add(format!("queued: {message}"));
    }
    async fn preparing(&self, message: &str) {
        self.add(format!("preparing: {message}"));
    }
    async fn running(&self, node: &str) {
        self.add(format!("running: {node}"));
    }
    async fn line(&self, line: &LogLine) {
        self.add(format!("line: {line:?}"));
    }
}

fn answer(held: &mut Held, asked: &Asked) -> (u16, Value) {
    // Changes are not told: they are found by looking.
    if asked.query.contains("watch=") || asked.query.contains("limit=") {
        return failure(500, "NoWatch");
    }
    if asked.path.ends_with("/log") {
        return (200, json!(held.log));
    }
    let (namespace, inside) = place(&asked.path);
    if namespace.is_none() && held.is_limited && matches!(inside.as_str(), "jobs" | "secrets") {
        return failure(403, "Forbidden");
    }
    if asked.method != "GET" {
        held.changes.push(format!("{} {inside}", asked.method));
    }
    match (asked.method.as_str(), inside.as_str()) {
        ("GET", "pods") => pods(held, &asked.query),
        ("DELETE", "pods/pod") => {
            let becomes = held.on_delete.clone();
            for states in held.pods.values_mut() {
                *states = becomes.iter().cloned().collect();
            }
            (200, json!({"metadata": {"name": "pod"}}))
        }
        ("GET", path) if path.contains('/') => {
            held.objects.get(path).map_or_else(|| failure(404, "NotFound"), |object| (200, object.clone()))
        }
        ("GET", plural) => {
            let prefix = format!("{plural}/");
            let items: Vec<_> = held
                .objects
                .iter()
                .filter(|(path, _)| path.starts_with(&prefix))
                .map(|(_, object)| object)
                .filter(|object| {
                    namespace.as_ref().is_none_or(|only| object["metadata"]["namespace"] == **only)
                })
                .collect();
            (200, json!({"metadata": {}, "items": items}))
        }
        ("POST", plural) => post(held, plural, &asked.body),
        ("PATCH", path) => match held.objects.get_mut(path) {
            Some(object) => {
                merge(object, &asked.body);
                (200, object.clone())
            }
            None => failure(404, "NotFound"),
        },
        ("DELETE", path) => match held.objects.remove(path) {
            Some(object) => {
                held.pods.remove(path.strip_prefix("jobs/").unwrap_or_default());
                (200, object)
            }
            None => failure(404, "NotFound"),
        },
        _ => failure(405, "MethodNotAllowed"),
    }
}

/// The namespace of a path, and what follows it.
fn place(path: &str) -> (Option<String>, String) {
    let parts: Vec<&str> = path.split('/').collect();
    let group = if parts[1] == "api" { 3 } else { 4 };
    match parts[group..] {
        ["namespaces", namespace, ref rest @ ..] => (Some(namespace.to_owned()), rest.join("/")),
        ref rest => (None, rest.join("/")),
    }
}

fn post(held: &mut Held, plural: &str, body: &Value) -> (u16, Value) {
    let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let path = format!("{plural}/{name}");
    if let Some(code) = held.refuses {
        return failure(code, "Refused");
    }
    if held.objects.contains_key(&path) {
        return failure(409, "AlreadyExists");
    }
    let mut object = body.clone();
    object["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    held.objects.insert(path, object.clone());
    if plural == "jobs" {
        let states = held.script.iter().map(|state| of_job(state, &name)).collect();
        held.pods.insert(name, states);
        let jobs = held.objects.keys().filter(|path| path.starts_with("jobs/")).count();
        held.most = held.most.max(jobs);
    }
    (201, object)
}

/// A result of "this task" is that of the Job's.
fn of_job(state: &Value, job: &str) -> Value {
    let uid = job.strip_prefix("mover-").unwrap_or_default();
    serde_json::from_str(&state.to_string().replace("THIS", uid)).unwrap()
}

fn pods(held: &mut Held, query: &str) -> (u16, Value) {
    if let Some(code) = held.trouble.pop() {
        return failure(code, "Trouble");
    }
    let states =
        held.pods.iter_mut().find(|(job, _)| query.ends_with(job.as_str())).map(|(_, states)| states);
    let state =
        states.and_then(|states| if states.len() > 1 { states.pop_front() } else { states.front().cloned() });
    let items: Vec<Value> = state.into_iter().filter(|state| !state.is_null()).collect();
    (200, json!({"metadata": {}, "items": items}))
}
