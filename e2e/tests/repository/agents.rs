//! Dumps through the commands of an agent are snapshots like any other: genuine restic reads them, and the other way round.

use std::fs;
use std::path::Path;

use lifeboat_e2e::{Engine, Program, Repository, variable};
use serde_json::{Value, json};

use super::directory;

/// A mover in a directory, without a cluster.
struct Mover<'a> {
    work: &'a Path,
    repository: &'a Path,
}

impl Mover<'_> {
    /// Runs a task, which must succeed.
    fn run(&self, work: &Value) {
        let task_dir = self.work.join("task");
        fs::create_dir_all(&task_dir).unwrap();
        fs::write(task_dir.join("password"), "correct horse").unwrap();
        let task = json!({
            "version": 2, "uid": "uid", "parts": [{"uid": "uid", "work": work}],
            "repository": {"transport": {"kind": "directory", "path": self.repository}, "passwords": ["password"]},
            "lock": {"cluster": "c"}, "limits": {"scratch": self.work},
        });
        fs::write(task_dir.join("task.json"), task.to_string()).unwrap();
        let result = self.work.join("result");
        let arguments =
            ["mover", "--task-dir", task_dir.to_str().unwrap(), "--result-file", result.to_str().unwrap()];
        Program::new(&variable("LIFEBOAT_BIN")).args(&arguments).ok();
    }
}

fn pipeline(sides: [&str; 2]) -> Value {
    let sides = sides.map(|line| json!({"name": "side", "line": line}));
    json!({"command": {"kind": "pipeline", "sides": sides}})
}

#[test]
fn restic_reads_a_dump_of_an_agent_and_an_agent_loads_one_of_restic() {
    let work = directory();
    let (rows, loaded) = (work.path().join("rows"), work.path().join("loaded"));
    let content =
        (0..200_000).fold(String::new(), |all, row| all + &format!("INSERT INTO orders VALUES ({row});\n"));
    fs::write(&rows, &content).unwrap();
    let directory = work.path().join("repository");
    let repository = Repository::local(&directory);
    repository.ok(Engine::Restic, &["init"]);
    let mover = Mover { work: work.path(), repository: &directory };
    let dump = format!("cat {}", rows.display());
    let run = pipeline([&dump, "restic -r lifeboat:task backup"]);
    let source = json!({"kind": "agent", "run": run, "name": "dump.sql"});
    mover.run(&json!({"kind": "backup", "source": source, "host": "db-0", "tags": ["database=shop"]}));
    repository.assert_sound();
    assert!(
        repository.ok(Engine::Restic, &["dump", "--tag", "database=shop", "latest", "/dump.sql"]) == content
    );

    let stored = repository.program(Engine::Restic, &["backup", "--stdin", "--host", "old"]).input(&content);
    stored.ok();
    let snapshots = repository.ok(Engine::Restic, &["snapshots", "--json", "--host", "old"]);
    let snapshots: Value = serde_json::from_str(&snapshots).unwrap();
    let load = format!("cat > {}", loaded.display());
    let run = pipeline(["restic -r lifeboat:task restore", &load]);
    mover.run(
        &json!({"kind": "restore", "snapshot": snapshots[0]["id"], "target": {"kind": "agent", "run": run}}),
    );
    assert!(fs::read_to_string(loaded).unwrap() == content);
    assert_eq!(fs::read_dir(directory.join("locks")).map_or(0, Iterator::count), 0);
}
