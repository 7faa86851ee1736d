//! The parts of the test run: each prepares what it needs, once, and runs `cargo test` with the way to it in the
//! environment.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::box_only;
use super::tally::Tally;
use crate::target::{Target, TargetArgs};
use crate::{apt, cluster_box, image, run, tools};

/// What the parts share: the cluster, once it is there.
pub(crate) struct Run {
    args: TargetArgs,
    filter: Option<String>,
    target: Option<Target>,
    /// The box was there before the tests; it is there afterwards.
    box_was_up: bool,
    /// How many tests the filter let through.
    matched: u32,
}

/// Packages of programs that the tests run on this machine.
const TOOLS: [(&str, &str); 9] = [
    ("curl", "curl"),
    ("procps", "ps"),
    ("procps", "sysctl"),
    ("util-linux", "findmnt"),
    ("mount", "losetup"),
    ("libc-bin", "ldd"),
    ("git", "git"),
    ("iproute2", "ip"),
    ("iptables", "iptables-save"),
];

/// Tests that share an installation run one after the other.
const ALONE: &str = "--test-threads=1";
/// Others have a server and namespaces of their own, and wait for pods most of the time.
const BESIDE: &str = "--test-threads=3";

impl Run {
    pub(crate) fn new(args: TargetArgs, filter: Option<String>) -> Self {
        Self { args, filter, target: None, box_was_up: cluster_box::is_up(), matched: 0 }
    }

    /// Everything but the crate that needs a cluster.
    pub(crate) fn unit() -> Result<Tally> {
        let mut command = run::cargo();
        command.args(["test", "--quiet", "--no-fail-fast", "--workspace", "--exclude", "lifeboat-e2e"]);
        command.args(["--features", "lifeboat-store/testing"]);
        some(counted(&mut command)?)
    }

    /// The box itself. It is taken down for this and comes back for the parts after it.
    pub(crate) fn machine(&mut self) -> Result<Tally> {
        if self.args.context.is_some() {
            println!("left out: the cluster was named with --context, so the box is not tested");
            return Ok(Tally::default());
        }
        if self.box_was_up {
            println!(
                "the running box is taken down, with everything in it (a demo, too); an empty one comes back"
            );
        }
        self.target = None;
        let mut command = self.e2e_command(&["machine"], &[])?;
        command.env("LIFEBOAT_XTASK", std::env::current_exe()?);
        self.filtered(&mut command)
    }

    pub(crate) fn storage(&mut self) -> Result<Tally> {
        let environment = self.target()?.cluster.environment.clone();
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
            "--",
        ]);
        command.args(self.left_out(&box_only::STORAGE));
        some(counted(command.envs(environment).env("PATH", path()))?)
    }

    /// Schemas, on an API server with nothing in it.
    pub(crate) fn api(&mut self) -> Result<Tally> {
        if self.args.context.is_some() {
            println!("left out, needs an empty API server: every test of e2e/tests/schemas.rs");
            return Ok(Tally::default());
        }
        Ok(self.on_the_cluster(&["schemas"], &[])? + Self::compared_with_upstream()?)
    }

    /// Our schemas against upstream's own files.
    fn compared_with_upstream() -> Result<Tally> {
        let mut command = run::cargo();
        command.args(["test", "--quiet", "--package", "lifeboat-api", "--features", "upstream-crds"]);
        command.args(["--test", "velero", "our_schemas_accept_whatever"]);
        some(counted(command.env("LIFEBOAT_VELERO_CRDS", tools::velero_crds()?))?)
    }

    /// Test files of crate `e2e`, on the cluster; of volumes what comes back, and not every fault.
    pub(crate) fn e2e(&mut self) -> Result<Tally> {
        let shared = ["cluster", "server", "velero_cli", "backup", "plugins_installed", "chart", "image"];
        let mut own = vec!["restore", "faults", "plugins"];
        if !self.has_no_volumes() {
            own.push("volumes");
        }
        let left_out = self.left_out(&box_only::E2E);
        let flags = |threads: &str| [vec![threads.to_owned()], left_out.clone()].concat();
        Ok(self.on_the_cluster(&shared, &flags(ALONE))? + self.on_the_cluster(&own, &flags(BESIDE))?)
    }

    /// Volumes, with every fault.
    pub(crate) fn volumes(&mut self) -> Result<Tally> {
        if self.has_no_volumes() {
            return Ok(Tally::default());
        }
        let beside = self.on_the_cluster(&["volumes", "volume_faults"], &[BESIDE.to_owned()])?;
        // These stop a node, under whoever is there.
        Ok(beside + self.on_the_cluster(&["nodes"], &[ALONE.to_owned()])?)
    }

    /// Tests of volumes look into the nodes' directories, which are this machine's.
    fn has_no_volumes(&self) -> bool {
        let named = self.args.context.is_some();
        if named {
            println!(
                "left out, needs nodes that are this machine: every test of e2e/tests/volumes.rs, volume_faults.rs and nodes.rs"
            );
        }
        named
    }

    /// Faults again and again; shows each round as it happens.
    pub(crate) fn soak(&mut self) -> Result<Tally> {
        if let Some(context) = &self.args.context {
            bail!(
                "the soak kills processes of the box and stops its API server: it cannot run on {context:?}"
            );
        }
        self.on_the_cluster(&["soak"], &["--nocapture".to_owned()])
    }

    fn on_the_cluster(&mut self, files: &[&str], flags: &[String]) -> Result<Tally> {
        let mut command = self.e2e_command(files, flags)?;
        let is_box = self.args.context.is_none();
        if is_box {
            cluster_box::up()?;
            cluster_box::apiserver_up()?;
        }
        self.target()?;
        if files.iter().any(|file| file.starts_with("plugins")) {
            command.envs(plugin_programs()?);
            if is_box {
                cluster_box::load(&image::plugins()?)?;
                cluster_box::load(&[image::databases()?])?;
            }
        }
        if files.iter().any(|file| matches!(*file, "volumes" | "volume_faults" | "nodes" | "soak")) && is_box
        {
            cluster_box::load(&[image::databases()?])?;
            command.env("LIFEBOAT_RESTIC", tools::restic()?);
            command.env("LIFEBOAT_DATABASES_IMAGE", image::DATABASES);
        }
        let target = self.target()?;
        // `env` of the box may have grown since the target was prepared: the bare API server has its own kubeconfig.
        let environment =
            if is_box { cluster_box::environment()? } else { target.cluster.environment.clone() };
        command
            .envs(&environment)
            .env("PATH", format!("{}:{}", environment.get("PATH").cloned().unwrap_or_default(), path()))
            .env("LIFEBOAT_BIN", &target.cluster.binary)
            .env("LIFEBOAT_IMAGE", &target.image)
            .env("LIFEBOAT_TEST_IMAGE", &target.test_image)
            .env("LIFEBOAT_XTASK", std::env::current_exe()?);
        if let Some(archive) = &target.archive {
            command.env("LIFEBOAT_IMAGE_ARCHIVE", archive);
        }
        for (variable, build) in PROGRAMS {
            // Building them needs root for the box's cache; elsewhere people have their own.
            if is_box || std::env::var_os(variable).is_none() {
                command.env(variable, build()?);
            }
        }
        self.filtered(&mut command)
    }

    /// Flags that leave out what a named cluster cannot serve.
    fn left_out(&self, tests: &[box_only::Left]) -> Vec<String> {
        if self.args.context.is_some() { box_only::leave_out(tests) } else { Vec::new() }
    }

    /// Counts tests that the filter chooses from. Without one there must be some in each part, with one in all parts
    /// together: see `check_filter`.
    pub(super) fn filtered(&mut self, command: &mut Command) -> Result<Tally> {
        let tally = counted(command)?;
        self.matched += tally.passed + tally.failed;
        if self.filter.is_some() { Ok(tally) } else { some(tally) }
    }

    /// The context that the user named instead of the box.
    pub(super) fn context(&self) -> Option<&str> {
        self.args.context.as_deref()
    }

    /// The filter, as an argument of the test programs.
    pub(super) fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// A filter that no test matches is a mistake.
    pub(crate) fn check_filter(&self) -> Result<()> {
        match &self.filter {
            Some(text) if self.matched == 0 => bail!("no test of these parts has {text:?} in its name"),
            _ => Ok(()),
        }
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

    pub(super) fn e2e_command(&self, files: &[&str], flags: &[String]) -> Result<Command> {
        if self.args.context.is_none() {
            apt::apt_install(&apt::missing(&TOOLS))?;
        }
        let mut command = run::cargo();
        command.args(["test", "--quiet", "--no-fail-fast", "--package", "lifeboat-e2e"]);
        command.args(files.iter().flat_map(|file| ["--test", file]));
        command.args(self.filter.iter());
        command.arg("--");
        // Unless told otherwise: the tests share a cluster on two cores, and kill servers of it.
        if !flags.iter().any(|flag| flag.starts_with("--test-threads")) {
            command.arg(ALONE);
        }
        command.args(flags);
        Ok(command)
    }
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Programs of others that tests run, and how they are made.
type Build = fn() -> Result<PathBuf>;
const PROGRAMS: [(&str, Build); 2] =
    [("VELERO_BIN", tools::velero), ("HELM_BIN", || cluster_box::tool("helm"))];

/// Plugins that servers on this machine run. A variable that is already set names one that people have.
fn plugin_programs() -> Result<Vec<(&'static str, PathBuf)>> {
    let example = |name: &str| image::program(name, image::Profile::Fast);
    // The whole workspace's features: the unit tests have compiled all of it like that.
    run::run(run::cargo().args(["build", "--quiet", "--workspace", "--bin", "misbehaving"]))?;
    let misbehaving = run::target_directory()?.join("debug/misbehaving");
    Ok(vec![
        ("LIFEBOAT_GO_PLUGIN", tools::recorder_plugin()?),
        ("LIFEBOAT_AWS_PLUGIN", tools::velero_plugins()?.join("velero-plugin-for-aws")),
        ("LIFEBOAT_WAITING_PLUGIN", example("wait-for-database")?),
        ("LIFEBOAT_SNAPSHOTTER_PLUGIN", example("directory-snapshotter")?),
        ("LIFEBOAT_MISBEHAVING_PLUGIN", misbehaving),
    ])
}

/// A part without a test tests nothing.
fn some(tally: Tally) -> Result<Tally> {
    if tally.is_nothing() {
        bail!("not one test ran");
    }
    Ok(tally)
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
    let mut tally: Option<Tally> = None;
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        if let Some(more) = Tally::of_line(&line) {
            tally = Some(tally.unwrap_or_default() + more);
        }
    }
    let status = child.wait()?;
    let Some(tally) = tally else {
        bail!("{} ended with {status} and not one test result: does it compile?", run::describe(command));
    };
    if !status.success() && tally.failed == 0 {
        bail!("{} ended with {status} and named no failed test: does it compile?", run::describe(command));
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printing(text: &str) -> Result<Tally> {
        counted(Command::new("printf").arg(text))
    }

    #[test]
    fn results_of_several_files_add_up() {
        let text = "test result: ok. 2 passed; 0 failed;\ntest result: ok. 0 passed; 0 failed;\n";
        assert_eq!(printing(text).expect("counted"), Tally { passed: 2, failed: 0 });
    }

    #[test]
    fn a_run_without_results_is_an_error() {
        assert!(printing("nothing to see\n").is_err());
        assert!(printing("test result: ok. 0 passed; 0 failed;\n").and_then(some).is_err());
    }

    #[test]
    fn a_filter_that_matches_nothing_is_an_error() {
        let args = TargetArgs { context: None, image: None, test_image: None };
        let run = |matched| Run {
            args: args.clone(),
            filter: Some("typo".into()),
            target: None,
            box_was_up: false,
            matched,
        };
        assert!(run(0).check_filter().expect_err("nothing matched").to_string().contains("\"typo\""));
        assert!(run(1).check_filter().is_ok());
    }
}
