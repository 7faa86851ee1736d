//! The resource usage of the pods of a namespace, including pods that have ended: CPU time from their cgroups, the largest
//! resident set of their processes from /proc. Sampled five times a second; what a pod used after its last sample is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::process;
use crate::servers::Kubectl;

/// The box's pods in the cgroup hierarchy that counts CPU time.
const CGROUPS: &str = "/sys/fs/cgroup/cpuacct/lifeboat-box";
const INTERVAL: Duration = Duration::from_millis(200);

/// The measured usage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) cpu_s: f64,
    /// The peak memory of node agents.
    pub(super) agent_mb: Option<f64>,
    /// The peak memory of processes that move one volume.
    pub(super) mover_mb: Option<f64>,
}

/// Samples the usage until the result is requested.
pub(super) struct Watch {
    kubectl: Child,
    looking: JoinHandle<Usage>,
    end: Arc<AtomicBool>,
}

impl Watch {
    /// Starts sampling, which includes pods that are created later.
    pub(super) fn begin(kubectl: &Kubectl) -> Result<Self> {
        let uids = Arc::new(Mutex::new(BTreeSet::new()));
        let mut child = kubectl
            .command()
            .args(["get", "pods", "--watch", "-o", "jsonpath={.metadata.uid}{\"\\n\"}"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start kubectl")?;
        let output = child.stdout.take().context("a pipe was asked for")?;
        let known = Arc::clone(&uids);
        thread::spawn(move || {
            for uid in BufReader::new(output).lines().map_while(Result::ok) {
                known.lock().unwrap_or_else(PoisonError::into_inner).insert(uid);
            }
        });
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let looking = thread::spawn(move || {
            let before = cgroups(Path::new(CGROUPS));
            let mut seen = Seen::new(before.iter().map(|(uid, place)| (uid.clone(), cpu(place))));
            loop {
                let last = ended.load(Ordering::Relaxed);
                let uids = uids.lock().unwrap_or_else(PoisonError::into_inner).clone();
                for (uid, place) in cgroups(Path::new(CGROUPS)) {
                    if uids.contains(&uid) {
                        seen.look(uid, &place);
                    }
                }
                if last {
                    return seen.usage();
                }
                thread::sleep(INTERVAL);
            }
        });
        Ok(Self { kubectl: child, looking, end })
    }

    pub(super) fn end(mut self) -> Usage {
        self.end.store(true, Ordering::Relaxed);
        let usage = self.looking.join().unwrap_or_default();
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
        usage
    }
}

/// The samples of each pod.
struct Seen {
    /// The CPU time in nanoseconds that pods had used before sampling started.
    before: BTreeMap<String, u64>,
    now: BTreeMap<String, u64>,
    agent_mb: Option<f64>,
    mover_mb: Option<f64>,
}

impl Seen {
    fn new(before: impl Iterator<Item = (String, u64)>) -> Self {
        Self { before: before.collect(), now: BTreeMap::new(), agent_mb: None, mover_mb: None }
    }

    fn look(&mut self, uid: String, place: &Path) {
        for pid in processes(place) {
            let Ok((most, _)) = process::memory(pid) else { continue };
            let Some(role) = role(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()) else {
                continue;
            };
            let memory = if role == Role::Agent { &mut self.agent_mb } else { &mut self.mover_mb };
            *memory = Some(memory.map_or(most, |before| before.max(most)));
        }
        let taken = self.now.entry(uid).or_default();
        *taken = cpu(place).max(*taken);
    }

    fn usage(&self) -> Usage {
        let own =
            |(uid, now): (&String, &u64)| now.saturating_sub(self.before.get(uid).copied().unwrap_or(0));
        let nanoseconds: u64 = self.now.iter().map(own).sum();
        let cpu_s = Duration::from_nanos(nanoseconds).as_secs_f64();
        Usage { cpu_s, agent_mb: self.agent_mb, mover_mb: self.mover_mb }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Agent,
    Mover,
}

/// The role of a process by its command line, whose words are separated by NUL; None for processes of the container runtime.
fn role(command: &[u8]) -> Option<Role> {
    let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
    match words.get(..2)? {
        [program, b"node-agent"] if program.ends_with(b"velero") => Some(Role::Agent),
        [program, b"pod-volume"] if program.ends_with(b"velero") => Some(Role::Mover),
        [program, b"mover"] if program.ends_with(b"lifeboat") => Some(Role::Mover),
        _ => None,
    }
}

/// The cgroups of all pods, by UID. Their names are `pod` followed by the UID, at any depth below `below`.
fn cgroups(below: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match entry.file_name().to_string_lossy().strip_prefix("pod") {
            Some(uid) => drop(found.insert(uid.to_owned(), entry.path())),
            None => found.extend(cgroups(&entry.path())),
        }
    }
    found
}

/// The CPU time of a cgroup in nanoseconds.
fn cpu(place: &Path) -> u64 {
    fs::read_to_string(place.join("cpuacct.usage"))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// The processes of all containers of a pod.
fn processes(pod: &Path) -> Vec<u32> {
    let containers = fs::read_dir(pod).into_iter().flatten().flatten();
    let lists = containers.filter_map(|entry| fs::read_to_string(entry.path().join("cgroup.procs")).ok());
    lists.flat_map(|list| list.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_and_movers_are_distinguished() {
        assert_eq!(role(b"/velero\0node-agent\0server\0"), Some(Role::Agent));
        assert_eq!(role(b"/velero\0pod-volume\0backup\0"), Some(Role::Mover));
        assert_eq!(role(b"/lifeboat\0mover\0"), Some(Role::Mover));
        assert_eq!(role(b"/lifeboat\0restore-wait\0uid\0"), None);
        assert_eq!(role(b"/pause\0"), None);
    }

    #[test]
    fn pods_are_found_at_any_depth_and_count_from_the_beginning() {
        let below = tempfile::tempdir().expect("a directory");
        let pod = |path: &str, nanoseconds: &str| {
            let place = below.path().join(path);
            fs::create_dir_all(&place).expect("made");
            fs::write(place.join("cpuacct.usage"), nanoseconds).expect("written");
        };
        pod("box-1/kubepods/burstable/podone", "5000000000\n");
        pod("box-2/kubepods/podtwo", "1000000000\n");
        let found = cgroups(below.path());
        assert_eq!(found.keys().collect::<Vec<_>>(), ["one", "two"]);
        let mut seen = Seen::new([("one".to_owned(), 2_000_000_000)].into_iter());
        for (uid, place) in found {
            seen.look(uid, &place);
        }
        assert!((seen.usage().cpu_s - 4.0).abs() < 0.001);
    }
}
