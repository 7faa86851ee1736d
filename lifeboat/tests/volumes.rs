//! Programs of containers (`mover`, `restore-wait`) and the command for their results (`volume`): the real program on
//! directories, without a cluster.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

struct Bench {
    root: tempfile::TempDir,
}

impl Bench {
    /// A bucket with an empty repository of namespace shop, and a volume.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["bucket", "task", "volume/conf"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        std::fs::write(root.path().join("task/password"), "correct horse\n").unwrap();
        std::fs::write(root.path().join("volume/conf/app.ini"), "port=1").unwrap();
        std::fs::write(root.path().join("volume/data"), vec![7; 100_000]).unwrap();
        let bench = Self { root };
        let repository = bench.path("bucket/restic/shop");
        let made = bench.run(&["repository", "init", "--repo", repository.to_str().unwrap()]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        command.args(arguments).env("KUBECONFIG", "/nonexistent").env("HOME", self.root.path());
        command.env("RESTIC_PASSWORD_FILE", self.path("task/password"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn mover(&self, work: &Value) -> Command {
        let task = json!({
            "version": 1, "uid": "uid-1", "work": work,
            "repository": {"transport": {"kind": "direct", "provider": "lifeboat.io/local", "bucket": "bucket",
                "path": "restic/shop", "config": {"path": self.root.path()}}, "passwords": ["password"]},
            "lock": {"cluster": "c"}, "limits": {"scratch": self.root.path()},
        });
        std::fs::write(self.path("task/task.json"), task.to_string()).unwrap();
        let (task, result) = (self.path("task"), self.path("result"));
        self.command(&[
            "mover",
            "--task-dir",
            task.to_str().unwrap(),
            "--result-file",
            result.to_str().unwrap(),
        ])
    }

    fn result(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("result")).unwrap()).unwrap()
    }

    /// Backs up the volume and writes the files of a backup called nightly. Returns the snapshot's id.
    fn nightly(&self) -> String {
        let source = json!({"kind": "path", "path": self.path("volume"), "proof": {"kind": "directory"}});
        let work = json!({"kind": "backup", "source": source, "host": "shop/data", "tags": []});
        let output = self.mover(&work).output().unwrap();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        let snapshot = self.result()["outcome"]["snapshot"].as_str().unwrap().to_owned();
        let infos = json!([{"pvcName": "data", "pvcNamespace": "shop", "backupMethod": "PodVolumeBackup", "result": "succeeded",
            "pvbInfo": {"snapshotHandle": snapshot, "size": 100_006, "uploaderType": "restic", "volumeName": "v",
            "podName": "db-0", "podNamespace": "shop"}}]);
        let directory = self.path("bucket/backups/nightly");
        std::fs::create_dir_all(&directory).unwrap();
        let file = std::fs::File::create(directory.join("nightly-volumeinfo.json.gz")).unwrap();
        let mut packing = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        packing.write_all(infos.to_string().as_bytes()).unwrap();
        packing.finish().unwrap();
        snapshot
    }

    fn volume(&self, arguments: &[&str]) -> Output {
        let bucket = self.path("bucket");
        self.run(&[&["volume"], arguments, &["--location", bucket.to_str().unwrap()]].concat())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_volume_that_a_mover_backed_up_is_listed_and_its_files_come_back() {
    let bench = Bench::new();
    let snapshot = bench.nightly();
    let list = text(&bench.volume(&["ls", "nightly"]).stdout);
    assert!(
        list.contains("shop/data") && list.contains("file copy") && list.contains(&snapshot[..8]),
        "{list}"
    );
    let json: Value = serde_json::from_slice(&bench.volume(&["ls", "nightly", "-o", "json"]).stdout).unwrap();
    assert_eq!((&json[0]["volume"], &json[0]["snapshot"]), (&json!("shop/data"), &json!(snapshot)));
    let root = text(&bench.volume(&["ls", "nightly", "shop/data"]).stdout);
    assert!(root.contains(" /data\n") && root.contains(" /conf\n") && !root.contains("app.ini"), "{root}");
    let conf = bench.volume(&["ls", "nightly", "shop/db-0/v:/conf", "-o", "json"]);
    let conf: Value = serde_json::from_slice(&conf.stdout).unwrap();
    assert_eq!((conf.as_array().unwrap().len(), &conf[0]["path"]), (1, &json!("/conf/app.ini")));

    let to = bench.path("back");
    let restore = |what: &str| bench.volume(&["restore", "nightly", what, "--to", to.to_str().unwrap()]);
    let one = restore("shop/data:/conf/app.ini");
    assert!(one.status.success(), "{}", text(&one.stderr));
    assert_eq!(std::fs::read_to_string(to.join("app.ini")).unwrap(), "port=1");
    assert!(restore("shop/data:/conf").status.success());
    assert_eq!(std::fs::read_to_string(to.join("conf/app.ini")).unwrap(), "port=1");
    std::fs::write(to.join("app.ini"), "mine").unwrap();
    let again = restore("shop/data:/conf/app.ini");
    assert_eq!(again.status.code(), Some(4), "{}", text(&again.stderr));
    assert_eq!(std::fs::read_to_string(to.join("app.ini")).unwrap(), "mine");
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let bench = Bench::new();
    bench.nightly();
    for (arguments, word) in [
        (&["ls", "weekly"][..], "weekly"),
        (&["ls", "nightly", "shop/other"], "shop/data"),
        (&["ls", "nightly", "shop/data:/none"], "/none"),
        (&["restore", "nightly", "shop/data:/conf/none", "--to", "/nonexistent/x"], "none"),
    ] {
        let output = bench.volume(arguments);
        let said = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
    assert_eq!(bench.volume(&["ls", "weekly"]).status.code(), Some(3));
    assert_eq!(bench.volume(&["ls", "nightly", "shop/data:/none"]).status.code(), Some(3));
}

/// Sends TERM, as the kubelet does, once the program has printed its first line.
fn terminated(mut command: Command) -> (Option<i32>, Child) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    (child.wait().unwrap().code(), child)
}

#[test]
fn a_mover_that_gets_term_reports_it_and_leaves_no_lock() {
    let bench = Bench::new();
    let source = json!({"kind": "command", "argv": ["sleep", "1000"], "name": "dump"});
    let work = json!({"kind": "backup", "source": source, "host": "shop/data", "tags": []});
    let (code, _child) = terminated(bench.mover(&work));
    assert_eq!(code, Some(1));
    let result = bench.result();
    assert_eq!(
        (&result["uid"], &result["outcome"]["cause"]),
        (&json!("uid-1"), &json!("stopped")),
        "{result}"
    );
    // A directory is removed with its last file.
    let locks = std::fs::read_dir(bench.path("bucket/restic/shop/locks"));
    assert_eq!(locks.map_or(0, Iterator::count), 0);
}

#[test]
fn an_init_container_waits_for_its_volumes_and_ends_on_term() {
    let bench = Bench::new();
    let volumes = bench.path("restores");
    let wait = |uid: &str| bench.command(&["restore-wait", uid, "--directory", volumes.to_str().unwrap()]);
    std::fs::create_dir_all(volumes.join("data/.velero")).unwrap();
    let (code, _child) = terminated(wait("uid-1"));
    assert_eq!(code, Some(1));
    let done = |path: &Path| std::fs::write(path, "").unwrap();
    done(&volumes.join("data/.velero/uid-1"));
    let output = wait("uid-1").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(volumes.join("data/.velero/uid-1").exists(), "a container that starts again finds it");
}
