//! Backs up a volume, a device or a command's output into a snapshot that is tagged with the UID. If such a snapshot
//! already exists, an earlier mover did this part and there is nothing to do.

mod input;
mod report;

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use lifeboat_repository::Error;
use lifeboat_repository::backup::{self, BackupOptions, BackupOutcome, Confirm, Parent};
use lifeboat_repository::files::FileKind;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::{FoundSnapshot, GroupBy};
use lifeboat_repository::source::filter::Filter;
use lifeboat_repository::source::patterns::{Case, Patterns};
use tokio_util::sync::CancellationToken;

use super::WorkContext;
use super::agent::{AgentBackup, Surroundings};
use super::failure::{self, Failed};
use super::open::Opened;
use super::proof::{Volume, has_file};
use crate::report::{BackedUp, Cause, ComparedFiles, Failure, Level, Listed};
use crate::task::{BackupWork, INCOMPLETE_TAG, UID_TAG, UNREADABLE_TAG, VOLUME_TAG, unreadable};
use input::Input;

/// The directory of the done files of restores, which are not part of a volume's data.
pub(super) const DONE_FILES: &str = "/.velero";
/// The tag with owner and mode of a directory that is stored at the root of the snapshot, where it has no entry:
/// `lifeboat-root=755:1000:1000`.
pub(super) const ROOT_TAG: &str = "lifeboat-root=";
/// How many bytes that were appended to a file after it was opened are still read.
const GROWTH: u64 = 64 * 1024 * 1024;

/// One backup.
pub(super) struct Backup<'a> {
    pub(super) context: &'a WorkContext,
    /// The UID of the part.
    pub(super) uid: &'a str,
    pub(super) work: &'a BackupWork,
    pub(super) opened: &'a Opened,
}

/// Why the snapshot is not written although all data was stored. Passed through the engine as the reason of
/// `Error::NotConfirmed`.
#[derive(Debug, thiserror::Error)]
enum Objection {
    #[error("{}", .0.message)]
    WrongVolume(Failure),
    #[error("snapshot {} of this task already exists", .0.0.short())]
    MadeBefore(Box<FoundSnapshot>),
}

impl From<Objection> for Error {
    fn from(objection: Objection) -> Self {
        Self::NotConfirmed(Box::new(objection))
    }
}

impl Backup<'_> {
    pub(super) async fn carry_out(&self, cancel: &CancellationToken) -> Result<BackedUp, Failed> {
        let repository = &self.opened.repository;
        let reading = repository.load_readable_snapshots();
        let seen = tokio::select! {
            loaded = reading => loaded.map_err(failure::of(Cause::Source))?.found,
            () = cancel.cancelled() => return Err(Failed::Cancelled),
        };
        let tag = self.tag();
        if let Some(found) = seen.iter().find(|(_, snapshot)| snapshot.tags.contains(&tag)) {
            return Ok(self.made_before(found));
        }
        let input = Input::open(self.work, Surroundings::of(self.context, repository), cancel)?;
        let agent = input.agent.clone();
        let confirm = Confirmation {
            repository: repository.clone(),
            tag,
            volume: input.directory.as_ref().map(|directory| Arc::clone(&directory.volume)),
            file: input.directory.as_ref().and_then(|directory| directory.file.clone()),
            seen: seen.into_iter().map(|(id, _)| id).collect(),
            agent: agent.clone(),
        };
        let options = self.options(input, confirm)?;
        let progress = Arc::clone(&self.context.progress);
        let made = backup::backup(repository, options, &self.opened.lock, progress, cancel.clone()).await;
        // To the engine, an agent that failed is a stream that cannot be read.
        if let Some(failed) = agent.and_then(|agent| agent.problem()).filter(|_| made.is_err()) {
            return Err(failed);
        }
        match made {
            Ok(outcome) => Ok(self.finished(outcome).await),
            Err(Error::NotConfirmed(reason)) => self.not_confirmed(reason),
            Err(error) => Err(failure::of(Cause::Source)(error)),
        }
    }

    fn not_confirmed(&self, reason: Box<dyn std::error::Error + Send + Sync>) -> Result<BackedUp, Failed> {
        match reason.downcast::<Objection>().map(|objection| *objection) {
            Ok(Objection::MadeBefore(found)) => Ok(self.made_before(&found)),
            Ok(Objection::WrongVolume(failure)) => Err(failure.into()),
            Err(other) => Err(Failed::new(Cause::Other, other.to_string())),
        }
    }

    fn tag(&self) -> String {
        format!("{UID_TAG}{}", self.uid)
    }

    fn options(&self, input: Input, confirm: Confirmation) -> Result<BackupOptions, Failure> {
        let Input { source, directory, .. } = input;
        let excludes = self.excludes();
        let patterns = Patterns::parse(&excludes, Case::Matters);
        let patterns = patterns.map_err(|error| Failure {
            cause: Cause::Task,
            message: format!("excludes: {}", failure::message(&error)),
        })?;
        let mut tags = vec![self.tag()];
        tags.extend(self.work.tags.iter().cloned());
        if let Some(stat) = directory.as_ref().filter(|_| self.work.at.is_none()).map(|it| it.stat) {
            tags.push(format!("{ROOT_TAG}{:o}:{}:{}", stat.st_mode & 0o7777, stat.st_uid, stat.st_gid));
        }
        Ok(BackupOptions {
            tags,
            incomplete_tag: Some(UNREADABLE_TAG.to_owned()),
            incomplete_tags: self
                .work
                .incomplete_tag
                .then(|| INCOMPLETE_TAG.to_owned())
                .into_iter()
                .collect(),
            parent: Parent::Newest(GroupBy { tags_with: Some(VOLUME_TAG), ..GroupBy::default() }),
            filter: Filter { patterns: vec![patterns], ..Filter::default() },
            excludes: if directory.is_some() { excludes } else { Vec::new() },
            growth: Some(GROWTH),
            confirm: Some(confirm.into()),
            // A volume may be empty; the proof showed that it is the right one.
            allow_empty: directory.is_some(),
            scan: true,
            ..BackupOptions::new(source, &self.work.host)
        })
    }

    /// The patterns of the task, and the done files of restores, which are only at the root of a volume.
    fn excludes(&self) -> Vec<String> {
        let mut excludes = self.work.excludes.clone();
        let at = self.work.at.as_deref().unwrap_or_default().trim_end_matches('/');
        let done_files = format!("{at}{DONE_FILES}");
        if self.work.sub_path.is_none() && !excludes.contains(&done_files) {
            excludes.push(done_files);
        }
        excludes
    }

    async fn finished(&self, outcome: BackupOutcome) -> BackedUp {
        let result = BackedUp {
            milliseconds: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
            changed: Listed {
                count: outcome.changed_count,
                ..listed(&outcome.changed_while_read, String::clone)
            },
            unreadable: Listed {
                count: outcome.unreadable_count,
                ..listed(&outcome.unreadable, |problem| format!("{}: {}", problem.path, problem.message))
            },
            ..counted(outcome.snapshot_id, &outcome.snapshot)
        };
        if let (Some(key), Some(location)) = (&self.work.report, &self.opened.location)
            && let Err(error) = report::write(location, key, self.uid, self.work, &result, outcome).await
        {
            let text = format!("cannot write the full report to '{key}': {error}");
            self.context.reporter.message(Level::Warning, &text);
        }
        result
    }

    fn made_before(&self, (id, snapshot): &FoundSnapshot) -> BackedUp {
        let text = format!("snapshot {} of this task already exists: nothing to do", id.short());
        self.context.reporter.message(Level::Info, &text);
        counted(Some(*id), snapshot)
    }
}

/// The counts that are recorded in the snapshot.
fn counted(id: Option<SnapshotId>, snapshot: &Snapshot) -> BackedUp {
    let counts = snapshot.summary.as_ref().map(|summary| summary.counts).unwrap_or_default();
    let lasted =
        snapshot.summary.as_ref().map(|summary| summary.backup_start.duration_until(&summary.backup_end));
    BackedUp {
        snapshot: id.map(|id| id.to_string()).unwrap_or_default(),
        files: counts.total_files_processed,
        bytes: counts.total_bytes_processed,
        bytes_added: counts.data_added,
        bytes_stored: counts.data_added_packed,
        milliseconds: lasted.and_then(|lasted| u64::try_from(lasted.as_millis()).ok()).unwrap_or_default(),
        compared: snapshot.summary.as_ref().map(|_| ComparedFiles {
            new: counts.files_new,
            modified: counts.files_changed,
            unmodified: counts.files_unmodified,
        }),
        unreadable: Listed { count: unreadable(&snapshot.tags), first: Vec::new() },
        ..BackedUp::default()
    }
}

/// The first entries of a list; the result is shortened to its limit later.
pub(super) fn listed<T>(all: &[T], message: impl Fn(&T) -> String) -> Listed {
    const FIRST: usize = 20;
    Listed { count: all.len() as u64, first: all.iter().take(FIRST).map(message).collect() }
}

/// The last check before the snapshot is written.
struct Confirmation {
    repository: Repository,
    tag: String,
    volume: Option<Arc<Volume>>,
    /// The only file that is read.
    file: Option<Arc<(OwnedFd, String)>>,
    /// The snapshots that existed when the backup started: none of them belongs to this task.
    seen: HashSet<SnapshotId>,
    /// Its commands must all have succeeded.
    agent: Option<AgentBackup>,
}

impl From<Confirmation> for Confirm {
    fn from(confirmation: Confirmation) -> Self {
        Box::new(move || Box::pin(confirmation.check()))
    }
}

impl Confirmation {
    async fn check(self) -> Result<(), Error> {
        if let Some(agent) = &self.agent {
            agent.finish().await.map_err(|error| Error::NotConfirmed(Box::new(error)))?;
        }
        if let Some(volume) = self.volume.clone() {
            let proved = tokio::task::spawn_blocking(move || volume.prove()).await;
            let proved = proved.map_err(|_| Error::Cancelled)?;
            proved.map_err(Objection::WrongVolume)?;
        }
        if let Some((directory, name)) = self.file.as_deref()
            && !has_file(directory, name)
        {
            let message = format!("the file '{name}' was deleted while it was read");
            return Err(Objection::WrongVolume(Failure { cause: Cause::Source, message }).into());
        }
        // Another pod of the same task may have stored the snapshot in the meantime.
        for file in self.repository.list(FileKind::Snapshot).await? {
            let id = SnapshotId(file.id);
            if self.seen.contains(&id) {
                continue;
            }
            match self.repository.load_snapshot(id).await {
                Ok(snapshot) if snapshot.tags.contains(&self.tag) => {
                    return Err(Objection::MadeBefore(Box::new((id, snapshot))).into());
                }
                // A damaged snapshot is not one of this task: a snapshot that another pod of the task has just written can be
                // read. A deleted one is none either.
                Ok(_) | Err(Error::Damaged { .. }) => {}
                Err(Error::Store { source, .. }) if source.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
