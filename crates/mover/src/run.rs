//! Carries a task out: reads it, opens the repository, moves the bytes, reports progress and writes the result. Takes the
//! directory with the task and where to report; gives the exit code. Called by `lifeboat mover`.

mod backup;
mod block;
mod child;
mod done;
mod failure;
mod load;
mod maintain;
mod open;
mod proof;
mod reporter;
mod restore;
mod result;
mod space;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_repository::progress::Progress;
use lifeboat_store::Environment;
use tokio_util::sync::CancellationToken;

use crate::report::{Cause, Failure, Level, Outcome, TaskResult};
use crate::task::{Task, VERSION, Work};
use failure::Failed;
use open::Opened;
use reporter::Reporter;
#[cfg(test)]
pub(crate) use space::needed as space_needed;

/// How long cancelled work may take to release its lock and end: the kubelet kills after 30 seconds.
const CLEANUP_TIME: Duration = Duration::from_secs(20);

/// What a mover is started with.
pub struct MoverSettings {
    /// Holds `task.json` and the files that it names.
    pub directory: PathBuf,
    pub result_file: PathBuf,
    /// For the owner of locks.
    pub pod_uid: String,
    /// The process's own variables: the identity that a cloud gives to a pod comes from there.
    pub environment: Vec<(String, String)>,
    /// Where the lines go.
    pub output: Box<dyn Write + Send>,
}

/// Carries the task out and writes the result. Gives the exit code: 0 if it is done, else 1.
pub async fn run(settings: MoverSettings, stop: CancellationToken) -> u8 {
    let MoverSettings { directory, result_file, pod_uid, environment, output } = settings;
    let reporter = Reporter::new(output);
    let context = WorkContext {
        environment: Environment::from_vars(environment),
        directory,
        pod_uid,
        reporter: reporter.clone(),
        progress: Arc::default(),
    };
    let (uid, outcome) = match load::load(&context.directory) {
        Ok(task) => (task.uid.clone(), carry_out(&context, &task, stop).await),
        Err((uid, failure)) => (uid.unwrap_or_default(), Outcome::Failed(failure)),
    };
    if let Outcome::Failed(failure) = &outcome {
        reporter.message(Level::Error, &failure.message);
    }
    let code = u8::from(!is_done(&outcome));
    let written = result::write(&result_file, TaskResult { version: VERSION, uid, outcome });
    if let Err(error) = written {
        let text = format!("cannot write the result to '{}': {error}", result_file.display());
        reporter.message(Level::Error, &text);
    }
    code
}

/// A restore that left something out failed, however much of it is there.
fn is_done(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(_) => false,
        Outcome::Restored(restored) => restored.failed.count == 0,
        Outcome::BackedUp(_) | Outcome::Maintained(_) => true,
    }
}

/// What every kind of work needs beside its part of the task.
pub(crate) struct WorkContext {
    directory: PathBuf,
    pod_uid: String,
    environment: Environment,
    reporter: Reporter,
    progress: Arc<Progress>,
}

/// Works until it is done, the deadline has come, or `stop` is cancelled.
async fn carry_out(context: &WorkContext, task: &Task, stop: CancellationToken) -> Outcome {
    let cancel = stop.child_token();
    let _ends = cancel.clone().drop_guard();
    if let Some(deadline) = task.deadline {
        let left = Duration::try_from(deadline.duration_since(Timestamp::now())).unwrap_or_default();
        let cancel = cancel.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(left) => cancel.cancel(),
                () = cancel.cancelled() => {}
            }
        });
    }
    let reporting = reporter::report_progress(&context.reporter, &context.progress);
    let outcome = tokio::select! {
        outcome = Box::pin(work(context, task, &cancel)) => outcome,
        () = overdue(&cancel) => Err(Failed::Cancelled),
    };
    reporting.finish().await;
    match outcome {
        Ok(outcome) => outcome,
        Err(Failed::Because(failure)) => Outcome::Failed(failure),
        Err(Failed::Cancelled) => Outcome::Failed(ended(task, &stop)),
    }
}

/// Ends when work that was cancelled has not ended within [`CLEANUP_TIME`].
async fn overdue(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(CLEANUP_TIME).await;
}

fn ended(task: &Task, stop: &CancellationToken) -> Failure {
    match task.deadline {
        Some(deadline) if !stop.is_cancelled() => Failure {
            cause: Cause::Deadline,
            message: format!(
                "not done by {deadline}, the deadline; what was stored need not be stored again, so another attempt is \
                 faster; give it more time if that does not help"
            ),
        },
        _ => Failure {
            cause: Cause::Stopped,
            message: "told to stop (TERM) before it was done: evicted, deleted, or the node shuts down"
                .to_owned(),
        },
    }
}

async fn work(context: &WorkContext, task: &Task, cancel: &CancellationToken) -> Result<Outcome, Failed> {
    let opening = Opened::open(context, task, cancel);
    let opened = tokio::select! {
        opened = opening => opened?,
        () = cancel.cancelled() => return Err(Failed::Cancelled),
    };
    match &task.work {
        Work::Backup(work) => {
            let backup = backup::Backup { context, task, work, opened: &opened };
            backup.carry_out(cancel).await.map(Outcome::BackedUp)
        }
        Work::Restore(work) => {
            let restore = restore::Restore { context, work, opened: &opened };
            restore.carry_out(cancel).await.map(Outcome::Restored)
        }
        Work::Maintain(work) => {
            maintain::carry_out(context, work, &opened, cancel).await.map(Outcome::Maintained)
        }
    }
}

/// A file beside the task.
fn beside(directory: &Path, name: &str) -> Result<PathBuf, Failure> {
    let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    if plain {
        return Ok(directory.join(name));
    }
    let message = format!("the task names the file '{name}'; expected the plain name of a file beside it");
    Err(Failure { cause: Cause::Task, message })
}
