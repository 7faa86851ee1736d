//! Undoes Backups that are deleted after their pass and before their end. A deleted object triggers no reconcile, so
//! unfinished Backups are polled.

use std::collections::BTreeMap;
use std::time::Duration;

use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_cluster::ApiError;
use lifeboat_control::{Backoff, locked};
use lifeboat_plan::velero::backup::ARCHIVE_BYTES;
use lifeboat_plan::velero::backup::undo::{Ending, Stage};
use lifeboat_store::Retry;

use crate::backup::State;
use crate::backup::journal::Journal;
use crate::backup::pass::Stop;
use crate::backup::problem::BackupProblem;
use crate::backup::status::Run;
use crate::backup::status::stop;
use crate::backup::storage::open;
use crate::backup::undo::Undoing;
use crate::context::Context;

/// How often unfinished Backups are polled.
const LOOK: Duration = Duration::from_secs(10);

/// Remembers a Backup whose pass has ended and that is not finalized yet.
pub(in crate::backup) fn follow(state: &State, backup: &Backup) {
    let uid = backup.backup_uid();
    if uid.is_empty() {
        return;
    }
    let between = matches!(
        backup.phase(),
        BackupPhase::WaitingForPluginOperations
            | BackupPhase::WaitingForPluginOperationsPartiallyFailed
            | BackupPhase::Finalizing
            | BackupPhase::FinalizingPartiallyFailed
    );
    if between {
        locked(&state.ending).insert(uid, backup.clone());
    } else {
        locked(&state.ending).remove(&uid);
    }
}

/// Polls until shutdown.
pub(in crate::backup) async fn watch(context: &Context, state: &State) {
    let (mut pause, mut backoff) = (LOOK, Backoff::default());
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = match undo_deleted(context, state).await {
            Ok(()) => {
                backoff.succeeded();
                LOOK
            }
            Err(error) => {
                tracing::warn!(error = error.chain(), "cannot check for deleted backups");
                backoff.failed()
            }
        };
    }
}

pub(in crate::backup) async fn undo_deleted(context: &Context, state: &State) -> Result<(), ApiError> {
    let ending: Vec<_> = locked(&state.ending).clone().into_iter().collect();
    for (uid, backup) in ending {
        if stop(context, state, &Run::of(&backup)).await? == Some(Stop::Deleted) {
            // Storage may be reachable again at the next poll.
            if clear(context, &backup).await {
                locked(&state.ending).remove(&uid);
            }
        }
    }
    Ok(())
}

/// Undoes a deleted Backup. False if storage cannot be asked yet what may be deleted.
async fn clear(context: &Context, backup: &Backup) -> bool {
    let opened = async {
        let storage = open(context, backup).await?;
        let files = storage.files_owner(backup).await?;
        Ok::<_, BackupProblem>((storage, files))
    };
    let (storage, files) = match opened.await {
        Ok(opened) => opened,
        Err(problem) => {
            let (backup, reason) = (Run::of(backup).name, problem.to_string());
            let is_permanent = problem.retry() == Retry::Never;
            if is_permanent {
                tracing::warn!(backup, reason, "what a deleted backup made is kept");
            } else {
                tracing::warn!(backup, reason, "a deleted backup is undone later");
            }
            return is_permanent;
        }
    };
    let journal = Journal::new(context.client.clone(), &context.namespace, backup);
    let noted = backup.metadata.annotations.as_ref().and_then(|all| all.get(ARCHIVE_BYTES));
    // Operations change the size of the archive.
    let operated = backup.status.as_ref().and_then(|status| status.backup_item_operations_attempted);
    let size = noted.and_then(|text| text.parse().ok()).filter(|_| operated.unwrap_or_default() == 0);
    let undoing = Undoing {
        context,
        ending: Ending::Deleted,
        stage: Stage::AfterPass,
        files,
        journal: &journal,
        backup: Some(backup),
        storage: Some(&storage),
        size,
        copies: BTreeMap::new(),
    };
    undoing.carry_out().await;
    true
}
