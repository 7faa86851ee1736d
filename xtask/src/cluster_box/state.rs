//! The record of what the box changes on this machine, written before each change: `down` undoes exactly this, from any
//! clone and after any crash. The file is replaced atomically.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::layout::{self, STATE};
use super::process::{self, Process};
use super::progress::note;
use super::{firewall, leftovers};

/// A field that an older version did not write gets its default; `version` then shows that the box must be replaced.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub version: u32,
    /// The mark of every process of this box in its environment. Empty if it is unknown: then the mark of any box
    /// counts.
    pub id: String,
    /// Pids, mounts, interfaces and rules are valid only within the boot they were made in.
    pub boot_id: String,
    /// Whether `up` was completed.
    pub complete: bool,
    /// Directories of the programs this box runs.
    pub programs: BTreeMap<String, PathBuf>,
    pub s3_secret_key: String,
    pub firewall: firewall::Before,
    /// Values before the box changed them, by path below /proc/sys.
    pub sysctls: BTreeMap<String, String>,
    /// Controllers that the box switched on at the root of the unified hierarchy.
    pub controllers: Vec<String>,
    /// Directories outside the state directory that did not exist before.
    pub created_paths: Vec<PathBuf>,
}

/// The supervisor's last record of one process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Recorded {
    pub name: String,
    #[serde(flatten)]
    pub process: Process,
    pub state: String,
    #[serde(default)]
    pub restarts: u32,
}

/// What `up` and `down` find on this machine.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    /// Its supervisor is running.
    Running(Box<State>),
    /// Killed, interrupted, from before a reboot, or of a version that this code cannot use.
    Stale(Box<State>, &'static str),
}

impl State {
    pub(super) fn new(id: String, s3_secret_key: String) -> Self {
        Self { version: layout::VERSION, id, boot_id: process::boot_id(), s3_secret_key, ..Self::default() }
    }

    pub(super) fn load() -> Result<Option<Self>> {
        let path = file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let state = serde_json::from_str(&text).with_context(|| {
            format!("{} cannot be parsed; `cargo xtask box up` replaces that box", path.display())
        })?;
        Ok(Some(state))
    }

    /// A box whose record is lost: its parts are found by fixed names and paths. Kernel settings are not restored,
    /// because their former values are unknown.
    fn unknown() -> Result<Self> {
        let (firewall, created_paths) = (firewall::guess()?, leftovers::guess());
        Ok(Self { firewall, created_paths, ..Self::new(String::new(), String::new()) })
    }

    pub(super) fn save(&self) -> Result<()> {
        fs::create_dir_all(STATE).with_context(|| format!("cannot create {STATE}"))?;
        replace(&file(), &serde_json::to_vec_pretty(self)?)
    }

    pub(super) fn program(&self, group: &str, name: &str) -> PathBuf {
        self.programs.get(group).map_or_else(PathBuf::new, |dir| dir.join(name))
    }
}

/// Determines the state of the box from the record and the running processes.
pub(super) fn find() -> Result<Found> {
    let state = match State::load() {
        Ok(None) => return Ok(Found::Nothing),
        Ok(Some(state)) => state,
        // Only root may read it; that says nothing about the box.
        Err(error) if is_denied(&error) => return Err(error),
        Err(error) => {
            note(&format!("{error:#}"));
            return Ok(Found::Stale(Box::new(State::unknown()?), "its record cannot be read"));
        }
    };
    let supervised = recorded().iter().any(|each| each.name == "supervisor" && each.process.is_alive());
    Ok(match stale(&state, &process::boot_id(), supervised) {
        None => Found::Running(Box::new(state)),
        Some(why) => Found::Stale(Box::new(state), why),
    })
}

fn is_denied(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Why a box cannot be used any more.
fn stale(state: &State, boot_id: &str, supervised: bool) -> Option<&'static str> {
    if state.boot_id != boot_id {
        Some("the machine was restarted since")
    } else if !supervised {
        Some("its processes were killed")
    } else if !state.complete {
        Some("its start was interrupted")
    } else if state.version != layout::VERSION {
        Some("another version of this project made it")
    } else {
        None
    }
}

/// The processes that the supervisor recorded last; empty if there is no readable record.
pub(super) fn recorded() -> Vec<Recorded> {
    fs::read(record_file()).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

pub(super) fn record_file() -> PathBuf {
    layout::state("processes.json")
}

/// Writes a file that only root can read, completely or not at all.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let new = path.with_extension("new");
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        // Content and name are synced to the disk before anything relies on them, because power may fail.
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |dir| fs::File::open(dir)?.sync_all())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn file() -> PathBuf {
    layout::state("state.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State { boot_id: "now".into(), complete: true, ..State::new("id".into(), "key".into()) }
    }

    #[test]
    fn a_supervised_box_of_this_boot_is_used() {
        assert_eq!(stale(&state(), "now", true), None);
    }

    #[test]
    fn a_box_is_stale_after_a_reboot_a_kill_an_interruption_or_a_change_of_version() {
        assert_eq!(stale(&state(), "later", true), Some("the machine was restarted since"));
        assert_eq!(stale(&state(), "now", false), Some("its processes were killed"));
        assert_eq!(
            stale(&State { complete: false, ..state() }, "now", true),
            Some("its start was interrupted")
        );
        let old = State { version: layout::VERSION + 1, ..state() };
        assert_eq!(stale(&old, "now", true), Some("another version of this project made it"));
    }

    #[test]
    fn a_replaced_file_has_the_new_content_and_nothing_beside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state.json");
        replace(&path, b"one").expect("written");
        replace(&path, b"two").expect("replaced");
        assert_eq!(fs::read(&path).expect("readable"), b"two");
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 1);
    }

    #[test]
    fn the_record_of_the_supervisor_is_understood() {
        let text = r#"[{"name":"etcd","pid":7,"start_time":99,"state":"running","restarts":0,"log":"x"}]"#;
        let all: Vec<Recorded> = serde_json::from_str(text).expect("valid");
        assert_eq!(all[0].process, Process { pid: 7, start_time: 99 });
    }
}
