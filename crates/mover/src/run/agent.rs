//! Runs the commands of an agent: a backup reads what they pass to `restic backup`, a recovery writes the
//! snapshot's file into the pipe of their `restic restore`. The mover holds the repository's lock during the
//! whole run. A snapshot is written, and a recovery succeeds, only if every command exited with 0. See
//! docs/design/0010-agents.md.

mod door;
mod drained;
mod messages;
mod run;
mod sides;
mod start;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lifeboat_repository::Error;
use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::dump::{DumpFormat, dump};
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::walk::single_file;
use tokio_util::sync::CancellationToken;

use super::WorkContext;
use super::failure::{self, Failed};
use super::restore::Restore;
use crate::agent::Request;
use crate::report::{Cause, Restored};
use crate::task::AgentRun;
use run::Run;

/// How often a running side is polled.
const TICK: Duration = Duration::from_millis(50);

/// What the commands need beside their part of the task.
#[derive(Clone)]
pub(super) struct Surroundings {
    /// The environment of the mover.
    variables: Arc<Vec<(String, String)>>,
    /// Our program, which the commands find as `restic`.
    program: PathBuf,
    /// The mover's directory for temporary files, in which the link `restic` and the socket are created.
    temporary: PathBuf,
}

impl Surroundings {
    pub(super) fn of(context: &WorkContext, repository: &Repository) -> Self {
        Self {
            variables: Arc::clone(&context.variables),
            program: context.program.clone(),
            temporary: repository.options().temporary.clone(),
        }
    }
}

/// The commands of a backup. One clone is the input of the engine; another one decides whether the snapshot
/// is written.
#[derive(Clone)]
pub(super) struct AgentBackup(Arc<Inner>);

struct Inner {
    commands: AgentRun,
    surroundings: Surroundings,
    cancel: CancellationToken,
    state: Mutex<State>,
}

/// The commands start with the first read, when the repository is locked, so that a dump does not wait for
/// the lock.
enum State {
    Waiting,
    Running(Run),
    Failed(Failed),
    Over,
}

impl AgentBackup {
    pub(super) fn new(commands: &AgentRun, surroundings: Surroundings, cancel: &CancellationToken) -> Self {
        let (commands, cancel) = (commands.clone(), cancel.clone());
        Self(Arc::new(Inner { commands, surroundings, cancel, state: Mutex::new(State::Waiting) }))
    }

    /// Waits until all commands have ended. Succeeds only if each of them exited with 0.
    pub(super) async fn finish(&self) -> io::Result<()> {
        let agent = self.clone();
        tokio::task::spawn_blocking(move || agent.step(Run::finish)).await.map_err(io::Error::other)?
    }

    /// Why the commands failed, once; None if they did not. They are killed if they still run.
    pub(super) fn problem(&self) -> Option<Failed> {
        match std::mem::replace(&mut *self.state(), State::Over) {
            State::Failed(failed) => Some(failed),
            _ => None,
        }
    }

    /// Runs one step. If it fails, the commands are dropped, which kills them, and only the reason is kept.
    fn step<T>(&self, step: impl FnOnce(&mut Run) -> Result<T, Failed>) -> io::Result<T> {
        let mut state = self.state();
        let outcome = match &mut *state {
            State::Running(run) => step(run),
            State::Waiting => self.0.start().and_then(|run| {
                *state = State::Running(run);
                let State::Running(run) = &mut *state else { return Err(Failed::Cancelled) };
                step(run)
            }),
            State::Failed(_) | State::Over => Err(Failed::Cancelled),
        };
        outcome.map_err(|failed| {
            let text = failed.to_string();
            *state = State::Failed(failed);
            io::Error::other(text)
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn start(&self) -> Result<Run, Failed> {
        let mut run = Run::start(&self.commands, &self.surroundings, Cause::Source, &self.cancel)?;
        run.meet(|request| match request {
            Request::Backup => None,
            other @ Request::Restore { .. } => Some(messages::not_in_a_backup(other)),
        })?;
        Ok(run)
    }
}

impl Read for AgentBackup {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() { Ok(0) } else { self.step(|run| run.read(room)) }
    }
}

/// A recovery: the commands get the only file of a snapshot.
pub(super) struct AgentRestore<'a> {
    repository: &'a Repository,
    snapshot: &'a Snapshot,
    /// The snapshot's ID; a command that names another one is refused.
    id: &'a str,
    commands: &'a AgentRun,
    surroundings: Surroundings,
}

impl<'a> AgentRestore<'a> {
    pub(super) fn of(restore: &Restore<'a>, snapshot: &'a Snapshot, commands: &'a AgentRun) -> Self {
        let repository = &restore.opened.repository;
        let surroundings = Surroundings::of(restore.context, repository);
        Self { repository, snapshot, id: &restore.work.snapshot, commands, surroundings }
    }

    pub(super) async fn carry_out(&self, cancel: &CancellationToken) -> Result<Restored, Failed> {
        let engine = failure::of(Cause::Target);
        let index = self.repository.load_index().await.map_err(&engine)?;
        let reader = BlobReader::new(self.repository, Arc::new(index));
        let (path, node) = single_file(&reader, self.snapshot.tree).await.map_err(&engine)?;
        let run = Run::start(self.commands, &self.surroundings, Cause::Target, cancel)?;
        let run = Arc::new(Mutex::new(run));
        let id = self.id.to_owned();
        let output = on_thread(&run, move |run| {
            run.meet(|request| messages::not_in_a_recovery(request, &id))?;
            run.file()
        });
        let output = output.await?;
        let writer = output.try_clone().map_err(|error| broken(&error))?;
        let dumping =
            dump(self.repository, self.snapshot, &path, DumpFormat::Raw, File::from(writer), cancel.clone());
        let dumped = tokio::select! {
            dumped = dumping => dumped,
            () = failed_side(&run) => return Err(on_thread(&run, |run| run.blame(None)).await),
        };
        match dumped {
            Ok(()) => {}
            Err(Error::Cancelled) => return Err(Failed::Cancelled),
            // A command that ends early closes its input; why it ended says more than the failed write.
            Err(Error::Local { .. }) => return Err(on_thread(&run, closed_early).await),
            Err(error) => return Err(engine(error)),
        }
        on_thread(&run, move |run| taken(run, output)).await?;
        Ok(Restored { files: 1, bytes: node.size, ..Restored::default() })
    }
}

/// Called when everything has been written: waits until the pipe was drained and all commands have ended.
fn taken(run: &mut Run, output: OwnedFd) -> Result<(), Failed> {
    while !drained::is_drained(&output) {
        run.check()?;
        if !drained::has_reader(&output, TICK) && !drained::is_drained(&output) {
            return Err(closed_early(run));
        }
    }
    drop(output);
    run.finish()
}

fn closed_early(run: &mut Run) -> Failed {
    run.blame(Some(messages::CLOSED_EARLY))
}

/// Completes when a side has failed.
async fn failed_side(run: &Mutex<Run>) {
    while !run.lock().unwrap_or_else(PoisonError::into_inner).has_failed() {
        tokio::time::sleep(TICK).await;
    }
}

/// Runs a step that blocks.
async fn on_thread<T: FromPanic + Send + 'static>(
    run: &Arc<Mutex<Run>>,
    step: impl FnOnce(&mut Run) -> T + Send + 'static,
) -> T {
    let run = Arc::clone(run);
    let stepped =
        tokio::task::spawn_blocking(move || step(&mut run.lock().unwrap_or_else(PoisonError::into_inner)));
    stepped.await.unwrap_or_else(|error| T::from_panic(&error))
}

/// The result of a step that ended with a panic.
trait FromPanic {
    fn from_panic(error: &tokio::task::JoinError) -> Self;
}

impl<T> FromPanic for Result<T, Failed> {
    fn from_panic(error: &tokio::task::JoinError) -> Self {
        Err(Failed::from_panic(error))
    }
}

impl FromPanic for Failed {
    fn from_panic(error: &tokio::task::JoinError) -> Self {
        Self::new(Cause::Other, format!("a thread of the agent has ended: {error}"))
    }
}

fn broken(error: &io::Error) -> Failed {
    Failed::new(Cause::Target, format!("cannot use the output of `restic`: {error}"))
}
