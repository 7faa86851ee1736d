//! One thread for each plugin process: starts it, waits for its end and cleans up. Provides the pipes and the exit
//! status; the process is killed by [`Keeper::kill`] or by dropping the keeper.
//!
//! Linux sends the parent-death signal when the *thread* that started a process ends. This thread lives as long as its
//! process, so the signal is sent exactly when the whole server is gone.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{oneshot, watch};

/// A program that is still being written (by an init container or a test) cannot be executed for a moment (ETXTBSY).
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// The process group's ID until the process is reaped; after that the ID may belong to another process.
type Group = Arc<Mutex<Option<Pid>>>;

/// A running process and the means to end it.
pub(super) struct Keeper {
    group: Group,
    exited: watch::Receiver<Option<String>>,
}

/// The output of a process.
pub(super) struct Pipes {
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Keeper {
    /// Starts a program in its own process group.
    pub(super) async fn start(command: Command) -> io::Result<(Self, Pipes)> {
        let (started, start) = oneshot::channel();
        let (exit, exited) = watch::channel(None);
        let group = Group::default();
        let shared = Arc::clone(&group);
        thread::Builder::new()
            .name("plugin-keeper".to_owned())
            .spawn(move || keep(command, &shared, started, &exit))?;
        let keeper = Self { group, exited };
        let gone = || io::Error::other("the thread that starts programs ended");
        let (stdout, stderr) = start.await.map_err(|_| gone())??;
        let pipes = Pipes { stdout: ChildStdout::from_std(stdout)?, stderr: ChildStderr::from_std(stderr)? };
        Ok((keeper, pipes))
    }

    /// Kills the process and everything in its group.
    pub(super) fn kill(&self) {
        kill_group(&self.group);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.exited.borrow().is_some()
    }

    /// Waits for the end and returns the exit status: `exit status: 1`, `signal: 9 (SIGKILL)`.
    pub(super) async fn exited(&self) -> String {
        let mut exited = self.exited.clone();
        match exited.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "the process has ended".to_owned(),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.kill();
    }
}

type Started = io::Result<(std::process::ChildStdout, std::process::ChildStderr)>;

/// The thread's main function, from the start of the process to its end.
fn keep(
    mut command: Command,
    group: &Group,
    started: oneshot::Sender<Started>,
    exit: &watch::Sender<Option<String>>,
) {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    die_with_this_thread(&mut command);
    let mut child = match spawn(&mut command) {
        Ok(child) => child,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let pid = Pid::from_child(&child);
    *lock(group) = Some(pid);
    let answer = match (child.stdout.take(), child.stderr.take()) {
        (Some(stdout), Some(stderr)) => Ok((stdout, stderr)),
        _ => Err(io::Error::other("the program has no output")),
    };
    if started.send(answer).is_err() {
        kill_group(group); // the caller of `start` was dropped
    }
    // Waits without reaping: until the process is reaped, its ID cannot be reused.
    let unreaped = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), unreaped), Err(Errno::INTR)) {}
    kill_group(group);
    *lock(group) = None;
    let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    exit.send_replace(Some(how));
    // As process 1 we inherit the plugin's children; they are killed already and must be reaped here.
    while matches!(waitid(WaitId::Pgid(Some(pid)), WaitIdOptions::EXITED), Ok(_) | Err(Errno::INTR)) {}
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => thread::sleep(BUSY_PAUSE),
            other => return other,
        }
    }
    command.spawn()
}

fn kill_group(group: &Group) {
    // Held while the signal is sent, so that the process is not reaped in between.
    if let Some(pid) = *lock(group) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn lock(group: &Group) -> std::sync::MutexGuard<'_, Option<Pid>> {
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kernel kills the plugin when the server ends, even if the server is killed.
#[allow(unsafe_code)]
fn die_with_this_thread(command: &mut Command) {
    let parent = rustix::process::getpid();
    let arm = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The server may have ended before the signal was set up.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: the closure runs between fork and exec. It makes two system calls, allocates nothing, takes no lock and
    // touches no memory of other threads.
    unsafe {
        command.pre_exec(arm);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    fn alive(pid: i32) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.rsplit(") ").next().unwrap_or_default().starts_with('Z')
    }

    async fn until_dead(pid: i32) {
        for _ in 0..500 {
            if !alive(pid) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("process {pid} still runs");
    }

    #[tokio::test]
    async fn the_end_of_a_process_is_reported() {
        let (keeper, _pipes) = Keeper::start(shell("exit 3")).await.unwrap();
        assert_eq!(keeper.exited().await, "exit status: 3");
        assert!(keeper.is_gone());
    }

    #[tokio::test]
    async fn children_of_a_plugin_go_with_it() {
        let (keeper, mut pipes) =
            Keeper::start(shell("sleep 1000 & echo $!; exec sleep 1000")).await.unwrap();
        let mut bytes = [0_u8; 16];
        let count = pipes.stdout.read(&mut bytes).await.unwrap();
        let child: i32 = String::from_utf8_lossy(&bytes[..count]).trim().parse().unwrap();
        assert!(alive(child));
        drop(keeper);
        until_dead(child).await;
    }

    #[tokio::test]
    async fn what_a_plugin_leaves_behind_is_ended_too() {
        let (keeper, mut pipes) = Keeper::start(shell("sleep 1000 >/dev/null 2>&1 & echo $!")).await.unwrap();
        let mut text = String::new();
        pipes.stdout.read_to_string(&mut text).await.unwrap();
        assert_eq!(keeper.exited().await, "exit status: 0");
        until_dead(text.trim().parse().unwrap()).await;
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_an_error() {
        let error = Keeper::start(Command::new("/nonexistent/program")).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
