//! The parts that run on a cluster: the box, or one that the user named with `--context`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;

use anyhow::{Result, anyhow, bail};

use super::box_only::{self, Left};
use super::harness::{Outcome, Tests};
use super::part::{Run, UPSTREAM, some};
use super::tally::Tally;
use crate::{cluster_box, image, tools};

/// Modules whose tests share one installation and therefore run one after another.
const SHARED: [&str; 7] =
    ["cluster", "server", "velero_cli", "backup", "plugins_installed", "chart", "image"];
/// Modules whose tests have their own server and namespaces, and wait for pods most of the time.
const OWN: [&str; 3] = ["restore", "faults", "plugins"];
/// Tests that disable what everything on the cluster needs, by the beginning of their names.
const DISTURBING: [&str; 5] = [
    RESTARTS_API_SERVER,
    // While its API is down, a backup of any other test lacks the objects of that group, and ends PartiallyFailed.
    "faults::cluster::an_aggregated_api_that_is_down_makes_a_backup_partial_unless_the_spec_excludes_it",
    // It removes every kind of Velero.
    "backup::round_trip::backups_come_back_from_the_bucket_after_lifeboat_was_lost",
    // They change a kind, which the installation of any other test would change back.
    "server::objects::",
    // They run another Velero and another Stash, beside which Lifeboat cannot be installed.
    "server::installation::",
];
/// It stops the API server, so it runs last: no other test starts while the API server comes back.
const RESTARTS_API_SERVER: &str =
    "server::leadership::the_server_recovers_by_itself_from_a_restart_of_the_api_server";
/// Of the tests of Stash's API one of each promise, for the part `e2e`; by their whole names.
const STASH_ONCE: [&str; 10] = [
    "stash::disasters::a_database_and_an_app_come_back_after_their_namespace_was_lost",
    "stash::restores::a_deployment_comes_back_in_place_with_owners_and_modes",
    "stash::restores::a_failed_restore_keeps_the_workload_down_and_another_one_brings_it_back",
    "stash::kinds::a_daemon_set_comes_back_on_every_node_into_its_running_pods",
    "stash::order::a_member_in_order_that_is_slow_holds_the_others_up",
    "stash::faults::a_server_that_is_killed_is_followed_by_another_which_ends_the_session",
    "stash::isolation::a_repository_elsewhere_is_used_where_it_allows_that_and_its_keys_stay_there",
    "stash::rights::each_object_needs_the_rights_that_it_uses",
    "stash::races::of_two_batches_on_one_repository_one_runs_and_the_other_names_it",
    "stash::bad_input::an_invoker_that_cannot_work_is_invalid_and_names_the_field",
];
/// How many tests of volumes run at the same time, and how many of the others with their own server: the cluster has
/// two cores.
const VOLUMES_BESIDE: usize = 2;
const OWN_BESIDE: usize = 2;
/// How many tests of Stash's API run at the same time where nothing else does: they share servers, and wait for pods most of the time.
const STASH_BESIDE: usize = 4;

impl Run {
    pub(crate) fn storage(&mut self) -> Result<Tally> {
        let environment = self.target()?.cluster.environment.clone();
        let left_out = self.left_out(&box_only::STORAGE);
        let tests = Tests::of(self.compiled()?.tests("crates/store")?).envs(environment).env("PATH", path());
        let outcome = tests.run(|name| name.starts_with("s3::") && !left_out.skips(name))?;
        some(self.counted(outcome))
    }

    /// Tests of schemas and admission policies, on an empty API server.
    pub(crate) fn api(&mut self) -> Result<Tally> {
        const MODULES: [&str; 2] = ["schemas", "policies"];
        if self.args.context.is_some() {
            println!(
                "skipped, needs an empty API server: every test of e2e/tests/schemas.rs and policies.rs"
            );
            return Ok(Tally::default());
        }
        let tests = self.on_the_cluster(&MODULES)?.threads(1);
        let outcome = tests.run(|name| self.wants(&MODULES, name))?;
        Ok(self.filtered(outcome)? + self.compared_with_upstream()?)
    }

    /// Compares our schemas with Velero's own files.
    fn compared_with_upstream(&mut self) -> Result<Tally> {
        let tests = Tests::of(self.compiled()?.tests("crates/api")?);
        let outcome = tests
            .env("LIFEBOAT_VELERO_CRDS", tools::velero_crds()?)
            .run(|name| name.starts_with(UPSTREAM))?;
        some(self.counted(outcome))
    }

    /// Test files of crate `e2e` on the cluster; of the volume tests those of restores, not those of every fault; of those of Stash's API
    /// one of each promise.
    pub(crate) fn e2e(&mut self) -> Result<Tally> {
        let (volumes, stash): (&[&str], &[&str]) =
            if self.has_no_volumes() { (&[], &[]) } else { (&["volumes"], &["stash"]) };
        let left_out = self.left_out(&box_only::E2E);
        let tests = self.on_the_cluster(&[&SHARED[..], &OWN, volumes, stash].concat())?;
        let chosen = |modules: &[&str], name: &str| self.wants(modules, name) && !left_out.skips(name);
        let once = |name: &str| chosen(stash, name) && STASH_ONCE.contains(&name);
        let alone = tests.clone().threads(1);
        let first = alone
            .clone()
            .run(|name| chosen(&SHARED, name) && disturbs(name) && name != RESTARTS_API_SERVER)?;
        // In parallel: tests with volumes take longest, those that share an installation run one by one.
        let outcomes = thread::scope(|scope| {
            let lanes = [
                scope.spawn(|| tests.clone().threads(VOLUMES_BESIDE).run(|name| chosen(volumes, name))),
                scope.spawn(|| tests.clone().threads(1).run(once)),
                scope.spawn(|| tests.clone().threads(OWN_BESIDE).run(|name| chosen(&OWN, name))),
                scope.spawn(|| tests.clone().threads(1).run(|name| chosen(&SHARED, name) && !disturbs(name))),
            ];
            lanes.map(|lane| lane.join().unwrap_or_else(|_| Err(anyhow!("tests beside the others stopped"))))
        });
        let outcomes = outcomes.into_iter().collect::<Result<Vec<Outcome>>>()?;
        let last = alone.run(|name| chosen(&SHARED, name) && name == RESTARTS_API_SERVER)?;
        self.filtered(outcomes.into_iter().fold(first, Outcome::and).and(last))
    }

    /// Tests of volumes, with every fault.
    pub(crate) fn volumes(&mut self) -> Result<Tally> {
        if self.has_no_volumes() {
            return Ok(Tally::default());
        }
        let tests = self.on_the_cluster(&["volumes", "volume_faults", "nodes"])?;
        let beside = tests.clone().threads(VOLUMES_BESIDE + 1);
        let outcome = beside.run(|name| self.wants(&["volumes", "volume_faults"], name))?;
        // These stop a node with everything that runs on it.
        let outcome = outcome.and(tests.threads(1).run(|name| self.wants(&["nodes"], name))?);
        self.filtered(outcome)
    }

    /// Tests of Stash's API, whose kinds they apply to the cluster.
    pub(crate) fn stash(&mut self) -> Result<Tally> {
        if self.has_no_volumes() {
            return Ok(Tally::default());
        }
        let tests = self.on_the_cluster(&["stash", "stash_nodes"])?;
        let beside = tests.clone().threads(STASH_BESIDE);
        let outcome = beside.run(|name| self.wants(&["stash"], name))?;
        // These stop a node with everything that runs on it.
        let outcome = outcome.and(tests.threads(1).run(|name| self.wants(&["stash_nodes"], name))?);
        self.filtered(outcome)
    }

    /// Tests of volumes read the nodes' directories, which are on this machine.
    fn has_no_volumes(&self) -> bool {
        let named = self.args.context.is_some();
        if named {
            println!(
                "skipped, needs nodes that are this machine: every test of e2e/tests/volumes.rs, volume_faults.rs, nodes.rs, stash.rs and stash_nodes.rs"
            );
        }
        named
    }

    /// Repeats faults; prints each round while it runs.
    pub(crate) fn soak(&mut self) -> Result<Tally> {
        if let Some(context) = &self.args.context {
            bail!(
                "the soak kills processes of the box and stops its API server: it cannot run on {context:?}"
            );
        }
        let tests = self.on_the_cluster(&["soak"])?.threads(1).uncaptured();
        let outcome = tests.run(|name| self.wants(&["soak"], name))?;
        self.filtered(outcome)
    }

    /// The tests of crate `e2e` with the way to the cluster and to what these modules need.
    pub(super) fn on_the_cluster(&mut self, modules: &[&str]) -> Result<Tests> {
        self.install_tools()?;
        let mut tests = self.e2e_tests()?;
        let is_box = self.args.context.is_none();
        if is_box {
            cluster_box::up()?;
            cluster_box::apiserver_up()?;
        }
        self.target()?;
        let of = |names: &[&str]| modules.iter().any(|module| names.contains(module));
        let (with_plugins, with_volumes) = (
            of(&["plugins", "plugins_installed"]),
            of(&["volumes", "volume_faults", "nodes", "soak", "stash", "stash_nodes"]) && is_box,
        );
        if with_plugins {
            tests = tests.envs(self.plugin_programs()?);
        }
        if with_plugins && is_box {
            let compiled = self.compiled()?;
            cluster_box::load(&image::plugins(|name| compiled.program(name))?)?;
        }
        if (with_plugins && is_box) || with_volumes {
            cluster_box::load(&[image::databases()?])?;
        }
        if with_volumes && of(&["stash"]) {
            tests = tests.env("LIFEBOAT_REST_SERVER", tools::rest_server()?);
        }
        if with_volumes {
            tests = tests.env("LIFEBOAT_RESTIC", tools::restic()?);
            tests = tests.env("LIFEBOAT_DATABASES_IMAGE", image::DATABASES);
        }
        Ok(tests.envs(self.way_to_the_cluster()?))
    }

    /// Environment variables of every test on the cluster.
    fn way_to_the_cluster(&mut self) -> Result<BTreeMap<OsString, OsString>> {
        let (is_box, proxy) = (self.args.context.is_none(), self.api_proxy()?);
        let target = self.target()?;
        // The box's `env` may have more variables than when the target was prepared: the bare API server has its own
        // kubeconfig.
        let environment =
            if is_box { cluster_box::environment()? } else { target.cluster.environment.clone() };
        let path = format!("{}:{}", environment.get("PATH").cloned().unwrap_or_default(), path());
        let mut all: BTreeMap<OsString, OsString> =
            environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut add = |name: &str, value: OsString| all.insert(name.into(), value);
        add("PATH", path.into());
        add("LIFEBOAT_BIN", target.cluster.binary.clone().into());
        add("LIFEBOAT_IMAGE", target.image.clone().into());
        add("LIFEBOAT_TEST_IMAGE", target.test_image.clone().into());
        add("LIFEBOAT_API_PROXY", proxy.into());
        add("LIFEBOAT_XTASK", std::env::current_exe()?.into());
        if let Some(archive) = &target.archive {
            add("LIFEBOAT_IMAGE_ARCHIVE", archive.clone().into());
        }
        for (variable, build) in PROGRAMS {
            // Building them needs root for the box's cache; on a named cluster users provide their own.
            if is_box || std::env::var_os(variable).is_none() {
                add(variable, build()?.into());
            }
        }
        Ok(all)
    }

    /// Plugins that servers on this machine run.
    fn plugin_programs(&mut self) -> Result<Vec<(&'static str, PathBuf)>> {
        let compiled = self.compiled()?;
        Ok(vec![
            ("LIFEBOAT_GO_PLUGIN", tools::recorder_plugin()?),
            ("LIFEBOAT_AWS_PLUGIN", tools::velero_plugins()?.join("velero-plugin-for-aws")),
            ("LIFEBOAT_WAITING_PLUGIN", compiled.program("wait-for-database")?),
            ("LIFEBOAT_SNAPSHOTTER_PLUGIN", compiled.program("directory-snapshotter")?),
            ("LIFEBOAT_MISBEHAVING_PLUGIN", compiled.program("misbehaving")?),
        ])
    }

    /// Skips the tests that a named cluster cannot run.
    fn left_out(&self, tests: &'static [Left]) -> box_only::LeftOut {
        if self.args.context.is_some() { box_only::leave_out(tests) } else { box_only::LeftOut::default() }
    }
}

fn disturbs(name: &str) -> bool {
    DISTURBING.iter().any(|test| name.starts_with(test))
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Programs of other projects that tests run, and how they are built.
type Build = fn() -> Result<PathBuf>;
const PROGRAMS: [(&str, Build); 2] =
    [("VELERO_BIN", tools::velero), ("HELM_BIN", || cluster_box::tool("helm"))];

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `name`, a path of modules and a function or the beginning of its name, is a test.
    fn is_a_test(name: &str) -> bool {
        let mut path: Vec<&str> = name.split("::").collect();
        let function = path.pop().unwrap_or_default();
        let file = crate::run::checkout().join("e2e/tests").join(path.join("/")).with_extension("rs");
        std::fs::read_to_string(&file).unwrap_or_default().contains(&format!("fn {function}"))
    }

    /// A name that matches no test would let the intended test run beside others.
    #[test]
    fn every_disturbing_test_exists() {
        for name in DISTURBING {
            assert!(is_a_test(name), "{name} is no test any more");
        }
    }

    /// A name that matches no test would leave a promise out of every test run.
    #[test]
    fn every_test_of_stashs_api_in_the_part_e2e_exists() {
        for name in STASH_ONCE {
            assert!(is_a_test(&format!("{name}(")), "{name} is no test any more");
        }
    }
}
