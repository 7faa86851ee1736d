//! Prepared snapshots: `backup` with LIFEBOAT_PREPARED_SNAPSHOT=FILE stores all data and writes the finished snapshot
//! to FILE; `commit FILE` adds it to the repository, `discard FILE` discards it. The calling script must hold the
//! repository's lock (`lock -- COMMAND`) from before the backup until then.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lifeboat_repository::Error;
use lifeboat_repository::backup::{self, BackupOptions, BackupOutcome, LockOwner, Prepared};
use lifeboat_repository::progress::Progress;
use lifeboat_repository::repository::Repository;
use serde_json::json;

use super::lock::HOLDER;
use super::output;
use super::session::Session;
use super::settings::Settings;
use crate::error::CliError;

/// The environment variable with the file for a prepared snapshot.
pub(crate) const VARIABLE: &str = "LIFEBOAT_PREPARED_SNAPSHOT";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file that `backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Where a prepared snapshot is written, and which process holds the lock.
pub(crate) struct PreparedFile {
    file: PathBuf,
    owner: LockOwner,
}

impl PreparedFile {
    /// `None` unless the environment asks for a prepared snapshot.
    pub(crate) fn of(settings: &Settings, dry_run: bool) -> Result<Option<Self>, CliError> {
        let Some(file) = settings.variable(VARIABLE).filter(|_| !dry_run).map(PathBuf::from) else {
            return Ok(None);
        };
        if std::fs::symlink_metadata(&file).is_ok() {
            return Err(CliError::usage(format!("'{}' exists already", file.display()))
                .help("`commit` or `discard` the snapshot in it first"));
        }
        let holder = settings.variable(HOLDER).unwrap_or_default();
        let owner = holder.split_once('@').and_then(|(process, host)| {
            Some(LockOwner { process: process.parse().ok()?, host: host.to_owned() })
        });
        let owner = owner.ok_or_else(|| {
            CliError::usage(format!(
                "{VARIABLE} is set, but {HOLDER} names no holder of the repository's lock"
            ))
            .help("run backup and commit under `lifeboat repository lock -- COMMAND`")
        })?;
        Ok(Some(Self { file, owner }))
    }

    /// Stores all data and writes the snapshot's file, readable by its owner only.
    pub(crate) async fn prepare(
        self,
        session: &Session,
        repository: &Repository,
        options: BackupOptions,
        progress: Arc<Progress>,
    ) -> Result<BackupOutcome, Error> {
        let (lock, cancel) = (&session.settings.lock, session.interrupted.clone());
        let (prepared, outcome) =
            backup::prepare(repository, options, self.owner, lock, progress, cancel).await?;
        write(&self.file, &prepared)?;
        Ok(outcome)
    }
}

pub(crate) async fn commit(session: &Session, args: Args) -> Result<(), CliError> {
    let prepared = read(&args.file)?;
    let repository = session.open().await?;
    let committing = backup::commit(&repository, &prepared, &session.interrupted);
    let id = session.interruptible(async { Ok(committing.await?) }).await?;
    forget_file(&args.file);
    let message = json!({"message_type": "committed", "snapshot_id": id.to_string()});
    output::summary(session, &message, &format!("snapshot {} saved", id.short()))
}

pub(crate) async fn discard(session: &Session, args: Args) -> Result<(), CliError> {
    let prepared = read(&args.file)?;
    let repository = session.open().await?;
    backup::discard(&repository, &prepared)?;
    forget_file(&args.file);
    session.say("prepared snapshot discarded; the next prune removes the data stored for it");
    Ok(())
}

/// Writes the file completely or not at all: a file truncated by a full disk or a kill must not be taken for a
/// snapshot.
fn write(file: &Path, prepared: &Prepared) -> Result<(), Error> {
    let json = serde_json::to_vec(prepared)
        .map_err(|error| Error::invalid("prepared snapshot", error.to_string()))?;
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options
        .open(&temporary)
        .and_then(|mut out| out.write_all(&json).and_then(|()| out.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, file));
    written.map_err(Error::file("write", file))
}

fn read(file: &Path) -> Result<Prepared, CliError> {
    let json = std::fs::read(file).map_err(Error::file("read", file))?;
    serde_json::from_slice(&json).map_err(|error| {
        CliError::failed(format!("'{}' contains no prepared snapshot", file.display()), error)
            .help(format!("give the file that {VARIABLE} named during the backup"))
    })
}

/// Removes the file, so that the snapshot is not committed or discarded a second time.
fn forget_file(file: &Path) {
    if let Err(error) = std::fs::remove_file(file) {
        message!("warning: cannot remove '{}': {error}", file.display());
    }
}
