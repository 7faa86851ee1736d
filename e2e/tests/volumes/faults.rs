//! What can go wrong while a volume is copied: each fault ends in a phase with its reason, leaves nothing behind, and the
//! next run succeeds without a person.

use std::fs;
use std::process::{Child, Command, Stdio};

use lifeboat_e2e::{
    Engine, Fault, HostServer, Namespace, contents, get, kubectl, signal, variable, volume_directory,
    wait_for,
};
use serde_json::Value;

const POD: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [MODE], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, annotations: {backup.velero.io/backup-volumes: data}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";

/// One pod with one claim, and a server.
struct Test {
    server: HostServer,
    app: Namespace,
}

impl Test {
    fn start(flags: &[&str]) -> Self {
        Self::of_mode("ReadWriteOnce", flags)
    }

    fn of_mode(mode: &str, flags: &[&str]) -> Self {
        let server = HostServer::start("movers", flags);
        let app = Namespace::new("data");
        app.apply(&POD.replace("MODE", mode));
        let test = Self { server, app };
        test.wait_until_running();
        let directory = test.directory();
        fs::write(directory.join("file"), "some data").unwrap();
        fs::write(directory.join("large"), vec![3; 5 << 20]).unwrap();
        test
    }

    fn wait_until_running(&self) {
        self.app.kubectl().args(["wait", "pod/db", "--for=condition=Ready", "--timeout=120s"]).ok();
    }

    fn directory(&self) -> std::path::PathBuf {
        volume_directory(&get(&["-n", &self.app.name, "pod", "db"]), "data")
    }

    /// Makes a backup without waiting for it.
    fn begin(&self, name: &str) {
        let flags = ["--include-namespaces", self.app.name.as_str()];
        self.server.lifeboat().args(["backup", "create", name]).args(flags).ok();
    }

    /// Begins a backup whose mover waits for storage in the middle of its work; gives the mover's pod.
    fn begin_and_hold(&self, name: &str) -> Value {
        self.server.storage.close("PUT", "/data/", Fault::Hold, 1000);
        self.begin(name);
        self.server.storage.wait_until_reached(90);
        let pods = get(&["-n", &self.server.movers(), "pods"]);
        pods["items"][0].clone()
    }

    /// Waits for the end; the backup and its one copy.
    fn ended(&self, name: &str) -> (Value, Value) {
        let backup = self.server.ended("backup", name);
        (backup, self.copy(name))
    }

    fn copy(&self, backup: &str) -> Value {
        let label = format!("velero.io/backup-name={backup}");
        let list = get(&["-n", &self.server.namespace, "podvolumebackups", "-l", &label]);
        list["items"][0].clone()
    }

    /// Fails unless the backup ended partially, the copy failed with these words, and people can read them.
    fn assert_failed(&self, name: &str, words: &[&str]) {
        let (backup, copy) = self.ended(name);
        self.server.assert_phase(&backup, &["PartiallyFailed"]);
        assert_eq!(copy["status"]["phase"], "Failed", "{copy}");
        let message = copy["status"]["message"].as_str().unwrap_or_default();
        let described = self.server.described("backup", name);
        for word in words {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
            assert!(described.contains(word), "{word:?} is not in\n{described}");
        }
        self.server.no_mover_is_left();
    }

    /// Fails unless a backup made now is complete, holds what is there, and no lock is left.
    fn assert_next_run_succeeds(&self, name: &str) {
        self.server.storage.open();
        self.begin(name);
        let (backup, copy) = self.ended(name);
        self.server.assert_phase(&backup, &["Completed"]);
        self.server.no_mover_is_left();
        let repository = self.server.repository(&self.app.name);
        let snapshot = copy["status"]["snapshotID"].as_str().unwrap();
        let target = tempfile::tempdir().unwrap();
        repository.ok(Engine::Restic, &["restore", snapshot, "--target", target.path().to_str().unwrap()]);
        let (mut expected, mut found) = (contents(&self.directory()), contents(target.path()));
        for listing in [&mut expected, &mut found] {
            listing.0.remove(std::path::Path::new(""));
        }
        expected.assert_same(&found, name);
        repository.ok(Engine::Restic, &["check"]);
        let locks = repository.ok(Engine::Restic, &["list", "locks", "--no-lock"]);
        assert_eq!(locks.trim(), "", "locks are left");
        // No volume is stored twice.
        let snapshots = repository.ok(Engine::Restic, &["snapshots", "--json"]);
        let snapshots: Vec<Value> = serde_json::from_str(&snapshots).unwrap();
        let mut tags: Vec<String> = snapshots.iter().map(|one| one["tags"].to_string()).collect();
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), snapshots.len(), "{snapshots:?}");
    }
}

/// The process of the mover, on this machine.
fn mover_process(pod: &Value) -> String {
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

#[test]
fn a_mover_that_is_killed_is_tried_again_and_nothing_is_stored_twice() {
    let test = Test::start(&[]);
    let pod = test.begin_and_hold("killed");
    signal("-KILL", &mover_process(&pod));
    test.server.storage.open();
    let (backup, copy) = test.ended("killed");
    test.server.assert_phase(&backup, &["Completed"]);
    assert_eq!(copy["status"]["phase"], "Completed", "{copy}");
    test.server.no_mover_is_left();
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_mover_that_is_killed_again_and_again_fails_with_the_reason() {
    let test = Test::start(&[]);
    let first = test.begin_and_hold("killed");
    signal("-KILL", &mover_process(&first));
    let second = wait_for("another mover", 60, || {
        let pods = get(&["-n", &test.server.movers(), "pods"]);
        let other = |pod: &&Value| {
            pod["metadata"]["uid"] != first["metadata"]["uid"] && pod["status"]["phase"] == "Running"
        };
        pods["items"].as_array().unwrap().iter().find(other).cloned().ok_or_else(|| pods.to_string())
    });
    signal("-KILL", &mover_process(&second));
    test.assert_failed("killed", &["137"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_mover_that_is_evicted_is_tried_again() {
    let test = Test::start(&[]);
    let pod = test.begin_and_hold("evicted");
    let (name, namespace) = (pod["metadata"]["name"].as_str().unwrap(), test.server.movers());
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    let eviction = format!(
        r#"{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{name}", "namespace": "{namespace}"}}}}"#
    );
    kubectl().args(["create", "--raw", &path, "-f", "-"]).input(&eviction).ok();
    test.server.storage.open();
    let (backup, _) = test.ended("evicted");
    test.server.assert_phase(&backup, &["Completed"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_mover_without_enough_memory_says_so() {
    let test = Test::start(&["--mover-memory-request", "8Mi", "--mover-memory-limit", "8Mi"]);
    test.begin("small");
    test.assert_failed("small", &["memory", "--mover-memory-limit"]);
}

#[test]
fn an_image_that_is_missing_is_named() {
    let test = Test::start(&["--mover-image", "localhost/no-such-image:1", "--mover-prepare-timeout", "20s"]);
    test.begin("none");
    test.assert_failed("none", &["localhost/no-such-image:1", "--mover-image"]);
}

#[test]
fn a_mover_that_takes_too_long_is_ended() {
    let test = Test::start(&["--fs-backup-timeout", "10s"]);
    test.begin_and_hold("slow");
    test.assert_failed("slow", &["--fs-backup-timeout"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn without_node_access_the_volume_names_the_flag_to_set() {
    let test = Test::start(&["--node-access=false"]);
    test.begin("none");
    test.assert_failed("none", &["--node-access"]);
}

#[test]
fn storage_that_is_away_for_a_while_delays_the_mover_only() {
    let test = Test::start(&[]);
    test.begin_and_hold("away");
    // Every request is refused for a while, then all is well.
    for method in ["PUT", "GET", "HEAD", "POST", "DELETE"] {
        let body = "<Error><Code>ServiceUnavailable</Code></Error>".to_owned();
        test.server.storage.close(method, "restic", Fault::Answer(503, body), 4);
    }
    test.server.storage.open();
    let (backup, _) = test.ended("away");
    test.server.assert_phase(&backup, &["Completed"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_key_that_is_taken_away_while_a_mover_works_is_named() {
    let test = Test::start(&[]);
    let denied = "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>".to_owned();
    test.server.storage.close("PUT", "/data/", Fault::Answer(403, denied), 1000);
    test.begin("denied");
    test.assert_failed("denied", &["credential"]);
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_pod_that_goes_while_it_is_copied_is_no_empty_backup() {
    let test = Test::start(&[]);
    test.begin_and_hold("gone");
    test.app.kubectl().args(["delete", "pod", "db", "--wait=false"]).ok();
    wait_for("the end of the pod", 60, || {
        let found = test.app.kubectl().args(["get", "pod", "db"]).run();
        if found.code == 0 { Err("it is there".to_owned()) } else { Ok(()) }
    });
    test.server.storage.open();
    test.assert_failed("gone", &["db"]);
}

#[test]
fn files_that_cannot_be_read_are_named_and_the_backup_is_not_complete() {
    let test = Test::start(&[]);
    let file = test.directory().join("unreadable");
    fs::write(&file, "").unwrap();
    // What nobody but this process may read.
    let (source, target) = (format!("/proc/{}/mem", std::process::id()), file.to_str().unwrap().to_owned());
    lifeboat_e2e::Program::new("mount").args(["--bind", &source, &target]).ok();
    test.begin("unreadable");
    let (backup, copy) = test.ended("unreadable");
    lifeboat_e2e::Program::new("umount").arg(&target).ok();
    test.server.assert_phase(&backup, &["PartiallyFailed"]);
    let message = copy["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("unreadable"), "{copy}");
    assert!(
        !copy["status"]["snapshotID"].as_str().unwrap_or_default().is_empty(),
        "the rest is kept: {copy}"
    );
    test.assert_next_run_succeeds("next");
}

/// Writes into a file until it is dropped.
struct Writer(Child);

impl Writer {
    /// A bounded amount, so that no disk is filled.
    fn of(file: &std::path::Path) -> Self {
        let once = format!("head -c 200000 /dev/urandom >> '{}'; sleep 0.02", file.display());
        let all = format!("for round in $(seq 1500); do {once}; done");
        Self(Command::new("sh").args(["-c", &all]).spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_that_grows_all_the_time_does_not_keep_the_backup() {
    let test = Test::start(&[]);
    let writer = Writer::of(&test.directory().join("grows"));
    test.begin("growing");
    let (backup, copy) = test.ended("growing");
    drop(writer);
    test.server.assert_phase(&backup, &["Completed"]);
    let annotations = &copy["metadata"]["annotations"];
    assert_eq!(annotations["lifeboat.io/consistency"], "Live", "{annotations}");
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_volume_for_one_pod_only_is_copied_beside_it() {
    let test = Test::of_mode("ReadWriteOncePod", &[]);
    test.assert_next_run_succeeds("alone");
}

/// Somebody who holds a repository's lock.
struct Holder(Child);

impl Holder {
    fn exclusively(test: &Test) -> Self {
        let repository = test.server.repository(&test.app.name);
        let mut command = Command::new(variable("LIFEBOAT_BIN"));
        command.args(["repository", "lock", "--exclusive", "--", "sleep", "600"]);
        command.env("RESTIC_REPOSITORY", &repository.url).env("RESTIC_PASSWORD", test.server.password());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the lock", 30, || {
            let locks = repository.ok(Engine::Restic, &["list", "locks", "--no-lock"]);
            if locks.trim().is_empty() { Err("not there".to_owned()) } else { Ok(()) }
        });
        Self(child)
    }

    fn let_go(mut self) {
        signal("-TERM", &self.0.id().to_string());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_repository_that_somebody_holds_keeps_the_copy_waiting_and_is_named() {
    let test = Test::start(&[]);
    test.assert_next_run_succeeds("before");
    let holder = Holder::exclusively(&test);
    test.begin("waiting");
    let host = lifeboat_e2e::Program::new("hostname").ok();
    wait_for("the name of the holder", 60, || {
        let message = test.copy("waiting")["status"]["message"].as_str().unwrap_or_default().to_owned();
        if message.contains(host.trim()) { Ok(()) } else { Err(message) }
    });
    holder.let_go();
    let (backup, _) = test.ended("waiting");
    test.server.assert_phase(&backup, &["Completed"]);
    test.assert_next_run_succeeds("after");
}

#[test]
fn a_wrong_password_fails_the_volume_with_words_and_the_right_one_mends_it() {
    let test = Test::start(&[]);
    test.assert_next_run_succeeds("before");
    let password = test.server.password();
    let set = |text: &str| {
        let patch = format!(r#"{{"stringData": {{"repository-password": "{text}"}}}}"#);
        let secret = ["patch", "secret", "velero-repo-credentials", "--type=merge", "-p", &patch];
        test.server.kubectl().args(secret).ok();
    };
    set("another");
    test.begin("wrong");
    test.assert_failed("wrong", &["password"]);
    set(&password);
    test.assert_next_run_succeeds("after");
}

#[test]
fn maintenance_frees_the_space_of_deleted_backups() {
    let test = Test::start(&[]);
    let large = test.directory().join("only-in-first");
    let bytes: Vec<u8> =
        (0..8_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect();
    fs::write(&large, bytes).unwrap();
    test.assert_next_run_succeeds("first");
    fs::remove_file(&large).unwrap();
    test.assert_next_run_succeeds("second");
    test.server.lifeboat().args(["backup", "delete", "first", "--confirm", "--wait"]).ok();
    let repositories = test.server.lifeboat().args(["repo", "get"]).ok();
    assert!(repositories.contains("Ready"), "{repositories}");
    test.server.lifeboat().args(["repo", "maintain", "--all", "--wait"]).ok();
    let repository = get(&["-n", &test.server.namespace, "backuprepositories"])["items"][0].clone();
    assert_eq!(repository["status"]["recentMaintenance"][0]["result"], "Succeeded", "{repository}");
    test.server.no_mover_is_left();
    test.assert_next_run_succeeds("third");
}

const SECOND_POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {backup.velero.io/backup-volumes: cache}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeMounts: [{name: cache, mountPath: /cache}]
  volumes: [{name: cache, emptyDir: {}}]
";

#[test]
fn hundreds_of_volumes_are_not_hundreds_of_movers() {
    let test = Test::start(&["--movers-at-once", "1"]);
    test.app.apply(SECOND_POD);
    test.app.kubectl().args(["wait", "pod/web", "--for=condition=Ready", "--timeout=120s"]).ok();
    fs::write(volume_directory(&get(&["-n", &test.app.name, "pod", "web"]), "cache").join("file"), "cached")
        .unwrap();
    test.begin_and_hold("one");
    let copies =
        || get(&["-n", &test.server.namespace, "podvolumebackups"])["items"].as_array().unwrap().clone();
    wait_for("the words of the queue", 60, || {
        let messages: Vec<_> = copies().iter().map(|copy| copy["status"]["message"].to_string()).collect();
        if messages.iter().any(|one| one.contains("--movers-at-once")) {
            Ok(())
        } else {
            Err(messages.join("; "))
        }
    });
    let jobs = get(&["-n", &test.server.movers(), "jobs"]);
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "{jobs}");
    test.server.storage.open();
    let backup = test.server.ended("backup", "one");
    test.server.assert_phase(&backup, &["Completed"]);
    assert_eq!(copies().len(), 2);
    test.server.no_mover_is_left();
}
