//! Runs one process to its end or kills it: takes a command and when to kill it, and returns its output.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// No operation of a healthy process takes this long.
const HANGS: Duration = Duration::from_mins(5);

/// The result of a process.
#[derive(Debug)]
pub(super) struct ChildEnd {
    /// `None` if it was killed.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

pub(super) fn run(command: &mut Command, kill_after: Option<Duration>) -> Result<ChildEnd> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let stdout = reader(child.stdout.take().context("it was asked for")?);
    let stderr = reader(child.stderr.take().context("it was asked for")?);
    // The output ends when the process does.
    let mut said = stdout.recv_timeout(kill_after.unwrap_or(HANGS));
    if said.is_err() {
        child.kill()?;
        said = stdout.recv_timeout(HANGS);
        if kill_after.is_none() {
            bail!("{command:?} hangs; it said:\n{}", stderr.recv().unwrap_or_default());
        }
    }
    let status = child.wait()?;
    Ok(ChildEnd {
        code: status.code(),
        stdout: said.context("its output does not end")?,
        stderr: stderr.recv_timeout(HANGS).context("its errors do not end")?,
    })
}

fn reader(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        sender.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    receiver
}
