//! Measures one command: takes a command, returns wall time until everything is on disk, CPU time and peak memory. Called
//! by the comparisons.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::run;

/// GNU time: waits for the program and prints the kernel's counters, which do not include the memory of this process.
pub(super) const TIME: &str = "/usr/bin/time";

/// The time and memory that one command used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
    pub(super) peak_rss_mb: f64,
}

/// Runs the command and measures it. Programs differ in what they flush themselves, so the time ends when all data is
/// flushed to the disk that holds `work`.
pub(super) fn measure(command: &Command, work: &Path) -> Result<Sample> {
    let counted = work.join("counted");
    let mut timed = Command::new(TIME);
    timed.args(["--format=%U %S %M", "--output"]).arg(&counted);
    let mut timed = around(timed, command);
    settle(work)?;
    let began = Instant::now();
    quietly(&mut timed, work)?;
    settle(work)?;
    let wall_s = began.elapsed().as_secs_f64();
    let text = fs::read_to_string(&counted).context("cannot read what time counted")?;
    let (cpu_s, peak_rss_mb) = parse(&text).with_context(|| format!("cannot understand {text:?}"))?;
    Ok(Sample { wall_s, cpu_s, peak_rss_mb })
}

/// A program that runs another one: `inner` and its environment become its last arguments and its environment.
pub(super) fn around(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// Runs a command that is not measured; its output is shown only if it fails.
pub(super) fn quietly(command: &mut Command, work: &Path) -> Result<()> {
    let log = work.join("log");
    let out = File::create(&log).context("cannot create a log")?;
    let status = command
        .stdout(out.try_clone()?)
        .stderr(out)
        .status()
        .with_context(|| format!("cannot start {}", run::describe(command)))?;
    if !status.success() {
        let said = fs::read_to_string(&log).unwrap_or_default();
        let end: Vec<&str> = said.lines().rev().take(20).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        bail!("{} ended with {status}:\n{}", run::describe(command), end.join("\n"));
    }
    Ok(())
}

/// Flushes everything that was written to disk.
pub(super) fn settle(work: &Path) -> Result<()> {
    let directory = File::open(work).with_context(|| format!("cannot open {}", work.display()))?;
    rustix::fs::syncfs(directory).context("cannot flush the disk")
}

/// Empties the page cache.
pub(super) fn forget_pages() -> Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3").context("cannot empty the page cache; a cold cache needs root")
}

pub(super) fn parse(text: &str) -> Option<(f64, f64)> {
    let numbers: Vec<f64> = text.lines().last()?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, system, kibibytes] = numbers.as_slice() else { return None };
    Some((user + system, kibibytes * 1024.0 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_and_memory_are_read() {
        assert_eq!(parse("1.50 0.25 2000\n"), Some((1.75, 2.048)));
        assert_eq!(parse("Command exited with non-zero status 1\n"), None);
    }

    #[test]
    fn a_failed_command_is_named_with_the_end_of_what_it_said() {
        let work = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such repository >&2; exit 10"]);
        let error = quietly(&mut command, work.path()).expect_err("it fails").to_string();
        assert!(error.contains("exit status: 10") && error.contains("no such repository"), "{error}");
    }
}
