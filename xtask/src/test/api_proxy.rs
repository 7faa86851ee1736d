//! `kubectl proxy` for the time of the tests on a cluster: takes the cluster and returns an address at which its API
//! server can be read without a kubectl process for each request. `on_cluster.rs` starts it, `e2e/src/api.rs` uses it.

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
        BufReader::new(output).read_line(&mut line).context("kubectl proxy printed nothing")?;
        let address = line.trim().rsplit(' ').next().filter(|address| address.contains(':'));
        let address = address.with_context(|| format!("kubectl proxy printed no address: {line:?}"))?;
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
