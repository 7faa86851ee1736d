//! The part `plugins`: the plugin host with programs in Go, built on Velero's own framework, and with Velero's plugin
//! for S3, on an S3 server on loopback; and the examples of our SDK under Velero's own plugin code. It needs no
//! cluster.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::harness::{Outcome, Tests};
use super::part::Run;
use super::tally::Tally;
use crate::s3_server::{self, S3Server};
use crate::tools;

/// Programs and the functions that build them. If the variable is set, it names an existing program.
type Build = fn() -> Result<PathBuf>;
const PROGRAMS: [(&str, Build); 3] = [
    ("LIFEBOAT_GO_PLUGIN", tools::recorder_plugin),
    ("LIFEBOAT_VELERO_HOST", tools::velero_host),
    ("LIFEBOAT_AWS_PLUGIN", || Ok(tools::velero_plugins()?.join("velero-plugin-for-aws"))),
];

/// Packages with such tests, and the module in each.
const TESTS: [(&str, &str); 2] = [("e2e/plugins", "go"), ("examples/plugins", "velero")];

impl Run {
    pub(crate) fn plugins(&mut self) -> Result<Tally> {
        let mut environment = Vec::new();
        for (variable, build) in PROGRAMS {
            if std::env::var_os(variable).is_none() {
                environment.push((variable, build()?));
            }
        }
        let directory = tempfile::tempdir().context("no directory for the S3 server")?;
        let server = S3Server::start(directory.path())?;
        let mut outcome = Outcome::default();
        for (package, module) in TESTS {
            let tests = Tests::of(self.compiled()?.tests(package)?)
                .envs(environment.clone())
                .envs(server.environment())
                .env("LIFEBOAT_S3_BUCKET", s3_server::BUCKET);
            outcome = outcome.and(tests.run(|name| self.wants(&[module], name))?);
        }
        self.filtered(outcome)
    }
}
