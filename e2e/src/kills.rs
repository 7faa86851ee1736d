//! Kills a server at a named moment of a backup or a restore and restarts it: the moments, and what must hold
//! afterwards. The test command uses some of the moments, the soak test all.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Fault, HostServer, Namespace, assert_same_objects, get, kubectl, objects_of, wait_for};

/// A moment at which the server is killed.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub name: &'static str,
    at: At,
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// A request to storage, before it arrives.
    Storage(&'static str, &'static str),
    /// A request to storage that was carried out, before its answer.
    StorageDone(&'static str, &'static str),
    /// A request to the API server, before it arrives.
    Cluster(&'static str, &'static str),
    /// A request to the API server that was carried out, before its answer.
    ClusterDone(&'static str, &'static str),
}

const fn at(name: &'static str, at: At) -> Point {
    Point { name, at }
}

/// Moments of a backup, in chronological order.
pub const BACKUP_POINTS: [Point; 11] = [
    at("before the list of pods", At::Cluster("GET", "/api/v1/namespaces/APP/pods?")),
    at("before a pre hook", At::Cluster("GET", "/exec?")),
    at("after a pre hook began", At::ClusterDone("GET", "/exec?")),
    at("before the list of config maps", At::Cluster("GET", "/api/v1/namespaces/APP/configmaps?")),
    at("before the upload of the archive begins", At::Storage("POST", "uploads")),
    at("before a part of the archive", At::Storage("PUT", "partNumber")),
    at("before the archive is put together", At::Storage("POST", "uploadId")),
    at("after the archive was put together", At::StorageDone("POST", "uploadId")),
    at("before the log", At::Storage("PUT", "-logs.gz")),
    at("before the last file", At::Storage("PUT", "velero-backup.json")),
    at("after the last file", At::StorageDone("PUT", "velero-backup.json")),
];

/// Moments of a restore, in chronological order.
pub const RESTORE_POINTS: [Point; 10] = [
    at("before the archive", At::Storage("GET", ".tar.gz")),
    at("before its namespace", At::Cluster("POST", "/api/v1/namespaces?")),
    at("after its namespace", At::ClusterDone("POST", "/api/v1/namespaces?")),
    at("before a config map", At::Cluster("POST", "/api/v1/namespaces/APP/configmaps?")),
    at("after a config map", At::ClusterDone("POST", "/api/v1/namespaces/APP/configmaps?")),
    at("after a replica set", At::ClusterDone("POST", "/apis/apps/v1/namespaces/APP/replicasets?")),
    at("before a deployment", At::Cluster("POST", "/apis/apps/v1/namespaces/APP/deployments?")),
    at("after a deployment", At::ClusterDone("POST", "/apis/apps/v1/namespaces/APP/deployments?")),
    at("before the results", At::Storage("PUT", "-results.gz")),
    at("after the results", At::StorageDone("PUT", "-results.gz")),
];

/// An app whose hooks record each of their runs.
const APP: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: frozen
  labels: {app: frozen}
  annotations:
    pre.hook.backup.velero.io/command: '[\"sh\", \"-c\", \"echo pre >> /tmp/log\"]'
    post.hook.backup.velero.io/command: '[\"sh\", \"-c\", \"echo post >> /tmp/log\"]'
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
";

/// The number of ConfigMaps beside the app.
const CONFIG_MAPS: usize = 40;
/// A server to kill, and an app.
pub struct KillTest {
    pub server: HostServer,
    app: Namespace,
    before: BTreeMap<String, Value>,
    count: usize,
}

impl KillTest {
    pub fn new(prefix: &str) -> Self {
        Self::on(HostServer::start(prefix, &[]), prefix)
    }

    /// Starts with the old build; after the kill the new one is started.
    pub fn old(prefix: &str) -> Self {
        Self::on(HostServer::start_old(prefix, &[]), prefix)
    }

    fn on(server: HostServer, prefix: &str) -> Self {
        let app = Namespace::new(&format!("{prefix}-app"));
        app.apply(APP);
        let maps: Vec<String> = (0..CONFIG_MAPS)
            .map(|n| {
                format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map-{n}}}\ndata: {{n: '{n}'}}\n")
            })
            .collect();
        app.apply(&maps.join("---\n"));
        wait_until_running(&app.name);
        let before = objects_of(&app.name);
        Self { server, app, before, count: 0 }
    }

    /// Makes the app so large that its archive is uploaded in parts.
    pub fn enlarge(&mut self) {
        self.app.fill_with_large_objects();
        self.before = objects_of(&self.app.name);
    }

    /// Kills at a point of a backup and checks all guarantees. Returns the backup's name.
    pub fn kill_backup(&mut self, point: Point) -> String {
        let name = self.begin("backup", point);
        self.server.lifeboat().args(["backup", "create", &name, "--include-namespaces", &self.app.name]).ok();
        self.kill_at(point);
        self.assert_backup(&name, point.name);
        if point.name.ends_with("pre hook began") {
            let said = self.server.lifeboat().args(["backup", "describe", &name]).ok();
            assert!(said.contains("frozen"), "the hook of unknown outcome is not listed:\n{said}");
        }
        name
    }

    /// Kills at a point of a restore into an empty namespace and checks all guarantees. Returns the restore's name.
    pub fn kill_restore(&mut self, from: &str, point: Point) -> String {
        let name = self.begin("restore", point);
        self.delete_app();
        self.server.lifeboat().args(["restore", "create", &name, "--from-backup", from]).ok();
        self.kill_at(point);
        self.assert_restore(&name, point.name);
        name
    }

    /// The phase of a backup or restore.
    pub fn phase(&self, kind: &str, name: &str) -> String {
        self.server.ended(kind, name)["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// A backup without a fault.
    pub fn backup(&mut self) -> String {
        self.count += 1;
        let name = format!("whole-{}", self.count);
        self.server.lifeboat().args(["backup", "create", &name, "--include-namespaces", &self.app.name]).ok();
        self.assert_backup(&name, "without a fault");
        name
    }

    /// Suspends the leader at a point of a backup; another replica takes over and completes it; then the first one
    /// continues.
    pub fn change_leader_in_backup(&mut self, point: Point) {
        let name = self.begin("moved", point);
        self.server.add("two");
        self.server.lifeboat().args(["backup", "create", &name, "--include-namespaces", &self.app.name]).ok();
        self.change_leader(point);
        self.assert_backup(&name, point.name);
        self.server.kill_and_restart();
    }

    /// Suspends the leader at a point of a restore; another replica takes over and completes it; then the first one
    /// continues.
    pub fn change_leader_in_restore(&mut self, from: &str, point: Point) {
        let name = self.begin("moved", point);
        self.delete_app();
        self.server.add("two");
        self.server.lifeboat().args(["restore", "create", &name, "--from-backup", from]).ok();
        self.change_leader(point);
        self.assert_restore(&name, point.name);
        self.server.kill_and_restart();
    }

    fn change_leader(&self, point: Point) {
        self.wait_until_at(point);
        self.server.signal("-STOP", "one");
        self.server.storage.open();
        self.server.cluster.open();
        self.server.wait_for_leader("two");
        self.server.signal("-CONT", "one");
    }

    fn begin(&mut self, kind: &str, point: Point) -> String {
        self.count += 1;
        let (gate, method, part, fault) = match point.at {
            At::Storage(method, part) => (&self.server.storage, method, part, Fault::Hold),
            At::StorageDone(method, part) => (&self.server.storage, method, part, Fault::HoldAnswer),
            At::Cluster(method, part) => (&self.server.cluster, method, part, Fault::Hold),
            At::ClusterDone(method, part) => (&self.server.cluster, method, part, Fault::HoldAnswer),
        };
        gate.close(method, &part.replace("APP", &self.app.name), fault, 1);
        format!("{kind}-{}", self.count)
    }

    fn kill_at(&mut self, point: Point) {
        self.wait_until_at(point);
        self.server.kill_and_restart();
    }

    fn wait_until_at(&self, point: Point) {
        match point.at {
            At::Storage(..) | At::StorageDone(..) => self.server.storage.wait_until_reached(90),
            At::Cluster(..) | At::ClusterDone(..) => self.server.cluster.wait_until_reached(90),
        }
    }

    fn assert_backup(&self, name: &str, point: &str) {
        let made = self.server.ended("backup", name);
        self.server.assert_phase(&made, &["Completed"]);
        self.assert_complete(name, point);
        self.assert_hooks(point);
        let open = self.server.bucket.open_uploads();
        assert!(open.is_empty(), "{point}: uploads stay open: {open:?}");
        let key = format!("backups/{name}/velero-backup.json");
        assert!(self.server.bucket.keys().contains(&key), "{point}: {key} is missing");
        self.assert_no_journal(point);
    }

    fn assert_restore(&self, name: &str, point: &str) {
        let made = self.server.ended("restore", name);
        self.server.assert_phase(&made, &["Completed"]);
        wait_until_running(&self.app.name);
        assert_same_objects(&self.before, &objects_of(&self.app.name));
        self.assert_no_journal(point);
    }

    /// Checks that the backup contains every object exactly once.
    fn assert_complete(&self, name: &str, point: &str) {
        let said = self.server.lifeboat().args(["backup", "describe", name, "--details"]).ok();
        let mut kind = "";
        let mut held: Vec<String> = Vec::new();
        for line in said.lines() {
            if let Some(item) = line.trim().strip_prefix(&format!("{}/", self.app.name)) {
                held.push(format!("{kind}/{item}"));
            } else if let Some(heading) = line.trim().strip_suffix(':') {
                kind = heading.rsplit('/').next().unwrap_or_default();
            }
        }
        for object in self.before.keys() {
            let times = held.iter().filter(|one| *one == object).count();
            assert_eq!(times, 1, "{point}: {object} is {times} times in backup {name}:\n{said}");
        }
    }

    /// Checks that every pre hook is followed by a post hook, and that the last hook was a post hook.
    fn assert_hooks(&self, point: &str) {
        let said = self.app.kubectl().args(["exec", "frozen", "--", "cat", "/tmp/log"]).ok();
        let steps: Vec<&str> = said.lines().collect();
        assert_eq!(steps.last(), Some(&"post"), "{point}: the last hook is no post hook: {steps:?}");
        let open = steps.windows(2).find(|pair| pair[0] == "pre" && pair[1] == "pre");
        assert!(open.is_none(), "{point}: a pre hook has no post hook after it: {steps:?}");
    }

    fn assert_no_journal(&self, point: &str) {
        wait_for("journals to go", 30, || {
            let journals = get(&["-n", &self.server.namespace, "configmaps", "-l", "lifeboat.io/journal"]);
            match journals["items"].as_array().map_or(0, Vec::len) {
                0 => Ok(()),
                count => Err(format!("{point}: {count} journals stay behind")),
            }
        });
    }

    fn delete_app(&self) {
        kubectl().args(["delete", "namespace", &self.app.name, "--timeout=120s"]).ok();
    }
}

fn wait_until_running(namespace: &str) {
    kubectl().args(["-n", namespace, "rollout", "status", "deployment/web", "--timeout=90s"]).ok();
    kubectl().args(["-n", namespace, "wait", "--for=condition=Ready", "pod/frozen", "--timeout=90s"]).ok();
}
