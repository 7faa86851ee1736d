//! One pod with one volume, and a server: the basis of the fault tests. A test starts a backup or restore, often holds
//! its mover during its work, injects the fault and checks the outcome.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::tree::Listing;
use crate::{
    Engine, Fault, HostServer, Namespace, Repository, contents, get, kubectl, signal, volume_directory,
    wait_for,
};

const POD: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [MODE], storageClassName: CLASS, resources: {requests: {storage: 64Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, labels: {app: db}, annotations: {NOTE}}
spec:
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  terminationGracePeriodSeconds: 0
";

/// How the volume is backed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A file copy from the node.
    Files,
    /// A CSI snapshot.
    Snapshot,
    /// A CSI snapshot whose data is moved.
    Moved,
}

/// A pod with label `app: db` whose volume is `data`, and a server.
pub struct OneVolume {
    pub server: HostServer,
    pub app: Namespace,
    pub way: Way,
    /// UIDs of the movers' pods that the test held.
    held: RefCell<Vec<String>>,
}

impl OneVolume {
    pub fn start(flags: &[&str]) -> Self {
        Self::of(Way::Files, "box-csi", "ReadWriteOnce", flags)
    }

    /// With a claim of this class and access mode.
    pub fn of(way: Way, class: &str, mode: &str, flags: &[&str]) -> Self {
        Self::with(way, &Self::manifests(way, class, mode), flags)
    }

    /// The claim and the pod.
    pub fn manifests(way: Way, class: &str, mode: &str) -> String {
        let note = if way == Way::Files { "backup.velero.io/backup-volumes: data" } else { "" };
        POD.replace("MODE", mode).replace("CLASS", class).replace("NOTE", note)
    }

    /// With any manifests that contain one such pod.
    pub fn with(way: Way, manifests: &str, flags: &[&str]) -> Self {
        let server = HostServer::start("movers", flags);
        let app = Namespace::new("data");
        app.apply(manifests);
        let test = Self { server, app, way, held: RefCell::default() };
        test.wait_until_running();
        let directory = test.directory();
        fs::write(directory.join("file"), "some data").unwrap();
        fs::write(directory.join("large"), random(5 << 20)).unwrap();
        test
    }

    /// The pod, unless it is terminating.
    pub fn pod(&self) -> Option<Value> {
        let pods = get(&["-n", &self.app.name, "pods", "-l", "app=db"]);
        let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        pods["items"].as_array()?.iter().find(stays).cloned()
    }

    pub fn wait_until_running(&self) {
        wait_for("a running pod", 120, || {
            let pod = self.pod().unwrap_or_default();
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
            if conditions.iter().any(ready) { Ok(()) } else { Err(pod["status"].to_string()) }
        });
    }

    pub fn directory(&self) -> PathBuf {
        volume_directory(&self.pod().unwrap(), "data")
    }

    /// The content of the volume. Snapshots of the box's driver are tar files, which lose attributes and fractions of
    /// seconds.
    pub fn listing(&self) -> Listing {
        let mut listing = contents(&self.directory());
        for entry in listing.0.values_mut().filter(|_| self.way != Way::Files) {
            entry.attributes.clear();
            entry.modified.1 = 0;
        }
        listing
    }

    /// Creates a backup without waiting for it.
    pub fn begin(&self, name: &str) {
        let mut flags = vec!["--include-namespaces", self.app.name.as_str()];
        if self.way == Way::Moved {
            flags.push("--snapshot-move-data");
        }
        self.server.lifeboat().args(["backup", "create", name]).args(&flags).ok();
    }

    /// Starts a backup whose mover waits for storage during its work; returns the mover's pod.
    pub fn begin_and_hold(&self, name: &str) -> Value {
        self.server.storage.close("PUT", "/data/", Fault::Hold, 1000);
        self.begin(name);
        self.held()
    }

    /// Starts a restore whose mover waits for storage during its work; returns the mover's pod. The app was deleted
    /// before.
    pub fn restore_and_hold(&self, name: &str, from: &str) -> Value {
        self.lose_app();
        self.server.storage.close("GET", "/data/", Fault::Hold, 1000);
        self.server.lifeboat().args(["restore", "create", name, "--from-backup", from]).ok();
        self.held()
    }

    fn held(&self) -> Value {
        self.server.storage.wait_until_reached(90);
        let pods = get(&["-n", &self.server.movers(), "pods"]);
        let pod = pods["items"][0].clone();
        self.held.borrow_mut().push(pod["metadata"]["uid"].as_str().unwrap().to_owned());
        pod
    }

    /// Deletes the namespace with everything in it. Claims are deleted first: a snapshot that is deleted while a claim
    /// waits for it would stay, because its controller does not notice the claim's end.
    pub fn lose_app(&self) {
        self.app.kubectl().args(["delete", "pods,pvc", "--all", "--timeout=60s"]).run();
        kubectl().args(["delete", "namespace", &self.app.name, "--timeout=120s"]).ok();
    }

    /// Waits for the end; returns the backup and its PodVolumeBackup or DataUpload.
    pub fn ended(&self, name: &str) -> (Value, Value) {
        let backup = self.server.ended("backup", name);
        (backup, self.copy(name))
    }

    /// The PodVolumeBackup or DataUpload of a backup.
    pub fn copy(&self, backup: &str) -> Value {
        let kind = if self.way == Way::Moved { "datauploads" } else { "podvolumebackups" };
        self.object(kind, "velero.io/backup-name", backup)
    }

    /// The PodVolumeRestore or DataDownload of a restore.
    pub fn filling(&self, restore: &str) -> Value {
        let kind = if self.way == Way::Moved { "datadownloads" } else { "podvolumerestores" };
        self.object(kind, "velero.io/restore-name", restore)
    }

    fn object(&self, kind: &str, label: &str, of: &str) -> Value {
        let label = format!("{label}={of}");
        get(&["-n", &self.server.namespace, kind, "-l", &label])["items"][0].clone()
    }

    /// Fails unless the backup is PartiallyFailed, its copy failed with these texts in the message, and users can read
    /// them.
    pub fn assert_failed(&self, name: &str, texts: &[&str]) {
        let (backup, copy) = self.ended(name);
        self.assert_ended_badly(&backup, &copy, "Failed", texts);
    }

    /// Fails unless the restore is PartiallyFailed, its transfer failed with these texts in the message, and users can
    /// read them.
    pub fn assert_restore_failed(&self, name: &str, texts: &[&str]) {
        let restore = self.server.ended("restore", name);
        self.assert_ended_badly(&restore, &self.filling(name), "Failed", texts);
    }

    /// Fails unless `whole` is PartiallyFailed because `part` ended in this phase with these texts in the message, and
    /// nothing of it is left.
    pub fn assert_ended_badly(&self, whole: &Value, part: &Value, phase: &str, texts: &[&str]) {
        self.server.assert_phase(whole, &["PartiallyFailed"]);
        assert_eq!(part["status"]["phase"], phase, "{part}");
        let message = part["status"]["message"].as_str().unwrap_or_default();
        for text in texts {
            assert!(message.contains(text), "{text:?} is not in {message:?}");
        }
        self.assert_described(whole, texts);
        self.assert_nothing_is_left();
    }

    /// Fails unless `describe` of a backup or restore shows these texts.
    pub fn assert_described(&self, whole: &Value, texts: &[&str]) {
        let kind = whole["kind"].as_str().unwrap().to_lowercase();
        let described = self.server.described(&kind, whole["metadata"]["name"].as_str().unwrap());
        for text in texts {
            assert!(described.contains(text), "{text:?} is not in\n{described}");
        }
    }

    /// Fails if a Job, pod, Secret, claim, snapshot, volume or mount of a mover is left.
    pub fn assert_nothing_is_left(&self) {
        self.server.no_mover_is_left();
        no_snapshot_is_left(&self.server, &self.app.name);
        let movers = self.server.movers();
        wait_for("the end of volumes and mounts of movers", 90, || {
            let volumes = get(&["persistentvolumes"])["items"].as_array().cloned().unwrap_or_default();
            let of_movers = volumes.iter().filter(|one| one["spec"]["claimRef"]["namespace"] == movers);
            let mut left: Vec<String> = of_movers.map(|one| one["metadata"]["name"].to_string()).collect();
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            left.extend(self.held.borrow().iter().filter(|uid| mounts.contains(*uid)).cloned());
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        });
    }

    /// Kills the mover that fills the volume; fails unless another one fills it and nothing is left.
    pub fn assert_filled_though_a_mover_is_killed(&self) {
        let before = self.listing();
        self.assert_next_run_succeeds("kept");
        let pod = self.restore_and_hold("back", "kept");
        signal("-KILL", &mover_process(&pod));
        self.server.storage.open();
        let restore = self.server.ended("restore", "back");
        self.server.assert_phase(&restore, &["Completed"]);
        self.wait_until_running();
        before.assert_same(&self.listing(), "filled by the second mover");
        self.assert_no_lock();
        self.assert_nothing_is_left();
    }

    /// Storage revokes the access key while a mover works; fails unless the error names it and the next backup
    /// succeeds.
    pub fn assert_key_that_is_taken_away_is_named(&self) {
        let denied =
            "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>".to_owned();
        self.server.storage.close("PUT", "/data/", Fault::Answer(403, denied), 1000);
        self.begin("denied");
        self.assert_failed("denied", &["credential"]);
        self.assert_next_run_succeeds("next");
    }

    /// Deletes a Backup whose mover is held; fails unless everything of it is deleted.
    pub fn assert_deletion_leaves_nothing(&self, name: &str) {
        let copy = self.copy(name);
        let object = copy["metadata"]["name"].as_str().unwrap();
        let kind = copy["kind"].as_str().unwrap().to_lowercase();
        self.server.kubectl().args(["delete", "backups.velero.io", name, "--timeout=60s"]).ok();
        wait_for("the end of the copy", 90, || {
            let found = get(&["-n", &self.server.namespace, &kind, object]);
            let over = found.is_null() || found["status"]["phase"] == "Canceled";
            if over { Ok(()) } else { Err(found["status"].to_string()) }
        });
        self.server.storage.open();
        self.assert_nothing_is_left();
        assert!(self.snapshots().is_empty(), "{:?}", self.snapshots());
        wait_for("the end of the backup's files", 60, || {
            let of_it = |key: &String| key.starts_with(&format!("backups/{name}/"));
            let left: Vec<_> = self.server.bucket.keys().into_iter().filter(of_it).collect();
            if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
        });
        self.assert_no_lock();
    }

    /// Fails unless a new backup completes, contains the volume's content, and leaves no lock.
    pub fn assert_next_run_succeeds(&self, name: &str) {
        self.assert_backup_succeeds(name);
        self.assert_no_lock();
    }

    /// Fails unless a new backup completes and contains the volume's content.
    pub fn assert_backup_succeeds(&self, name: &str) {
        self.server.storage.open();
        self.begin(name);
        let backup = self.server.ended("backup", name);
        self.server.assert_phase(&backup, &["Completed"]);
        self.server.no_mover_is_left();
        if self.way != Way::Snapshot {
            self.assert_stored(name);
        }
    }

    /// Fails unless the repository contains the volume's content exactly once.
    pub fn assert_stored(&self, backup: &str) {
        let copy = self.copy(backup);
        self.assert_holds(copy["status"]["snapshotID"].as_str().unwrap_or_else(|| panic!("{copy}")));
        self.repository().ok(Engine::Restic, &["check", "--no-lock"]);
        let mut tags: Vec<String> = self.snapshots().iter().map(|one| one["tags"].to_string()).collect();
        let count = tags.len();
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), count, "a volume is stored twice: {tags:?}");
    }

    /// Fails unless a snapshot of the repository contains the volume's content.
    pub fn assert_holds(&self, snapshot: &str) {
        let target = tempfile::tempdir().unwrap();
        let into = target.path().to_str().unwrap();
        self.repository().ok(Engine::Restic, &["restore", "--no-lock", snapshot, "--target", into]);
        let (mut expected, mut found) = (self.listing(), contents(target.path()));
        for listing in [&mut expected, &mut found] {
            listing.0.remove(Path::new(""));
        }
        expected.assert_same(&found, snapshot);
    }

    /// Fails unless a new restore restores the former content.
    pub fn assert_restore_succeeds(&self, name: &str, from: &str, before: &Listing) {
        self.server.storage.open();
        self.lose_app();
        let restore = self.server.restore(name, from, &[]);
        self.server.assert_phase(&restore, &["Completed"]);
        self.wait_until_running();
        before.assert_same(&self.listing(), name);
        self.server.no_mover_is_left();
    }

    pub fn assert_no_lock(&self) {
        assert_eq!(self.locks(), "", "locks are left");
    }

    /// The locks of the repository, by name.
    pub fn locks(&self) -> String {
        self.repository().ok(Engine::Restic, &["list", "locks", "--no-lock"]).trim().to_owned()
    }

    pub fn repository(&self) -> Repository {
        self.server.repository(&self.app.name)
    }

    /// The snapshots of the repository.
    pub fn snapshots(&self) -> Vec<Value> {
        let text = self.repository().ok(Engine::Restic, &["snapshots", "--json", "--no-lock"]);
        serde_json::from_str(&text).unwrap()
    }
}

/// Incompressible bytes, the same each time.
pub fn random(length: u32) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

/// Fails if a VolumeSnapshot or its content is left in the app's namespaces or of the server's movers. Other tests run
/// at the same time.
pub fn no_snapshot_is_left(server: &HostServer, app: &str) {
    let of_us = |namespace: &Value| {
        let namespace = namespace.as_str().unwrap_or_default();
        namespace.starts_with(app) || namespace.starts_with(&server.namespace)
    };
    wait_for("the end of snapshots", 90, || {
        let list = |arguments: &[&str]| get(arguments)["items"].as_array().cloned().unwrap_or_default();
        let (contents, snapshots) = (list(&["volumesnapshotcontents"]), list(&["volumesnapshots", "-A"]));
        let contents =
            contents.iter().filter(|content| of_us(&content["spec"]["volumeSnapshotRef"]["namespace"]));
        let snapshots = snapshots.iter().filter(|snapshot| of_us(&snapshot["metadata"]["namespace"]));
        let left: Vec<_> = contents.chain(snapshots).map(|one| one["metadata"]["name"].to_string()).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
}

/// The mover's process on this machine.
pub fn mover_process(pod: &Value) -> String {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    wait_for("the mover's process", 30, || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let is_it = |pid: &str| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&format!("LIFEBOAT_POD_UID={uid}"))
        };
        let mut found = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        found.find(|pid| is_it(pid)).ok_or_else(|| "not there".to_owned())
    })
}

/// The manifest of a pod, for creating it again on any node.
pub fn anew(mut pod: Value) -> String {
    let of = |field: &str| pod["metadata"][field].clone();
    pod["metadata"] = json!({"name": of("name"), "labels": of("labels"), "annotations": of("annotations")});
    pod["status"] = Value::Null;
    pod["spec"]["nodeName"] = Value::Null;
    pod.to_string()
}
