//! A command whose output becomes the only file of a snapshot, or that gets such a file as its input. It has succeeded when it exits
//! with 0; the end of what it printed on its standard error is part of the failure otherwise. It is killed, with its child
//! processes, if the work ends before it does.

mod errors;

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::dump::{DumpFormat, dump};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::walk::single_file;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio_util::sync::CancellationToken;

use super::failure::{self, Failed};
use super::secrets::Secrets;
use crate::report::{Cause, Failure, Restored};
pub(in crate::run) use errors::Errors;

/// How often the command is polled for its exit.
const POLL: Duration = Duration::from_millis(20);

pub(super) async fn feed(
    repository: &Repository,
    snapshot: &Snapshot,
    argv: &[String],
    cancel: &CancellationToken,
) -> Result<Restored, Failed> {
    let engine = failure::of(Cause::Target);
    let reader = BlobReader::new(repository, Arc::new(repository.load_index().await.map_err(&engine)?));
    let (path, node) = single_file(&reader, snapshot.tree).await.map_err(&engine)?;
    let (mut running, Pipes { input, .. }) = Running::start("target.argv", Cause::Target, argv)?;
    let Some(input) = input else {
        return Err(Failed::new(Cause::Target, format!("'{}' has no standard input", running.program)));
    };
    let fed = dump(repository, snapshot, &path, DumpFormat::Raw, input, cancel.clone()).await;
    if matches!(fed, Err(lifeboat_repository::Error::Cancelled)) {
        return Err(Failed::Cancelled);
    }
    let status = running.end(cancel).await?;
    // A command that exits early closes its input; its exit status says more than the write error.
    if !status.success() {
        return Err(Failed::new(Cause::Target, running.failure(status)));
    }
    fed.map_err(engine)?;
    Ok(Restored { files: 1, bytes: node.size, ..Restored::default() })
}

/// The output of a command as a stream, whose end is an error unless the command exits with 0: an incomplete
/// dump is not a backup. The command starts with the first read, when the repository is locked, so that a
/// dump does not wait for the lock.
pub(super) struct Output {
    argv: Vec<String>,
    running: Option<(Running, ChildStdout)>,
    cancel: CancellationToken,
}

impl Output {
    pub(super) fn new(argv: &[String], cancel: &CancellationToken) -> Self {
        Self { argv: argv.to_vec(), running: None, cancel: cancel.clone() }
    }

    /// The command, which is started if it does not run yet.
    fn running(&mut self) -> io::Result<&mut (Running, ChildStdout)> {
        if self.running.is_none() {
            let started = Running::start("source.argv", Cause::Source, &self.argv);
            let (running, pipes) = started.map_err(|failure| io::Error::other(failure.message))?;
            let output = pipes.output.ok_or_else(|| io::Error::other("it has no standard output"))?;
            self.running = Some((running, output));
        }
        self.running.as_mut().ok_or_else(|| io::Error::other("it does not run"))
    }
}

/// Waits for the exit of a command that closed its output.
fn end_of(running: &mut Running, cancel: &CancellationToken) -> io::Result<usize> {
    while !cancel.is_cancelled() {
        match running.ended()? {
            Some(status) if status.success() => return Ok(0),
            Some(status) => return Err(io::Error::other(running.failure(status))),
            None => std::thread::sleep(POLL),
        }
    }
    Err(cancelled())
}

fn cancelled() -> io::Error {
    io::Error::other("cancelled")
}

impl Read for Output {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if room.is_empty() {
            return Ok(0);
        }
        let cancel = self.cancel.clone();
        let (running, pipe) = self.running()?;
        while !cancel.is_cancelled() {
            match poll(&mut [PollFd::new(&*pipe, PollFlags::IN)], Some(&LOOK_UP)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    let read = pipe.read(room)?;
                    return if read == 0 { end_of(running, &cancel) } else { Ok(read) };
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(cancelled())
    }
}

struct Running {
    child: Child,
    program: String,
    /// What the program printed on its standard error.
    errors: Errors,
    has_ended: bool,
}

/// The ends of a command's pipes: the input of a target, the output of a source.
struct Pipes {
    input: Option<std::process::ChildStdin>,
    output: Option<ChildStdout>,
}

impl Running {
    fn start(field: &str, side: Cause, argv: &[String]) -> Result<(Self, Pipes), Failure> {
        let Some((program, arguments)) = argv.split_first() else {
            let message = format!("{field}: it is empty; expected a program and its arguments");
            return Err(Failure { cause: Cause::Task, message });
        };
        let is_target = side == Cause::Target;
        let mut command = Command::new(program);
        command.args(arguments).stderr(Stdio::piped()).process_group(0);
        command.stdin(if is_target { Stdio::piped() } else { Stdio::null() });
        command.stdout(if is_target { Stdio::null() } else { Stdio::piped() });
        let mut child = command.spawn().map_err(|error| {
            let hint = if error.kind() == io::ErrorKind::NotFound { "; is it in the image?" } else { "" };
            Failure { cause: side, message: format!("cannot start '{program}': {error}{hint}") }
        })?;
        let pipes = Pipes { input: child.stdin.take(), output: child.stdout.take() };
        let errors = Errors::follow(child.stderr.take(), Secrets::default());
        Ok((Self { child, program: program.clone(), errors, has_ended: false }, pipes))
    }

    /// The exit status, if it has ended.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = self.child.try_wait()?;
        self.has_ended |= ended.is_some();
        Ok(ended)
    }

    async fn end(&mut self, cancel: &CancellationToken) -> Result<ExitStatus, Failed> {
        loop {
            let ended = self.ended();
            let ended = ended.map_err(|error| {
                Failed::new(Cause::Target, format!("cannot wait for '{}': {error}", self.program))
            })?;
            if let Some(status) = ended {
                return Ok(status);
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = cancel.cancelled() => return Err(Failed::Cancelled),
            }
        }
    }

    /// The message about a command that failed.
    fn failure(&mut self, status: ExitStatus) -> String {
        let said = self.errors.last_lines();
        let said = if said.is_empty() { "; see the log".to_owned() } else { format!(": {said}") };
        format!("'{}' failed ({status}){said}", self.program)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The PID of a process that was waited for may belong to another process by now.
        if self.has_ended {
            return;
        }
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
