//! What keeps a Backup from going on: what may pass is waited for, and at last the backup has failed. Called by every step that
//! needs storage or the server's disk.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::runtime::controller::Action;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_cluster::ApiError;
use lifeboat_plan::velero::backup::undo::{Ending, Files, Stage};

use super::journal::Journal;
use super::status::Run;
use super::storage::open;
use super::undo::Undoing;
use super::{State, locked};
use crate::context::Context;

/// How long after a failure the end is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// How long the server's own disk may be full: others wait behind.
const DISK_PATIENCE: GoDuration = GoDuration::from_secs(600);

/// How long storage may be out of reach, where the spec says nothing.
const PATIENCE: GoDuration = GoDuration::from_secs(4 * 3600);

/// What keeps a Backup from going on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{}", .0.chain())]
    Api(ApiError),
    /// Storage is out of reach or does not take something: that may pass.
    #[error("{0}")]
    Storage(String),
    /// The server's own disk is full: that may pass.
    #[error("{0}")]
    Disk(String),
    /// Will not pass.
    #[error("{0}")]
    Gone(String),
}

/// Waits for what may pass; when its time is over the backup has failed, because it could not be restored.
pub(super) async fn wait(
    context: &Context,
    state: &State,
    backup: &Backup,
    trouble: Trouble,
) -> Result<Action, ApiError> {
    let this = Run::of(backup);
    let now = context.now();
    let patience = match &trouble {
        Trouble::Disk(_) => DISK_PATIENCE,
        _ => GoDuration::set(backup.spec.item_operation_timeout).unwrap_or(PATIENCE),
    };
    let (reason, over) = match trouble {
        Trouble::Api(error) => return Err(error),
        Trouble::Gone(reason) => (reason, true),
        Trouble::Storage(reason) | Trouble::Disk(reason) => {
            let since = *locked(&state.trouble).entry(this.uid.clone()).or_insert(now);
            (reason, since.checked_add(patience.to_signed()).is_ok_and(|end| now >= end))
        }
    };
    tracing::warn!(backup = this.name, error = reason, "storage keeps a backup from its end");
    if !over {
        return Ok(Action::requeue(AGAIN));
    }
    locked(&state.trouble).remove(&this.uid);
    fail(context, state, backup, &reason).await
}

/// The backup has failed.
async fn fail(context: &Context, state: &State, backup: &Backup, reason: &str) -> Result<Action, ApiError> {
    let journal = Journal::new(context.client.clone(), &context.namespace, backup);
    let storage = open(context, backup).await.ok();
    let (reached, files) = match (backup.phase(), &storage) {
        // The journal has what an interrupted attempt began.
        (BackupPhase::ReadyToStart | BackupPhase::InProgress, _) => (Stage::Pass, Files::Unknown),
        (_, Some(storage)) => (Stage::AfterPass, storage.whose(backup).await.unwrap_or(Files::Unknown)),
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
