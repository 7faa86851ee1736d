//! Kills a server while it backs up or restores ten volumes and restarts it, and checks what must hold afterwards. The
//! test command kills at named moments, the soak test at random ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::tree::Listing;
use crate::{Engine, Fault, HostServer, Namespace, contents, get, volume_directory, wait_for};

const APP: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 5
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        volumeMounts: [{name: data, mountPath: /data}, {name: cache, mountPath: /cache}]
      volumes: [{name: cache, emptyDir: {}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

const PODS: usize = 5;
const VOLUMES: usize = 2 * PODS;

/// A request of the server to the API server: method, part of its path, and whether it was carried out when the server
/// is killed.
pub type Moment = (&'static str, &'static str, bool);

/// Moments of a backup, in chronological order.
pub const VOLUME_BACKUP_MOMENTS: [Moment; 3] =
    [("POST", "/podvolumebackups", true), ("POST", "/jobs", true), ("DELETE", "/jobs/", false)];

/// Moments of a restore.
pub const VOLUME_RESTORE_MOMENTS: [Moment; 3] =
    [("POST", "/podvolumerestores", true), ("POST", "/jobs", true), ("DELETE", "/jobs/", false)];

/// A server to kill, and ten volumes.
pub struct VolumeKillTest {
    pub server: HostServer,
    app: Namespace,
    before: BTreeMap<String, Listing>,
    count: usize,
}

impl VolumeKillTest {
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
        let mut test = Self { server, app, before: BTreeMap::new(), count: 0 };
        test.wait_until_running();
        for (name, directory) in test.directories() {
            let bytes: Vec<u8> = (0..2_000_000_usize)
                .map(|at| (at.wrapping_mul(2_654_435_761) >> 11).to_le_bytes()[0] ^ name.as_bytes()[3])
                .collect();
            std::fs::write(Path::new(&directory).join("bytes"), bytes).unwrap();
            std::fs::write(Path::new(&directory).join("name"), &name).unwrap();
        }
        test.before = test.listings();
        test
    }

    /// Kills at a moment of a backup and checks all guarantees. Returns the backup's name.
    pub fn kill_backup_at(&mut self, moment: Moment) -> String {
        let name = self.begin_backup(Some(moment));
        self.kill_at();
        self.assert_backup(&name);
        name
    }

    /// Kills after a time of a backup and checks all guarantees. Returns the backup's name.
    pub fn kill_backup_after(&mut self, time: Duration) -> String {
        let name = self.begin_backup(None);
        std::thread::sleep(time);
        self.server.kill_and_restart();
        self.assert_backup(&name);
        name
    }

    pub fn kill_restore_at(&mut self, from: &str, moment: Moment) {
        let name = self.begin_restore(from, Some(moment));
        self.kill_at();
        self.assert_restore(&name);
    }

    pub fn kill_restore_after(&mut self, from: &str, time: Duration) {
        let name = self.begin_restore(from, None);
        std::thread::sleep(time);
        self.server.kill_and_restart();
        self.assert_restore(&name);
    }

    fn begin_backup(&mut self, moment: Option<Moment>) -> String {
        let name = self.name("backup");
        self.prepare(moment);
        let only = ["--include-namespaces", self.app.name.as_str(), "--default-volumes-to-fs-backup"];
        self.server.lifeboat().args(["backup", "create", &name]).args(only).ok();
        name
    }

    fn begin_restore(&mut self, from: &str, moment: Option<Moment>) -> String {
        let name = self.name("restore");
        crate::kubectl().args(["delete", "namespace", &self.app.name, "--timeout=120s"]).ok();
        self.prepare(moment);
        self.server.lifeboat().args(["restore", "create", &name, "--from-backup", from]).ok();
        name
    }

    fn name(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}-{}", self.count)
    }

    fn prepare(&self, moment: Option<Moment>) {
        self.server.cluster.open();
        if let Some((method, part, done)) = moment {
            let fault = if done { Fault::HoldAnswer } else { Fault::Hold };
            self.server.cluster.close(method, part, fault, 1);
        }
    }

    fn kill_at(&mut self) {
        self.server.cluster.wait_until_reached(90);
        self.server.kill_and_restart();
    }

    fn assert_backup(&self, name: &str) {
        let backup = self.server.ended("backup", name);
        self.server.assert_phase(&backup, &["Completed"]);
        let label = format!("velero.io/backup-name={name}");
        let copies = get(&["-n", &self.server.namespace, "podvolumebackups", "-l", &label]);
        assert_eq!(copies["items"].as_array().unwrap().len(), VOLUMES, "{copies}");
        self.server.no_mover_is_left();
        let repository = self.server.repository(&self.app.name);
        let text =
            repository.ok(Engine::Restic, &["snapshots", "--json", "--tag", &format!("backup={name}")]);
        let snapshots: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(snapshots.len(), VOLUMES, "a volume was stored twice or not at all");
    }

    fn assert_restore(&self, name: &str) {
        let restore = self.server.ended("restore", name);
        self.server.assert_phase(&restore, &["Completed"]);
        self.wait_until_running();
        for (volume, listing) in self.listings() {
            self.before[&volume].assert_same(&listing, &volume);
        }
        self.server.no_mover_is_left();
    }

    fn listings(&self) -> BTreeMap<String, Listing> {
        let directories = self.directories().into_iter();
        directories.map(|(name, directory)| (name, contents(Path::new(&directory)))).collect()
    }

    /// Name and directory of each volume.
    fn directories(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for number in 0..PODS {
            let pod = get(&["-n", &self.app.name, "pod", &format!("db-{number}")]);
            for volume in ["data", "cache"] {
                let directory = volume_directory(&pod, volume).to_str().unwrap().to_owned();
                all.push((format!("db-{number}/{volume}"), directory));
            }
        }
        all
    }

    fn wait_until_running(&self) {
        wait_for("five running pods", 180, || {
            let pods = get(&["-n", &self.app.name, "pods", "-l", "app=db"]);
            let running =
                pods["items"].as_array().unwrap().iter().filter(|pod| pod["status"]["phase"] == "Running");
            let count = running.count();
            if count == PODS { Ok(()) } else { Err(format!("{count} run")) }
        });
    }
}
