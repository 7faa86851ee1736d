//! Undoes a backup that failed or was deleted: carries out the effects that `plan::velero::backup::undo` lists, for
//! every caller that ends a backup without a result. Takes what the caller knows about the backup; returns what could
//! not be removed.

mod files;
mod native;
mod operations;
mod repositories;
mod transfers;

use std::collections::{BTreeMap, BTreeSet};

use kube::{Resource, ResourceExt};
use lifeboat_api::common::BackupUid;
use lifeboat_api::velero::Backup;
use lifeboat_cluster::{ApiError, objects};
use lifeboat_plan::items::waits::WAITING;
use lifeboat_plan::velero::backup::phase;
use lifeboat_plan::velero::backup::undo::{Effect, Ending, Files, Record, Stage, undo};
use serde_json::{Value, json};

use super::State;
use super::start::report;
use super::status::{Run, write, write_noted};
use super::storage::Storage;
use crate::backup::counted::count;
use crate::backup::journal::Journal;
use crate::backup::pass::run_open_posts;
use crate::context::Context;
use crate::csi;
use crate::repositories::RepositoryKey;
use crate::volume_plugin::{self, DatedClient, Kind};

pub(super) use files::{abort_uploads, write_failure};
pub(super) use operations::cancel_noted;
pub(super) use transfers::{discard_others, lower_consistency};

/// A backup that is undone, as far as the caller knows it.
pub(super) struct Undoing<'a> {
    pub(super) context: &'a Context,
    pub(super) ending: Ending,
    pub(super) stage: Stage,
    pub(super) files: Files,
    pub(super) journal: &'a Journal,
    /// None if the object is gone and this server does not remember it.
    pub(super) backup: Option<&'a Backup>,
    /// The directory of the backup, if storage can be read.
    pub(super) storage: Option<&'a Storage>,
    /// The size of its archive, if the pass wrote it.
    pub(super) size: Option<u64>,
    /// The PodVolumeBackups that the pass created: they may be deleted with their owner.
    pub(super) copies: BTreeMap<String, Value>,
}

/// Why the post hooks of a backup could not be run.
/// Why the open post hooks of a backup could not be run.
#[derive(Debug, thiserror::Error)]
pub(super) enum HooksError {
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    /// The file for the log of the hooks cannot be created.
    #[error(transparent)]
    Log(std::io::Error),
}

/// What could not be undone.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// What is left, or may be left, for people.
    pub(super) messages: Vec<String>,
    /// Why post hooks could not be run now; None if they were.
    pub(super) open_hooks: Option<HooksError>,
    /// Whether the backup's lists in storage name something that is left.
    is_listed: bool,
    /// Whether another try may remove more.
    is_worth_a_try: bool,
    native: native::Kept,
    /// Repositories into which movers of the backup stored snapshots.
    repositories: BTreeSet<RepositoryKey>,
    /// Repositories that cannot be used now.
    unusable: BTreeSet<RepositoryKey>,
}

impl Left {
    /// Records something that is left and that only the backup's lists name.
    fn keep(&mut self, message: String) {
        self.is_listed = true;
        self.messages.push(message);
    }

    /// The reason of a failure, extended by what is left.
    fn added_to(&self, reason: &str) -> String {
        let all = std::iter::once(reason).chain(self.messages.iter().map(String::as_str));
        all.collect::<Vec<_>>().join("; ")
    }
}

impl Undoing<'_> {
    /// Undoes a backup whose object is gone.
    pub(super) async fn carry_out(&self) -> Left {
        self.apply(&self.plan().before, self.text()).await
    }

    /// Ends a backup as Failed: undoes it, and writes why it failed and what is left of it. False if the object is
    /// gone or belongs to another attempt.
    pub(super) async fn fail(&self, state: &State, run: &Run, reason: &str) -> Result<bool, ApiError> {
        let (context, plan) = (self.context, self.plan());
        let left = self.apply(&plan.before, reason).await;
        let mut reason = left.added_to(reason);
        let (status, notes) = (phase::failed(&reason, context.now()), json!({WAITING: null}));
        let Some(object) = write_noted(context, state, run, &status, &notes).await? else {
            return Ok(false);
        };
        let left = self.apply(&plan.after, &reason).await;
        if !left.messages.is_empty() {
            reason = left.added_to(&reason);
            if let Err(error) = write(context, state, run, &json!({"failureReason": reason})).await {
                tracing::warn!(
                    backup = run.name,
                    error = error.chain(),
                    "cannot write the list of what is left of a backup"
                );
            }
        }
        context.events.warning(&object.object_ref(&state.resource), "Failed", &reason).await;
        if let Ok(failed) = objects::typed::<Backup>(&object) {
            count(context, &failed, None);
        }
        tracing::warn!(backup = object.name_any(), reason, "backup failed");
        Ok(true)
    }

    fn plan(&self) -> lifeboat_plan::velero::backup::undo::Undo {
        undo(self.ending, self.stage, self.files)
    }

    fn uid(&self) -> &BackupUid {
        self.journal.uid()
    }

    /// Why the backup is undone, for the status of the objects that it made.
    fn text(&self) -> &'static str {
        match self.ending {
            Ending::Failed => "its backup failed",
            Ending::Deleted => "its Backup was deleted",
            Ending::Orphaned | Ending::GoesOn => "its backup is gone",
        }
    }

    async fn apply(&self, effects: &[Effect], reason: &str) -> Left {
        let mut left = Left::default();
        for effect in effects {
            self.undo(*effect, reason, &mut left).await;
        }
        for message in &left.messages {
            tracing::warn!(uid = %self.uid(), problem = message, "something is left of a backup");
        }
        left
    }

    async fn undo(&self, effect: Effect, reason: &str, left: &mut Left) {
        let (context, uid) = (self.context, self.uid());
        match effect {
            Effect::OpenHooks => {
                left.open_hooks = self.end_hooks().await.err();
            }
            Effect::Uploads => {
                if let Some(storage) = self.storage {
                    abort_uploads(storage.store(), &storage.files).await;
                }
            }
            Effect::Operations(record) => self.cancel_operations(record, left).await,
            Effect::NativeSnapshots(record) => self.delete_native(record, left).await,
            Effect::CsiSnapshots => {
                for message in csi::discard(context, uid).await {
                    left.keep(message);
                }
            }
            Effect::Copies { listed } => self.discard_copies(listed, left).await,
            Effect::Movements { listed } => self.discard_movements(listed, left).await,
            Effect::TaggedSnapshots => self.forget_tagged(left).await,
            Effect::Lists => {
                if let Some(storage) = self.storage {
                    left.native.write(storage).await;
                }
            }
            Effect::ShownSnapshots => {
                let namespace = &context.namespace;
                let client = DatedClient::of(context);
                volume_plugin::end_open(client, Kind::Backup, namespace, uid.as_str(), reason).await;
            }
            Effect::Files => {
                if let Some(storage) = self.storage.filter(|_| !left.is_listed) {
                    files::remove(storage, self.size).await;
                }
            }
            // A later server needs the journal to continue.
            Effect::Journal | Effect::PassedJournal if left.open_hooks.is_some() || left.is_worth_a_try => {}
            Effect::Journal => self.journal.remove().await,
            Effect::PassedJournal => self.journal.end_pass().await,
        }
    }

    async fn end_hooks(&self) -> Result<(), HooksError> {
        let (open, unreadable) = self.journal.entries().await?;
        if open.is_empty() && unreadable.is_empty() {
            return Ok(());
        }
        let report = report(self.context, self.uid().as_str()).map_err(HooksError::Log)?;
        run_open_posts(self.context.commands.as_ref(), self.journal, &report).await?;
        for (_, error) in report.results().errors.all() {
            tracing::warn!(uid = %self.uid(), error, "cannot run a post hook of a backup that is gone");
        }
        Ok(())
    }

    async fn cancel_operations(&self, record: Record, left: &mut Left) {
        match (record, self.storage, self.backup) {
            (Record::Journal, ..) => {
                left.messages.extend(operations::discard_noted(self.context, self.journal).await);
            }
            (Record::Storage, Some(storage), Some(backup)) => {
                left.messages.extend(operations::cancel_listed(self.context, storage, backup).await);
            }
            (Record::Storage, ..) => {}
        }
    }

    async fn delete_native(&self, record: Record, left: &mut Left) {
        match (record, self.storage) {
            (Record::Journal, _) => native::delete_noted(self.context, self.journal, left).await,
            (Record::Storage, Some(storage)) => {
                native::delete_listed(self.context, storage, self.uid(), left).await;
            }
            (Record::Storage, None) => {
                let status = self.backup.and_then(|backup| backup.status.as_ref());
                if status.and_then(|status| status.volume_snapshots_attempted).unwrap_or_default() > 0 {
                    let message = "snapshots are left until the backup is deleted: their list in storage cannot be read";
                    left.keep(message.to_owned());
                }
            }
        }
    }
}
