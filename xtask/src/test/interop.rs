//! The part `interop`: genuine Velero's server runs beside Lifeboat, both with a location at the same place in the bucket,
//! and the tests are told where. Runs only when named.

use anyhow::{Result, bail};

use super::part::Run;
use super::tally::Tally;
use crate::run;
use crate::velero_server::{Place, VeleroServer};

const PEER: Place<'_> = Place { namespace: "velero-peer", bucket: "lifeboat", prefix: "interop" };
/// What the other one has made should be seen soon.
const FLAGS: [&str; 2] = ["--backup-sync-period=5s", "--store-validation-frequency=10s"];

impl Run {
    pub(crate) fn interop(&mut self) -> Result<Tally> {
        if let Some(context) = self.context() {
            bail!("the peer runs beside the box and uses its storage: it cannot run beside {context:?}");
        }
        let mut command = self.cluster_command(&["interop"], &[])?;
        let cluster = &self.target()?.cluster;
        // Velero's server does not start before its kinds are there.
        run::output(cluster.lifeboat().args(["install", "--crds-only"]))?;
        let _server = VeleroServer::start(&cluster.environment, &PEER, &FLAGS)?;
        command
            .env("LIFEBOAT_PEER_NAMESPACE", PEER.namespace)
            .env("LIFEBOAT_PEER_BUCKET", PEER.bucket)
            .env("LIFEBOAT_PEER_PREFIX", PEER.prefix);
        self.filtered(&mut command)
    }
}
