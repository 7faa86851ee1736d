//! Ends the journals of backups that will not continue: the Backup was deleted, or ended, while no server ran. At the
//! start of a term their open post hooks run once, snapshots of backups that will never complete are deleted, then
//! the journals are deleted. Called by the controller before its first pass.

mod orphans;

use std::collections::BTreeMap;

use kube::api::{DynamicObject, ListParams};
use lifeboat_api::common::BackupUid;
use lifeboat_api::velero::BackupPhase;
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::Backoff;
use lifeboat_plan::velero::backup::undo::{Ending, Files, Stage};
use lifeboat_plan::velero::csi::Orphan;

use super::undo::{HooksError, Undoing};
use super::{State, is_at_rest, shown_phase};
use crate::backup::journal::{self, Journal};
use crate::context::Context;
use crate::csi;

/// How often ending a journal is tried.
const TRIES: u32 = 5;

/// A journal that no attempt will end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) uid: BackupUid,
    /// The phase of its Backup; None if the Backup is gone.
    phase: Option<BackupPhase>,
}

/// The journals that no attempt will end; repeated until the API server answers.
pub(super) async fn left_behind(context: &Context, state: &State) -> Vec<Left> {
    let mut backoff = Backoff::default();
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return Vec::new(),
            found = find(context, state) => match found {
                Ok(found) => return found,
                Err(error) => tracing::warn!(error = error.chain(), "cannot list journals"),
            },
        }
        tokio::time::sleep(backoff.failed()).await;
    }
}

pub(super) async fn find(context: &Context, state: &State) -> Result<Vec<Left>, ApiError> {
    let journals = journal::all(&context.client, &context.namespace).await?;
    if journals.is_empty() {
        return Ok(Vec::new());
    }
    let backups = state.api(context).list(&ListParams::default()).await.attempt("list Backups")?.items;
    let mut left = Vec::new();
    for uid in journals {
        let backup = backups.iter().find(|one| one.metadata.uid.as_deref() == Some(uid.as_str()));
        if !backup.is_some_and(is_to_run) {
            left.push(Left { uid, phase: backup.map(shown_phase) });
        }
    }
    Ok(left)
}

/// Whether the next attempt of this Backup will read the journal itself.
fn is_to_run(backup: &DynamicObject) -> bool {
    backup.metadata.deletion_timestamp.is_none() && shown_phase(backup) == BackupPhase::InProgress
}

/// Runs open post hooks, undoes what is left and removes the journals. A journal that cannot be ended stays for the
/// next term.
pub(super) async fn end(context: &Context, all: &[Left]) {
    for left in all {
        let (mut tries, mut backoff) = (0, Backoff::default());
        while let Err(error) = end_one(context, left).await {
            tries += 1;
            tracing::warn!(%left.uid, %error, "cannot end the hooks of a backup that is gone");
            if tries == TRIES {
                break;
            }
            tokio::time::sleep(backoff.failed()).await;
        }
    }
}

/// Deletes objects of CSI snapshots that a server which died left of ended backups. If the Backup is gone but its
/// files are in storage, the drivers keep the snapshots, because sync creates the Backup again. If neither exists,
/// the snapshots are deleted. If storage cannot be read, they stay until the next start.
pub(super) async fn clear_snapshots(context: &Context, state: &State) {
    let cleared = async {
        // Snapshots are listed first, so that a backup that starts in between is missing here or is in the list of
        // Backups.
        let uids = csi::backups(context).await?;
        if uids.is_empty() {
            return Ok(());
        }
        let backups = state.api(context).list(&ListParams::default()).await.attempt("list Backups")?.items;
        for uid in uids {
            let backup = backups.iter().find(|one| one.metadata.uid.as_deref() == Some(uid.as_str()));
            let moved = backup.is_some_and(|backup| backup.data["spec"]["snapshotMoveData"] == true);
            match backup.map(shown_phase) {
                Some(phase) if !is_at_rest(&phase) => {}
                Some(phase) if moved || phase == BackupPhase::Failed => {
                    for message in csi::discard(context, &uid).await {
                        tracing::warn!(
                            %uid,
                            problem = message,
                            "cannot delete a CSI snapshot of a backup that failed, or whose data was moved"
                        );
                    }
                }
                Some(_) => csi::release(context, &uid).await?,
                None => clear_orphans(context, &uid).await?,
            }
        }
        Ok::<(), ApiError>(())
    };
    if let Err(error) = cleared.await {
        tracing::warn!(error = error.chain(), "cannot delete the CSI snapshots of ended backups");
    }
}

async fn clear_orphans(context: &Context, uid: &BackupUid) -> Result<(), ApiError> {
    match orphans::of(context, uid).await? {
        Orphan::Stored => csi::release(context, uid).await,
        Orphan::Lost => {
            tracing::warn!(
                %uid,
                "neither the cluster nor storage has this backup: its CSI snapshots are deleted"
            );
            for message in csi::discard(context, uid).await {
                tracing::warn!(
                    %uid,
                    problem = message,
                    "cannot delete a CSI snapshot of a backup that is gone"
                );
            }
            Ok(())
        }
        Orphan::Unknown(message) => {
            tracing::warn!(
                %uid,
                problem = message,
                "CSI snapshots of a Backup that is gone are kept: it is unknown whether storage has the backup"
            );
            Ok(())
        }
    }
}

/// Why a journal was not ended.
#[derive(Debug, thiserror::Error)]
enum NotEnded {
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error(transparent)]
    Hooks(#[from] HooksError),
}

async fn end_one(context: &Context, left: &Left) -> Result<(), NotEnded> {
    let journal = Journal::of(context.client.clone(), &context.namespace, &left.uid);
    let (ending, stage, files) = standing(context, left, &journal).await?;
    let undoing = Undoing {
        context,
        ending,
        stage,
        files,
        journal: &journal,
        backup: None,
        storage: None,
        size: None,
        copies: BTreeMap::new(),
    };
    if let Some(error) = undoing.carry_out().await.open_hooks {
        return Err(error.into());
    }
    tracing::info!(uid = %left.uid, "ended the journal of a backup that is gone");
    Ok(())
}

/// How far the backup of a journal came, and whether its files are in storage. A server may have died after the pass
/// and before it deleted the journal: then the lists in storage name what the pass made.
async fn standing(
    context: &Context,
    left: &Left,
    journal: &Journal,
) -> Result<(Ending, Stage, Files), ApiError> {
    let orphaned = |stage, files| Ok((Ending::Orphaned, stage, files));
    match &left.phase {
        // A Backup that still shows InProgress is being deleted.
        Some(BackupPhase::InProgress | BackupPhase::Failed) => orphaned(Stage::Pass, Files::Unknown),
        Some(phase) if is_at_rest(phase) => orphaned(Stage::AfterPass, Files::Restorable),
        Some(_) => Ok((Ending::GoesOn, Stage::AfterPass, Files::Unknown)),
        None if !journal.has_passed().await? => orphaned(Stage::Pass, Files::Unknown),
        None => {
            let (noted, _) = journal.repositories().await?;
            let mut places: Vec<_> = noted.into_iter().map(|one| (one.backup, one.location)).collect();
            places.dedup();
            let found = orphans::at(context, &left.uid, &places).await?;
            let files = match found {
                Orphan::Stored => Files::Restorable,
                Orphan::Lost => Files::Begun,
                Orphan::Unknown(reason) => {
                    tracing::warn!(uid = %left.uid, reason, "what a deleted backup made is kept");
                    Files::Unknown
                }
            };
            orphaned(Stage::AfterPass, files)
        }
    }
}
