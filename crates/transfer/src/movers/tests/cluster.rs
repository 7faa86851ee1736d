//! A namespace of movers on the API server of `lifeboat_control::testing`, with a Job controller and a kubelet: the pod of a Job
//! goes through the states that a test gives.
#![allow(clippy::needless_pass_by_value)] // states are written where they are used

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_api::common::{NamespaceName, TaskId};
use lifeboat_cluster::ApiError;
use lifeboat_cluster::testing::{Asked, failure};
use lifeboat_control::testing::{ApiServer, Requests, Verb, When, Write, WriteKind};
use lifeboat_mover::report::{LogLine, Outcome, TaskResult};
use lifeboat_mover::task::{Direct, LockTerms, MaintainWork, RepositoryAccess, Task, TaskWork, Transport};
use lifeboat_plan::transfer::movers::{MoverJob, MoverPlace, Owner};
use secrecy::SecretSlice;
use serde_json::{Value, json};

use crate::movers::{MoverObserver, MoverRequest, Movers, TaskRecords, TaskState};
use crate::repositories::{Key, Keys, RepositoryProblem};
use crate::settings::MoverSettings;

/// The pods of movers, and what is to become of them.
#[derive(Default)]
pub(crate) struct Pods {
    /// The states that the pod of each Job goes through, one at each look; the last one stays.
    states: BTreeMap<String, VecDeque<Value>>,
    /// What a pod becomes when it is deleted.
    pub(crate) on_delete: Option<Value>,
    /// The states of pods whose Job is made later.
    script: Vec<Value>,
    pub(crate) log: String,
    /// The most Jobs that there were at once.
    pub(crate) most: usize,
}

impl Pods {
    fn begin(&mut self, server: &ApiServer, namespace: &str, job: &str, states: &[Value]) {
        self.states.insert(job.to_owned(), states.iter().map(|state| of_job(state, job)).collect());
        self.show(server, namespace, job);
    }

    /// The pod of a Job is as its first state says, and not there where that is null.
    fn show(&self, server: &ApiServer, namespace: &str, job: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{job}");
        let state = self.states.get(job).and_then(VecDeque::front).filter(|state| !state.is_null());
        let Some(mut pod) = state.cloned() else {
            server.remove(&path);
            return;
        };
        pod["metadata"]["labels"] = json!({"batch.kubernetes.io/job-name": job});
        server.put(&path, pod);
        server.set_log(&path, &self.log);
    }

    /// A pod that was looked at goes on.
    fn looked_at(&mut self, server: &ApiServer, asked: &Asked) {
        let (namespace, inside) = place(&asked.path);
        let found = self.states.iter_mut().find(|(job, _)| asked.query.ends_with(job.as_str()));
        let (Some(namespace), "pods", Some((job, states))) = (namespace, inside.as_str(), found) else {
            return;
        };
        if states.len() > 1 {
            states.pop_front();
            let job = job.clone();
            self.show(server, &namespace, &job);
        }
    }

    /// What the Job controller and the kubelet do.
    fn written(&mut self, server: &ApiServer, write: &Write) {
        let (Some(namespace), inside) = place(&write.path) else { return };
        match (write.kind, inside.split_once('/')) {
            (WriteKind::Created, Some(("jobs", job))) => {
                let script = self.script.clone();
                self.begin(server, &namespace, job, &script);
                self.most = self.most.max(server.paths("/jobs/").len());
            }
            (WriteKind::Deleted, Some(("jobs", job))) => {
                self.states.remove(job);
                self.show(server, &namespace, job);
            }
            (WriteKind::Deleted, Some(("pods", job))) => {
                let becomes = self.on_delete.clone();
                self.states.insert(job.to_owned(), becomes.into_iter().collect());
                self.show(server, &namespace, job);
            }
            _ => {}
        }
    }
}

/// A result of "this task" is that of the Job's.
fn of_job(state: &Value, job: &str) -> Value {
    let uid = job.strip_prefix("mover-").unwrap_or_default();
    serde_json::from_str(&state.to_string().replace("THIS", uid)).unwrap()
}

/// The namespace of a path, and what follows it, such as `jobs/mover-a-1`.
fn place(path: &str) -> (Option<String>, String) {
    let parts: Vec<&str> = path.split('/').collect();
    let group = if parts[1] == "api" { 3 } else { 4 };
    match parts[group..] {
        ["namespaces", namespace, ref rest @ ..] => (Some(namespace.to_owned()), rest.join("/")),
        ref rest => (None, rest.join("/")),
    }
}

pub(crate) struct Fake {
    pub(crate) movers: Movers,
    pub(crate) server: ApiServer,
    pub(crate) pods: Arc<Mutex<Pods>>,
}

impl Fake {
    pub(crate) async fn new() -> Self {
        Self::with(|settings| settings.at_once = 20).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut MoverSettings)) -> Self {
        let mut settings = MoverSettings {
            image: "localhost/lifeboat:dev".into(),
            node_access: true,
            ..MoverSettings::default()
        };
        change(&mut settings);
        let (server, pods) = (ApiServer::default(), Arc::new(Mutex::new(Pods::default())));
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        server.put("/api/v1/nodes/a", ready);
        // Neither pods nor anything else can be watched: changes are found by looking.
        server.answer(|_, asked| {
            let watches = asked.query.contains("watch=") || asked.query.contains("limit=");
            watches.then(|| failure(500, "NoWatch"))
        });
        let looked_at = pods.clone();
        server.after(move |server, asked, code| {
            if asked.method == "GET" && code == 200 {
                looked_at.lock().unwrap().looked_at(server, asked);
            }
        });
        let written = pods.clone();
        server.on_write(move |server, write| written.lock().unwrap().written(server, write));
        let core = server.core().await;
        let movers = Movers { look: Duration::from_millis(5), ..Movers::new(&core, settings) };
        movers.add_records(Arc::new(HeldRecords(server.clone())));
        Self { movers, server, pods }
    }

    /// The pods of Jobs that are made from now on.
    pub(crate) fn script(&self, states: &[Value]) {
        self.pods.lock().unwrap().script = states.to_vec();
    }

    /// An object by the end of its path, such as `jobs/mover-a-1`.
    pub(crate) fn object(&self, inside: &str) -> Option<Value> {
        object(&self.server, inside)
    }

    pub(crate) fn has(&self, inside: &str) -> bool {
        self.object(inside).is_some()
    }

    /// Puts an object into the namespace that it names, or else into that of movers.
    pub(crate) fn put(&self, inside: &str, object: Value) {
        let group = match inside.split_once('/') {
            Some(("jobs", _)) => "/apis/batch/v1",
            Some(("secrets", _)) => "/api/v1",
            _ => "/apis/velero.io/v1",
        };
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("lifeboat-movers").to_owned();
        self.server.put(&format!("{group}/namespaces/{namespace}/{inside}"), object);
    }

    pub(crate) fn remove(&self, inside: &str) {
        let end = format!("/{inside}");
        for path in self.server.paths(&end).into_iter().filter(|path| path.ends_with(&end)) {
            self.server.remove(&path);
        }
    }

    /// The Jobs and Secrets of movers that there are, by the ends of their paths.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left: Vec<String> = self.server.paths("/mover-").iter().map(|path| place(path).1).collect();
        left.retain(|inside| !inside.starts_with("pods/"));
        left.sort();
        left
    }

    /// Method and end of the path of every request that changes something.
    pub(crate) fn changes(&self) -> Vec<String> {
        let writes = self.server.writes();
        let split = writes.iter().filter_map(|write| write.split_once(' '));
        split.map(|(method, path)| format!("{method} {}", place(path).1)).collect()
    }

    /// The server may not list Jobs and Secrets of all namespaces.
    pub(crate) fn limit_rights(&self) {
        for list in ["/apis/batch/v1/jobs", "/api/v1/secrets"] {
            self.server.fail(Requests::new(Verb::List, list), When::Always, 403);
        }
    }

    /// A Job that is there, with these states of its pod.
    pub(crate) fn put_job(&self, wanted: &MoverJob, states: &[Value]) {
        let mut job = lifeboat_plan::transfer::movers::job::job(wanted).unwrap();
        job["metadata"]["uid"] = json!("job-uid");
        let name = job["metadata"]["name"].as_str().unwrap().to_owned();
        self.put(&format!("jobs/{name}"), job);
        self.pods.lock().unwrap().begin(&self.server, wanted.namespace.as_str(), &name, states);
    }
}

fn object(server: &ApiServer, inside: &str) -> Option<Value> {
    let end = format!("/{inside}");
    let found = server.paths(&end).into_iter().find(|path| path.ends_with(&end));
    found.and_then(|path| server.get(&path))
}

pub(crate) fn pod(state: Value) -> Value {
    json!({
        "metadata": {"uid": "pod-uid"},
        "spec": {"nodeName": "a", "containers": [{"name": "mover"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "mover", "state": state}]},
    })
}

pub(crate) fn starting() -> Value {
    pod(json!({"waiting": {"reason": "ContainerCreating"}}))
}

pub(crate) fn running() -> Value {
    pod(json!({"running": {}}))
}

pub(crate) fn ended(reason: &str, code: i64, message: &str) -> Value {
    pod(json!({"terminated": {"reason": reason, "exitCode": code, "message": message}}))
}

pub(crate) fn reported(uid: &str, outcome: Outcome) -> Value {
    let result = TaskResult::new(uid, outcome);
    ended("Completed", 0, &serde_json::to_string(&result).unwrap())
}

pub(crate) fn job(uid: &str) -> MoverJob {
    let settings = MoverSettings {
        image: "localhost/lifeboat:dev".into(),
        node_access: true,
        ..MoverSettings::default()
    };
    MoverJob {
        task: TaskId::new(uid),
        owner: Owner {
            kind: "PodVolumeBackup".into(),
            namespace: NamespaceName::new("lifeboat"),
            name: format!("pvb-{uid}"),
            uid: format!("owner-{uid}"),
        },
        place: MoverPlace::NodeDirectory { node: "a".into(), directory: "/d".into(), writable: false },
        repository: "default/shop".into(),
        group: "nightly".into(),
        deadline_seconds: 60,
        namespace: NamespaceName::new(&settings.namespace),
        pod: settings.pod("lifeboat"),
    }
}

pub(crate) fn request(uid: &str) -> MoverRequest {
    let transport = Transport::Direct(Direct::default());
    let repository = RepositoryAccess { transport, passwords: Vec::new(), guarded: false };
    let lock = LockTerms { cluster: "cluster-uid".into(), ..LockTerms::default() };
    let task = Task::single(uid, TaskWork::Maintain(MaintainWork::default()), repository, lock);
    MoverRequest { job: job(uid), task, keys: Arc::new(Password::default()), turn: None }
}

/// What opens the repository: a password, as it is at the moment; none where it is missing.
pub(crate) struct Password(pub(super) Mutex<Option<&'static str>>);

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
        let transport = Transport::Direct(Direct::default());
        let repository = RepositoryAccess { transport, passwords: Vec::new(), guarded: false };
        Ok(Key { repository: Some(repository), files: BTreeMap::from([("password-0".to_owned(), content)]) })
    }
}

/// Answers from the objects that the API server holds: they end with phase Completed.
struct HeldRecords(ApiServer);

#[async_trait]
impl TaskRecords for HeldRecords {
    async fn state(&self, _: &str, owner: &Owner, task: &TaskId) -> Result<TaskState, ApiError> {
        let found = object(&self.0, &format!("{}s/{}", owner.kind.to_lowercase(), owner.name));
        let found = found.filter(|object| object["metadata"]["uid"] == *owner.uid);
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
pub(crate) struct Notes(pub(super) Mutex<Vec<String>>);

impl Notes {
    fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(crate) fn all(&self) -> Vec<String> {
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
