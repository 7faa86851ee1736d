//! The parts of the test run that need no cluster, and the state that all parts share: the compiled workspace, the
//! filter, the times, the prepared cluster. Each part prepares what it needs, once, and runs test programs with the
//! corresponding environment.

use std::cell::RefCell;

use anyhow::{Context, Result, bail};

use super::Part;
use super::ahead::Ahead;
use super::api_proxy::ApiProxy;
use super::compiled::{self, Compiled};
use super::harness::{Outcome, Tests, watch};
use super::tally::Tally;
use super::times::Times;
use crate::target::{Target, TargetArgs};
use crate::{apt, cluster_box, generate, lint};

/// The state that the parts share.
pub(crate) struct Run {
    pub(super) args: TargetArgs,
    filter: Option<String>,
    compiled: Option<Compiled>,
    ahead: Option<Ahead>,
    target: Option<Target>,
    proxy: Option<ApiProxy>,
    /// The box was running before the tests, so it is left running.
    pub(super) box_was_up: bool,
    /// How many tests the filter matched.
    matched: u32,
    pub(crate) times: Times,
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

/// The crate whose tests need a cluster or genuine restic.
pub(super) const E2E: &str = "e2e";

/// Tests that need more than this machine's files, and their packages: they are run by other parts than `unit`.
const NOT_UNIT: [(&str, &str); 5] = [
    ("crates/store", "s3::"),
    ("crates/store", "rest::"),
    ("crates/api", UPSTREAM),
    ("e2e/plugins", "go::"),
    ("examples/plugins", "velero::"),
];
/// Compares our schemas with Velero's own files.
pub(super) const UPSTREAM: &str = "velero::schema::our_schemas_accept_whatever";

impl Run {
    pub(crate) fn new(args: TargetArgs, filter: Option<String>) -> Self {
        Self {
            args,
            filter,
            compiled: None,
            ahead: None,
            target: None,
            proxy: None,
            box_was_up: cluster_box::is_up(),
            matched: 0,
            times: Times::default(),
        }
    }

    /// Starts to build what these parts need beside the workspace. A single part builds what it needs itself, and on a
    /// machine with only a named cluster it may not be possible to build.
    pub(crate) fn make_ahead(&mut self, parts: &[Part]) {
        if parts.len() > 1 && self.args.context.is_none() {
            self.ahead = Some(Ahead::start(parts));
        }
    }

    /// The compiled workspace; compiles it the first time.
    pub(super) fn compiled(&mut self) -> Result<&Compiled> {
        if self.compiled.is_none() {
            self.compiled = Some(Compiled::make()?);
        }
        self.compiled.as_ref().context("the workspace was compiled")
    }

    /// Runs every check of `cargo xtask lint`; clippy's is part of the compile, and the quick ones run before it.
    pub(crate) fn lint(&mut self) -> Result<Tally> {
        let run = RefCell::new(self);
        let clippy =
            || if run.borrow_mut().compiled()?.clean { Ok(()) } else { bail!("clippy failed, see above") };
        let generated = || {
            let generator = run.borrow_mut().compiled()?.example("generate")?;
            generate::check_with(&generator)
        };
        lint::each(None, clippy, generated)?;
        Ok(Tally { passed: 1, failed: 0 })
    }

    /// Everything except the crate that needs a cluster, and the examples in the documentation.
    pub(crate) fn unit(&mut self) -> Result<Tally> {
        let mut outcome = Outcome::default();
        for executable in self.compiled()?.all_tests().filter(|each| each.package != E2E) {
            let elsewhere = |name: &str| {
                NOT_UNIT
                    .iter()
                    .any(|(package, prefix)| executable.package == *package && name.starts_with(prefix))
            };
            outcome = outcome.and(Tests::of(executable).failures_only().run(|name| !elsewhere(name))?);
        }
        let mut documentation = compiled::command(self.compiled()?.clean)?;
        let outcome = outcome.and(watch(documentation.arg("--doc"), |_| true)?);
        some(self.counted(outcome))
    }

    /// Tests of the box itself. A running box is stopped for them and started again for the parts after them.
    pub(crate) fn machine(&mut self) -> Result<Tally> {
        if self.args.context.is_some() {
            println!("skipped: the cluster was named with --context, so the box is not tested");
            return Ok(Tally::default());
        }
        if self.box_was_up {
            println!(
                "the running box is removed with everything in it (a demo, too); an empty one is started afterwards"
            );
        }
        (self.target, self.proxy) = (None, None);
        self.install_tools()?;
        // These tests compare the machine before and after.
        if let Some(mut ahead) = self.ahead.take() {
            ahead.finish();
        }
        let tests = self.e2e_tests()?.threads(1).env("LIFEBOAT_XTASK", std::env::current_exe()?);
        let outcome = tests.run(|name| self.wants(&["machine"], name))?;
        self.filtered(outcome)
    }

    /// The tests of crate `e2e`.
    pub(super) fn e2e_tests(&mut self) -> Result<Tests> {
        Ok(Tests::of(self.compiled()?.tests(E2E)?))
    }

    /// Whether a test is in one of these modules and matches the filter.
    pub(super) fn wants(&self, modules: &[&str], name: &str) -> bool {
        let module = name.split("::").next().unwrap_or(name);
        modules.contains(&module) && self.lets_through(name)
    }

    /// Whether a test matches the filter.
    pub(super) fn lets_through(&self, name: &str) -> bool {
        self.filter.as_deref().is_none_or(|text| name.contains(text))
    }

    /// Installs the programs that tests run, except for a cluster that the user named.
    pub(super) fn install_tools(&self) -> Result<()> {
        if self.args.context.is_none() {
            apt::apt_install(&apt::missing(&TOOLS))?;
        }
        Ok(())
    }

    /// Records the times and returns the counts.
    pub(super) fn counted(&mut self, outcome: Outcome) -> Tally {
        self.times.tests(outcome.times);
        outcome.tally
    }

    /// Counts tests that the filter selects from. Without a filter each part must have some, with one all parts
    /// together: see `check_filter`.
    pub(super) fn filtered(&mut self, outcome: Outcome) -> Result<Tally> {
        let tally = self.counted(outcome);
        self.matched += tally.passed + tally.failed;
        if self.filter.is_some() { Ok(tally) } else { some(tally) }
    }

    /// A filter that matches no test is a mistake.
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

    /// The address at which the API server can be read over HTTP.
    pub(super) fn api_proxy(&mut self) -> Result<String> {
        if self.proxy.is_none() {
            self.proxy = Some(ApiProxy::start(&self.target()?.cluster)?);
        }
        Ok(self.proxy.as_ref().context("the proxy was started")?.url.clone())
    }

    pub(super) fn target(&mut self) -> Result<&Target> {
        if self.target.is_none() {
            let lifeboat = self.compiled()?.program("lifeboat")?;
            self.target = Some(Target::prepare_with(&self.args, &lifeboat)?);
        }
        self.target.as_ref().context("the target was prepared")
    }
}

/// A part without any test is an error.
pub(super) fn some(tally: Tally) -> Result<Tally> {
    if tally.is_nothing() {
        bail!("not one test ran");
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(filter: &str, matched: u32) -> Run {
        let args = TargetArgs { context: None, image: None, test_image: None };
        Run {
            args,
            filter: Some(filter.into()),
            compiled: None,
            ahead: None,
            target: None,
            proxy: None,
            box_was_up: false,
            matched,
            times: Times::default(),
        }
    }

    #[test]
    fn a_filter_that_matches_nothing_is_an_error() {
        assert!(run("typo", 0).check_filter().expect_err("nothing matched").to_string().contains("\"typo\""));
        assert!(run("typo", 1).check_filter().is_ok());
    }

    #[test]
    fn a_part_without_tests_is_an_error() {
        assert!(some(Tally::default()).is_err());
    }

    #[test]
    fn a_test_is_chosen_by_its_first_module_and_the_filter() {
        let run = run("kill", 0);
        assert!(run.wants(&["volumes"], "volumes::kills::a_server"));
        assert!(!run.wants(&["volumes"], "faults::volumes::kills"), "a module inside another one");
        assert!(!run.wants(&["volumes"], "volumes::snapshots::a_class"), "not what the filter names");
    }

    /// A prefix that matches no test would let tests without their environment run as unit tests.
    #[test]
    fn every_test_that_is_left_to_other_parts_exists() {
        for (package, prefix) in NOT_UNIT {
            let mut modules: Vec<&str> = prefix.split("::").filter(|each| !each.is_empty()).collect();
            let test = if prefix.ends_with("::") { None } else { modules.pop() };
            let path = crate::run::checkout()
                .join(package)
                .join("tests")
                .join(modules.join("/"))
                .with_extension("rs");
            let source = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(!source.is_empty(), "{} is no file any more", path.display());
            assert!(
                test.is_none_or(|name| source.contains(&format!("fn {name}"))),
                "{prefix} is no test any more"
            );
        }
    }
}
