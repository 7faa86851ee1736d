//! A command that gets the only file of a snapshot as its input. It has succeeded when it exits with 0; it is killed,
//! with its child processes, if the work ends before it does.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::dump::{DumpFormat, dump};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::walk::single_file;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio_util::sync::CancellationToken;

use super::failure::{self, Failed};
use crate::report::{Cause, Restored};

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
    let mut running = Running::start(argv)?;
    let Some(input) = running.child.stdin.take() else {
        return Err(Failed::new(Cause::Target, format!("'{}' has no standard input", running.program)));
    };
    let fed = dump(repository, snapshot, &path, DumpFormat::Raw, input, cancel.clone()).await;
    if matches!(fed, Err(lifeboat_repository::Error::Cancelled)) {
        return Err(Failed::Cancelled);
    }
    let status = running.end(cancel).await?;
    // A command that exits early closes its input; its exit status says more than the write error.
    if !status.success() {
        return Err(Failed::new(
            Cause::Target,
            format!("'{}' failed ({status}); see the log", running.program),
        ));
    }
    fed.map_err(engine)?;
    Ok(Restored { files: 1, bytes: node.size, ..Restored::default() })
}

struct Running {
    child: Child,
    program: String,
    has_ended: bool,
}

impl Running {
    fn start(argv: &[String]) -> Result<Self, Failed> {
        let Some((program, arguments)) = argv.split_first() else {
            return Err(Failed::new(
                Cause::Task,
                "target.argv: it is empty; expected a program and its arguments",
            ));
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let child = command
            .spawn()
            .map_err(|error| Failed::new(Cause::Target, format!("cannot start '{program}': {error}")))?;
        Ok(Self { child, program: program.clone(), has_ended: false })
    }

    async fn end(&mut self, cancel: &CancellationToken) -> Result<ExitStatus, Failed> {
        loop {
            let polled = self.child.try_wait();
            let polled = polled.map_err(|error| {
                Failed::new(Cause::Target, format!("cannot wait for '{}': {error}", self.program))
            })?;
            if let Some(status) = polled {
                self.has_ended = true;
                return Ok(status);
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = cancel.cancelled() => return Err(Failed::Cancelled),
            }
        }
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
