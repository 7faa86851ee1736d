//! The part `repository`: our program beside genuine restic on directories, S3 and restic's REST server, on repositories
//! of genuine kopia, and some cycles of the kill harness. It needs no cluster; it builds or starts everything else and
//! passes it to the tests in the environment.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::compiled::{Executable, Kind};
use super::harness::{Outcome, Tests};
use super::part::{E2E, Run};
use super::tally::Tally;
use crate::s3_server::S3Server;
use crate::tools;

/// Programs and the functions that build them. If the variable is set, it names an existing program.
type Build = fn() -> Result<PathBuf>;
const PROGRAMS: [(&str, Build); 4] = [
    ("LIFEBOAT_RESTIC", tools::restic),
    ("LIFEBOAT_RESTIC_014", tools::debian_restic),
    ("LIFEBOAT_REST_SERVER", tools::rest_server),
    ("LIFEBOAT_KOPIA", tools::kopia),
];

/// Modules of crate `e2e`'s tests; those of its library run, too.
const MODULES: [&str; 2] = ["repository", "torture"];

impl Run {
    pub(crate) fn repository(&mut self) -> Result<Tally> {
        let mut environment = Vec::new();
        if std::env::var_os("LIFEBOAT_BIN").is_none() {
            environment.push(("LIFEBOAT_BIN", self.compiled()?.program("lifeboat")?));
        }
        for (variable, build) in PROGRAMS {
            if std::env::var_os(variable).is_none() {
                environment.push((variable, build()?));
            }
        }
        let directory = tempfile::tempdir().context("no directory for the S3 server")?;
        let server = S3Server::start(directory.path())?;
        let executables: Vec<Executable> =
            self.compiled()?.all_tests().filter(|each| each.package == E2E).cloned().collect();
        let mut outcome = Outcome::default();
        for executable in executables {
            let tests = Tests::of(&executable).envs(environment.clone()).envs(server.environment());
            outcome = outcome.and(tests.run(|name| match executable.kind {
                Kind::Tests => self.wants(&MODULES, name),
                _ => self.lets_through(name),
            })?);
        }
        self.filtered(outcome)
    }
}
