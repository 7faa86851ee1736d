//! Problems that prevent a Backup from continuing: temporary ones are waited for; after a time the backup has failed.
//! Called by every step that needs storage or the server's disk.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::runtime::controller::Action;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::velero::backup::undo::{Ending, Files, Stage};
use lifeboat_store::Retry;

use super::State;
use super::journal::Journal;
use super::status::Run;
use super::storage::open;
use super::undo::Undoing;
use crate::context::Context;

/// When the end of a Backup is tried again after a failure.
const AGAIN: Duration = Duration::from_secs(10);

/// How long the server's own disk may be full: other backups wait in the meantime.
const DISK_PATIENCE: GoDuration = GoDuration::from_secs(600);

/// How long storage may be out of reach if the spec sets no timeout.
const PATIENCE: GoDuration = GoDuration::from_secs(4 * 3600);

/// A problem that prevents a Backup from continuing.
#[derive(Debug, thiserror::Error)]
pub(super) enum BackupProblem {
    #[error("{}", .0.message())]
    Api(ApiError),
    /// Storage cannot be reached or rejects a file: may be temporary.
    #[error("{0}")]
    Storage(String),
    /// The server's own disk is full: may be temporary.
    #[error("{0}")]
    Disk(String),
    /// A permanent problem.
    #[error("{0}")]
    Gone(String),
}

impl BackupProblem {
    /// A word from a fixed list, for metrics and logs.
    pub(super) fn category(&self) -> &'static str {
        match self {
            Self::Api(error) => error.category(),
            Self::Storage(_) => "storage",
            Self::Disk(_) => "disk",
            Self::Gone(_) => "gone",
        }
    }

    /// When the step may be tried again.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::Gone(_) => Retry::Never,
            Self::Api(_) | Self::Storage(_) | Self::Disk(_) => Retry::Later,
        }
    }
}

/// Why an object of the cluster that a backup needs cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Waits while the problem is temporary; after its time limit the backup has failed, because it could not be
/// restored.
pub(super) async fn wait(
    context: &Context,
    state: &State,
    backup: &Backup,
    problem: BackupProblem,
) -> Result<Action, ApiError> {
    let this = Run::of(backup);
    let now = context.now();
    let patience = match &problem {
        BackupProblem::Disk(_) => DISK_PATIENCE,
        _ => GoDuration::set(backup.spec.item_operation_timeout).unwrap_or(PATIENCE),
    };
    let (category, retry) = (problem.category(), problem.retry());
    let reason = match problem {
        BackupProblem::Api(error) => return Err(error),
        other => other.to_string(),
    };
    let over = retry == Retry::Never || {
        let since = *locked(&state.problem).entry(this.uid.clone()).or_insert(now);
        since.checked_add(patience.to_signed()).is_ok_and(|end| now >= end)
    };
    tracing::warn!(
        backup = this.name,
        category,
        error = reason,
        "a backup cannot be finished, because storage does not accept its files"
    );
    if !over {
        return Ok(Action::requeue(AGAIN));
    }
    locked(&state.problem).remove(&this.uid);
    fail(context, state, backup, &reason).await
}

/// Ends the backup as Failed.
async fn fail(context: &Context, state: &State, backup: &Backup, reason: &str) -> Result<Action, ApiError> {
    let journal = Journal::new(context.client.clone(), &context.namespace, backup);
    let storage = open(context, backup).await.ok();
    let (reached, files) = match (backup.phase(), &storage) {
        // What an interrupted attempt began is in the journal.
        (BackupPhase::ReadyToStart | BackupPhase::InProgress, _) => (Stage::Pass, Files::Unknown),
        (_, Some(storage)) => (Stage::AfterPass, storage.files_owner(backup).await.unwrap_or(Files::Unknown)),
        (_, None) => (Stage::AfterPass, Files::Unknown),
    };
    let undoing = Undoing {
        context,
        ending: Ending::Failed,
        stage: reached,
        files,
        journal: &journal,
        backup: Some(backup),
        storage: storage.as_ref(),
        size: None,
        copies: BTreeMap::new(),
    };
    undoing.fail(state, &Run::of(backup), reason).await?;
    Ok(Action::await_change())
}
