//! A mover whose scratch directory is full. Only volumes in memory have an enforced size on the box, so a mover's task
//! is run once more on this machine, with a full scratch directory.

use std::fs;
use std::path::Path;

use lifeboat_e2e::{Engine, OneVolume, Program, get, random, variable};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A directory in memory without free space; unmounted when dropped.
struct Full(TempDir);

impl Full {
    fn new() -> Self {
        let full = Self(tempfile::tempdir().unwrap());
        let path = full.0.path().to_str().unwrap();
        Program::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "scratch", path]).ok();
        let filled = fs::write(full.0.path().join("filler"), random(1 << 20));
        assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        full
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        Program::new("umount").arg(self.0.path().to_str().unwrap()).run();
    }
}

/// The task files of a mover.
fn task_of(test: &OneVolume, mover: &Value) -> TempDir {
    let job = mover["metadata"]["labels"]["job-name"].as_str().unwrap();
    let secret = get(&["-n", &test.server.movers(), "secret", job]);
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in secret["data"].as_object().unwrap() {
        let content = Program::new("base64").arg("-d").input(content.as_str().unwrap()).ok();
        fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

/// Runs the task again under another UID; returns the result.
fn carried_out(task: &Path, uid: &str, source: &Path, scratch: &Path) -> Value {
    let file = task.join("task.json");
    let mut content: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    content["uid"] = json!(uid);
    content["work"]["source"] = json!({"kind": "path", "path": source});
    content["limits"]["scratch"] = json!(scratch);
    fs::write(&file, content.to_string()).unwrap();
    let result = task.join("result");
    Program::new(&variable("LIFEBOAT_BIN"))
        .args(["mover", "--pod-uid", uid, "--task-dir", task.to_str().unwrap()])
        .args(["--result-file", result.to_str().unwrap()])
        .run();
    serde_json::from_slice(&fs::read(&result).unwrap()).unwrap()
}

#[test]
fn a_mover_without_room_for_its_cache_does_its_work() {
    let test = OneVolume::start(&[]);
    test.assert_next_run_succeeds("before");
    fs::write(test.directory().join("new"), random(3 << 20)).unwrap();
    let mover = test.begin_and_hold("held");
    let task = task_of(&test, &mover);
    test.server.storage.open();
    let (backup, _) = test.ended("held");
    test.server.assert_phase(&backup, &["Completed"]);

    // With free space the directory is used.
    let roomy = tempfile::tempdir().unwrap();
    let result = carried_out(task.path(), "with-room", &test.directory(), roomy.path());
    assert_eq!(result["outcome"]["kind"], "backedUp", "{result}");
    assert_ne!(fs::read_dir(roomy.path()).unwrap().count(), 0, "nothing is put there");

    let full = Full::new();
    let result = carried_out(task.path(), "by-hand", &test.directory(), full.0.path());
    assert_eq!(result["outcome"]["kind"], "backedUp", "{result}");
    let snapshot = result["outcome"]["snapshot"].as_str().unwrap();
    test.assert_holds(snapshot);
    test.repository().ok(Engine::Restic, &["check"]);
    test.assert_no_lock();
}
