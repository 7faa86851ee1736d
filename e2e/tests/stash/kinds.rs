//! Each kind of target and each access mode, backed up and brought back. Deployments, StatefulSets and AppBindings have tests of their own.

use std::fs;

use lifeboat_e2e::tree::Listing;
use lifeboat_e2e::{Engine, RESTORE_BATCHES, RESTORE_SESSIONS, StashTest, contents, wait_for};

use super::workloads::{
    claim_target, content_of_claim, into, member, put_claim, put_daemon_set, put_replicas, put_workload,
    target,
};

const BATCH: &str = "BackupBatch";

/// A workload of one pod, which is also its name.
struct Workload {
    name: &'static str,
    version: &'static str,
    kind: &'static str,
    mode: &'static str,
}

fn workload(name: &'static str, kind: &'static str, mode: &'static str) -> Workload {
    let version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    Workload { name, version, kind, mode }
}

impl Workload {
    fn backed_up(&self) -> String {
        member(&target(self.name, self.version, self.kind, self.name))
    }

    fn restored(&self) -> String {
        member(&into(self.name, self.kind, self.name).replace("apps/v1", self.version))
    }

    /// Damages the volume: something is missing, and something is another.
    fn damage(&self, test: &StashTest) {
        let directory = test.directory(self.name, 0, "data");
        fs::remove_dir_all(directory.join("own")).unwrap();
        fs::write(directory.join("which"), "damaged").unwrap();
    }
}

/// Backs all of them up in one batch, damages them, and brings them back in another.
fn come_back(test: &StashTest, workloads: &[Workload]) {
    test.put_repository("repo");
    let before: Vec<Listing> =
        workloads.iter().map(|each| put_workload(test, each.kind, each.name, each.mode)).collect();
    let members: Vec<String> = workloads.iter().map(Workload::backed_up).collect();
    test.put_batch("all", &members, "");
    test.run(BATCH, "all", "Succeeded");
    for (each, listing) in workloads.iter().zip(&before) {
        test.assert_stored("repo", each.name, "/source/data", listing);
        each.damage(test);
    }
    let members: Vec<String> = workloads.iter().map(Workload::restored).collect();
    test.restore_batch("back", &members, "");
    let back = test.restored_as(RESTORE_BATCHES, "back", "Succeeded");
    for (number, (each, listing)) in workloads.iter().zip(&before).enumerate() {
        assert_eq!(back["status"]["members"][number]["standstill"]["step"], "Started", "{}", each.name);
        test.wait_for_ready(each.name, 1);
        listing.assert_same(&contents(&test.directory(each.name, 0, "data")), each.name);
    }
    test.assert_nothing_is_left("repo");
}

#[test]
fn replica_sets_and_replication_controllers_come_back_in_place() {
    let test = StashTest::start();
    come_back(
        &test,
        &[
            workload("set", "ReplicaSet", "ReadWriteOnce"),
            workload("controller", "ReplicationController", "ReadWriteOnce"),
        ],
    );
}

/// The box's driver takes any mode; a volume is on one node all the same.
#[test]
fn every_access_mode_comes_back_in_place() {
    let test = StashTest::start();
    come_back(
        &test,
        &[
            workload("many", "Deployment", "ReadWriteMany"),
            workload("pod", "Deployment", "ReadWriteOncePod"),
            workload("node", "Deployment", "ReadWriteOnce"),
        ],
    );
}

/// A pod with a device, which is a file of zeros at first.
const DISK: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], volumeMode: Block, storageClassName: box-csi, resources: {requests: {storage: 16Mi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: disk}
spec:
  selector: {matchLabels: {app: disk}}
  template:
    metadata: {labels: {app: disk}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        volumeDevices: [{name: data, devicePath: /dev/xvda}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: disk}}]
";

#[test]
fn a_block_device_comes_back_in_place() {
    let test = StashTest::start();
    test.put_repository("repo");
    test.tenant.apply(DISK);
    test.wait_for_ready("disk", 1);
    let on_disk = |script: &str| {
        test.kubectl().args(["exec", "deployment/disk", "--", "sh", "-c", script]).ok().trim().to_owned()
    };
    on_disk("yes 'a line of the device' | head -c 1000000 > /dev/xvda && sync");
    let before = on_disk("sha256sum /dev/xvda");
    let mounts = "volumeMounts: [{name: data, mountPath: /dev/xvda}]";
    let target =
        format!("{{alias: disk, ref: {{apiVersion: apps/v1, kind: Deployment, name: disk}}, {mounts}}}");
    test.put_configuration("nightly", &target, "");
    test.run("BackupConfiguration", "nightly", "Succeeded");
    assert_eq!(test.snapshots("repo"), ["disk /dev/xvda"]);
    let dump = ["dump", "latest", "/dev/xvda", "--host", "disk", "--no-lock"];
    let dump = test.repository("repo").ok(Engine::Restic, &dump);
    assert!(dump.starts_with("a line of the device\na line"), "genuine restic reads the device");
    assert_eq!(dump.len(), 16 << 20, "all of it");
    on_disk("yes damaged | head -c 2000000 > /dev/xvda && sync");
    test.restore("back", &format!("  target: {target}"), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("disk", 1);
    assert_eq!(on_disk("sha256sum /dev/xvda"), before);
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_claim_comes_back_and_one_that_is_in_use_is_refused() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_claim(&test, "files");
    test.put_configuration("files", &claim_target("files", "files"), "");
    test.run("BackupConfiguration", "files", "Succeeded");
    assert_eq!(test.snapshots("repo"), ["files /stash-data"]);
    // A claim that is made anew, and has never had a pod.
    test.delete(&["persistentvolumeclaim", "files"]);
    test.tenant.apply(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: files}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
",
    );
    test.restore("back", &format!("  target: {}", claim_target("files", "files")), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    before.assert_same(&content_of_claim(&test, "files"), "the claim");
    // While a pod uses it, nothing is written.
    let used = put_workload(&test, "Deployment", "web", "ReadWriteOnce");
    test.restore("used", &format!("  target: {}", claim_target("files", "web")), "");
    let refused = test.restored_as(RESTORE_SESSIONS, "used", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains("PersistentVolumeClaim web is in use by"), "{said}");
    used.assert_same(&contents(&test.directory("web", 0, "data")), "nothing was written");
    test.assert_nothing_is_left("repo");
}

#[test]
fn a_daemon_set_comes_back_on_every_node_into_its_running_pods() {
    let test = StashTest::start();
    test.put_repository("repo");
    let before = put_daemon_set(&test, "agent");
    assert_eq!(before.len(), 2, "the box has two nodes");
    test.put_configuration("agents", &target("ds", "apps/v1", "DaemonSet", "agent"), "");
    test.run("BackupConfiguration", "agents", "Succeeded");
    for number in 0..before.len() {
        let directory = test.directory("agent", number, "data");
        fs::remove_dir_all(directory.join("own")).unwrap();
        fs::write(directory.join("which"), "damaged").unwrap();
    }
    let spec = format!("  target: {}", into("ds", "DaemonSet", "agent"));
    // Without the annotation nothing is written into running pods.
    test.restore("refused", &spec, "");
    let refused = test.restored_as(RESTORE_SESSIONS, "refused", "Failed");
    let said = refused["status"].to_string();
    assert!(said.contains("lifeboat.io/restore-running"), "{said}");
    let which = fs::read_to_string(test.directory("agent", 0, "data").join("which")).unwrap();
    assert_eq!(which, "damaged");

    let pods = test.undisturbed();
    test.restore("back", &spec, "lifeboat.io/restore-running: 'true'");
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(back["status"]["totalHosts"], 2, "{back}");
    for (number, (node, listing)) in before.iter().enumerate() {
        let pod = &test.pods("agent")[number];
        assert_eq!(&pod["spec"]["nodeName"], node);
        listing.assert_same(&contents(&test.directory("agent", number, "data")), node);
    }
    pods.assert_unchanged();
    assert!(back["status"]["standstill"].is_null(), "nothing was stopped: {back}");
    test.assert_nothing_is_left("repo");
}

/// Ordinals that begin at one: the first pod, and the claim that it leaves behind, are no part of the target any more.
#[test]
fn a_stateful_set_whose_ordinals_begin_later_comes_back_ordinal_by_ordinal() {
    let test = StashTest::start();
    put_replicas(&test, "db", "data", 2);
    test.patch("statefulset", "db", r#"{"spec": {"ordinals": {"start": 1}}}"#);
    wait_for("pods db-1 and db-2", 120, || {
        let pods = test.pods("db");
        let names: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
        if names == ["db-1", "db-2"] { Ok(()) } else { Err(names.join(", ")) }
    });
    test.wait_for_ready("db", 2);
    fs::write(test.directory("db", 1, "data").join("which"), "db-2").unwrap();
    let before: Vec<Listing> = (0..2).map(|number| contents(&test.directory("db", number, "data"))).collect();
    test.put_repository("repo");
    test.put_configuration("nightly", &target("app", "apps/v1", "StatefulSet", "db"), "");
    test.run("BackupConfiguration", "nightly", "Succeeded");
    assert_eq!(test.snapshots("repo"), ["app-1 /source/data", "app-2 /source/data"]);
    for number in 0..2 {
        fs::write(test.directory("db", number, "data").join("which"), "damaged").unwrap();
    }
    test.restore("back", &format!("  target: {}", into("app", "StatefulSet", "db")), "");
    test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    test.wait_for_ready("db", 2);
    for (number, listing) in before.iter().enumerate() {
        listing.assert_same(&contents(&test.directory("db", number, "data")), "restored");
    }
    test.assert_nothing_is_left("repo");
}
