//! For tests: a cluster with the types of many backups on the API server of `lifeboat_control::testing`, and commands that are
//! written down instead of run.

mod archived;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use kube::Client;
use lifeboat_cluster::exec::{ExecError, ExecOutput, ExecRequest};
use lifeboat_cluster::testing::{Asked, merge};
use lifeboat_control::testing::{ApiServer, Requests, ServedType, Verb, When, Write, WriteKind};
use serde_json::{Value, json};

use super::pass::Commands;

pub(crate) use archived::{archived, archived_object};

/// Types as discovery lists them: group, version, plural, kind, namespaced.
const TYPES: [(&str, &str, &str, &str, bool); 19] = [
    ("", "v1", "pods", "Pod", true),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
    ("", "v1", "persistentvolumes", "PersistentVolume", false),
    ("", "v1", "configmaps", "ConfigMap", true),
    ("", "v1", "secrets", "Secret", true),
    ("", "v1", "serviceaccounts", "ServiceAccount", true),
    ("", "v1", "namespaces", "Namespace", false),
    ("apps", "v1", "deployments", "Deployment", true),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false),
    ("example.com", "v1", "widgets", "Widget", true),
    ("apiregistration.k8s.io", "v1", "apiservices", "APIService", false),
    ("", "v1", "nodes", "Node", false),
    ("storage.k8s.io", "v1", "storageclasses", "StorageClass", false),
    ("velero.io", "v2alpha1", "datauploads", "DataUpload", true),
    ("snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot", true),
    ("snapshot.storage.k8s.io", "v1", "volumesnapshotcontents", "VolumeSnapshotContent", false),
    ("snapshot.storage.k8s.io", "v1", "volumesnapshotclasses", "VolumeSnapshotClass", false),
];

/// The group of snapshots of several volumes, which the cluster has where a test says so.
const GROUP_SNAPSHOTS: &str = "groupsnapshot.storage.k8s.io";

/// The cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) server: ApiServer,
    /// What happened in pods, in order: `pre db-0`.
    pub(crate) commands: Arc<Mutex<Vec<String>>>,
    /// Pods in which commands fail.
    failing: Arc<Mutex<BTreeSet<String>>>,
    /// Commands that never end: `pre db-0`.
    hanging: Arc<Mutex<BTreeSet<String>>>,
    /// Called at every command.
    on_command: Arc<Mutex<Option<Hook>>>,
    /// Called with the path of every object that is created: a controller of the cluster.
    on_create: Arc<Mutex<Option<Hook>>>,
    /// Called with the path of every list, before it is answered.
    on_list: Arc<Mutex<Option<Hook>>>,
    /// Called with the path of every object that is changed.
    on_change: Arc<Mutex<Option<Hook>>>,
    /// Changes of watched paths.
    watched: Arc<Mutex<BTreeMap<String, RecordedStates>>>,
}

/// Changes in their order.
type RecordedStates = Arc<Mutex<Vec<Value>>>;
type Hook = Box<dyn Fn(&World, &str) + Send>;

impl Default for World {
    fn default() -> Self {
        let world = Self {
            server: ApiServer::default(),
            commands: Arc::default(),
            failing: Arc::default(),
            hanging: Arc::default(),
            on_command: Arc::default(),
            on_create: Arc::default(),
            on_list: Arc::default(),
            on_change: Arc::default(),
            watched: Arc::default(),
        };
        world.server.serve(TYPES.map(|(group, version, plural, kind, namespaced)| {
            let served = served(group, version, plural, kind, namespaced);
            if plural == "pods" { served.short_name("po") } else { served }
        }));
        world.server.without(GROUP_SNAPSHOTS);
        let (before, after) = (world.clone(), world.clone());
        world.server.answer(move |_, asked| {
            before.asked(asked);
            None
        });
        world.server.on_write(move |_, write| after.written(write));
        world
    }
}

fn served(group: &str, version: &str, plural: &str, kind: &str, namespaced: bool) -> ServedType {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let served = ServedType::new(&api_version, plural, kind);
    if namespaced { served } else { served.cluster_scoped() }
}

impl World {
    pub(crate) async fn client(&self) -> Client {
        self.server.client().await
    }

    /// The cluster has snapshots of several volumes.
    pub(crate) fn serve_group_snapshots(&self) {
        let types = [
            ("volumegroupsnapshots", "VolumeGroupSnapshot", true),
            ("volumegroupsnapshotcontents", "VolumeGroupSnapshotContent", false),
            ("volumegroupsnapshotclasses", "VolumeGroupSnapshotClass", false),
        ];
        self.server.serve(
            types.map(|(plural, kind, namespaced)| {
                served(GROUP_SNAPSHOTS, "v1beta1", plural, kind, namespaced)
            }),
        );
    }

    /// Adds an object of a type of [`TYPES`].
    #[allow(clippy::needless_pass_by_value)] // tests write `json!` in place
    pub(crate) fn add(&self, plural: &str, namespace: &str, name: &str, rest: Value) -> &Self {
        let (group, version, _, _, _) = TYPES.iter().find(|known| known.2 == plural).unwrap();
        let base = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/{version}") };
        let (path, metadata) = if namespace.is_empty() {
            (format!("{base}/{plural}/{name}"), json!({"name": name, "uid": format!("uid-{name}")}))
        } else {
            (
                format!("{base}/namespaces/{namespace}/{plural}/{name}"),
                json!({"name": name, "namespace": namespace, "uid": format!("uid-{name}")}),
            )
        };
        let mut object = json!({"metadata": metadata});
        merge(&mut object, &rest);
        self.put(&path, object);
        self
    }

    /// A running pod; `claims` are mounted; hooks run in it where `hooks` is set.
    pub(crate) fn pod(&self, namespace: &str, name: &str, claims: &[&str], hooks: bool) -> &Self {
        let volumes: Vec<_> = claims
            .iter()
            .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
            .collect();
        let annotations = if hooks {
            json!({"pre.hook.backup.velero.io/command": "pre", "post.hook.backup.velero.io/command": "post"})
        } else {
            json!({})
        };
        for claim in claims {
            let volume = format!("pv-{claim}");
            let bound = json!({"spec": {"volumeName": volume}, "status": {"phase": "Bound"}});
            self.add("persistentvolumeclaims", namespace, claim, bound);
            let claimed = json!({"spec": {"claimRef": {"namespace": namespace, "name": claim}}});
            self.add("persistentvolumes", "", &volume, claimed);
        }
        let pod = json!({"metadata": {"annotations": annotations}, "status": {"phase": "Running"},
            "spec": {"containers": [{"name": "main"}], "volumes": volumes}});
        self.add("pods", namespace, name, pod)
    }

    pub(crate) fn namespace(&self, name: &str) -> &Self {
        self.add("namespaces", "", name, json!({"status": {"phase": "Active"}}))
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.server.put(path, object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.server.get(path)
    }

    pub(crate) fn change(&self, path: &str, with: &Value) {
        self.server.change(path, with);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.server.remove(path);
    }

    /// Lists of this path fail with `code`.
    pub(crate) fn break_list(&self, path: &str, code: u16) {
        self.server.fail(Requests::new(Verb::List, path), When::Always, code);
    }

    /// The `nth` request for a list of this path fails with `code`.
    pub(crate) fn break_request(&self, path: &str, nth: usize, code: u16) {
        self.server.fail(Requests::new(Verb::List, path), When::Nth(nth), code);
    }

    /// Changes of this path that hold `field` fail with `code`.
    pub(crate) fn refuse_change(&self, path: &str, field: &str, code: u16) {
        self.server.fail(Requests::new(Verb::Patch, path).writing(field), When::Always, code);
    }

    /// A command, such as `pre db-0`, does not end.
    pub(crate) fn hang(&self, command: &str) {
        self.hanging.lock().unwrap().insert(command.to_owned());
    }

    pub(crate) fn fail_commands_in(&self, pod: &str) {
        self.failing.lock().unwrap().insert(pod.to_owned());
    }

    pub(crate) fn on_command(&self, hook: impl Fn(&World, &str) + Send + 'static) {
        *self.on_command.lock().unwrap() = Some(Box::new(hook));
    }

    pub(crate) fn on_create(&self, hook: impl Fn(&World, &str) + Send + 'static) {
        *self.on_create.lock().unwrap() = Some(Box::new(hook));
    }

    pub(crate) fn on_list(&self, hook: impl Fn(&World, &str) + Send + 'static) {
        *self.on_list.lock().unwrap() = Some(Box::new(hook));
    }

    pub(crate) fn on_change(&self, hook: impl Fn(&World, &str) + Send + 'static) {
        *self.on_change.lock().unwrap() = Some(Box::new(hook));
    }

    /// The changes that are asked for at a path from now on.
    pub(crate) fn watch_changes(&self, path: &str) -> RecordedStates {
        self.watched.lock().unwrap().entry(path.to_owned()).or_default().clone()
    }

    pub(crate) fn ran(&self) -> Vec<String> {
        self.commands.lock().unwrap().clone()
    }

    /// Paths of all objects that contain `part`.
    pub(crate) fn paths(&self, part: &str) -> Vec<String> {
        self.server.paths(part)
    }

    /// Paths of all objects that were created.
    pub(crate) fn created(&self) -> Vec<String> {
        self.server.created()
    }

    fn asked(&self, asked: &Asked) {
        if Requests::new(Verb::List, "*").includes(asked) {
            self.call(&self.on_list, &asked.path);
        }
        let seen = self.watched.lock().unwrap().get(&asked.path).cloned();
        if let Some(seen) = seen.filter(|_| asked.method == "PATCH" && self.get(&asked.path).is_some()) {
            seen.lock().unwrap().push(asked.body.clone());
        }
    }

    fn written(&self, write: &Write) {
        match write.kind {
            WriteKind::Created => self.call(&self.on_create, &write.path),
            WriteKind::Changed => self.call(&self.on_change, &write.path),
            WriteKind::Deleted => {}
        }
    }

    fn call(&self, hook: &Mutex<Option<Hook>>, path: &str) {
        if let Some(hook) = hook.lock().unwrap().as_ref() {
            hook(self, path);
        }
    }
}

#[async_trait]
impl Commands for World {
    async fn run(&self, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
        let command = format!("{} {}", request.command[0], request.pod);
        self.commands.lock().unwrap().push(command.clone());
        self.call(&self.on_command, &command);
        tokio::task::yield_now().await;
        let hangs = self.hanging.lock().unwrap().contains(&command);
        if hangs {
            tokio::time::sleep(request.timeout).await;
            return Err(ExecError::Timeout(request.timeout));
        }
        if self.failing.lock().unwrap().contains(&request.pod) {
            return Err(ExecError::Failed { message: "told to fail".into() });
        }
        Ok(ExecOutput::default())
    }
}
