//! A server of Stash's API, a tenant's namespace that only it serves, and what tests of backups do there: repositories on the S3
//! server, invokers, sessions by hand, restores, snapshots as genuine restic sees them.

mod restores;
mod servers;
mod stored;
mod traces;
mod undisturbed;
mod user;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use serde_json::Value;

use crate::{
    Gate, HostServer, Namespace, Program, Repository, RestServer, delete_namespace, get, kubectl, s3, unique,
    volume_directory, wait_for,
};

pub use restores::{RESTORE_BATCHES, RESTORE_SESSIONS};
pub use undisturbed::Undisturbed;
pub use user::User;

/// The password of every repository.
pub const PASSWORD: &str = "correct horse";

const SESSION: &str = "backupsessions.stash.appscode.com";
/// Prints kind and name of each object that has finalizers.
const FINALIZED: &str = r#"jsonpath={range .items[?(@.metadata.finalizers)]}{.kind}.stash.appscode.com/{.metadata.name}{"\n"}{end}"#;

/// A server and its tenant.
pub struct StashTest {
    pub server: Arc<HostServer>,
    /// The gate between storage and those who use the tenant's repositories: movers and the server. Each test has its own.
    pub storage: Gate,
    pub tenant: Namespace,
    /// The name of the server, which the label of its namespaces has.
    name: String,
}

impl StashTest {
    /// A new namespace of a server that tests share, with the Secret `keys` of the S3 server.
    pub fn start() -> Self {
        Self::labelled(&[])
    }

    /// The namespace has further labels, as `key=value`.
    pub fn labelled(labels: &[&str]) -> Self {
        let (server, name) = servers::shared();
        Self::on(server, name, &unique("tenant"), labels)
    }

    /// In a namespace with this name; one that an earlier run left is deleted first.
    pub fn named(namespace: &str) -> Self {
        kubectl().args(["delete", "namespace", namespace, "--ignore-not-found", "--timeout=180s"]).ok();
        let (server, name) = servers::shared();
        Self::on(server, name, namespace, &[])
    }

    /// With a server of its own: it has these flags, and may be killed.
    pub fn alone(flags: &[&str]) -> Self {
        let (server, name) = servers::own(flags);
        Self::on(server, name, &unique("tenant"), &[])
    }

    /// Another namespace of the same server.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self::on(Arc::clone(&self.server), self.name.clone(), &unique("tenant"), &[])
    }

    fn on(server: Arc<HostServer>, name: String, namespace: &str, labels: &[&str]) -> Self {
        let label = format!("lifeboat.io/served-by={name}");
        let tenant = Namespace::with(namespace, &[&[label.as_str()], labels].concat());
        let test = Self { server, storage: Gate::before(&s3().endpoint), tenant, name };
        test.put_secret("keys", PASSWORD);
        test
    }

    /// Deletes the namespace with everything in it, and creates it again with nothing but the Secret `keys`.
    pub fn lose_namespace(&self) {
        delete_namespace(&self.tenant.name);
        self.tenant.create(&[&format!("lifeboat.io/served-by={}", self.name)]);
        self.put_secret("keys", PASSWORD);
    }

    pub fn put_secret(&self, name: &str, password: &str) {
        let s3 = s3();
        self.tenant.apply(&format!(
            "apiVersion: v1
kind: Secret
metadata: {{name: {name}}}
stringData: {{RESTIC_PASSWORD: {password}, AWS_ACCESS_KEY_ID: {}, AWS_SECRET_ACCESS_KEY: {}}}
",
            s3.access_key, s3.secret_key
        ));
    }

    /// A Repository with a prefix of its own, which is reached through this test's gate to storage.
    pub fn put_repository(&self, name: &str) {
        self.put_repository_with(name, &self.s3_backend(name), "");
    }

    /// A Repository with this backend and further lines of its spec.
    pub fn put_repository_with(&self, name: &str, backend: &str, more: &str) {
        self.tenant.apply(&format!(
            "apiVersion: stash.appscode.com/v1alpha1
kind: Repository
metadata: {{name: {name}}}
spec:
  backend:
    {backend}
    storageSecretName: keys
{more}"
        ));
    }

    /// The backend of a Repository on the S3 server, with a prefix of this tenant.
    pub fn s3_backend(&self, prefix: &str) -> String {
        format!(
            "s3: {{endpoint: '{}', bucket: lifeboat, prefix: '{}/{prefix}', region: {}}}",
            self.storage.url(),
            self.tenant.name,
            s3().region
        )
    }

    /// A Repository as genuine restic opens it.
    pub fn repository(&self, name: &str) -> Repository {
        let url = format!("s3:{}/lifeboat/{}/{name}", s3().endpoint, self.tenant.name);
        Repository::with_password(url, PASSWORD)
    }

    /// A Repository on a REST server.
    pub fn put_rest_repository(&self, name: &str, server: &RestServer) -> Repository {
        let url = server.url(name);
        let backend = format!("rest: {{url: '{}'}}", url.trim_start_matches("rest:"));
        self.put_repository_with(name, &backend, "");
        Repository::with_password(url, PASSWORD)
    }

    /// A BackupConfiguration on Repository `repo`; `target` and `more` are lines of its spec.
    pub fn put_configuration(&self, name: &str, target: &str, more: &str) {
        self.tenant.apply(&format!(
            "apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {{name: {name}}}
spec:
  schedule: '0 3 1 1 *'
  repository: {{name: repo}}
  backupHistoryLimit: 20
  retentionPolicy: {{name: keep, keepLast: 2, prune: false}}
  target: {target}
{more}"
        ));
    }

    /// A BackupBatch on Repository `repo`; each member is a map in YAML, `more` are lines of its spec.
    pub fn put_batch(&self, name: &str, members: &[String], more: &str) {
        self.put_batch_on("repo", name, members, more);
    }

    pub fn put_batch_on(&self, repository: &str, name: &str, members: &[String], more: &str) {
        let members: Vec<String> = members.iter().map(|member| format!("  - {member}\n")).collect();
        self.tenant.apply(&format!(
            "apiVersion: stash.appscode.com/v1beta1
kind: BackupBatch
metadata: {{name: {name}}}
spec:
  schedule: '0 3 1 1 *'
  repository: {{name: {repository}}}
  backupHistoryLimit: 20
  retentionPolicy: {{name: keep, keepLast: 5, prune: false}}
  members:
{}{more}",
            members.join("")
        ));
    }

    /// An invoker as it is now.
    pub fn invoker(&self, kind: &str, name: &str) -> Value {
        get(&["-n", &self.tenant.name, &format!("{}.stash.appscode.com", plural(kind)), name])
    }

    /// Waits until an invoker is in a phase; gives it.
    pub fn wait_for_phase(&self, kind: &str, name: &str, phase: &str) -> Value {
        wait_for(&format!("{kind} {name} {phase}"), 90, || {
            let found = self.invoker(kind, name);
            if found["status"]["phase"] == phase { Ok(found) } else { Err(found["status"].to_string()) }
        })
    }

    /// Waits until the server has looked at an invoker's present spec.
    pub fn wait_until_observed(&self, kind: &str, name: &str) {
        wait_for(&format!("a look at {kind} {name}"), 60, || {
            let found = self.invoker(kind, name);
            let is_seen = found["status"]["observedGeneration"] == found["metadata"]["generation"];
            if is_seen { Ok(()) } else { Err(found["status"].to_string()) }
        });
    }

    /// Creates a BackupSession by hand; gives its name.
    pub fn begin(&self, kind: &str, invoker: &str) -> String {
        let name = unique("session");
        self.tenant.apply(&format!(
            "apiVersion: stash.appscode.com/v1beta1
kind: BackupSession
metadata: {{name: {name}}}
spec: {{invoker: {{apiGroup: stash.appscode.com, kind: {kind}, name: {invoker}}}}}
"
        ));
        name
    }

    /// A session as it is now.
    pub fn session(&self, name: &str) -> Value {
        get(&["-n", &self.tenant.name, SESSION, name])
    }

    /// Waits for the end of a session; gives it.
    pub fn ended(&self, name: &str) -> Value {
        wait_for(&format!("the end of session {name}"), 180, || {
            let found = self.session(name);
            if has_ended(&found) { Ok(found) } else { Err(found["status"].to_string()) }
        })
    }

    /// Runs an invoker once it is Ready; gives the session, which must have this phase. A backup changes nothing of the workloads.
    pub fn run(&self, kind: &str, invoker: &str, phase: &str) -> Value {
        self.wait_for_phase(kind, invoker, "Ready");
        let before = self.undisturbed();
        let session = self.ended(&self.begin(kind, invoker));
        assert_eq!(session["status"]["phase"], phase, "{:#}", session["status"]);
        before.assert_unchanged();
        session
    }

    /// Waits until no session of the tenant is open.
    pub fn wait_until_idle(&self) {
        wait_for("the end of all sessions", 180, || {
            let sessions = self.sessions();
            let open = sessions.iter().find(|one| !has_ended(one));
            open.map_or(Ok(()), |one| Err(one["status"].to_string()))
        });
    }

    /// The sessions of the tenant.
    pub fn sessions(&self) -> Vec<Value> {
        get(&["-n", &self.tenant.name, SESSION])["items"].as_array().cloned().unwrap_or_default()
    }

    /// Pods with a label, sorted by name.
    pub fn pods(&self, app: &str) -> Vec<Value> {
        let list = get(&["-n", &self.tenant.name, "pods", "-l", &format!("app={app}")]);
        let mut pods = list["items"].as_array().cloned().unwrap_or_default();
        pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().map(str::to_owned));
        pods
    }

    /// Waits until a workload runs, as `deployment/web`.
    pub fn wait_until_running(&self, workload: &str) {
        self.tenant.kubectl().args(["rollout", "status", workload, "--timeout=120s"]).ok();
    }

    /// Waits until there are so many pods with a label, all of them Ready and none that is being deleted.
    pub fn wait_for_ready(&self, app: &str, count: usize) {
        wait_for(&format!("{count} Ready pods {app}"), 120, || {
            let pods = self.pods(app);
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            if ready == count && pods.len() == count {
                Ok(())
            } else {
                Err(format!("{ready} of {}", pods.len()))
            }
        });
    }

    /// The directory of a volume on this machine.
    pub fn directory(&self, app: &str, number: usize, volume: &str) -> PathBuf {
        volume_directory(&self.pods(app)[number], volume)
    }

    /// `kubectl` in the tenant's namespace.
    pub fn kubectl(&self) -> Program {
        self.tenant.kubectl()
    }

    /// Deletes objects, named as for `kubectl delete`, and waits until they are gone.
    pub fn delete(&self, objects: &[&str]) {
        self.kubectl().arg("delete").args(objects).arg("--timeout=120s").ok();
    }

    /// Changes an object by a merge patch.
    pub fn patch(&self, kind: &str, name: &str, patch: &str) {
        self.kubectl().args(["patch", kind, name, "--type=merge", "-p", patch]).ok();
    }
}

impl Drop for StashTest {
    /// Finalizers that no server removes any more would keep the namespace.
    fn drop(&mut self) {
        if thread::panicking() && Arc::strong_count(&self.server) > 1 {
            // Its own server prints its log itself.
            let log = self.server.log_text();
            let of_tenant: Vec<&str> = log.lines().filter(|line| line.contains(&self.tenant.name)).collect();
            eprintln!("{}", of_tenant.join("\n"));
        }
        let kinds = format!("{RESTORE_SESSIONS},{RESTORE_BATCHES},repositories.stash.appscode.com");
        let found = self.kubectl().args(["get", &kinds, "-o", FINALIZED]).run();
        for object in found.stdout.lines() {
            let free = r#"{"metadata": {"finalizers": null}}"#;
            self.kubectl().args(["patch", object, "--type=merge", "-p", free]).run();
        }
    }
}

fn has_ended(session: &Value) -> bool {
    matches!(session["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Skipped"))
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind.ends_with("batch") { format!("{kind}es") } else { format!("{kind}s") }
}

/// Status and message of a condition of an object, or of a member of it.
pub fn condition(of: &Value, kind: &str) -> (String, String) {
    let list =
        if of["status"]["conditions"].is_array() { &of["status"]["conditions"] } else { &of["conditions"] };
    let mut found = list.as_array().into_iter().flatten().filter(|condition| condition["type"] == kind);
    let found = found.next().cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}
