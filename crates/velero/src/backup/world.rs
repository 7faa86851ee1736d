//! For tests: a cluster of a few lines that serves types, lists, versions of objects and conflicts; and commands that are
//! written down instead of run.

mod archived;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use kube::Client;
use lifeboat_cluster::exec::{ExecError, ExecOutput, ExecRequest};
use lifeboat_cluster::testing::{Asked, client, failure};
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

/// Where the cluster says which version of group snapshots it has: a test puts that there.
pub(crate) const GROUP_SNAPSHOTS: &str = "/apis/groupsnapshot.storage.k8s.io";

#[derive(Default)]
struct Inner {
    /// By path.
    objects: BTreeMap<String, Value>,
    /// Paths of lists that fail, with the code.
    broken: BTreeMap<String, u16>,
    /// Paths of lists of which single requests fail: which ones, counted from 1, and with which code.
    moody: BTreeMap<String, BTreeMap<usize, u16>>,
    /// How often each path was listed.
    listed: BTreeMap<String, usize>,
    /// Changes that are refused: the path, a field of the change, the code.
    refused: Vec<(String, String, u16)>,
    version: u64,
}

/// The cluster. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct World {
    inner: Arc<Mutex<Inner>>,
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
    /// Called with the path of every list.
    on_list: Arc<Mutex<Option<Hook>>>,
    /// Called with the path of every object that is changed.
    on_change: Arc<Mutex<Option<Hook>>>,
    /// Changes of watched paths.
    watched: Arc<Mutex<BTreeMap<String, Seen>>>,
    /// Paths of all objects that were created.
    pub(crate) created: Arc<Mutex<Vec<String>>>,
}

/// Changes in their order.
type Seen = Arc<Mutex<Vec<Value>>>;
type Hook = Box<dyn Fn(&World, &str) + Send>;

impl World {
    pub(crate) async fn client(&self) -> Client {
        let world = self.clone();
        client(move |asked| world.answer(&asked)).await
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

    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut inner = self.inner.lock().unwrap();
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.objects.insert(path.to_owned(), object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.inner.lock().unwrap().objects.get(path).cloned()
    }

    pub(crate) fn change(&self, path: &str, with: &Value) {
        let mut object = self.get(path).unwrap();
        merge(&mut object, with);
        self.put(path, object);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.inner.lock().unwrap().objects.remove(path);
    }

    /// Lists of this path fail with `code`.
    pub(crate) fn break_list(&self, path: &str, code: u16) {
        self.inner.lock().unwrap().broken.insert(path.to_owned(), code);
    }

    /// The `nth` request for a list of this path fails with `code`.
    pub(crate) fn break_request(&self, path: &str, nth: usize, code: u16) {
        self.inner.lock().unwrap().moody.entry(path.to_owned()).or_default().insert(nth, code);
    }

    /// Changes of this path that hold `field` fail with `code`.
    pub(crate) fn refuse_change(&self, path: &str, field: &str, code: u16) {
        self.inner.lock().unwrap().refused.push((path.to_owned(), field.to_owned(), code));
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
    pub(crate) fn watch_changes(&self, path: &str) -> Seen {
        self.watched.lock().unwrap().entry(path.to_owned()).or_default().clone()
    }

    pub(crate) fn ran(&self) -> Vec<String> {
        self.commands.lock().unwrap().clone()
    }

    /// Paths of all objects that contain `part`.
    pub(crate) fn paths(&self, part: &str) -> Vec<String> {
        self.inner.lock().unwrap().objects.keys().filter(|path| path.contains(part)).cloned().collect()
    }

    fn answer(&self, asked: &Asked) -> (u16, Value) {
        let path = asked.path.as_str();
        match (asked.method.as_str(), path) {
            ("GET", "/api") => return (200, discovery(true)),
            ("GET", "/apis") => return (200, discovery(false)),
            ("GET", "/version") => return (200, version()),
            ("POST", path) if path.contains("/events") => return (201, asked.body.clone()),
            // What is tested finds changes by looking.
            ("GET", _) if asked.query.contains("watch=") => return failure(500, "NoWatch"),
            _ => {}
        }
        let found = self.get(path);
        match asked.method.as_str() {
            "GET" => found.map_or_else(|| self.list(path, &asked.query), |object| (200, object)),
            "POST" => {
                let name = asked.body["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{path}/{name}");
                if self.get(&path).is_some() {
                    return failure(409, "AlreadyExists");
                }
                self.put(&path, asked.body.clone());
                self.created.lock().unwrap().push(path.clone());
                if let Some(hook) = self.on_create.lock().unwrap().as_ref() {
                    hook(self, &path);
                }
                (201, asked.body.clone())
            }
            "PATCH" => self.patch(path, found, &asked.body),
            "DELETE" => {
                self.remove(path);
                found.map_or_else(|| failure(404, "NotFound"), |object| (200, object))
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }

    fn patch(&self, path: &str, found: Option<Value>, with: &Value) -> (u16, Value) {
        let Some(mut object) = found else { return failure(404, "NotFound") };
        if let Some(seen) = self.watched.lock().unwrap().get(path) {
            seen.lock().unwrap().push(with.clone());
        }
        let refused = self.inner.lock().unwrap().refused.clone();
        let applies = |(at, field, _): &&(String, String, u16)| at == path && with.get(field).is_some();
        if let Some((_, _, code)) = refused.iter().find(applies) {
            return failure(*code, "Refused");
        }
        let given = &with["metadata"]["resourceVersion"];
        if !given.is_null() && *given != object["metadata"]["resourceVersion"] {
            return failure(409, "Conflict");
        }
        merge(&mut object, with);
        self.put(path, object);
        if let Some(hook) = self.on_change.lock().unwrap().as_ref() {
            hook(self, path);
        }
        (200, self.get(path).unwrap())
    }

    fn list(&self, path: &str, query: &str) -> (u16, Value) {
        if let Some(hook) = self.on_list.lock().unwrap().as_ref() {
            hook(self, path);
        }
        let mut inner = self.inner.lock().unwrap();
        let count = inner.listed.entry(path.to_owned()).or_default();
        *count += 1;
        let count = *count;
        let single = inner.moody.get(path).and_then(|moods| moods.get(&count)).copied();
        if let Some(code) = single.or(inner.broken.get(path).copied()) {
            return failure(code, "BackupProblem");
        }
        let Some((base, plural)) = path.rsplit_once('/') else { return failure(404, "NotFound") };
        let known = TYPES.iter().any(|kind| kind.2 == plural)
            || base.contains("velero.io") && base.ends_with("/namespaces/lifeboat")
            || plural == "events"
            || plural.starts_with("volumegroupsnapshot") && inner.objects.contains_key(GROUP_SNAPSHOTS);
        if !known {
            return failure(404, "NotFound");
        }
        let here = |object: &str| {
            let rest = object.strip_prefix(base).unwrap_or_default();
            match rest.strip_prefix("/namespaces/").and_then(|rest| rest.split_once('/')) {
                Some((_, rest)) if plural != "namespaces" => {
                    rest.strip_prefix(plural).is_some_and(|name| name.matches('/').count() == 1)
                }
                _ => rest.strip_prefix(&format!("/{plural}/")).is_some_and(|name| !name.contains('/')),
            }
        };
        let items: Vec<_> =
            inner.objects.iter().filter(|(path, _)| here(path)).map(|(_, object)| object.clone()).collect();
        let asked = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse::<usize>().ok())
        };
        let first = asked("continue").unwrap_or_default().min(items.len());
        let end = asked("limit").map_or(items.len(), |limit| (first + limit).min(items.len()));
        let mut metadata = json!({"resourceVersion": "1"});
        if end < items.len() {
            metadata["continue"] = json!(end.to_string());
        }
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items[first..end]}))
    }
}

#[async_trait]
impl Commands for World {
    async fn run(&self, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
        let command = format!("{} {}", request.command[0], request.pod);
        self.commands.lock().unwrap().push(command.clone());
        if let Some(hook) = self.on_command.lock().unwrap().as_ref() {
            hook(self, &command);
        }
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

fn discovery(core: bool) -> Value {
    let mut groups: BTreeMap<(&str, &str), Vec<Value>> = BTreeMap::new();
    for (group, version, plural, kind, namespaced) in TYPES.iter().filter(|known| known.0.is_empty() == core)
    {
        groups.entry((group, version)).or_default().push(json!({
            "resource": plural, "singularResource": kind.to_lowercase(), "responseKind": {"kind": kind, "group": "", "version": ""},
            "scope": if *namespaced { "Namespaced" } else { "Cluster" },
            "verbs": ["create", "delete", "get", "list"],
            "shortNames": if *plural == "pods" { vec!["po"] } else { vec![] },
        }));
    }
    let items: Vec<_> = groups
        .into_iter()
        .map(|((group, version), resources)| {
            json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": resources}]})
        })
        .collect();
    json!({"items": items})
}

fn version() -> Value {
    json!({"major": "1", "minor": "34", "gitVersion": "v1.34.4", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": ""})
}

fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}
