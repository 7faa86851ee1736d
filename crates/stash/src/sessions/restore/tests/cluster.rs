//! A cluster with workloads whose pods follow their scale, a Repository, and movers that end as a test asks.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use lifeboat_control::testing::ApiServer;
use lifeboat_mover::report::{BackedUp, Outcome, PartResult, PartResults};
use lifeboat_mover::task::TaskWork;
use lifeboat_plan::stash::in_place::UNFINISHED;
use lifeboat_repository::backup::{BackupOptions, Source, backup};
use lifeboat_repository::lock::LockOptions;
use lifeboat_repository::progress::Progress;
use lifeboat_transfer::MoverSettings;
use lifeboat_transfer::attempts::WorkContext;
use lifeboat_transfer::attempts::testing::{FakeEffects, reported};
use lifeboat_transfer::movers::MoverEnd;
use lifeboat_transfer::repositories::RepositoryKey;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::*;
use crate::settings::StashSettings;
use crate::testing::{FakeCommands, World};

pub(super) const SESSIONS: &str = "/apis/stash.appscode.com/v1beta1/namespaces/shop/restoresessions";
pub(super) const BATCHES: &str = "/apis/stash.appscode.com/v1beta1/namespaces/shop/restorebatches";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const WORKLOADS: [&str; 2] =
    ["/apis/apps/v1/namespaces/shop/", "/apis/apps.openshift.io/v1/namespaces/shop/"];
const CLAIMS: &str = "/api/v1/namespaces/shop/persistentvolumeclaims";

/// The target of a member: volume `data`, mounted at `/data`.
pub(super) fn member(kind: &str, name: &str, alias: &str) -> Value {
    let version = match kind {
        "PersistentVolumeClaim" => "v1",
        "DeploymentConfig" => "apps.openshift.io/v1",
        _ => "apps/v1",
    };
    json!({
        "alias": alias,
        "ref": {"apiVersion": version, "kind": kind, "name": name},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    })
}

pub(super) struct Cluster {
    pub(super) world: World,
    pub(super) key: RepositoryKey,
    pub(super) effects: Arc<FakeEffects>,
    commands: Arc<FakeCommands>,
    pub(super) transfers: WorkContext,
}

impl Cluster {
    pub(super) async fn new() -> Self {
        Self::with(StashSettings::default()).await
    }

    pub(super) async fn with(settings: StashSettings) -> Self {
        let mut world = World::with_settings(settings).await;
        let commands = Arc::new(FakeCommands::default());
        world.context.commands = commands.clone();
        let key = world.put_repository("r");
        let effects = Arc::new(FakeEffects::default());
        effects.well.store(true, std::sync::atomic::Ordering::Relaxed);
        let settings = Arc::new(MoverSettings::default());
        let mut transfers = WorkContext::new(&world.context.core, settings, effects.clone());
        transfers.pace = Duration::from_millis(20);
        // The server in memory knows no dry runs.
        world.server.answer(|_, asked| {
            asked.query.contains("dryRun").then(|| {
                let mut pod = asked.body.clone();
                pod["metadata"]["name"] = json!("tried");
                (201, pod)
            })
        });
        world.server.on_write(|server, write| {
            if WORKLOADS.iter().any(|workloads| write.path.contains(workloads)) {
                follow(server, &write.path);
            }
        });
        Self { world, key, effects, commands, transfers }
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        let mut found = WORKLOADS.iter().flat_map(|workloads| self.world.server.paths(workloads));
        found.find(|path| path.ends_with(&format!("/{name}"))).unwrap()
    }

    pub(super) fn object(&self, name: &str) -> Value {
        self.world.server.get(&self.path_of(name)).unwrap()
    }

    /// The commands of hooks, each with its pod.
    pub(super) fn commands(&self) -> Vec<String> {
        self.commands.0.lock().unwrap().clone()
    }

    pub(super) fn replicas(&self, name: &str) -> u64 {
        self.object(name)["spec"]["replicas"].as_u64().unwrap()
    }

    /// The annotation of a claim that records a restore which has not succeeded.
    pub(super) fn record_on(&self, claim: &str) -> Value {
        let claim = self.world.server.get(&format!("{CLAIMS}/{claim}")).unwrap();
        let text = claim["metadata"]["annotations"][UNFINISHED].clone();
        text.as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
    }

    pub(super) fn claim(&self, name: &str) {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": format!("pv-{name}")},
            "status": {"phase": "Bound"},
        });
        self.world.server.put(&format!("{CLAIMS}/{name}"), claim);
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {}});
        self.world.server.put(&format!("/api/v1/persistentvolumes/pv-{name}"), volume);
    }

    /// A Deployment with the claim `NAME-data`, mounted at `/data`.
    pub(super) fn deployment(&self, name: &str, replicas: u32) {
        self.of_one_claim("apps/v1", "Deployment", name, replicas);
    }

    /// Like a Deployment, as OpenShift has it.
    pub(super) fn deployment_config(&self, name: &str, replicas: u32) {
        self.of_one_claim("apps.openshift.io/v1", "DeploymentConfig", name, replicas);
    }

    fn of_one_claim(&self, version: &str, kind: &str, name: &str, replicas: u32) {
        let claim = format!("{name}-data");
        self.claim(&claim);
        let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
        let object = json!({
            "apiVersion": version, "kind": kind,
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main"}], "volumes": [volume]}}},
        });
        self.workload(name, object);
    }

    /// A StatefulSet with claims `data-NAME-ORDINAL`; those of the first `claims` ordinals exist.
    pub(super) fn stateful_set(&self, name: &str, replicas: u32, claims: u32) {
        for ordinal in 0..claims {
            self.claim(&format!("data-{name}-{ordinal}"));
        }
        let template = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "spec": {
                "replicas": replicas,
                "template": {"spec": {"containers": [{"name": "main"}]}},
                "volumeClaimTemplates": [template],
            },
        });
        self.workload(name, object);
    }

    fn workload(&self, name: &str, object: Value) {
        let of = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let plural = format!("{}s", of("kind").to_lowercase());
        let path = format!("/apis/{}/namespaces/shop/{plural}/{name}", of("apiVersion"));
        self.world.server.put(&path, object);
        follow(&self.world.server, &path);
    }

    /// Stores a snapshot of a host at a path; gives its ID.
    pub(super) async fn snapshot(&self, host: &str, path: &str) -> String {
        self.tagged(host, path, &[]).await
    }

    /// Stores a snapshot with these tags.
    pub(super) async fn tagged(&self, host: &str, path: &str, tags: &[&str]) -> String {
        let repository = self.world.opened(&self.key).await;
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), host).unwrap();
        let source =
            Source::Root { directory: File::open(directory.path()).unwrap().into(), path: path.to_owned() };
        let tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        let options = BackupOptions { tags, ..BackupOptions::new(source, host) };
        let progress = Arc::new(Progress::default());
        let lock = LockOptions::default();
        let made = backup(&repository, options, &lock, progress, CancellationToken::new()).await;
        made.unwrap().snapshot_id.unwrap().to_string()
    }

    /// Stores what the safety copy of a restore is in a real repository.
    pub(super) async fn copied(&self, host: &str, restore: &str) -> String {
        let of = format!("lifeboat-session=uid-{restore}");
        self.tagged(host, "/data", &["lifeboat-safety", &of]).await
    }

    pub(super) fn restore_session(&self, name: &str, spec: &Value, annotations: &Value) {
        let mut spec = spec.clone();
        spec["repository"] = json!({"name": "r"});
        let object = json!({
            "apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreSession",
            "metadata": {"annotations": annotations}, "spec": spec,
        });
        self.world.server.put(&format!("{SESSIONS}/{name}"), object);
    }

    pub(super) fn restore_batch(&self, name: &str, spec: &Value) {
        let mut spec = spec.clone();
        spec["repository"] = json!({"name": "r"});
        let object =
            json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "RestoreBatch", "spec": spec});
        self.world.server.put(&format!("{BATCHES}/{name}"), object);
    }

    pub(super) fn remove(&self, name: &str) {
        self.world.server.remove(&format!("{SESSIONS}/{name}"));
    }

    /// The next mover copies, the one after it ends so.
    pub(super) fn copies_then(&self, end: MoverEnd) {
        let effects = self.effects.clone();
        let uid = |name: &str| format!("uid-{name}");
        // The safety copy is the first mover; its snapshot is in the repository under the UID of its part.
        let digest = lifeboat_plan::stash::repository::fate::host_digest("app");
        let part = format!("{}.0.{digest}.safety-1.0", uid("back"));
        effects.holds(&part, "copy");
        let copied = Outcome::BackedUp(BackedUp { snapshot: "copy".into(), ..BackedUp::default() });
        let parts = vec![PartResult { uid: part, outcome: copied }];
        effects.will(reported(Outcome::Parts(PartResults { parts, ..PartResults::default() })));
        effects.will(end);
    }

    /// Brings a restore as far as possible, as a server does that has just started.
    pub(super) async fn advance(&self, path: &str, cancel: &CancellationToken) -> Result<Advance, Stopped> {
        let kind = if path.starts_with(BATCHES) { SessionKind::RestoreBatch } else { SessionKind::Restore };
        let object: DynamicObject =
            serde_json::from_value(self.world.server.get(path).ok_or(Stopped::Gone)?).unwrap();
        let restore = RestoreObject::of(kind, &object).unwrap();
        let context = &self.world.context;
        let record = SessionRecord::new(&context.core, kind, &kind.resource(), object).unwrap();
        advance(context, &self.transfers, &restore, &Arc::new(record), cancel).await
    }

    /// Works on a RestoreSession to its end; gives it as it is then.
    pub(super) async fn ended(&self, name: &str) -> Value {
        self.ended_at(&format!("{SESSIONS}/{name}")).await
    }

    pub(super) async fn ended_at(&self, path: &str) -> Value {
        let advanced = self.advance(path, &CancellationToken::new()).await.unwrap();
        assert_eq!(advanced, Advance::Ended);
        self.world.server.get(path).unwrap()
    }

    /// The work of all movers that were sent, part by part.
    pub(super) fn works(&self) -> Vec<TaskWork> {
        let requests = self.effects.requests.lock().unwrap();
        requests.iter().flat_map(|request| request.task.parts.iter().map(|part| part.work.clone())).collect()
    }
}

/// Gives a workload the pods of its scale.
fn follow(server: &ApiServer, path: &str) {
    let Some(object) = server.get(path) else { return };
    let (name, uid) = (object["metadata"]["name"].clone(), object["metadata"]["uid"].clone());
    let name = name.as_str().unwrap().to_owned();
    for pod in server.paths(&format!("{PODS}/{name}-")) {
        server.remove(&pod);
    }
    let is_set = object["kind"] == "StatefulSet";
    for number in 0..object["spec"]["replicas"].as_u64().unwrap_or(1) {
        let claim = if is_set { format!("data-{name}-{number}") } else { format!("{name}-data") };
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"ownerReferences": [{"kind": object["kind"], "name": name, "uid": uid, "controller": true}]},
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        server.put(&format!("{PODS}/{name}-{number}"), pod);
    }
}
