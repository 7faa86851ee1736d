//! A server of Stash's API, a tenant's namespace that only it serves, and what tests of backups do there: repositories on the S3
//! server, invokers, sessions by hand, snapshots as genuine restic sees them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use crate::tree::Listing;
use crate::{
    Engine, HostServer, Namespace, Program, Repository, contents, get, kubectl, lifeboat, s3, unique,
    volume_directory, wait_for,
};

/// The password of every repository.
const PASSWORD: &str = "correct horse";

/// Kinds of the workloads whose pods a backup must leave alone.
const SESSION: &str = "backupsessions.stash.appscode.com";

/// A server and its tenant.
pub struct StashTest {
    pub server: HostServer,
    pub tenant: Namespace,
}

/// Applies the kinds of Stash's API, once in a process.
fn apply_kinds() {
    static APPLIED: OnceLock<()> = OnceLock::new();
    APPLIED.get_or_init(|| {
        let crds = lifeboat().args(["crds", "--all"]).ok();
        kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]).input(&crds).ok();
        kubectl().args(["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).ok();
    });
}

impl StashTest {
    /// Starts a server that serves one new namespace, with the Secret `keys` of the S3 server.
    pub fn start(flags: &[&str]) -> Self {
        apply_kinds();
        let name = unique("tests");
        // Servers run side by side: each has a port of its own for the gateway.
        let own = ["--experimental-stash", "--served-by", &name, "--gateway-address=127.0.0.1:0"];
        let server = HostServer::start("stash", &[&own[..], flags].concat());
        let tenant = Namespace::new("tenant");
        let label = format!("lifeboat.io/served-by={name}");
        kubectl().args(["label", "namespace", &tenant.name, &label]).ok();
        let test = Self { server, tenant };
        test.put_secret("keys", PASSWORD);
        test
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

    /// A Repository with a prefix of its own, which is reached through the server's gate to storage.
    pub fn put_repository(&self, name: &str) {
        self.tenant.apply(&format!(
            "apiVersion: stash.appscode.com/v1alpha1
kind: Repository
metadata: {{name: {name}}}
spec:
  backend:
    s3: {{endpoint: '{}', bucket: lifeboat, prefix: '{}/{name}', region: {}}}
    storageSecretName: keys
",
            self.server.storage.url(),
            self.tenant.name,
            s3().region
        ));
    }

    /// A Repository as genuine restic opens it.
    pub fn repository(&self, name: &str) -> Repository {
        let url = format!("s3:{}/lifeboat/{}/{name}", s3().endpoint, self.tenant.name);
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
            match found["status"]["phase"].as_str() {
                Some("Succeeded" | "Failed" | "Skipped") => Ok(found),
                _ => Err(found["status"].to_string()),
            }
        })
    }

    /// Runs an invoker once it is Ready; gives the session, which must have this phase.
    pub fn run(&self, kind: &str, invoker: &str, phase: &str) -> Value {
        self.wait_for_phase(kind, invoker, "Ready");
        let session = self.ended(&self.begin(kind, invoker));
        assert_eq!(session["status"]["phase"], phase, "{:#}", session["status"]);
        session
    }

    /// The sessions of the tenant.
    pub fn sessions(&self) -> Vec<Value> {
        get(&["-n", &self.tenant.name, SESSION])["items"].as_array().cloned().unwrap_or_default()
    }

    /// The snapshots of a repository as `host path`, sorted.
    pub fn snapshots(&self, repository: &str) -> Vec<String> {
        let text = self.repository(repository).ok(Engine::Restic, &["snapshots", "--json", "--no-lock"]);
        let found: Vec<Value> = serde_json::from_str(&text).unwrap();
        let shown = |one: &Value| {
            format!("{} {}", one["hostname"].as_str().unwrap(), one["paths"][0].as_str().unwrap())
        };
        let mut shown: Vec<String> = found.iter().map(shown).collect();
        shown.sort();
        shown
    }

    /// Fails unless genuine restic restores this content from a host's newest snapshot of a path.
    pub fn assert_stored(&self, repository: &str, host: &str, path: &str, expected: &Listing) {
        let target = tempfile::tempdir().unwrap();
        let into = target.path().to_str().unwrap();
        let restore = ["restore", "latest", "--host", host, "--path", path, "--target", into, "--no-lock"];
        self.repository(repository).ok(Engine::Restic, &restore);
        let restored = contents(&target.path().join(path.trim_start_matches('/')));
        let (mut expected, mut found) = (expected.clone(), restored);
        for listing in [&mut expected, &mut found] {
            listing.0.remove(Path::new(""));
        }
        expected.assert_same(&found, &format!("{host} {path}"));
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

    /// The directory of a volume on this machine.
    pub fn directory(&self, app: &str, number: usize, volume: &str) -> PathBuf {
        volume_directory(&self.pods(app)[number], volume)
    }

    /// UIDs and restarts of all pods with the label `app`; a backup must change none.
    pub fn restarts(&self) -> Vec<(String, i64)> {
        let pods = get(&["-n", &self.tenant.name, "pods", "-l", "app"]);
        let count =
            |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(-1);
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let mut all: Vec<_> =
            pods.iter().map(|pod| (pod["metadata"]["uid"].to_string(), count(pod))).collect();
        all.sort();
        all
    }

    /// Fails unless no Job, pod, Secret, claim or snapshot of a mover is left, and no lock.
    pub fn assert_nothing_is_left(&self, repository: &str) {
        self.server.no_mover_is_left();
        wait_for("the end of what movers used in the tenant's namespace", 60, || {
            let left = self.left();
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        });
        let locks = self.repository(repository).ok(Engine::Restic, &["list", "locks", "--no-lock"]);
        assert_eq!(locks.trim(), "", "locks are left");
        let events = self.tenant.kubectl().args(["get", "events", "-o", "wide"]).ok();
        assert!(!events.contains("orbidden"), "{events}");
    }

    fn left(&self) -> Vec<String> {
        let kinds = "jobs,pods,secrets,persistentvolumeclaims,volumesnapshots";
        let found = self.tenant.kubectl().args(["get", kinds, "-o", "name"]).ok();
        let of_mover = |line: &&str| line.contains("/mover-") || line.contains("/lifeboat-");
        found.lines().filter(of_mover).map(str::to_owned).collect()
    }

    /// `kubectl` in the tenant's namespace.
    pub fn kubectl(&self) -> Program {
        self.tenant.kubectl()
    }
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
