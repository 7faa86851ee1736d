//! Restores a snapshot into a volume, a device or a command. The done file is written only after everything was
//! verified.

mod folder;
mod wanted;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use lifeboat_repository::Error;
use lifeboat_repository::files::FileKind;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::lock::{Lock, LockKind};
use lifeboat_repository::restore::{RestoreOptions, RestoreOutcome, restore};
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::by_prefix;
use tokio_util::sync::CancellationToken;

use super::agent::AgentRestore;
use super::backup::listed;
use super::failure::{self, Failed, is_full};
use super::open::Opened;
use super::proof::{Volume, names_of};
use super::{WorkContext, block, child, done, space};
use crate::report::{Cause, Failure, Level, Listed, Restored};
use crate::task::{Part, RestoreWork, Target, TaskWork, unreadable};
use folder::{Folder, FolderOrEntry};
use wanted::Wanted;

/// One restore.
pub(super) struct Restore<'a> {
    pub(super) context: &'a WorkContext,
    pub(super) work: &'a RestoreWork,
    pub(super) opened: &'a Opened,
}

/// Fails if a part of the task restores what its snapshot does not have. Called before the first of several parts: the later ones would
/// find that out after the first was written.
pub(super) async fn expect_stored(
    context: &WorkContext,
    parts: &[Part],
    opened: &Opened,
    cancel: &CancellationToken,
) -> Result<(), Failed> {
    for part in parts {
        let TaskWork::Restore(work) = &part.work else { continue };
        let restore = Restore { context, work, opened };
        match restore.find(cancel).await {
            Err(Failed::Because(failure)) if failure.cause == Cause::NotStored => return Err(failure.into()),
            Err(Failed::Cancelled) => return Err(Failed::Cancelled),
            // The part itself meets any other problem again.
            _ => {}
        }
    }
    Ok(())
}

/// The extended attributes that a mover's permissions allow to set. The node assigns SELinux labels itself;
/// `trusted.` and other names under `security.` need a privileged process.
fn is_settable(name: &str) -> bool {
    name.starts_with("user.") || name.starts_with("system.posix_acl_") || name == "security.capability"
}

impl Restore<'_> {
    pub(super) async fn carry_out(&self, cancel: &CancellationToken) -> Result<Restored, Failed> {
        let started = Instant::now();
        if let Some(file) = &self.work.done_file {
            must_be_below(file)?;
        }
        if let Some(name) = &self.work.into {
            must_be_a_name(name)?;
        }
        self.must_be_a_directory()?;
        let repository = &self.opened.repository;
        // The inner outcome keeps the cause, which an error of the engine cannot carry.
        let held = Lock::hold(repository, LockKind::Shared, &self.opened.lock, |_| async {
            Ok(self.under_lock(cancel).await)
        });
        let restored = held.await.map_err(failure::of(Cause::Target))??;
        let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Restored { milliseconds, ..restored })
    }

    /// Devices and commands get a single whole file, so fields that select or place files must not be set.
    fn must_be_a_directory(&self) -> Result<(), Failure> {
        let work = self.work;
        let fields = [
            (!work.include.is_empty(), "include"),
            (!work.exclude.is_empty(), "exclude"),
            (work.folder.is_some(), "folder"),
            (work.sub_path.is_some(), "subPath"),
            (work.exact, "exact"),
        ];
        match (&work.target, fields.iter().find(|(is_set, _)| *is_set)) {
            (Target::Path { .. }, _) | (_, None) => Ok(()),
            (_, Some((_, field))) => {
                let message =
                    format!("{field}: only allowed with a directory, the target is a device or a command");
                Err(Failure { cause: Cause::Task, message })
            }
        }
    }

    /// Finds what is restored, without a lock.
    async fn find(&self, cancel: &CancellationToken) -> Result<FolderOrEntry, Failed> {
        let snapshot = self.snapshot_unless(cancel).await?;
        Folder::find(&self.opened.repository, &snapshot, self.work.folder.as_deref(), cancel).await
    }

    async fn snapshot_unless(&self, cancel: &CancellationToken) -> Result<Snapshot, Failed> {
        let finding = self.snapshot();
        tokio::select! {
            found = finding => found,
            () = cancel.cancelled() => Err(Failed::Cancelled),
        }
    }

    async fn under_lock(&self, cancel: &CancellationToken) -> Result<Restored, Failed> {
        let snapshot = self.snapshot_unless(cancel).await?;
        let (repository, progress) = (&self.opened.repository, &self.context.progress);
        match &self.work.target {
            Target::Path { path, proof } => {
                let volume = Volume::open(path, proof.as_ref())?;
                if self.work.done_file.as_ref().is_some_and(|file| done::is_there(volume.directory(), file)) {
                    return Ok(self.done_before(&snapshot));
                }
                self.fill(&snapshot, &volume, cancel).await
            }
            Target::BlockDevice { path } => {
                block::restore(repository, &snapshot, path, &self.work.paths, progress, cancel).await
            }
            Target::Command { argv } => child::feed(repository, &snapshot, argv, cancel).await,
            Target::Agent { run } => AgentRestore::of(self, &snapshot, run).carry_out(cancel).await,
        }
    }

    /// An earlier mover completed this restore. The pod may already run, so nothing is written into its volume.
    fn done_before(&self, snapshot: &Snapshot) -> Restored {
        let text = "the volume was already restored and verified: nothing to do";
        self.context.reporter.message(Level::Info, text);
        let counts = snapshot.summary.as_ref().map(|summary| summary.counts).unwrap_or_default();
        Restored {
            files: counts.total_files_processed,
            bytes: counts.total_bytes_processed,
            verified: true,
            ..Restored::default()
        }
    }

    async fn snapshot(&self) -> Result<Snapshot, Failed> {
        let (repository, name) = (&self.opened.repository, &self.work.snapshot);
        let files = repository.list(FileKind::Snapshot).await.map_err(failure::of(Cause::Target))?;
        let ids: Vec<_> = files.iter().map(|file| SnapshotId(file.id)).collect();
        let id = by_prefix(&ids, name).map_err(|error| {
            let reason = failure::message(&error);
            let message = format!(
                "snapshot '{name}' is not in the repository: {reason}; it was deleted or never completed"
            );
            Failed::new(Cause::NotStored, message)
        })?;
        repository.load_snapshot(id).await.map_err(failure::of(Cause::Target))
    }

    async fn fill(
        &self,
        snapshot: &Snapshot,
        volume: &Volume,
        cancel: &CancellationToken,
    ) -> Result<Restored, Failed> {
        let (work, repository) = (self.work, &self.opened.repository);
        let wanted = Wanted::new(work)?;
        self.must_be_whole(snapshot, &wanted)?;
        let folder = match Folder::find(repository, snapshot, work.folder.as_deref(), cancel).await? {
            FolderOrEntry::Directory(folder) => folder,
            FolderOrEntry::Entry => {
                let work = of_entry(work)?;
                let restore = Restore { context: self.context, work: &work, opened: self.opened };
                return Box::pin(restore.fill(snapshot, volume, cancel)).await;
            }
        };
        if wanted.is_everything() {
            space::check(repository, snapshot, folder.tree, volume, work.sparse, cancel).await?;
        }
        let root = self.root(volume)?;
        let beside = work.into.as_deref().map(|name| made_directory(&root, name)).transpose()?;
        let target = beside.as_ref().unwrap_or(&root);
        let options = self.options(target, &wanted);
        let progress = Arc::clone(&self.context.progress);
        let restored = restore(repository, snapshot, options, progress, cancel.clone()).await;
        let outcome = restored.map_err(|error| failed(error, snapshot, volume))?;
        let mut failed = problems(&outcome, &wanted);
        let mut owners = kept_owners(&outcome);
        if outcome.files_deleted > 0 {
            let text = format!("removed {} entries that the snapshot does not have", outcome.files_deleted);
            self.context.reporter.message(Level::Info, &text);
        }
        if outcome.total_files == 0 && wanted.has_patterns() {
            let text = "the patterns of the restore match no file of the snapshot: nothing was restored";
            self.context.reporter.message(Level::Warning, text);
        }
        if outcome.problems.iter().any(|problem| says_full(&problem.message)) {
            return Err(space::full(snapshot, volume, &failed.first.join("; ")).into());
        }
        // A directory that is restored beside other files keeps the mode that it was created with.
        if failed.count == 0 && wanted.is_everything() && beside.is_none() {
            match folder.give_owner(&root) {
                Ok(true) => {}
                Ok(false) => add(&mut owners, "/".to_owned()),
                Err(error) => add(&mut failed, format!("/: cannot set its owner and mode: {error}")),
            }
        }
        if failed.count == 0 {
            self.complete(volume).await?;
        }
        Ok(Restored {
            files: outcome.total_files,
            bytes: outcome.total_bytes,
            verified: outcome.files_verified.is_some() && failed.count == 0,
            failed,
            owners,
            ..Restored::default()
        })
    }

    /// Only a complete snapshot of a whole directory shows what was not there when it was made. A file that could not be read then may
    /// exist nowhere else.
    fn must_be_whole(&self, snapshot: &Snapshot, wanted: &Wanted) -> Result<(), Failure> {
        if !self.work.exact {
            return Ok(());
        }
        if !wanted.is_everything() || self.work.into.is_some() {
            let message =
                "exact: only allowed without paths, patterns and 'into', which restore a part of a directory";
            return Err(Failure { cause: Cause::Task, message: message.to_owned() });
        }
        match unreadable(&snapshot.tags) {
            0 => Ok(()),
            count => {
                let message = format!(
                    "snapshot '{}' lacks {count} files that could not be read when it was made; nothing was written, because a restore of \
                     exactly this state would delete them",
                    self.work.snapshot
                );
                Err(Failure { cause: Cause::Target, message })
            }
        }
    }

    fn options(&self, target: &OwnedFd, wanted: &Wanted) -> RestoreOptions {
        RestoreOptions {
            // The directory that was proved, even if its path now leads elsewhere.
            target: PathBuf::from(format!("/proc/self/fd/{}", target.as_fd().as_raw_fd())),
            subfolder: self.work.folder.as_ref().map(PathBuf::from),
            select: Some(wanted.select()),
            select_xattr: Some(Arc::new(is_settable)),
            sparse: self.work.sparse,
            verify: true,
            delete_last: self.work.exact,
            stop_when_full: true,
            ..RestoreOptions::default()
        }
    }

    /// The directory that counts as the volume's root: its own, or the one at the sub-path.
    fn root(&self, volume: &Volume) -> Result<OwnedFd, Failure> {
        let own = volume.directory().try_clone();
        let mut directory = own.map_err(|error| Failure {
            cause: Cause::Target,
            message: format!("cannot open '{}': {error}", volume.path().display()),
        })?;
        let sub_path = self.work.sub_path.as_deref();
        for name in sub_path.map(|path| names_of("subPath", path)).transpose()?.into_iter().flatten() {
            directory = made_directory(&directory, name)?;
        }
        Ok(directory)
    }

    /// After everything is written and verified: proves the volume once more and writes the done file that a pod
    /// waits for.
    async fn complete(&self, volume: &Volume) -> Result<(), Failed> {
        volume.prove()?;
        let directory = volume.directory().try_clone().map_err(|error| unwritable(volume, &error))?;
        let file = self.work.done_file.clone();
        let writing = tokio::task::spawn_blocking(move || done::finish(&directory, file.as_deref()));
        let written = writing.await.map_err(std::io::Error::other).flatten();
        Ok(written.map_err(|error| unwritable(volume, &error))?)
    }
}

/// The restore of a single entry of a snapshot: of the directory that has it, without the others.
fn of_entry(work: &RestoreWork) -> Result<RestoreWork, Failure> {
    let folder = work.folder.as_deref().unwrap_or_default();
    let sub_path = work.sub_path.as_deref().unwrap_or_default();
    let (stored, target) = (Path::new(folder), Path::new(sub_path));
    if target.file_name().is_none() || stored.file_name() != target.file_name() {
        let message = format!(
            "'{folder}' is a single file in the snapshot, and would be restored as '{sub_path}' of the volume; expected the same name: mount \
             the directory that the file belongs into"
        );
        return Err(Failure { cause: Cause::Target, message });
    }
    let above = |path: &Path| {
        let above = path.parent().map(|above| above.to_string_lossy().into_owned());
        above.filter(|above| !matches!(above.as_str(), "" | "/"))
    };
    let paths = if work.paths.is_empty() { vec![folder.to_owned()] } else { work.paths.clone() };
    // Beside a single file nothing is removed: the snapshot does not know its neighbours.
    Ok(RestoreWork { folder: above(stored), sub_path: above(target), paths, exact: false, ..work.clone() })
}

/// Creates the directory or opens the existing one. A symbolic link is refused.
fn made_directory(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Failure> {
    let failed = |error: std::io::Error| {
        let cause = if is_full(&error) { Cause::NoSpace } else { Cause::Target };
        Failure { cause, message: format!("cannot create directory '{name}' in the volume: {error}") }
    };
    done::directory(parent, std::ffi::OsStr::new(name)).map_err(failed)
}

fn unwritable(volume: &Volume, error: &std::io::Error) -> Failure {
    let cause = if is_full(error) { Cause::NoSpace } else { Cause::Target };
    let path = volume.path().display();
    Failure {
        cause,
        message: format!(
            "all files are restored, but the restore of '{path}' could not be completed: {error}"
        ),
    }
}

fn failed(error: Error, snapshot: &Snapshot, volume: &Volume) -> Failed {
    match error {
        Error::File { ref source, .. } | Error::Local { ref source, .. } if is_full(source) => {
            space::full(snapshot, volume, &failure::message(&error)).into()
        }
        error => failure::of(Cause::Target)(error),
    }
}

/// Whether a message of the engine ends with the system's text for a full disk or quota.
fn says_full(message: &str) -> bool {
    [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT]
        .iter()
        .any(|error| message.contains(&std::io::Error::from(*error).to_string()))
}

fn problems(outcome: &RestoreOutcome, wanted: &Wanted) -> Listed {
    let mut failed = listed(&outcome.problems, |problem| format!("{}: {}", problem.path, problem.message));
    failed.count = outcome.problem_count;
    for path in wanted.missing() {
        add(&mut failed, format!("{path}: the snapshot does not have it"));
    }
    failed
}

/// Entries that belong to the mover's user, because only root may change owners.
fn kept_owners(outcome: &RestoreOutcome) -> Listed {
    Listed { count: outcome.kept_owner_count, ..listed(&outcome.kept_owners, String::clone) }
}

fn add(listed: &mut Listed, problem: String) {
    listed.count += 1;
    listed.first.push(problem);
}

fn must_be_a_name(name: &str) -> Result<(), Failure> {
    let mut parts = Path::new(name).components();
    if matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) && !name.contains('/') {
        return Ok(());
    }
    let message = format!("into: '{name}' is not the name of a directory; expected one without slashes");
    Err(Failure { cause: Cause::Task, message })
}

fn must_be_below(file: &Path) -> Result<(), Failure> {
    let mut parts = file.components();
    let plain = parts.all(|part| matches!(part, Component::Normal(_))) && file.file_name().is_some();
    if plain {
        return Ok(());
    }
    let message = format!("doneFile: '{}' is not a path below the target", file.display());
    Err(Failure { cause: Cause::Task, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_entries_with_another_owner_are_counted_and_the_first_are_named() {
        let kept_owners = (0..30).map(|number| format!("/{number}")).collect();
        let outcome = RestoreOutcome { kept_owners, kept_owner_count: 1000, ..RestoreOutcome::default() };
        let listed = super::kept_owners(&outcome);
        assert_eq!((listed.count, &*listed.first[19], listed.first.len()), (1000, "/19", 20));
    }
}
