//! The part `plugins`: the plugin host against programs in Go, on Velero's own framework and Velero's plugin for S3, with an
//! S3 server on loopback; and the examples on our SDK under Velero's own code for plugins. It needs no cluster.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::part::Run;
use super::tally::Tally;
use crate::s3_server::{self, S3Server};
use crate::{run, tools};

/// Programs, and how they are made. A variable that is already set names one that people have.
type Build = fn() -> Result<PathBuf>;
const PROGRAMS: [(&str, Build); 3] = [
    ("LIFEBOAT_GO_PLUGIN", tools::recorder_plugin),
    ("LIFEBOAT_VELERO_HOST", tools::velero_host),
    ("LIFEBOAT_AWS_PLUGIN", || Ok(tools::velero_plugins()?.join("velero-plugin-for-aws"))),
];

impl Run {
    pub(crate) fn plugins(&mut self) -> Result<Tally> {
        let mut command = run::cargo();
        command.args(["test", "--quiet", "--no-fail-fast", "--test", "go", "--test", "velero"]);
        for package in ["lifeboat-test-plugins", "lifeboat-example-plugins"] {
            command.args(["--package", package, "--features", &format!("{package}/go-plugins")]);
        }
        command.args(self.filter());
        for (variable, build) in PROGRAMS {
            if std::env::var_os(variable).is_none() {
                command.env(variable, build()?);
            }
        }
        let directory = tempfile::tempdir().context("no directory for the S3 server")?;
        let server = S3Server::start(directory.path())?;
        command.env("LIFEBOAT_S3_BUCKET", s3_server::BUCKET);
        self.filtered(command.envs(server.environment()))
    }
}
