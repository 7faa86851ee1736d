//! Processes identified by pid and start time, so that a recycled pid is never taken for ours; which processes belong
//! to a box; and ending them. Used by `down` and `status`.
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::layout::{CGROUP, ID_VARIABLE};
use super::system;

/// Identifies a process until the machine reboots: the kernel reuses a pid, but not with the same start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Process {
    pub pid: i32,
    pub start_time: u64,
}

impl Process {
    pub(super) fn is_alive(self) -> bool {
        self.pid > 0 && start_time(self.pid) == Some(self.start_time)
    }
}

/// When this process started, in clock ticks since boot; None if it has ended or is a zombie.
pub(super) fn start_time(pid: i32) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of /proc/PID/stat. The second field is the program's name, which may contain spaces and parentheses.
fn parse_start_time(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (*fields.first()? != "Z").then_some(())?;
    fields.get(19)?.parse().ok()
}

pub(super) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// All processes of this box: those with its id in their environment (started by the supervisor, and their container
/// shims) and those in the box's cgroups (inside pods). An empty id stands for a box whose record is lost; a machine
/// has only one box.
pub(super) fn belonging_to(id: &str) -> BTreeSet<Process> {
    let wanted = format!("{ID_VARIABLE}={id}");
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeSet::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| has_variable(*pid, &wanted) || is_in_cgroup(*pid))
        .filter_map(|pid| Some(Process { pid, start_time: start_time(pid)? }))
        .collect()
}

fn has_variable(pid: i32, wanted: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|text| text.split(|byte| *byte == 0).any(|each| is_mark(each, wanted.as_bytes())))
}

fn is_mark(variable: &[u8], wanted: &[u8]) -> bool {
    variable == wanted || (wanted.ends_with(b"=") && variable.starts_with(wanted))
}

fn is_in_cgroup(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| names_our_cgroup(&text))
}

/// Lines of /proc/PID/cgroup are `number:controllers:path`.
fn names_our_cgroup(text: &str) -> bool {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| {
        path.strip_prefix('/')
            .and_then(|path| path.strip_prefix(CGROUP))
            .is_some_and(|rest| rest.starts_with('/'))
    })
}

/// Kills the processes that `find` returns until it returns none, because a process can start another one meanwhile.
pub(super) fn end_all(find: impl Fn() -> BTreeSet<Process>) -> Result<usize> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut ended = BTreeSet::new();
    loop {
        let left = find();
        if left.is_empty() {
            return Ok(ended.len());
        }
        if Instant::now() > deadline {
            bail!(
                "these processes do not end: {left:?}; look at them with `ps`, then run `cargo xtask box down` again"
            );
        }
        for process in left {
            system::kill(process);
            ended.insert(process);
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// The name of the program that a pid runs, for messages.
pub(super) fn name(pid: i32) -> String {
    fs::read_link(format!("/proc/{pid}/exe"))
        .ok()
        .and_then(|path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "unknown program".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_read_past_a_name_with_brackets() {
        let stat = "42 (a) b) (c) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 2 3";
        assert_eq!(parse_start_time(stat), Some(98765));
    }

    #[test]
    fn a_zombie_counts_as_gone() {
        assert_eq!(parse_start_time("42 (x) Z 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 0"), None);
    }

    #[test]
    fn this_process_is_alive_and_a_recycled_pid_is_not() {
        let pid = i32::try_from(std::process::id()).expect("pids fit");
        let me = Process { pid, start_time: start_time(pid).expect("this process runs") };
        assert!(me.is_alive());
        assert!(!Process { start_time: me.start_time + 1, ..me }.is_alive());
    }

    #[test]
    fn a_mark_is_exact_unless_the_id_is_unknown() {
        assert!(is_mark(b"LIFEBOAT_BOX_ID=a", b"LIFEBOAT_BOX_ID=a"));
        assert!(!is_mark(b"LIFEBOAT_BOX_ID=ab", b"LIFEBOAT_BOX_ID=a"));
        assert!(is_mark(b"LIFEBOAT_BOX_ID=ab", b"LIFEBOAT_BOX_ID="));
        assert!(!is_mark(b"LIFEBOAT_BOX_STATE=x", b"LIFEBOAT_BOX_ID="));
    }

    #[test]
    fn only_cgroups_below_ours_are_ours() {
        assert!(names_our_cgroup("5:memory:/lifeboat-box/box-1/kubepods/pod1/abc\n"));
        assert!(names_our_cgroup("0::/lifeboat-box/box-2/kubepods\n"));
        assert!(!names_our_cgroup("0::/lifeboat-boxes/x\n5:cpu:/user/lifeboat-box/x\n0::/\n"));
    }
}
