//! BackupSessions from their creation to their end, on an API server in memory and with movers that end as a test asks.

mod by_mover;
mod checked;
mod crashes;
mod csi_reads;
mod databases;
mod hooks;
mod interrupted;
mod members;
mod reserved;
mod restics;
mod snapshots;
mod turns;
mod volumes;

use std::sync::atomic::Ordering;

use lifeboat_control::locked;
use lifeboat_transfer::attempts::testing::FakeEffects;
use serde_json::{Value, json};

use super::*;
use crate::settings::StashSettings;
use crate::testing::{FakeCommands, SHOP, World, condition};

const STASH: &str = "/apis/stash.appscode.com/v1beta1/namespaces/shop";

/// A tenant with Deployments whose claims movers read, a Repository `r`, and invokers.
struct Shop {
    world: World,
    movers: Arc<FakeEffects>,
    commands: Arc<FakeCommands>,
}

impl Shop {
    async fn new() -> Self {
        Self::with(StashSettings::default()).await
    }

    async fn with(settings: StashSettings) -> Self {
        let mut world = World::with_settings(settings).await;
        let movers = Arc::new(FakeEffects::default());
        movers.well.store(true, Ordering::Relaxed);
        let commands = Arc::new(FakeCommands::default());
        world.context.effects = Some(movers.clone());
        world.context.commands = commands.clone();
        // The API server in memory would make the pod of a dry run.
        world.server.answer(|_, asked| asked.query.contains("dryRun").then(|| (201, asked.body.clone())));
        world.put_repository("r");
        let shop = Self { world, movers, commands };
        shop.put_deployment("web");
        shop
    }

    /// A Deployment with one Ready pod and a claim, all of one name.
    fn put_deployment(&self, name: &str) {
        let server = &self.world.server;
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": name}}]);
        let containers = json!([{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]);
        let pod = json!({"nodeName": "n1", "volumes": volumes, "containers": containers});
        let apps = "/apis/apps/v1/namespaces/shop";
        server.put(
            &format!("{apps}/deployments/{name}"),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"uid": format!("d-{name}")},
                "spec": {"replicas": 1, "template": {"spec": pod}}}),
        );
        server.put(
            &format!("{apps}/replicasets/{name}"),
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"uid": format!("rs-{name}"), "ownerReferences": owner(&format!("d-{name}"))}}),
        );
        self.put_pod(&format!("{name}-1"), &format!("p-{name}"), name);
        server.put(
            &format!("/api/v1/namespaces/shop/persistentvolumeclaims/{name}"),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": format!("pv-{name}")},
                "status": {"phase": "Bound"}}),
        );
    }

    /// A Ready pod of a Deployment.
    fn put_pod(&self, pod: &str, uid: &str, of: &str) {
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": of}}]);
        let containers = json!([{"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]);
        self.world.server.put(
            &format!("/api/v1/namespaces/shop/pods/{pod}"),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"uid": uid, "ownerReferences": owner(&format!("rs-{of}"))},
                "spec": {"nodeName": "n1", "volumes": volumes, "containers": containers},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
        );
    }

    /// A BackupConfiguration of Deployment `web` that is Ready, with these changes of its spec.
    fn put_configuration(&self, name: &str, changes: &Value) {
        let mut spec = json!({
            "schedule": "*/5 * * * *",
            "repository": {"name": "r"},
            "retentionPolicy": {"name": "keep", "keepLast": 2, "prune": false},
            "target": target("web", "app"),
        });
        lifeboat_cluster::testing::merge(&mut spec, changes);
        self.put_invoker("BackupConfiguration", name, &spec);
    }

    /// A BackupBatch of these Deployments, each its own alias.
    fn put_batch(&self, name: &str, targets: &[&str], changes: &Value) {
        let members: Vec<Value> =
            targets.iter().map(|target_name| json!({"target": target(target_name, target_name)})).collect();
        let mut spec = json!({
            "schedule": "*/5 * * * *",
            "repository": {"name": "r"},
            "retentionPolicy": {"name": "keep", "keepLast": 2, "prune": false},
            "members": members,
        });
        lifeboat_cluster::testing::merge(&mut spec, changes);
        self.put_invoker("BackupBatch", name, &spec);
    }

    fn put_invoker(&self, kind: &str, name: &str, spec: &Value) {
        let plural = if kind == "BackupBatch" { "backupbatches" } else { "backupconfigurations" };
        self.world.server.put(
            &format!("{STASH}/{plural}/{name}"),
            json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": kind, "spec": spec, "status": {"phase": "Ready"}}),
        );
    }

    /// A BackupSession by hand.
    fn put_session(&self, name: &str, kind: &str, invoker: &str) {
        self.world.server.put(
            &format!("{STASH}/backupsessions/{name}"),
            json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupSession",
                "spec": {"invoker": {"kind": kind, "name": invoker}}}),
        );
    }

    fn object(&self, name: &str) -> Value {
        self.world.server.get(&format!("{STASH}/backupsessions/{name}")).unwrap_or_default()
    }

    fn parts(&self, name: &str) -> (BackupSession, Arc<SessionRecord>) {
        let object: DynamicObject = serde_json::from_value(self.object(name)).unwrap();
        let resource = objects::resource_of::<BackupSession>();
        let session = objects::typed(&object).unwrap();
        let record = SessionRecord::new(&self.world.context.core, SessionKind::Backup, &resource, object);
        (session, Arc::new(record.unwrap()))
    }

    /// Brings a session as far as possible now, as a server does that just began to lead.
    async fn advance(&self, name: &str) -> Result<Advance, Stopped> {
        let (session, record) = self.parts(name);
        Box::pin(advance(&self.world.context, &session, &record, &CancellationToken::new())).await
    }

    /// Runs a session to its end, and gives it as it is then.
    async fn run(&self, name: &str) -> Value {
        assert!(matches!(self.advance(name).await, Ok(Advance::Ended)), "{}", self.object(name));
        self.object(name)
    }

    fn commands(&self) -> Vec<String> {
        locked(&self.commands.0).clone()
    }
}

fn owner(uid: &str) -> Value {
    json!([{"controller": true, "uid": uid, "kind": "X", "name": "x"}])
}

fn target(name: &str, alias: &str) -> Value {
    json!({
        "alias": alias,
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "paths": ["/data"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    })
}

fn phase(session: &Value) -> &str {
    session["status"]["phase"].as_str().unwrap_or_default()
}

fn host(session: &Value, member: usize) -> &Value {
    &session["status"]["targets"][member]["stats"][0]
}

#[tokio::test]
async fn a_deployment_is_backed_up_by_one_mover_on_the_node_of_its_pod() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let host = host(&session, 0);
    assert_eq!(
        (&host["hostname"], &host["pod"], &host["node"]),
        (&json!("app"), &json!("web-1"), &json!("a"))
    );
    assert_eq!(host["snapshots"][0]["path"], "/data");
    assert_eq!(host["consistency"], "Live");
    let requests = locked(&shop.movers.requests);
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].job.namespace, SHOP);
    assert_eq!(requests[0].job.place.node(), Some("n1"));
    let metrics = shop.world.context.core.metrics.render();
    assert!(metrics.contains("stash_backup_session_success{"), "{metrics}");
    for kind in ["BackendRepositoryInitialized", "RetentionPolicyApplied", "MetricsPushed"] {
        assert_eq!(condition(&session, kind).0, "True", "{session}");
    }
    let (status, message) = condition(&session, "RepositoryIntegrityVerified");
    assert!(status == "Unknown" && message.contains("not checked yet"), "{session}");
}

/// A session does not check the repository itself.
#[tokio::test]
async fn a_session_shows_the_last_check_of_its_repository_and_does_not_fail_by_it() {
    for (integrity, expected) in [(true, "True"), (false, "False")] {
        let shop = Shop::new().await;
        let checked = json!({"integrity": integrity, "lastCheckTime": "2026-01-01T00:00:00Z"});
        shop.world.change("r", &json!({"status": checked}));
        shop.put_configuration("nightly", &json!({}));
        shop.put_session("s", "BackupConfiguration", "nightly");
        let session = shop.run("s").await;
        assert_eq!(phase(&session), "Succeeded", "{session}");
        let (status, message) = condition(&session, "RepositoryIntegrityVerified");
        assert_eq!(status, expected, "{session}");
        assert!(message.contains("2026-01-01T00:00:00Z"), "{message}");
    }
}

/// A reconcile may be given the session as it was just before its end; the work on it then meets a conflict and reads it again.
#[tokio::test]
async fn a_session_that_has_ended_is_left_as_it_is() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let ended = shop.run("s").await;
    let written = shop.world.server.writes().len();
    assert_eq!(shop.run("s").await, ended);
    assert_eq!(shop.world.server.writes().len(), written);
}

#[tokio::test]
async fn a_missing_target_or_volume_or_pod_fails_the_session_and_is_named() {
    let shop = Shop::new().await;
    let is_told = |session: &Value, text: &str| session["status"]["message"].to_string().contains(text);
    for (name, changes, text) in [
        (
            "no-target",
            json!({"target": {"alias": "one", "ref": {"name": "gone"}}}),
            "Deployment shop/gone does not exist",
        ),
        (
            "no-volume",
            json!({"target": {"alias": "two", "volumeMounts": [{"name": "other", "mountPath": "/data"}]}}),
            "which pod web-1 does not have; expected one of data",
        ),
    ] {
        shop.put_configuration(name, &changes);
        shop.put_session(&format!("{name}-s"), "BackupConfiguration", name);
        let session = shop.run(&format!("{name}-s")).await;
        assert_eq!(phase(&session), "Failed", "{session}");
        assert!(session["status"]["targets"][0].to_string().contains(text), "{session}");
        assert!(is_told(&session, text), "{session}");
    }
    let pod = "/api/v1/namespaces/shop/pods/web-1";
    shop.world.server.change(pod, &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    shop.put_configuration("not-ready", &json!({}));
    shop.put_session("s", "BackupConfiguration", "not-ready");
    let session = shop.run("s").await;
    assert!(host(&session, 0)["error"].as_str().unwrap_or_default().contains("no Ready pod"), "{session}");
    assert!(locked(&shop.movers.requests).is_empty(), "no mover was sent");
}

#[tokio::test]
async fn a_repository_that_cannot_be_opened_fails_the_session_with_the_reason() {
    let shop = Shop::new().await;
    shop.world.server.remove("/api/v1/namespaces/shop/secrets/keys");
    shop.put_configuration("nightly", &json!({}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed");
    let (status, message) = condition(&session, "BackendRepositoryInitialized");
    assert!(status == "False" && message.contains("'keys'"), "{session}");
    assert!(session["status"]["message"].as_str().unwrap_or_default().contains("'keys'"), "{session}");
    assert_eq!(shop.world.server.events().last().map(String::as_str), Some("Failed"));
    assert!(shop.world.context.invoker_doubts.has("uid-nightly"), "its invoker looks again");
    assert!(
        shop.world.context.repository_doubts.settle(&key_of(SHOP, "r").to_string()),
        "so does the Repository"
    );
}

#[tokio::test]
async fn keys_of_a_repository_in_another_namespace_are_not_brought_along() {
    let shop = Shop::new().await;
    shop.world.put_secret("bank", crate::testing::PASSWORD);
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "bank"}});
    shop.world.put_repository_in("bank", "r", backend);
    shop.put_configuration("nightly", &json!({"repository": {"namespace": "bank"}}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Skipped");
    let skipped = condition(&session, "BackupSkipped").1;
    assert!(skipped.contains("Repository bank/r does not allow namespace shop"), "{session}");
    assert!(locked(&shop.movers.requests).is_empty());
}

#[tokio::test]
async fn a_repository_that_allows_the_namespace_is_reached_through_the_gateway() {
    use lifeboat_mover::task::Transport;
    let shop = Shop::new().await;
    crate::gateway::serve_repositories(&shop.world.context);
    shop.world.put_secret("bank", crate::testing::PASSWORD);
    let backend = json!({"s3": {"endpoint": "minio:9000", "bucket": "bkt", "prefix": "bank"}});
    shop.world.put_repository_in("bank", "r", backend);
    let policy = json!({"spec": {"usagePolicy": {"allowedNamespaces": {"from": "All"}}}});
    shop.world.server.change(&crate::testing::path("bank", "r"), &policy);
    shop.put_configuration("nightly", &json!({"repository": {"namespace": "bank"}}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Succeeded", "{session}");
    let (namespace, keys, task) = {
        let requests = locked(&shop.movers.requests);
        let request = &requests[0];
        (request.job.namespace.clone(), request.keys.clone(), request.task.clone())
    };
    assert_eq!((namespace.as_str(), task.repository), (SHOP, None));
    let transport = keys.read().await.unwrap().repository.unwrap().transport;
    assert!(matches!(transport, Transport::Gateway { .. }), "{transport:?}");
}

#[tokio::test]
async fn a_session_that_is_out_of_time_fails_and_begins_nothing() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({"timeOut": "1ms"}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    let session = shop.run("s").await;
    assert_eq!(phase(&session), "Failed", "{session}");
    assert_eq!(condition(&session, "DeadlineExceeded").0, "True", "{session}");
}

#[tokio::test]
async fn a_failed_session_is_retried_once_under_a_name_of_its_own() {
    let shop = Shop::new().await;
    shop.put_configuration("nightly", &json!({"retryConfig": {"maxRetry": 1, "delay": "0s"}}));
    shop.put_session("s", "BackupConfiguration", "nightly");
    shop.world.server.change(&format!("{STASH}/backupsessions/s"), &json!({"spec": {"retryLeft": 1}}));
    shop.movers.will(lifeboat_transfer::attempts::testing::fails("the disk is broken"));
    let session = shop.run("s").await;
    assert!(
        host(&session, 0)["error"].as_str().unwrap_or_default().contains("the disk is broken"),
        "{session}"
    );
    let (typed, record) = shop.parts("s");
    finish::after_end(&shop.world.context, &typed, &record).await.unwrap();
    let next = shop.object("s")["status"]["nextRetry"].clone();
    assert!(next.is_string(), "{}", shop.object("s"));
    shop.world.server.change(
        &format!("{STASH}/backupsessions/s"),
        &json!({"status": {"nextRetry": "2026-01-01T00:00:00Z"}}),
    );
    for _ in 0..2 {
        let (typed, record) = shop.parts("s");
        finish::after_end(&shop.world.context, &typed, &record).await.unwrap();
    }
    let sessions = shop.world.server.paths("/backupsessions/");
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    let again = sessions.iter().find(|path| !path.ends_with("/s")).unwrap();
    assert_eq!(shop.world.server.get(again).unwrap()["spec"]["retryLeft"], 0);
}

#[tokio::test]
async fn sessions_beyond_the_limit_are_deleted_and_where_that_fails_the_session_says_why() {
    use lifeboat_control::testing::{Requests, Verb, When};
    for is_allowed in [false, true] {
        let shop = Shop::new().await;
        shop.put_configuration("nightly", &json!({"backupHistoryLimit": 1}));
        for name in ["old", "new"] {
            shop.put_session(name, "BackupConfiguration", "nightly");
            assert_eq!(phase(&shop.run(name).await), "Succeeded");
        }
        let long_ago = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
        shop.world.server.change(&format!("{STASH}/backupsessions/old"), &long_ago);
        if !is_allowed {
            shop.world.server.fail(Requests::new(Verb::Delete, "*/backupsessions/old"), When::Always, 403);
        }
        let (session, record) = shop.parts("new");
        finish::after_end(&shop.world.context, &session, &record).await.unwrap();
        assert_eq!(shop.object("old").is_null(), is_allowed);
        let new = shop.object("new");
        assert_eq!(phase(&new), "Succeeded", "{new}");
        let (status, message) = condition(&new, "BackupHistoryCleaned");
        assert_eq!(status == "True", is_allowed, "{new}");
        assert_eq!(message.contains("delete BackupSession old"), !is_allowed, "{new}");
    }
}
