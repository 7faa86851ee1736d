//! `kubectl proxy` for as long as tests run on a cluster: takes the cluster, gives an address at which its API server is read
//! without a kubectl for each look. `on_cluster.rs` starts it, `e2e/src/api.rs` reads through it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::target::Cluster;

/// Ends when dropped.
pub(super) struct ApiProxy {
    child: Child,
    pub(super) url: String,
}

impl ApiProxy {
    pub(super) fn start(cluster: &Cluster) -> Result<Self> {
        let mut command = cluster.kubectl();
        let mut child = command
            .args(["proxy", "--port=0", "--reject-paths=^$"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start kubectl proxy")?;
        let output = child.stdout.take().context("standard output was asked for")?;
        let mut proxy = Self { child, url: String::new() };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("kubectl proxy says nothing")?;
        let address = line.trim().rsplit(' ').next().filter(|address| address.contains(':'));
        let address =
            address.with_context(|| format!("kubectl proxy does not say where it listens: {line:?}"))?;
        proxy.url = format!("http://{address}");
        Ok(proxy)
    }
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
