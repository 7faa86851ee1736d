//! Commands of agents with the real program as mover and as `restic`, without a cluster.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lifeboat");
const STORE: &str = "restic -r lifeboat:task backup";

struct Bench {
    root: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { root: tempfile::tempdir().unwrap() };
        std::fs::create_dir(bench.path("task")).unwrap();
        std::fs::write(bench.path("task/password"), "correct horse\n").unwrap();
        assert_eq!(bench.repository(&["init"]).status.code(), Some(0));
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn repository(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.arg("repository").args(arguments).arg("--repo").arg(self.path("repository"));
        command.env("RESTIC_PASSWORD_FILE", self.path("task/password")).env("HOME", self.root.path());
        command.output().unwrap()
    }

    fn snapshots(&self) -> Vec<Value> {
        serde_json::from_slice(&self.repository(&["snapshots", "--json"]).stdout).unwrap()
    }

    /// The directory of locks is removed with the last of them.
    fn locks(&self) -> usize {
        std::fs::read_dir(self.path("repository/locks")).map_or(0, Iterator::count)
    }

    /// A mover that runs this work.
    fn mover(&self, work: &Value) -> Command {
        let task = json!({
            "version": 2, "uid": "uid-1", "parts": [{"uid": "uid-1", "work": work}],
            "repository": {"transport": {"kind": "directory", "path": self.path("repository")}, "passwords": ["password"]},
            "lock": {"cluster": "c"}, "limits": {"scratch": self.root.path()},
        });
        std::fs::write(self.path("task/task.json"), task.to_string()).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg("mover").arg("--task-dir").arg(self.path("task"));
        command.arg("--result-file").arg(self.path("result")).env("HOME", self.root.path());
        command.env("DB_NAME", "shop").stdin(Stdio::null());
        command
    }

    fn outcome(&self) -> Value {
        let result: Value = serde_json::from_slice(&std::fs::read(self.path("result")).unwrap()).unwrap();
        result["outcome"].clone()
    }

    /// A named pipe, on which a command and the test wait for each other.
    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// A backup whose dump has written something and goes on until the returned pipe is opened.
    fn blocked(&self) -> (Child, PathBuf) {
        let (ready, end) = (self.fifo("ready"), self.fifo("end"));
        let dump = format!("printf half; echo x > {}; cat {}", ready.display(), end.display());
        let child = self.mover(&backup(&[&dump, STORE])).stdout(Stdio::null()).spawn().unwrap();
        let mut text = String::new();
        std::fs::File::open(ready).unwrap().read_to_string(&mut text).unwrap();
        (child, end)
    }
}

fn run(sides: &[&str]) -> Value {
    let sides: Vec<Value> = sides.iter().map(|side| json!({"name": "side", "line": side})).collect();
    json!({"command": {"kind": "pipeline", "sides": sides}})
}

fn backup(sides: &[&str]) -> Value {
    let source = json!({"kind": "agent", "run": run(sides), "name": "dump.sql"});
    json!({"kind": "backup", "source": source, "host": "shop/db", "tags": ["database=shop"]})
}

fn recovery(snapshot: &str, sides: &[&str]) -> Value {
    json!({"kind": "restore", "snapshot": snapshot, "target": {"kind": "agent", "run": run(sides)}})
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_dump_goes_into_a_snapshot_and_back() {
    let bench = Bench::new();
    let output = bench.mover(&backup(&["printf \"rows of $DB_NAME\"", STORE])).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stderr).contains("prepared"), "{}", text(&output.stderr));
    let [snapshot] = bench.snapshots().try_into().unwrap();
    assert_eq!(snapshot["paths"], json!(["/dump.sql"]));
    assert_eq!(bench.locks(), 0);
    let (id, file) = (snapshot["id"].as_str().unwrap(), bench.path("loaded"));
    let load = format!("cat > {}", file.display());
    let output = bench.mover(&recovery(id, &["restic -r lifeboat:task restore", &load])).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "rows of shop");
    assert_eq!(bench.locks(), 0);
}

#[test]
fn half_a_dump_makes_no_snapshot() {
    let bench = Bench::new();
    let dump = "printf half; echo 'Lost connection to server' >&2; exit 2";
    assert_eq!(bench.mover(&backup(&[dump, STORE])).status().unwrap().code(), Some(1));
    let message = bench.outcome()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("Lost connection to server"), "{message}");
    assert!(bench.snapshots().is_empty() && bench.locks() == 0);
}

#[test]
fn what_only_a_repository_can_do_is_refused() {
    let bench = Bench::new();
    let list = "restic -r lifeboat:task snapshots";
    assert_eq!(bench.mover(&backup(&["printf x", list])).status().unwrap().code(), Some(1));
    let message = bench.outcome()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("only `backup` and `restore`"), "{message}");
}

#[test]
fn a_stopped_mover_leaves_neither_snapshot_nor_lock() {
    let bench = Bench::new();
    let (mut mover, _end) = bench.blocked();
    let killed = Command::new("kill").arg(mover.id().to_string()).status().unwrap();
    assert!(killed.success());
    assert_eq!(mover.wait().unwrap().code(), Some(1));
    assert_eq!(bench.outcome()["cause"], "stopped");
    assert!(bench.snapshots().is_empty() && bench.locks() == 0);
}

#[test]
fn a_killed_mover_leaves_no_snapshot() {
    let bench = Bench::new();
    let (mut mover, end) = bench.blocked();
    mover.kill().unwrap();
    mover.wait().unwrap();
    // The dump goes on and ends well, but nothing is there that would store it.
    std::fs::write(end, "the rest").unwrap();
    assert!(bench.snapshots().is_empty());
    // The lock that any killed mover leaves; the server removes it when it knows that the mover is dead.
    assert_eq!(bench.locks(), 1);
    let again = bench.mover(&backup(&["printf rows", STORE])).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!((bench.snapshots().len(), bench.locks()), (1, 1));
}

#[test]
fn outside_of_a_mover_the_name_means_nothing() {
    let bench = Bench::new();
    symlink(PROGRAM, bench.path("restic")).unwrap();
    let output = Command::new(bench.path("restic"))
        .args(["-r", "lifeboat:task", "backup"])
        .stdin(Stdio::null())
        .current_dir(bench.root.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("known only to a mover"), "{}", text(&output.stderr));
    assert!(!bench.path("lifeboat:task").exists());
}
