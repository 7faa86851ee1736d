//! One side of a pipeline: a process in a group of its own, and what it prints. Killed with its children when it is dropped.

use std::io::{self, PipeReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::run::child::Errors;
use crate::run::secrets::Secrets;

/// The exit code of a shell whose command got the signal PIPE.
const PIPE_CODE: i32 = 128 + 13;
/// The exit code of a shell that did not find a program.
const NOT_FOUND: i32 = 127;

pub(super) struct Side {
    name: String,
    child: Child,
    errors: Errors,
    status: Option<ExitStatus>,
    is_killed: bool,
}

/// The standard streams of a side; None is no input, and an output that goes into the log.
#[derive(Default)]
pub(super) struct Streams {
    pub(super) input: Option<PipeReader>,
    pub(super) output: Option<io::PipeWriter>,
}

impl Side {
    pub(super) fn start(
        name: &str,
        mut command: Command,
        streams: Streams,
        secrets: &Secrets,
    ) -> io::Result<Self> {
        let (printed, log) = io::pipe()?;
        let output = match streams.output {
            Some(output) => Stdio::from(output),
            None => Stdio::from(log.try_clone()?),
        };
        command.process_group(0).stdin(streams.input.map_or_else(Stdio::null, Stdio::from));
        let child = command.stdout(output).stderr(log).spawn()?;
        // The command has the other ends of the pipes, which end with the last process that has them.
        drop(command);
        let errors = Errors::follow(Some(printed), secrets.clone());
        Ok(Self { name: name.to_owned(), child, errors, status: None, is_killed: false })
    }

    /// The exit status, if it has ended.
    pub(super) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| !status.success())
    }

    /// Whether it has failed, and not only because the next side did not read its output.
    pub(super) fn is_cause(&self) -> bool {
        let by_pipe = |status: ExitStatus| {
            status.signal() == Some(Signal::PIPE.as_raw()) || status.code() == Some(PIPE_CODE)
        };
        self.has_failed() && !self.status.is_some_and(by_pipe)
    }

    /// Whether a signal ended it, or the command of its shell.
    pub(super) fn was_killed(&self) -> bool {
        self.status.is_some_and(|status| status.signal().is_some() || status.code() > Some(128))
    }

    /// Whether it was killed because another side had failed.
    pub(super) fn killed_by_us(&self) -> bool {
        self.is_killed
    }

    /// Its process group.
    pub(super) fn group(&self) -> u32 {
        self.child.id()
    }

    /// The message about a side that failed.
    pub(super) fn failure(&mut self) -> String {
        let status = self.status.map(|status| format!(" ({status})")).unwrap_or_default();
        let hint = match self.status.and_then(|status| status.code()) {
            Some(NOT_FOUND) => "; is it in the agent's image?",
            _ => "",
        };
        let said = self.said();
        let said = if said.is_empty() { "; see the log".to_owned() } else { format!(": {said}") };
        format!("'{}' failed{status}{said}{hint}", self.name)
    }

    /// The last lines that it printed.
    pub(super) fn said(&mut self) -> String {
        self.errors.last_lines()
    }

    pub(super) fn kill(&mut self) {
        // The PID of a process that was waited for may belong to another process by now.
        if matches!(self.status(), Ok(Some(_))) {
            return;
        }
        self.is_killed = true;
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.status = self.child.wait().ok();
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.kill();
    }
}
