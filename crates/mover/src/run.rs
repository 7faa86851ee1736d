//! Carries out a task: reads it, opens the repository, copies the data, reports progress and writes the result. Takes
//! the task's directory and the output for reports; returns the exit code. Called by `lifeboat mover`.

mod agent;
mod backup;
mod block;
mod call;
mod child;
mod done;
mod failure;
mod forget;
mod load;
mod look;
mod maintain;
mod open;
mod parts;
mod priority;
mod proof;
mod reporter;
mod restore;
mod result;
mod secrets;
mod space;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_repository::progress::Progress;
use lifeboat_store::Environment;
use tokio_util::sync::CancellationToken;

use crate::report::{Cause, Failure, Initialized, Level, Outcome, TaskResult};
use crate::task::{Part, Task, TaskWork};
use failure::Failed;
use open::Opened;
use parts::PartOutcomes;
use reporter::Reporter;
#[cfg(test)]
pub(crate) use space::needed as space_needed;

/// How long cancelled work may take to release its lock and end; the kubelet kills the mover after 30 seconds.
const CLEANUP_TIME: Duration = Duration::from_secs(20);

/// The settings of a mover.
pub struct MoverSettings {
    /// The directory with `task.json` and the files that it names.
    pub directory: PathBuf,
    pub result_file: PathBuf,
    /// Part of the owner's name in locks.
    pub pod_uid: String,
    /// The environment of the process, which contains the identity that a cloud gives to a pod.
    pub environment: Vec<(String, String)>,
    /// The running program, which the commands of an agent find as `restic`.
    pub program: PathBuf,
    /// Where the log lines are written.
    pub output: Box<dyn Write + Send>,
}

/// Carries out the task and writes the result. Returns the exit code: 0 if every part is done, 1 otherwise.
pub async fn run(settings: MoverSettings, stop: CancellationToken) -> u8 {
    let MoverSettings { directory, result_file, pod_uid, environment, program, output } = settings;
    let reporter = Reporter::new(output);
    let context = WorkContext {
        environment: Environment::from_vars(environment.clone()),
        variables: Arc::new(environment),
        program,
        directory,
        pod_uid,
        reporter: reporter.clone(),
        progress: Arc::default(),
    };
    let (uid, outcome) = match load::load(&context.directory) {
        Ok(task) => {
            priority::set(&reporter, task.limits.nice);
            (task.uid.clone(), carry_out(&context, &task, stop).await)
        }
        Err((uid, failure)) => (uid.unwrap_or_default(), Outcome::Failed(failure)),
    };
    report_failures(&reporter, &outcome);
    let code = u8::from(!outcome.is_done());
    let written = result::write(&result_file, TaskResult::new(uid, outcome));
    if let Err(error) = written {
        let text = format!("cannot write the result to '{}': {error}", result_file.display());
        reporter.message(Level::Error, &text);
    }
    code
}

fn report_failures(reporter: &Reporter, outcome: &Outcome) {
    match outcome {
        Outcome::Failed(failure) => reporter.message(Level::Error, &failure.message),
        Outcome::Parts(results) => {
            for part in &results.parts {
                if let Outcome::Failed(failure) = &part.outcome {
                    reporter.message(Level::Error, &format!("part {}: {}", part.uid, failure.message));
                }
            }
        }
        _ => {}
    }
}

/// What every kind of work needs besides its part of the task.
#[derive(Clone)]
pub(crate) struct WorkContext {
    directory: PathBuf,
    pod_uid: String,
    environment: Environment,
    /// All variables, for the commands of an agent.
    variables: Arc<Vec<(String, String)>>,
    program: PathBuf,
    reporter: Reporter,
    progress: Arc<Progress>,
}

/// Works until the task is done, the deadline has passed, or `stop` is cancelled.
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
    let mut parts = PartOutcomes::new(task);
    let worked = tokio::select! {
        worked = Box::pin(work(context, task, &mut parts, &cancel)) => worked,
        () = overdue(&cancel) => Err(Failed::Cancelled),
    };
    match worked {
        Ok(()) => parts.finish(None),
        Err(Failed::Because(failure)) => Outcome::Failed(failure),
        Err(Failed::Cancelled) => parts.finish(Some(&ended(task, &stop))),
    }
}

/// Completes if cancelled work has not ended within [`CLEANUP_TIME`].
async fn overdue(cancel: &CancellationToken) {
    cancel.cancelled().await;
    tokio::time::sleep(CLEANUP_TIME).await;
}

fn ended(task: &Task, stop: &CancellationToken) -> Failure {
    match task.deadline {
        Some(deadline) if !stop.is_cancelled() => Failure {
            cause: Cause::Deadline,
            message: format!(
                "not done by the deadline, {deadline}; data that is already stored is not stored again, so another attempt \
                 is faster; set a longer deadline if that does not help"
            ),
        },
        _ => Failure {
            cause: Cause::Stopped,
            message: "stopped by a signal (TERM) before it was done: the pod was evicted or deleted, or the node is shutting down"
                .to_owned(),
        },
    }
}

/// Opens the repository, if the task has one, and carries out the parts one after the other. It returns an error only
/// if the failure is before the parts or ends all of them.
async fn work(
    context: &WorkContext,
    task: &Task,
    parts: &mut PartOutcomes<'_>,
    cancel: &CancellationToken,
) -> Result<(), Failed> {
    let opened = open(context, task, cancel).await?;
    if let (Some(opened), [_, _, ..]) = (&opened, task.parts.as_slice()) {
        restore::expect_stored(context, &task.parts, opened, cancel).await?;
    }
    for part in &task.parts {
        if cancel.is_cancelled() {
            return Err(Failed::Cancelled);
        }
        let context = WorkContext { progress: Arc::default(), ..context.clone() };
        let name = (part.uid != task.uid).then_some(part.uid.as_str());
        let reporting = context.reporter.follow(&context.progress, name);
        let outcome = work_on(&context, part, opened.as_ref(), cancel).await;
        reporting.finish().await;
        parts.add(match outcome {
            Ok(outcome) => outcome,
            Err(Failed::Because(failure)) => Outcome::Failed(failure),
            Err(Failed::Cancelled) => return Err(Failed::Cancelled),
        });
    }
    Ok(())
}

/// Opens the repository; None if the task has none.
async fn open(
    context: &WorkContext,
    task: &Task,
    cancel: &CancellationToken,
) -> Result<Option<Opened>, Failed> {
    let Some(access) = &task.repository else { return Ok(None) };
    let _reporting = context.reporter.follow(&context.progress, None);
    let opening = Box::pin(Opened::open(context, task, access, cancel));
    tokio::select! {
        opened = opening => opened.map(Some),
        () = cancel.cancelled() => Err(Failed::Cancelled),
    }
}

async fn work_on(
    context: &WorkContext,
    part: &Part,
    opened: Option<&Opened>,
    cancel: &CancellationToken,
) -> Result<Outcome, Failed> {
    // A task in which a part needs a repository has one.
    let opened = || opened.ok_or_else(|| Failed::new(Cause::Task, "repository: it is missing"));
    match &part.work {
        TaskWork::Backup(work) => {
            let backup = backup::Backup { context, uid: &part.uid, work, opened: opened()? };
            backup.carry_out(cancel).await.map(Outcome::BackedUp)
        }
        TaskWork::Restore(work) => {
            let restore = restore::Restore { context, work, opened: opened()? };
            restore.carry_out(cancel).await.map(Outcome::Restored)
        }
        TaskWork::Maintain(work) => {
            maintain::carry_out(context, work, opened()?, cancel).await.map(Outcome::Maintained)
        }
        TaskWork::Init => {
            let Opened { repository, is_new, .. } = opened()?;
            let repository = repository.config().id.clone();
            Ok(Outcome::Initialized(Initialized { repository, created: *is_new }))
        }
        TaskWork::Look(work) => look::carry_out(context, work, opened()?, cancel).await.map(Outcome::Looked),
        TaskWork::Forget(work) => forget::carry_out(work, opened()?).await.map(Outcome::Forgotten),
        TaskWork::Call(work) => call::carry_out(work, cancel).await.map(Outcome::Called),
    }
}

/// The path of a file in the task's directory.
fn beside(directory: &Path, name: &str) -> Result<PathBuf, Failure> {
    let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    if plain {
        return Ok(directory.join(name));
    }
    let message = format!(
        "the task names the file '{name}'; expected the plain name of a file in the task's directory"
    );
    Err(Failure { cause: Cause::Task, message })
}
