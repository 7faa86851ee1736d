//! The client of the box's supervisor (`box/kube/agent`): starts it, and asks it to start, stop and list processes.
//! Each connection carries one line of JSON in each direction.
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::layout::{self, ID_VARIABLE};
use super::progress;
use super::state::{self, Recorded, State};
use crate::apt;

/// A process for the supervisor to run; see `Spec` in the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Spec {
    pub name: String,
    pub argv: Vec<String>,
    pub env: Vec<String>,
    pub log: PathBuf,
    pub remove: Vec<PathBuf>,
    pub dependents: Vec<String>,
}

#[derive(Default, Serialize)]
struct Request<'a> {
    op: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a Spec>,
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    error: String,
    #[serde(default)]
    processes: Vec<Recorded>,
}

fn socket() -> PathBuf {
    layout::state("supervisor.sock")
}

/// Starts the supervisor; all its processes have the box's id in their environment.
pub(super) fn launch(state: &State) -> Result<()> {
    let log = layout::log("supervisor");
    let output = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    Command::new(state.program("kube", "box-agent"))
        .arg("supervise")
        .arg("--socket")
        .arg(socket())
        .arg("--record")
        .arg(state::record_file())
        .env_clear()
        .envs([("PATH", apt::PATH), ("HOME", layout::STATE), (ID_VARIABLE, &state.id)])
        .current_dir(layout::STATE)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .context("cannot start the supervisor")?;
    progress::wait(Duration::from_secs(5), || status().map(drop))
}

pub(super) fn start(spec: &Spec) -> Result<()> {
    ask(&Request { op: "start", process: Some(spec), ..Request::default() }).map(drop)
}

/// Starts a process that the supervisor knows.
pub(super) fn start_again(name: &str) -> Result<()> {
    ask(&Request { op: "start", name: Some(name), ..Request::default() }).map(drop)
}

/// Ends a process until it is started again.
pub(super) fn stop(name: &str) -> Result<()> {
    ask(&Request { op: "stop", name: Some(name), ..Request::default() }).map(drop)
}

/// Ends a process and removes it from the list.
pub(super) fn forget(name: &str) -> Result<()> {
    ask(&Request { op: "forget", name: Some(name), ..Request::default() }).map(drop)
}

pub(super) fn status() -> Result<Vec<Recorded>> {
    ask(&Request { op: "status", ..Request::default() })
}

/// Ends every process, then the supervisor.
pub(super) fn shutdown() -> Result<()> {
    ask(&Request { op: "shutdown", ..Request::default() }).map(drop)
}

fn ask(request: &Request<'_>) -> Result<Vec<Recorded>> {
    let mut stream = UnixStream::connect(socket()).context("the box's supervisor does not answer")?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    stream.write_all(format!("{}\n", serde_json::to_string(request)?).as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context("the box's supervisor does not answer")?;
    let reply: Reply =
        serde_json::from_str(&line).context("the box's supervisor sent an answer that cannot be parsed")?;
    if !reply.error.is_empty() {
        let known: Vec<&str> = reply.processes.iter().map(|each| each.name.as_str()).collect();
        bail!("{}; there are: {}", reply.error, known.join(", "));
    }
    Ok(reply.processes)
}
