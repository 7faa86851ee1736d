//! Prunes and checks a repository. Pruning holds the exclusive lock in steps, so that waiting backups go first;
//! checking takes a shared lock.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_repository::check::{CheckError, CheckOptions, CheckOutcome, check};
use lifeboat_repository::lock::{Lock, LockKind};
use lifeboat_repository::prune::{PruneOptions, plan, prune};
use tokio_util::sync::CancellationToken;

use super::WorkContext;
use super::backup::listed;
use super::failure::{self, Failed};
use super::open::Opened;
use crate::report::{Cause, Level, Listed, Maintained};
use crate::task::MaintainWork;

/// The most that one step repacks, so that a backup waits for seconds and not for hours.
const STEP: u64 = 512 * 1024 * 1024;
const MOST_STEPS: usize = 200;
/// The pause between steps. A mover that waits for the lock polls it every second at first.
const YIELD: Duration = Duration::from_secs(3);

pub(super) async fn carry_out(
    context: &WorkContext,
    work: &MaintainWork,
    opened: &Opened,
    cancel: &CancellationToken,
) -> Result<Maintained, Failed> {
    let mut done = Maintained::default();
    if work.prune {
        prune_in_steps(context, work, opened, &mut done, cancel).await?;
    }
    if work.check {
        let outcome = check_repository(context, opened, cancel).await?;
        done.problems = problems(&outcome);
    }
    Ok(done)
}

async fn prune_in_steps(
    context: &WorkContext,
    work: &MaintainWork,
    opened: &Opened,
    done: &mut Maintained,
    cancel: &CancellationToken,
) -> Result<(), Failed> {
    let engine = failure::of(Cause::Other);
    let repository = &opened.repository;
    let snapshots = tokio::select! {
        snapshots = repository.load_snapshots() => snapshots.map_err(&engine)?,
        () = cancel.cancelled() => return Err(Failed::Cancelled),
    };
    if snapshots.is_empty() && !work.empty_is_meant {
        // A listing that is wrongly empty looks the same, so nothing is pruned because of it alone (restic#4612).
        let text = "the repository has no snapshots: nothing is pruned until it has one again";
        context.reporter.message(Level::Info, text);
        return Ok(());
    }
    let plan = plan::Options {
        max_repack: Some(STEP),
        allow_no_snapshots: work.empty_is_meant,
        ..plan::Options::default()
    };
    let options = PruneOptions { plan, ..PruneOptions::default() };
    for _ in 0..MOST_STEPS {
        let step = prune(repository, &options, &opened.lock, &context.progress, cancel).await;
        let step = step.map_err(&engine)?.done;
        done.bytes_freed += step.bytes_deleted;
        done.packs_deleted += step.packs_deleted;
        if step.packs_written == 0 {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(YIELD) => {}
            () = cancel.cancelled() => return Err(Failed::Cancelled),
        }
    }
    Ok(())
}

async fn check_repository(
    context: &WorkContext,
    opened: &Opened,
    cancel: &CancellationToken,
) -> Result<CheckOutcome, Failed> {
    let repository = &opened.repository;
    let options = CheckOptions::default();
    let checking = Lock::hold(repository, LockKind::Shared, &opened.lock, |_| {
        check(repository, &options, None, Arc::clone(&context.progress), cancel.clone())
    });
    checking.await.map_err(failure::of(Cause::Other))
}

fn problems(outcome: &CheckOutcome) -> Listed {
    let message = |error: &CheckError| format!("{}: {}", error.object, error.message);
    Listed { count: outcome.total_errors, ..listed(&outcome.errors, message) }
}
