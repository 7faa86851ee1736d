//! The source of a backup: opens the task's source and checks its proof. Called by `backup`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use lifeboat_repository::backup;
use rustix::fs::{Stat, fstat};
use tokio_util::sync::CancellationToken;

use crate::report::{Cause, Failure};
use crate::run::agent::{AgentBackup, Surroundings};
use crate::run::block;
use crate::run::child::Output;
use crate::run::proof::{Below, Volume};
use crate::task::{BackupWork, Proof, Source};

/// The path of a directory in the snapshot, unless the task sets one.
const ROOT: &str = "/";

/// An opened source.
pub(super) struct Input {
    pub(super) source: backup::Source,
    /// None for devices, commands and agents.
    pub(super) directory: Option<Directory>,
    /// The commands of an agent, which have to succeed before the snapshot is written.
    pub(super) agent: Option<AgentBackup>,
}

/// The directory that is read: the volume's root or a directory below it.
pub(super) struct Directory {
    /// Must still be the same volume at the end.
    pub(super) volume: Arc<Volume>,
    pub(super) stat: Stat,
    /// The only file that is read, and the directory that has it.
    pub(super) file: Option<Arc<(OwnedFd, String)>>,
}

impl Input {
    pub(super) fn open(
        work: &BackupWork,
        surroundings: Surroundings,
        cancel: &CancellationToken,
    ) -> Result<Self, Failure> {
        match &work.source {
            Source::Path { path, proof } => Self::of_directory(work, path, proof.as_ref()),
            Source::Snapshot { path } => Self::of_directory(work, path, None),
            Source::BlockDevice { path, name } => {
                must_be_whole(work)?;
                let file = File::open(path).map_err(|error| no_device(path, &error))?;
                Ok(Self::single(backup::Source::Device { file, name: name.clone() }, None))
            }
            Source::Command { argv, name } => {
                must_be_whole(work)?;
                let reader = Box::new(Output::new(argv, cancel));
                Ok(Self::single(backup::Source::Stream { name: name.clone(), reader }, None))
            }
            Source::Agent { run, name } => {
                must_be_whole(work)?;
                let agent = AgentBackup::new(run, surroundings, cancel);
                let reader = Box::new(agent.clone());
                Ok(Self::single(backup::Source::Stream { name: name.clone(), reader }, Some(agent)))
            }
        }
    }

    /// A source that is one file of the snapshot.
    fn single(source: backup::Source, agent: Option<AgentBackup>) -> Self {
        Self { source, directory: None, agent }
    }

    fn of_directory(work: &BackupWork, path: &Path, proof: Option<&Proof>) -> Result<Self, Failure> {
        let volume = Volume::open(path, proof)?;
        let below = if let Some(sub_path) = &work.sub_path {
            volume.open_below(sub_path, work.at.as_deref())?
        } else {
            let root = volume.directory().try_clone();
            Below::Directory(root.map_err(|error| unreadable("", path, &error))?)
        };
        let at = work.at.clone().unwrap_or_else(|| ROOT.to_owned());
        let (directory, name) = match below {
            Below::Directory(directory) => (directory, None),
            Below::File { directory, name } => (directory, Some(name)),
        };
        let stat = fstat(directory.as_fd()).map_err(|error| unreadable("", path, &error.into()))?;
        let (source, file) = match name {
            None => (backup::Source::Root { directory, path: at }, None),
            Some(name) => {
                must_have_its_name(&at, &name)?;
                let kept = directory.try_clone().map_err(|error| unreadable("", path, &error))?;
                (backup::Source::Entry { directory, path: at }, Some(Arc::new((kept, name))))
            }
        };
        let directory = Directory { volume: Arc::new(volume), stat, file };
        Ok(Self { source, directory: Some(directory), agent: None })
    }
}

/// A file keeps its name in the snapshot: it is put back under it.
fn must_have_its_name(at: &str, name: &str) -> Result<(), Failure> {
    if Path::new(at).file_name().is_some_and(|last| last == name) {
        return Ok(());
    }
    let message = format!(
        "at: '{at}' has another name than the file '{name}' of the volume; mount the directory of the file, or name the path like the file"
    );
    Err(Failure { cause: Cause::Source, message })
}

fn no_device(path: &Path, error: &io::Error) -> Failure {
    let failure = unreadable("the device ", path, error);
    if error.kind() != io::ErrorKind::PermissionDenied {
        return failure;
    }
    Failure { message: format!("{}; {}", failure.message, block::denied(path)), ..failure }
}

fn unreadable(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure { cause: Cause::Source, message: format!("cannot open {what}'{}': {error}", path.display()) }
}

/// Devices and the output of commands are single files with a name of their own in the snapshot.
fn must_be_whole(work: &BackupWork) -> Result<(), Failure> {
    let fields = [(work.sub_path.is_some(), "subPath"), (work.at.is_some(), "at")];
    match fields.iter().find(|(is_set, _)| *is_set) {
        None => Ok(()),
        Some((_, field)) => {
            let message =
                format!("{field}: only allowed with a directory, the source is a device or a command");
            Err(Failure { cause: Cause::Task, message })
        }
    }
}
