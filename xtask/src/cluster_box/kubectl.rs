//! The box's own kubectl and health checks: small requests to the cluster without a Kubernetes client in xtask.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::layout::{self, Port};
use super::state::State;
use crate::run;

/// kubectl for this box's cluster.
pub(super) fn command(state: &State) -> Command {
    with_kubeconfig(state, &layout::kubeconfig())
}

pub(super) fn with_kubeconfig(state: &State, kubeconfig: &Path) -> Command {
    let mut command = Command::new(state.program("kube", "kubectl"));
    command.env("KUBECONFIG", kubeconfig);
    command
}

/// Checks that an API server is ready.
pub(super) fn is_ready(state: &State, kubeconfig: &Path) -> Result<()> {
    run::output(with_kubeconfig(state, kubeconfig).args(["get", "--raw=/readyz", "--request-timeout=5s"]))
        .map(drop)
}

/// Sends a GET over HTTP; any status other than 200 is an error.
pub(super) fn healthy(port: Port, path: &str) -> Result<()> {
    let what = || format!("{} does not answer on {}:{}", port.component, port.address, port.number);
    let address: SocketAddr = format!("{}:{}", port.address, port.number).parse()?;
    let timeout = Duration::from_secs(3);
    let mut stream = TcpStream::connect_timeout(&address, timeout).with_context(what)?;
    stream.set_read_timeout(Some(timeout))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").with_context(what)?;
    let mut answer = Vec::new();
    let _ = stream.take(4096).read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split_whitespace().nth(1).unwrap_or("no answer");
    if status != "200" {
        bail!("{} answers {status} to {path}", port.component);
    }
    Ok(())
}
