//! `lock -- COMMAND`: holds the repository's lock while a command runs, for scripts that prepare a snapshot and commit
//! it later. The command finds the lock's holder in LIFEBOAT_LOCK_HOLDER.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use lifeboat_repository::Error;
use lifeboat_repository::lock::{Lock, LockKind};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};

use super::session::Session;
use super::signals::Stops;
use crate::error::CliError;

/// How long the command may run after TERM before it is killed.
const KILL_AFTER: Duration = Duration::from_secs(10);

/// The environment variable with the lock's holder: the process id, "@" and the host name.
pub(crate) const HOLDER: &str = "LIFEBOAT_LOCK_HOLDER";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Take an exclusive lock: excludes all others, even readers, and the command itself, which cannot take a
    /// lock of its own
    #[arg(long)]
    exclusive: bool,
    /// The command and its arguments, after "--"
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// A running command, in its own process group unless it needs the terminal.
struct Running {
    child: Child,
    own_group: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let mut stops = Stops::listen()?;
    let repository = session.open().await?;
    let kind = if args.exclusive { LockKind::Exclusive } else { LockKind::Shared };
    let lock = Lock::acquire(&repository, kind, &session.settings.lock).await?;
    let holder = format!("{}@{}", std::process::id(), repository.options().identity.host);
    let outcome = match start(&args.command, &holder) {
        Ok(running) => running.watch(&lock, &mut stops).await,
        Err(error) => Err(error),
    };
    lock.release().await;
    let status = outcome?;
    match code(status) {
        0 => Ok(()),
        code => Err(CliError::restic(code, "")),
    }
}

fn start(command: &[OsString], holder: &str) -> Result<Running, CliError> {
    let own_group = !std::io::stdin().is_terminal();
    let mut starting = Command::new(&command[0]);
    starting.args(&command[1..]).env(HOLDER, holder).kill_on_drop(true);
    if own_group {
        starting.process_group(0);
    }
    let child = starting.spawn().map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        let text = format!("cannot start '{}': {error}", command[0].display());
        CliError::restic(code, text)
    })?;
    Ok(Running { child, own_group })
}

impl Running {
    /// Waits for the command to end. Signals are passed on to it; if the lock is lost, the command is ended.
    async fn watch(mut self, lock: &Lock, stops: &mut Stops) -> Result<ExitStatus, CliError> {
        let lost = lock.lost();
        let failed = |error| CliError::failed("cannot wait for the command", error);
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    let status = status.map_err(failed)?;
                    // Processes that the command left running are no longer covered by the lock.
                    return Ok(status);
                }
                () = lost.cancelled() => {
                    message!("the lock was lost: ending the command");
                    self.end().await;
                    return Err(Error::LockLost { detail: "the command was ended".to_owned() }.into());
                }
                // On a terminal the command has received the signal already, as part of the foreground process group.
                signal = stops.next() => if self.own_group || signal != Signal::INT { self.send(signal) },
            }
        }
    }

    async fn end(&mut self) {
        self.send(Signal::TERM);
        if tokio::time::timeout(KILL_AFTER, self.child.wait()).await.is_err() {
            self.send(Signal::KILL);
            let _ = self.child.wait().await;
        }
    }

    fn send(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            // The command may just have ended.
            let _ = if self.own_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
        }
    }
}

/// The exit code that a shell would report.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
