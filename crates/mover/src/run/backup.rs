//! Backs a volume, a device or a command's output up into a snapshot that carries the UID. If such a snapshot exists
//! already, this is the second mover of the task and has nothing to do.

mod report;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use lifeboat_repository::Error;
use lifeboat_repository::backup::{self, BackupOptions, BackupOutcome, Confirm};
use lifeboat_repository::files::FileKind;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::Found;
use lifeboat_repository::source::filter::Filter;
use lifeboat_repository::source::patterns::{Case, Patterns};
use tokio_util::sync::CancellationToken;

use super::WorkContext;
use super::failure::{self, Failed};
use super::open::Opened;
use super::proof::Volume;
use crate::report::{BackedUp, Cause, Failure, Level, Listed};
use crate::task::{BackupWork, Source, Task, UID_TAG, UNREADABLE_TAG, unreadable};

/// What the snapshots of a volume name as their path, wherever the volume was mounted.
const ROOT: &str = "/";
/// The done files of restores, which belong to no volume.
const WAIT_FILES: &str = "/.velero";
/// Owner and mode of the volume's own root, which no entry of the snapshot has: `lifeboat-root=755:1000:1000`.
pub(super) const ROOT_TAG: &str = "lifeboat-root=";
/// How much of a file is read that was written after it was opened.
const GROWTH: u64 = 64 * 1024 * 1024;

/// One backup.
pub(super) struct Backup<'a> {
    pub(super) context: &'a WorkContext,
    pub(super) task: &'a Task,
    pub(super) work: &'a BackupWork,
    pub(super) opened: &'a Opened,
}

/// Why there is no new snapshot although all was stored.
enum Objection {
    Wrong(Failure),
    Made(Box<Found>),
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
        let (source, volume) = self.source()?;
        let objection = Arc::new(Mutex::new(None));
        let confirm = Confirmation {
            repository: repository.clone(),
            tag,
            volume: volume.clone(),
            seen: seen.into_iter().map(|(id, _)| id).collect(),
            objection: Arc::clone(&objection),
        };
        let options = self.options(source, volume.as_deref(), confirm)?;
        let progress = Arc::clone(&self.context.progress);
        let outcome = backup::backup(repository, options, &self.opened.lock, progress, cancel.clone()).await;
        let objection = objection.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (outcome, objection) {
            (_, Some(Objection::Wrong(failure))) => Err(failure.into()),
            (_, Some(Objection::Made(found))) => Ok(self.made_before(&found)),
            (Ok(outcome), None) => Ok(self.finished(outcome).await),
            (Err(error), None) => Err(failure::of(Cause::Source)(error)),
        }
    }

    fn tag(&self) -> String {
        format!("{UID_TAG}{}", self.task.uid)
    }

    /// What the engine reads, and the directory that has to be the same at the end.
    fn source(&self) -> Result<(backup::Source, Option<Arc<Volume>>), Failure> {
        let (path, proof) = match &self.work.source {
            Source::Path { path, proof } => (path, proof.as_ref()),
            Source::Snapshot { path } => (path, None),
            Source::BlockDevice { path, name } => {
                let file = std::fs::File::open(path).map_err(|error| Failure {
                    cause: Cause::Source,
                    message: format!("cannot open the device '{}': {error}", path.display()),
                })?;
                return Ok((backup::Source::Device { file, name: name.clone() }, None));
            }
            Source::Command { argv, name } => {
                let argv = argv.iter().map(Into::into).collect();
                return Ok((backup::Source::Command { name: name.clone(), argv }, None));
            }
        };
        let volume = Volume::open(path, proof)?;
        let directory = volume.directory().try_clone().map_err(|error| Failure {
            cause: Cause::Source,
            message: format!("cannot open '{}': {error}", path.display()),
        })?;
        let source = backup::Source::Root { directory, path: ROOT.to_owned() };
        Ok((source, Some(Arc::new(volume))))
    }

    fn options(
        &self,
        source: backup::Source,
        volume: Option<&Volume>,
        confirm: Confirmation,
    ) -> Result<BackupOptions, Failure> {
        let mut excludes = self.work.excludes.clone();
        if !excludes.iter().any(|pattern| pattern == WAIT_FILES) {
            excludes.push(WAIT_FILES.to_owned());
        }
        let patterns = Patterns::parse(&excludes, Case::Matters);
        let patterns = patterns.map_err(|error| Failure {
            cause: Cause::Task,
            message: format!("excludes: {}", failure::message(&error)),
        })?;
        let mut tags = vec![self.tag()];
        tags.extend(self.work.tags.iter().cloned());
        if let Some(volume) = volume {
            let stat = volume.stat()?;
            tags.push(format!("{ROOT_TAG}{:o}:{}:{}", stat.st_mode & 0o7777, stat.st_uid, stat.st_gid));
        }
        Ok(BackupOptions {
            tags,
            incomplete_tag: Some(UNREADABLE_TAG.to_owned()),
            filter: Filter { patterns: vec![patterns], ..Filter::default() },
            excludes: if volume.is_some() { excludes } else { Vec::new() },
            growth: Some(GROWTH),
            confirm: Some(confirm.into()),
            // A volume may be empty; that it is the right one was proved.
            allow_empty: volume.is_some(),
            scan: true,
            ..BackupOptions::new(source, &self.work.host)
        })
    }

    async fn finished(&self, outcome: BackupOutcome) -> BackedUp {
        let result = BackedUp {
            milliseconds: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
            changed: listed(&outcome.changed_while_read, String::clone),
            unreadable: listed(&outcome.unreadable, |problem| {
                format!("{}: {}", problem.path, problem.message)
            }),
            ..counted(outcome.snapshot_id, &outcome.snapshot)
        };
        if let Some(key) = &self.work.report
            && let Err(problem) =
                report::write(&self.opened.location, key, self.task, self.work, &result, outcome).await
        {
            self.context.reporter.message(Level::Warning, &problem);
        }
        result
    }

    fn made_before(&self, (id, snapshot): &Found) -> BackedUp {
        let text = format!("snapshot {} of this task is there already: nothing is done again", id.short());
        self.context.reporter.message(Level::Info, &text);
        counted(Some(*id), snapshot)
    }
}

/// The counts that a snapshot holds of its own backup.
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
        unreadable: Listed { count: unreadable(&snapshot.tags), first: Vec::new() },
        ..BackedUp::default()
    }
}

/// The first entries of a list; the result is cut to its limit later.
pub(super) fn listed<T>(all: &[T], message: impl Fn(&T) -> String) -> Listed {
    const FIRST: usize = 20;
    Listed { count: all.len() as u64, first: all.iter().take(FIRST).map(message).collect() }
}

/// The last check before the snapshot is written.
struct Confirmation {
    repository: Repository,
    tag: String,
    volume: Option<Arc<Volume>>,
    /// Snapshots that are not this task's.
    seen: HashSet<SnapshotId>,
    objection: Arc<Mutex<Option<Objection>>>,
}

impl From<Confirmation> for Confirm {
    fn from(confirmation: Confirmation) -> Self {
        Box::new(move || Box::pin(confirmation.check()))
    }
}

impl Confirmation {
    async fn check(self) -> Result<(), Error> {
        if let Some(volume) = self.volume.clone() {
            let proved = tokio::task::spawn_blocking(move || volume.prove()).await;
            let proved = proved.map_err(|_| Error::Cancelled)?;
            proved.map_err(|failure| self.object(Objection::Wrong(failure)))?;
        }
        // Another pod of the same task may have been faster.
        for file in self.repository.list(FileKind::Snapshot).await? {
            let id = SnapshotId(file.id);
            if self.seen.contains(&id) {
                continue;
            }
            match self.repository.load_snapshot(id).await {
                Ok(snapshot) if snapshot.tags.contains(&self.tag) => {
                    return Err(self.object(Objection::Made(Box::new((id, snapshot)))));
                }
                // One that goes or cannot be read is not ours: what we wrote, we could read.
                Ok(_) | Err(Error::Damaged { .. }) => {}
                Err(Error::Store { source, .. }) if source.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn object(&self, objection: Objection) -> Error {
        *self.objection.lock().unwrap_or_else(PoisonError::into_inner) = Some(objection);
        Error::Cancelled
    }
}
