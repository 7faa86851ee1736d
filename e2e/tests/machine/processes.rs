//! Processes of the box, found without its help: by its record, by its mark in their environment, by its control
//! groups, by the paths they use. A process is identified by pid and start time, so that a recycled pid is another
//! process.

use std::collections::BTreeSet;
use std::fs;

use lifeboat_e2e::{Program, wait_for};
use serde_json::Value;

/// The directories of the box's state and programs (docs/box.md).
const STATE: &str = "/var/lib/lifeboat-box";
const CACHE: &str = "/var/cache/lifeboat-box";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    start: u64,
    name: String,
}

/// All processes that a box seems to have started.
pub(crate) fn of_the_box() -> BTreeSet<Process> {
    all().into_iter().filter(|process| is_marked(process.pid) || uses_its_paths(process)).collect()
}

/// The box's own record, the supervisor first.
pub(crate) fn recorded() -> Vec<Process> {
    let text = fs::read_to_string(format!("{STATE}/processes.json")).unwrap();
    let record: Vec<Value> = serde_json::from_str(&text).unwrap();
    let process = |each: &Value| Process {
        pid: u32::try_from(each["pid"].as_u64().unwrap()).unwrap(),
        start: each["start_time"].as_u64().unwrap(),
        name: each["name"].as_str().unwrap().to_owned(),
    };
    record.iter().map(process).collect()
}

/// `kill -9` for every process of the box: those of its record, the supervisor first, then shims and containers.
pub(crate) fn kill_everything() {
    let recorded = recorded();
    assert_eq!(recorded[0].name, "supervisor", "{recorded:?}");
    // A stopped component has the pid 0, which would mean this test's own process group.
    for process in recorded.iter().filter(|process| process.pid > 1) {
        kill(process.pid);
    }
    wait_for("the end of every process of the box", 30, || {
        let left: Vec<Process> = all().into_iter().filter(|process| is_marked(process.pid)).collect();
        for process in &left {
            kill(process.pid);
        }
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

fn kill(pid: u32) {
    Program::new("kill").args(["-9", &pid.to_string()]).run();
}

/// Every process of this machine that is not a zombie.
fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// From /proc/PID/stat: `pid (name) state …`, the start time is field 22. The name may contain spaces and parentheses.
fn read(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let name = before.split_once('(')?.1.to_owned();
    (*fields.first()? != "Z").then_some(Process { pid, start: fields.get(19)?.parse().ok()?, name })
}

/// Whether the process has a box's id, or runs in its control groups.
fn is_marked(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|each| each.starts_with(b"LIFEBOAT_BOX_ID="))
        || groups.lines().any(|line| line.contains(":/lifeboat-box/"))
}

/// Whether the process runs one of the box's programs, or uses its files. Programs that a user runs on the box do not
/// count.
fn uses_its_paths(Process { pid, name, .. }: &Process) -> bool {
    if ["kubectl", "velero", "helm"].contains(&name.as_str()) {
        return false;
    }
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let arguments = String::from_utf8_lossy(&arguments);
    [STATE, CACHE].iter().any(|dir| program.starts_with(dir) || arguments.contains(dir))
}
