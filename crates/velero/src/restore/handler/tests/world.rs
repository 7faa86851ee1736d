//! A backup of a few objects, and the API server of `lifeboat_control::testing` into which they are restored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_archive::{ArchiveWriter, Level, ObjectStore, RunLog, Spool, SpoolLimits, WriterOptions};
use lifeboat_cluster::exec::{ExecError, ExecOutput, ExecRequest};
use lifeboat_cluster::testing::Asked;
use lifeboat_control::Clock;
use lifeboat_control::testing::{ApiServer, Requests, Verb, When, WriteKind};
use lifeboat_plan::catalogue::{Catalogue, GroupResource, ItemId, ResourceType};
use lifeboat_plan::items::modifiers::Modifiers;
use lifeboat_plan::own::OwnObjects;
use lifeboat_plan::velero::pod_volumes::Copied;
use lifeboat_plan::velero::restore::native::Snapshot;
use lifeboat_plan::velero::restore::validate;
use lifeboat_plan::velero::restore::volumes::DataIn;
use lifeboat_plugin::actions::RestoreItemAction;
use lifeboat_store::Store;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::backup::Commands;
use crate::restore::prepare::chosen_versions;

use super::super::{
    Filler, Job, Journal, NativeVolumes, PreviewedVolumes, RestoredItems, Times, Tools, preview, restore,
};
use super::agreement::Effective;
use lifeboat_items::preview::Planned;
use lifeboat_items::progress::Progress;

/// What the server does instead of the ordinary.
type Rule = Box<dyn Fn(&Asked, &Api) -> Option<(u16, Value)> + Send + Sync>;

/// When objects are created.
const CREATED: &str = "2026-11-16T00:00:00Z";

/// The API server, and what it was asked.
#[derive(Default)]
pub(super) struct Api {
    pub(super) server: ApiServer,
    /// The writes that were carried out, with the path of the object: `POST /api/v1/namespaces/shop`.
    pub(super) asked: Mutex<Vec<String>>,
    pub(super) commands: Mutex<Vec<String>>,
}

impl Api {
    fn new() -> Arc<Self> {
        let api = Arc::new(Self::default());
        api.server.set_clock(Clock::new(|| CREATED.parse().unwrap()));
        let noted = api.clone();
        api.server.after(move |_, asked, code| noted.note(asked, code));
        // The API server itself establishes definitions.
        api.server.on_write(|server, write| {
            if write.kind == WriteKind::Created && write.path.contains("/customresourcedefinitions/") {
                let conditions = json!([{"type": "Established", "status": "True"},
                    {"type": "NamesAccepted", "status": "True"}]);
                server.change(&write.path, &json!({"status": {"conditions": conditions}}));
            }
        });
        api
    }

    fn note(&self, asked: &Asked, code: u16) {
        if asked.method == "GET" || code >= 300 {
            return;
        }
        let path = match asked.body["metadata"]["name"].as_str() {
            Some(name) if asked.method == "POST" => format!("{}/{name}", asked.path),
            _ => asked.path.clone(),
        };
        self.asked.lock().unwrap().push(format!("{} {path}", asked.method));
    }

    pub(super) fn object(&self, path: &str) -> Option<Value> {
        self.server.get(path)
    }

    /// All objects, by their paths.
    pub(super) fn objects(&self) -> BTreeMap<String, Value> {
        let paths = self.server.paths("").into_iter();
        paths.filter_map(|path| Some((path.clone(), self.object(&path)?))).collect()
    }

    /// The paths of all objects that were created, in order.
    pub(super) fn created(&self) -> Vec<String> {
        self.server.created()
    }
}

/// What is to be restored, how, and what is there.
pub(super) struct World {
    pub(super) objects: Vec<Value>,
    pub(super) spec: Value,
    pub(super) annotations: Value,
    pub(super) there: Vec<(&'static str, Value)>,
    /// More of what is there, at paths that are made up.
    pub(super) also_there: Vec<(String, Value)>,
    pub(super) actions: Vec<Arc<dyn RestoreItemAction>>,
    /// Whether the actions that restore claims from CSI snapshots are among them.
    pub(super) csi: bool,
    /// Whether the cluster serves the kinds of CSI snapshots.
    pub(super) csi_served: bool,
    /// Types that the cluster serves instead of those of the backup with the same kind: `apiVersion` and kind. Of several
    /// versions it prefers the first.
    pub(super) serves: Vec<(String, String)>,
    /// Notes which actions do something.
    pub(super) watch: Option<Arc<Effective>>,
    /// Snapshots of volume plugins; volumes from them are not really made.
    pub(super) snapshots: Vec<Snapshot>,
    /// Copies of volumes of pods; nothing is really copied.
    pub(super) copies: Vec<Copied>,
    /// How the backup holds the data of each volume.
    pub(super) volumes: BTreeMap<String, DataIn>,
    pub(super) untrusted: Option<String>,
    pub(super) modifiers: Modifiers,
    pub(super) times: Times,
    pub(super) rule: Rule,
    pub(super) cancel: CancellationToken,
    pub(super) progress: Arc<Progress>,
}

impl World {
    pub(super) fn new(objects: Vec<Value>) -> Self {
        let short = Duration::from_millis(400);
        Self {
            objects,
            spec: json!({}),
            annotations: json!({}),
            there: Vec::new(),
            also_there: Vec::new(),
            actions: lifeboat_plugin::builtin::restore::actions(),
            csi: false,
            csi_served: false,
            serves: Vec::new(),
            watch: None,
            snapshots: Vec::new(),
            copies: Vec::new(),
            volumes: BTreeMap::new(),
            untrusted: None,
            modifiers: Modifiers::default(),
            times: Times {
                ready: short,
                terminating: short,
                resource: short,
                hooks: Duration::from_secs(20),
                action: Duration::from_secs(20),
            },
            rule: Box::new(|_, _| None),
            cancel: CancellationToken::new(),
            progress: Arc::default(),
        }
    }

    /// Nothing is waited for longer than this.
    pub(super) fn short(&mut self, limit: Duration) {
        self.times = Times { ready: limit, terminating: limit, resource: limit, hooks: limit, ..self.times };
    }

    pub(super) async fn restore(self) -> (RestoredItems, Arc<Api>) {
        let spool = spool(&self.objects).await;
        self.restore_from(spool).await
    }

    /// The plan of that restore.
    pub(super) async fn dry_run(self) -> (Planned, Arc<Api>) {
        let spool = spool(&self.objects).await;
        let Prepared { api, job, tools, .. } = *Box::pin(self.prepare(spool)).await;
        (Box::pin(preview(job, &tools)).await.planned, api)
    }

    pub(super) async fn restore_from(self, spool: Spool) -> (RestoredItems, Arc<Api>) {
        let Prepared { api, job, tools, progress, cancel } = *Box::pin(self.prepare(spool)).await;
        let ended = Box::pin(restore(job, &tools, &progress, &cancel)).await;
        (ended, api)
    }

    async fn prepare(self, spool: Spool) -> Box<Prepared> {
        let api = Api::new();
        for (path, object) in self.there {
            api.server.put(path, object);
        }
        for (path, object) in self.also_there {
            api.server.put(&path, object);
        }
        if !self.csi_served {
            for list in ["*/volumesnapshotcontents", "*/volumesnapshotclasses"] {
                api.server.fail(Requests::new(Verb::List, list), When::Always, 404);
            }
        }
        let (rule, asked_of) = (self.rule, api.clone());
        api.server.answer(move |_, asked| rule(asked, &asked_of));
        let direct = api.server.client().await;
        let mut spec = self.spec;
        spec["backupName"] = json!("b");
        let restore_object = restore_object(&spec, &self.annotations);
        let catalogue = Arc::new(catalogue(&spool, &self.serves));
        let mut valid = validate::compile(&restore_object.spec, &catalogue, self.modifiers).unwrap();
        let own = OwnObjects {
            server: "lifeboat".into(),
            movers: "lifeboat-movers".into(),
            ..OwnObjects::default()
        };
        valid.rules.own = validate::left_out(&restore_object.spec, own, &catalogue);
        valid.rules.versions = chosen_versions(&spool, &catalogue, None);
        let directory = tempfile::tempdir().unwrap();
        let mut actions = actions(self.actions, self.csi, &direct);
        if let Some(watch) = &self.watch {
            actions = actions.into_iter().map(|action| watch.watch(action)).collect();
        }
        let journal = Arc::new(Journal::new(direct.clone(), "lifeboat", &restore_object));
        let begun = journal.read().await.unwrap();
        let job = Job {
            restore: restore_object,
            valid,
            spool,
            volumes: self.volumes,
            untrusted: self.untrusted,
            begun,
            log: RunLog::create(directory.path(), &[], Level::Info).unwrap(),
        };
        let tools = Tools {
            journal,
            direct,
            catalogue,
            actions,
            maker: (!self.snapshots.is_empty())
                .then(|| Arc::new(PreviewedVolumes(Ok(self.snapshots))) as Arc<dyn NativeVolumes>),
            filler: (!self.copies.is_empty()).then(|| Arc::new(Filler::of_test(self.copies))),
            commands: Arc::new(Noted(api.clone())),
            priorities: lifeboat_plan::items::priorities::Priorities::default(),
            times: self.times,
            clock: Clock::default(),
        };
        Box::new(Prepared { api, job, tools, progress: self.progress, cancel: self.cancel })
    }
}

/// A restore, or a preview, that is about to begin.
struct Prepared {
    api: Arc<Api>,
    job: Job,
    tools: Tools,
    progress: Arc<Progress>,
    cancel: CancellationToken,
}

fn actions(
    mut own: Vec<Arc<dyn RestoreItemAction>>,
    csi: bool,
    client: &kube::Client,
) -> Vec<Arc<dyn RestoreItemAction>> {
    if csi {
        own.extend(crate::csi::restore_actions(client));
    }
    own
}

fn restore_object(spec: &Value, annotations: &Value) -> lifeboat_api::velero::Restore {
    let metadata = json!({"name": "r", "namespace": "lifeboat", "uid": "ru",
        "creationTimestamp": "2026-11-15T23:00:00Z", "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// Notes each command; one called `false` fails.
struct Noted(Arc<Api>);

#[async_trait]
impl Commands for Noted {
    async fn run(&self, request: &ExecRequest) -> Result<ExecOutput, ExecError> {
        let ExecRequest { namespace, pod, container, command, .. } = request;
        let line = format!("{namespace}/{pod} {container}: {}", command.join(" "));
        self.0.commands.lock().unwrap().push(line);
        if *command == ["hang"] {
            std::future::pending::<()>().await;
        }
        if *command == ["false"] {
            return Err(ExecError::Failed { message: "exit code 1".into() });
        }
        Ok(ExecOutput::default())
    }
}

/// An object; `place` is `namespace/name` or a name.
pub(super) fn object(api_version: &str, kind: &str, place: &str) -> Value {
    let metadata = match place.split_once('/') {
        Some((namespace, name)) => json!({"namespace": namespace, "name": name}),
        None => json!({"name": place}),
    };
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    object["metadata"]["uid"] = json!(format!("{kind}-{place}"));
    object
}

fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.as_str() {
        "endpoints" => lower,
        _ if lower.ends_with("ss") => format!("{lower}es"),
        _ if lower.ends_with("policy") => lower.replace("policy", "policies"),
        _ => format!("{lower}s"),
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The archive of a backup of these objects. An object that comes again is another version of the first, which is the one
/// that the old cluster preferred.
pub(super) async fn spool(objects: &[Value]) -> Spool {
    let mut known = BTreeSet::new();
    let store: Arc<dyn ObjectStore> = Arc::new(Store::memory());
    let writer = ArchiveWriter::start(store.clone(), "b.tar.gz", &WriterOptions { threads: 1 });
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let version = text("/apiVersion").unwrap();
        let id = ItemId {
            resource: GroupResource::new(group(version), plural(text("/kind").unwrap())),
            namespace: text("/metadata/namespace").map(str::to_owned),
            name: text("/metadata/name").unwrap().to_owned(),
        };
        let version = self::version(version);
        let preferred = known.insert(id.clone());
        writer.append(&id, version, preferred, object.to_string().into()).await.unwrap();
    }
    writer.finish().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let reading = store.get_stream("b.tar.gz").await.unwrap();
    Spool::read(reading, directory.path(), SpoolLimits::default()).await.unwrap()
}

/// The types of the items, and a few that actions ask for. `serves`: see [`World::serves`].
fn catalogue(spool: &Spool, serves: &[(String, String)]) -> Catalogue {
    let mut types = BTreeMap::new();
    let asked = [
        ("v1", "ConfigMap"),
        ("v1", "ServiceAccount"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("velero.io/v1", "Backup"),
    ];
    let own = spool.items().map(|item| (item.api_version(), item.kind()));
    let own = own.filter(|(_, kind)| serves.iter().all(|(_, served)| served != kind));
    let versions = serves.iter().map(|(version, kind)| (version.as_str(), kind.as_str()));
    for (api_version, kind) in own.chain(asked).chain(versions) {
        let (id, version) = (GroupResource::new(group(api_version), plural(kind)), version(api_version));
        if id.group == "example.org" {
            continue;
        }
        let preferred =
            serves.iter().find(|(_, served)| served == kind).is_none_or(|(first, _)| first == api_version);
        let known = ResourceType {
            id: id.clone(),
            version: version.into(),
            kind: kind.into(),
            singular: kind.to_lowercase(),
            preferred,
            ..ResourceType::default()
        };
        types.insert((id, version.to_owned()), known);
    }
    Catalogue::new(types.into_values().collect())
}

fn version(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}
