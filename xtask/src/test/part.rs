//! The parts of the test run: each prepares what it needs, once, and runs `cargo test` with the way to it in the
//! environment.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::tally::Tally;
use crate::target::{Target, TargetArgs};
use crate::{cluster_box, run, tools};

/// What the parts share: the cluster, once it is there.
pub(crate) struct Run {
    args: TargetArgs,
    filter: Option<String>,
    target: Option<Target>,
    /// The box was there before the tests; it is there afterwards.
    box_was_up: bool,
}

impl Run {
    pub(crate) fn new(args: TargetArgs, filter: Option<String>) -> Self {
        Self { args, filter, target: None, box_was_up: cluster_box::is_up() }
    }

    /// Everything but the crate that needs a cluster.
    pub(crate) fn unit() -> Result<Tally> {
        let mut command = run::cargo();
        command.args(["test", "--quiet", "--no-fail-fast", "--workspace", "--exclude", "lifeboat-e2e"]);
        command.args(["--features", "lifeboat-store/testing"]);
        counted(&mut command)
    }

    /// The box itself. It is taken down for this and comes back for the parts after it.
    pub(crate) fn machine(&mut self) -> Result<Tally> {
        if self.args.context.is_some() {
            println!("the cluster was named with --context: the box is not tested");
            return Ok(Tally::default());
        }
        self.target = None;
        let mut command = self.e2e_command(&["machine"])?;
        command.env("LIFEBOAT_XTASK", std::env::current_exe()?);
        counted(&mut command)
    }

    pub(crate) fn storage(&mut self) -> Result<Tally> {
        let environment = self.target()?.environment.clone();
        let mut command = run::cargo();
        command.args([
            "test",
            "--quiet",
            "--package",
            "lifeboat-store",
            "--features",
            "real-s3",
            "--test",
            "s3",
        ]);
        counted(command.envs(environment).env("PATH", path()))
    }

    /// Test files of crate `e2e`, on the cluster.
    pub(crate) fn e2e(&mut self, files: &[&str]) -> Result<Tally> {
        let mut command = self.e2e_command(files)?;
        if self.args.context.is_none() {
            cluster_box::up()?;
            cluster_box::apiserver_up()?;
        }
        let target = self.target()?;
        // `env` of the box may have grown since the target was prepared: the bare API server has its own kubeconfig.
        let environment =
            if target.is_box() { cluster_box::environment()? } else { target.environment.clone() };
        command
            .envs(&environment)
            .env("PATH", format!("{}:{}", environment.get("PATH").cloned().unwrap_or_default(), path()))
            .env("LIFEBOAT_BIN", &target.binary)
            .env("LIFEBOAT_IMAGE", &target.image)
            .env("LIFEBOAT_IMAGE_ARCHIVE", &target.archive)
            .env("LIFEBOAT_TEST_IMAGE", &target.test_image)
            .env("LIFEBOAT_XTASK", std::env::current_exe()?)
            .env("VELERO_BIN", tools::velero()?)
            .env("HELM_BIN", cluster_box::tool("helm")?);
        counted(&mut command)
    }

    /// Leaves the machine as it was found: with a box or without.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.args.context.is_some() || self.box_was_up == cluster_box::is_up() {
            return Ok(());
        }
        if self.box_was_up { cluster_box::up() } else { cluster_box::down() }
    }

    fn target(&mut self) -> Result<&Target> {
        if self.target.is_none() {
            self.target = Some(Target::prepare(&self.args)?);
        }
        self.target.as_ref().context("the target was prepared")
    }

    fn e2e_command(&self, files: &[&str]) -> Result<Command> {
        let mut command = run::cargo();
        command.args(["test", "--quiet", "--no-fail-fast", "--package", "lifeboat-e2e"]);
        for file in files {
            let source = run::checkout().join(format!("e2e/tests/{file}.rs"));
            if !source.exists() {
                bail!("there are no {file} tests yet");
            }
            command.args(["--test", file]);
        }
        command.args(self.filter.iter());
        // One at a time: the tests share a cluster on two cores, and kill servers of it.
        command.args(["--", "--test-threads=1"]);
        Ok(command)
    }
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Runs `cargo test`, shows what it prints and counts. A run that printed no result at all is an error.
fn counted(command: &mut Command) -> Result<Tally> {
    // Where an assertion stands is in its message; a backtrace would hide it.
    let mut child = command
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", run::describe(command)))?;
    let output = child.stdout.take().context("standard output was asked for")?;
    let mut tally = Tally::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        tally = tally + Tally::of_line(&line);
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        bail!("{} ended with {status} and named no failed test: does it compile?", run::describe(command));
    }
    Ok(tally)
}
