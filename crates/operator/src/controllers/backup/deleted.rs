//! Backups that are deleted after their pass and before their end: what their actions still do is cancelled, and the files
//! that nobody will make a backup go. No reconcile tells of an object that is gone, so those under way are looked for.

use std::time::Duration;

use lifeboat_api::velero::{Backup, BackupPhase};
use lifeboat_archive::documents::{BackupOperation, DOCUMENT_LIMIT, decode_list};
use lifeboat_cluster::ApiError;
use lifeboat_plan::backup::ARCHIVE_BYTES;

use super::finalize::{open, run_of};
use super::pass::{abort_uploads, remove_files};
use super::status::stop;
use super::{State, movements, operations, snapshots};
use crate::backup::{Stop, locked};
use crate::context::Context;

/// How often those under way are looked for.
const LOOK: Duration = Duration::from_secs(10);

/// Remembers a Backup while it is between its pass and its end.
pub(super) fn follow(state: &State, backup: &Backup) {
    let Some(uid) = backup.metadata.uid.clone() else { return };
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

/// Looks until the server comes to rest.
pub(super) async fn watch(context: &Context, state: &State) {
    loop {
        tokio::select! {
            () = state.resting.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Err(error) = look(context, state).await {
            tracing::warn!(error = error.chain(), "cannot look for deleted backups");
        }
    }
}

pub(super) async fn look(context: &Context, state: &State) -> Result<(), ApiError> {
    let ending: Vec<_> = locked(&state.ending).clone().into_iter().collect();
    for (uid, backup) in ending {
        if stop(context, state, &run_of(&backup)).await? == Some(Stop::Deleted) {
            clear(context, &backup).await;
            locked(&state.ending).remove(&uid);
        }
    }
    Ok(())
}

async fn clear(context: &Context, backup: &Backup) {
    let Ok((store, files)) = open(context, backup).await else {
        tracing::warn!(
            backup = run_of(backup).name,
            "storage cannot be opened: the files of a deleted backup stay"
        );
        return;
    };
    let stored = store.get(&files.item_operations(), DOCUMENT_LIMIT).await.ok();
    let begun: Vec<BackupOperation> = stored.and_then(|bytes| decode_list(&bytes).ok()).unwrap_or_default();
    let its_own = |one: &BackupOperation| Some(&one.spec.backup_uid) == backup.metadata.uid.as_ref();
    let (own, others): (Vec<_>, Vec<_>) = begun.into_iter().partition(its_own);
    let acting = context.acting_quietly();
    operations::cancel(&acting.actions, backup, &own).await;
    acting.close().await;
    abort_uploads(store.as_ref(), &files).await;
    // Operations change the size of the archive; then their list says whose it is.
    let noted = backup.metadata.annotations.as_ref().and_then(|all| all.get(ARCHIVE_BYTES));
    let size = noted.and_then(|text| text.parse().ok()).filter(|_| own.is_empty());
    if others.is_empty() && (size.is_some() || !own.is_empty()) {
        // Their list goes with the files; what is left of them keeps both.
        let uid = backup.metadata.uid.as_deref().unwrap_or_default();
        let mut left = snapshots::discard_listed(context, store.as_ref(), &files, uid).await;
        left.extend(movements::discard(context, uid, "its Backup was deleted").await);
        for words in &left {
            tracing::warn!(backup = files.name(), words, "the files of a deleted backup stay");
        }
        if !left.is_empty() {
            return;
        }
        remove_files(store.as_ref(), &files, size).await;
    }
}
