//! Runs test programs: takes an executable of [`super::compiled`], the wanted tests and their environment; returns
//! counts and times, and prints the interesting lines meanwhile.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::compiled::Executable;
use super::tally::Tally;
use crate::run;

/// The result of one run.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// Tests and how long each took.
    pub(crate) times: Vec<(String, Duration)>,
}

impl Outcome {
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.tally = self.tally + other.tally;
        self.times.extend(other.times);
        self
    }
}

/// Tests of one executable.
#[derive(Clone)]
pub(crate) struct Tests {
    executable: Executable,
    environment: Vec<(OsString, OsString)>,
    threads: Option<usize>,
    /// Print a line for each test; otherwise only for those that fail.
    every_line: bool,
    /// Print the output of tests while they run.
    uncaptured: bool,
}

impl Tests {
    pub(crate) fn of(executable: &Executable) -> Self {
        let executable = executable.clone();
        Self { executable, environment: Vec::new(), threads: None, every_line: true, uncaptured: false }
    }

    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub(crate) fn envs<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.environment.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// How many tests run at the same time; by default as many as there are cores.
    pub(crate) fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    pub(crate) fn failures_only(mut self) -> Self {
        self.every_line = false;
        self
    }

    pub(crate) fn uncaptured(mut self) -> Self {
        self.uncaptured = true;
        self
    }

    /// Runs the tests whose name (a path of modules) is wanted; does nothing if there is none.
    pub(crate) fn run(&self, wanted: impl Fn(&str) -> bool) -> Result<Outcome> {
        let all = self.names()?;
        let chosen: Vec<&String> = all.iter().filter(|name| wanted(name)).collect();
        if chosen.is_empty() {
            return Ok(Outcome::default());
        }
        let mut command = self.command();
        if chosen.len() < all.len() {
            command.arg("--exact").args(chosen);
        }
        if let Some(threads) = self.threads {
            command.arg(format!("--test-threads={threads}"));
        }
        if self.uncaptured {
            command.arg("--nocapture");
        }
        // The only way to get the time of each test; the option is unstable, but the toolchain is pinned.
        command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
        watch(&mut command, |line| self.every_line || !is_dull(line))
    }

    /// The names of all its tests.
    fn names(&self) -> Result<Vec<String>> {
        let list = run::output(self.command().args(["--list", "--format=terse"]))?;
        Ok(list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// The executable with the directory and variables that cargo would set.
    fn command(&self) -> Command {
        let checkout = run::checkout();
        let directory = checkout.join(&self.executable.package);
        let mut command = Command::new(&self.executable.path);
        command
            .current_dir(&directory)
            .env("CARGO_MANIFEST_DIR", &directory)
            // Without it insta calls cargo, once in each executable.
            .env("INSTA_WORKSPACE_ROOT", &checkout)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Runs a command that prints results like a test program, prints the lines selected by `show`, and counts. A run
/// without any result is an error.
pub(crate) fn watch(command: &mut Command, show: impl Fn(&str) -> bool) -> Result<Outcome> {
    // An assertion's place is in its message; a backtrace would hide it.
    let mut child = command
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", run::describe(command)))?;
    let output = child.stdout.take().context("standard output was asked for")?;
    let mut tally: Option<Tally> = None;
    let mut times = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        if show(&line) {
            println!("{line}");
        }
        times.extend(timed(&line));
        if let Some(more) = Tally::of_line(&line) {
            tally = Some(tally.unwrap_or_default() + more);
        }
    }
    let status = child.wait()?;
    let program = command.get_program().to_string_lossy();
    let Some(tally) = tally else {
        bail!("{program} ended with {status} and printed no test result");
    };
    if !status.success() && tally.failed == 0 {
        bail!("{program} ended with {status} without a failed test");
    }
    Ok(Outcome { tally, times })
}

/// A line without information when everything passes.
fn is_dull(line: &str) -> bool {
    let passed = line.starts_with("test ") && timed(line).is_some() && !line.contains("... FAILED");
    passed || line.is_empty() || line.starts_with("running ")
}

/// The test and its time in a line such as `test a::b ... ok <1.234s>`.
fn timed(line: &str) -> Option<(String, Duration)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = result.trim_end().strip_suffix("s>")?.rsplit_once('<')?.1;
    Some((name.to_owned(), Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printing(text: &str) -> Result<Tally> {
        Ok(watch(Command::new("printf").arg(text), |_| true)?.tally)
    }

    #[test]
    fn results_of_several_programs_add_up() {
        let text = "test result: ok. 2 passed; 0 failed;\ntest result: ok. 0 passed; 0 failed;\n";
        assert_eq!(printing(text).expect("counted"), Tally { passed: 2, failed: 0 });
    }

    #[test]
    fn a_run_without_results_is_an_error() {
        assert!(printing("nothing to see\n").is_err());
    }

    #[test]
    fn the_time_of_a_test_is_read() {
        let time = |seconds| Duration::from_millis(seconds);
        assert_eq!(timed("test a::b ... ok <1.234s>"), Some(("a::b".to_owned(), time(1234))));
        assert_eq!(timed("test a ... FAILED <0.020s>"), Some(("a".to_owned(), time(20))));
        assert_eq!(timed("test result: ok. 3 passed; 0 failed;"), None);
    }

    #[test]
    fn a_failure_is_never_dull() {
        assert!(is_dull("test a ... ok <0.000s>") && is_dull("running 3 tests"));
        assert!(!is_dull("test a ... FAILED <0.000s>") && !is_dull("error: no room"));
    }
}
