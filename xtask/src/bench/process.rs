//! The resource usage of a running server, from /proc: CPU time including its plugins, and its own memory. Also waits
//! until the machine is idle.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Linux reports CPU time in hundredths of a second.
const TICKS: f64 = 100.0;
/// How long to wait for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The CPU time in seconds of a process and its child processes, including children that have ended.
pub(super) fn cpu(pid: u32) -> Result<f64> {
    let all: BTreeMap<u32, Stat> = fs::read_dir("/proc")
        .context("cannot read /proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some((pid, parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    all.get(&pid).with_context(|| format!("the server, pid {pid}, has ended"))?;
    let belongs = |mut each: u32| {
        while let Some(stat) = all.get(&each) {
            if each == pid {
                return true;
            }
            each = stat.parent;
        }
        false
    };
    Ok(all.iter().filter(|(each, _)| belongs(**each)).map(|(_, stat)| stat.ticks).sum::<f64>() / TICKS)
}

/// Resident memory in MB: the peak, and the current value.
pub(super) fn memory(pid: u32) -> Result<(f64, f64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("the server, pid {pid}, has ended"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0 / 1e6)
    };
    field("VmHWM:").zip(field("VmRSS:")).context("the kernel tells no memory of the server")
}

/// Waits until the machine is nearly idle, so that background work of the last measurement (compaction, garbage
/// collection, controllers) is not part of the next one.
pub(super) fn quiet() {
    let began = Instant::now();
    loop {
        let before = busy();
        thread::sleep(Duration::from_secs(2));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let cores = f64::from(u32::try_from(cores).unwrap_or(1));
        let share = (busy() - before) / TICKS / 2.0 / cores;
        if share < 0.25 || began.elapsed() > PATIENCE {
            return;
        }
    }
}

/// The ticks in which cores were not idle, over all cores.
fn busy() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers: Vec<f64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|number| number.parse().ok())
        .collect();
    numbers.iter().enumerate().filter(|(place, _)| ![3, 4].contains(place)).map(|(_, ticks)| ticks).sum()
}

struct Stat {
    parent: u32,
    /// User and system time, own and of children that were waited for.
    ticks: f64,
}

/// Parses `/proc/PID/stat`. The second field is the program's name in parentheses and may contain any characters.
fn parse(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
    Some(Stat { parent, ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_children_count_and_names_may_hold_anything() {
        let stat = parse("7 (a) b (c) S 3 7 7 0 -1 4 1 2 3 4 10 20 30 40 20 0 1 0 99").expect("understood");
        assert_eq!(stat.parent, 3);
        assert!((stat.ticks - 100.0).abs() < f64::EPSILON);
    }

    #[test]
    fn this_process_has_taken_time_and_memory() {
        let me = std::process::id();
        assert!(cpu(me).expect("it runs") >= 0.0);
        let (most, now) = memory(me).expect("it runs");
        assert!(most >= now && now > 0.0);
    }
}
