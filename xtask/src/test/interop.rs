//! The part `interop`: genuine Velero's server and Lifeboat's run side by side on this machine, each with a location at
//! the same prefix of the bucket, which the tests find in their environment. Neither affects the installed Lifeboat.
//! Runs only when named.

use std::process::Command;

use anyhow::{Result, bail};

use super::part::Run;
use super::tally::Tally;
use crate::servers::{self, Home};
use crate::{cluster_box, image, run, tools};

const PREFIX: &str = "interop";
/// Backups of the other server should be synced soon.
const FLAGS: [&str; 2] = ["--backup-sync-period=5s", "--store-validation-frequency=10s"];

impl Run {
    pub(crate) fn interop(&mut self) -> Result<Tally> {
        if let Some(context) = &self.args.context {
            bail!("the peer runs beside the box and uses its storage: it cannot run beside {context:?}");
        }
        self.install_tools()?;
        cluster_box::up()?;
        cluster_box::load(&[image::debian()?])?;
        let environment = cluster_box::environment()?;
        let binary = self.compiled()?.program("lifeboat")?;
        // Velero's server does not start before its kinds are installed, and detects later ones slowly.
        run::output(Command::new(&binary).envs(&environment).args(["install", "--crds-only"]))?;
        let (theirs, ours) = (
            Home::new(&environment, "velero-peer", PREFIX)?,
            Home::new(&environment, "lifeboat-peer", PREFIX)?,
        );
        let definition = run::checkout().join("e2e/fixtures/interop/definition.yaml");
        run::output(theirs.kubectl().args(["apply", "-f"]).arg(&definition))?;
        // Plugins of our SDK run under both.
        let compiled = self.compiled()?;
        let examples = [compiled.program("wait-for-database")?, compiled.program("directory-snapshotter")?];
        let _velero = servers::velero(&environment, &theirs, &FLAGS, &examples)?;
        let _lifeboat = servers::lifeboat(&binary, &environment, &ours, &FLAGS, &examples)?;
        let tests = self
            .e2e_tests()?
            .threads(1)
            .envs(&environment)
            .env("LIFEBOAT_BIN", &binary)
            .env("VELERO_BIN", tools::velero()?)
            .env("LIFEBOAT_TEST_IMAGE", image::DEBIAN)
            .env("LIFEBOAT_PEER_NAMESPACE", &theirs.namespace)
            .env("LIFEBOAT_OWN_NAMESPACE", &ours.namespace)
            .env("LIFEBOAT_PEER_PREFIX", PREFIX);
        let outcome = tests.run(|name| self.wants(&["interop"], name));
        let remove = ["delete", "--ignore-not-found", "--wait=false", "-f"];
        run::output(theirs.kubectl().args(remove).arg(&definition))?;
        self.filtered(outcome?)
    }
}
