//! The part `repository`: our binary beside genuine restic on directories, S3 and restic's REST server, and some cycles of
//! the kill harness. It needs no cluster; what it needs, it builds or starts here and tells the tests in the
//! environment.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::part::Run;
use super::tally::Tally;
use crate::s3_server::S3Server;
use crate::{image, run, tools};

/// Programs, and how they are made. A variable that is already set names one that people have.
type Build = fn() -> Result<PathBuf>;
const PROGRAMS: [(&str, Build); 4] = [
    ("LIFEBOAT_BIN", || image::binary(image::Profile::Fast)),
    ("LIFEBOAT_RESTIC", tools::restic),
    ("LIFEBOAT_RESTIC_014", tools::debian_restic),
    ("LIFEBOAT_REST_SERVER", tools::rest_server),
];

impl Run {
    pub(crate) fn repository(&mut self) -> Result<Tally> {
        let mut command = run::cargo();
        command.args(["test", "--quiet", "--no-fail-fast", "--package", "lifeboat-e2e"]);
        command.args(["--features", "torture", "--lib", "--test", "repository", "--test", "torture"]);
        command.args(self.filter());
        for (variable, build) in PROGRAMS {
            if std::env::var_os(variable).is_none() {
                command.env(variable, build()?);
            }
        }
        let directory = tempfile::tempdir().context("no directory for the S3 server")?;
        let server = S3Server::start(directory.path())?;
        self.filtered(command.envs(server.environment()))
    }
}
