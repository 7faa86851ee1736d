//! The context of a running repository command: its settings, the interruption token, opening repositories and holding
//! their locks.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lifeboat_repository::Error;
use lifeboat_repository::location::{Location, OpenSettings};
use lifeboat_repository::lock::{Lock, LockKind, LockOptions};
use lifeboat_repository::repository::Repository;
use lifeboat_store::Store;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::cache;
use super::password::{self, Ask};
use super::settings::{LocationSource, PasswordSource, Settings, Target};
use crate::args::Output;
use crate::error::CliError;

/// How long interrupted work may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a password may be entered on a terminal.
const TRIES: usize = 3;

/// The context of a running repository command.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) settings: Settings,
    /// Cancelled by INT, TERM and HUP.
    pub(crate) interrupted: CancellationToken,
    /// The storage of the repository, if no argument names it.
    storage: Option<Store>,
}

impl Session {
    /// Acquiring a lock is given up when the command is interrupted.
    pub(crate) fn new(mut settings: Settings, interrupted: CancellationToken) -> Self {
        settings.lock.cancel = interrupted.clone();
        Self { settings, interrupted, storage: None }
    }

    /// A session whose repository is in this storage, whose name is its location.
    pub(crate) fn on_storage(self, storage: Store) -> Self {
        Self { storage: Some(storage), ..self }
    }

    /// Opens the repository of the session.
    pub(crate) async fn open(&self) -> Result<Repository, CliError> {
        let (target, prompt) = (self.settings.target.clone(), "password for the repository");
        match &self.storage {
            Some(store) => {
                let cache = cache::directory(&self.settings);
                self.open_store(store.clone(), cache, &target, prompt).await
            }
            None => self.open_target(&target, prompt).await,
        }
    }

    /// Opens a repository; asks for the password if no flag or variable gives it.
    pub(crate) async fn open_target(&self, target: &Target, prompt: &str) -> Result<Repository, CliError> {
        let location = location(target)?;
        let opening = async { Ok(location.open(&self.open_settings()).await?) };
        let store = self.interruptible(opening).await?;
        // A repository on this machine needs no cache.
        let is_remote = location.directory().is_none() || self.settings.connection.cache_dir.is_some();
        let cache = cache::directory(&self.settings).filter(|_| is_remote);
        self.open_store(store, cache, target, prompt).await
    }

    async fn open_store(
        &self,
        store: Store,
        cache: Option<PathBuf>,
        target: &Target,
        prompt: &str,
    ) -> Result<Repository, CliError> {
        let tries = if matches!(target.password, PasswordSource::Question) { TRIES } else { 1 };
        for number in 1.. {
            let password = self.password(target, prompt, Ask::Once).await?;
            let mut options = self.settings.engine(target);
            options.cache.clone_from(&cache);
            let opening = Repository::open(store.clone(), &password, options);
            match self.interruptible(async { Ok(opening.await) }).await? {
                Ok(repository) => return Ok(repository),
                Err(Error::WrongPassword { .. }) if number < tries => message!("wrong password, try again"),
                Err(Error::NoRepository { .. }) => {
                    return Err(Error::NoRepository { location: store.name().to_owned() }.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Cancelled.into())
    }

    /// Reads the password of a repository on a blocking thread.
    pub(crate) async fn password(
        &self,
        target: &Target,
        prompt: &str,
        ask: Ask,
    ) -> Result<SecretString, CliError> {
        let (source, prompt) = (target.password.clone(), prompt.to_owned());
        let reading = tokio::task::spawn_blocking(move || password::read(&source, &prompt, ask));
        self.interruptible(async { reading.await.unwrap_or_else(|_| Err(Error::Cancelled.into())) }).await
    }

    /// How stores are opened: certificates, limits, options, and the environment with its credentials.
    pub(crate) fn open_settings(&self) -> OpenSettings {
        let connection = &self.settings.connection;
        OpenSettings {
            environment: self.settings.variables.clone(),
            options: connection.options.iter().cloned().collect(),
            ca_certificates: connection.cacert.clone(),
            client_certificate: connection.client_cert.clone(),
            insecure_tls: connection.insecure_tls,
            upload_limit: connection.upload_limit.and_then(NonZeroU64::new),
            download_limit: connection.download_limit.and_then(NonZeroU64::new),
            ..OpenSettings::default()
        }
    }

    /// Runs work that may be dropped at any await when the command is interrupted.
    pub(crate) async fn interruptible<T>(
        &self,
        work: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        tokio::select! {
            outcome = work => outcome,
            () = self.interrupted.cancelled() => Err(Error::Cancelled.into()),
        }
    }

    /// Runs work under a shared lock, or without one with --no-lock.
    pub(crate) async fn reading<T, F>(
        &self,
        repository: &Repository,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<T, CliError>
    where
        F: Future<Output = Result<T, CliError>>,
    {
        if !self.settings.no_lock {
            return self.locked(repository, LockKind::Shared, work).await;
        }
        let stop = self.interrupted.child_token();
        // Boxed, because the future of a whole restore would make every future above it large.
        let mut work = Box::pin(work(stop.clone()));
        tokio::select! {
            outcome = &mut work => outcome,
            () = stop.cancelled() => rest(work).await,
        }
    }

    /// Runs work under a lock that is released on every path. If the command is interrupted or the lock is lost, the
    /// work's token is cancelled and it has a short time to stop.
    pub(crate) async fn locked<T, F>(
        &self,
        repository: &Repository,
        kind: LockKind,
        work: impl FnOnce(CancellationToken) -> F,
    ) -> Result<T, CliError>
    where
        F: Future<Output = Result<T, CliError>>,
    {
        self.locked_by(repository, kind, |_, stop| work(stop)).await
    }

    /// Like `locked`, for work that deletes and therefore checks the lock itself.
    pub(crate) async fn locked_by<T, F>(
        &self,
        repository: &Repository,
        kind: LockKind,
        work: impl FnOnce(Arc<Lock>, CancellationToken) -> F,
    ) -> Result<T, CliError>
    where
        F: Future<Output = Result<T, CliError>>,
    {
        // Not dropped on interruption: acquiring checks the token itself and removes the lock file it wrote.
        let lock = Arc::new(Lock::acquire(repository, kind, &self.settings.lock).await?);
        let (lost, stop) = (lock.lost(), self.interrupted.child_token());
        // Boxed, because the future of a whole restore would make every future above it large.
        let mut work = Box::pin(work(Arc::clone(&lock), stop.clone()));
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = lost.cancelled() => {
                stop.cancel();
                let _ = rest(work).await;
                Err(Error::LockLost { detail: "it could not be renewed in time".to_owned() }.into())
            }
            () = stop.cancelled() => rest(work).await,
        };
        lock.release().await;
        outcome
    }

    /// The lock options for operations that take their own shared lock; None with --no-lock.
    pub(crate) fn lock_for_reading(&self) -> Option<&LockOptions> {
        (!self.settings.no_lock).then_some(&self.settings.lock)
    }

    /// Prints a message on standard error, unless --quiet or JSON is set.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if self.settings.is_for_people() {
            message!("{}", text.as_ref());
        }
    }

    /// Whether standard output is restic's JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.settings.output == Output::Json
    }
}

async fn rest<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::time::timeout(STOP_TIMEOUT, work).await.unwrap_or_else(|_| Err(Error::Cancelled.into()))
}

/// Parses the repository's location.
pub(crate) fn location(target: &Target) -> Result<Location, CliError> {
    match &target.location {
        LocationSource::Given(location) => Ok(Location::parse(location)?),
        LocationSource::File(file) => Ok(Location::parse(&of_file(file)?)?),
        LocationSource::Missing => Err(CliError::usage("no repository is named").help(
            "name one with --repo or RESTIC_REPOSITORY: a directory, s3:https://HOST/BUCKET/PREFIX, …",
        )),
    }
}

fn of_file(file: &Path) -> Result<String, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        CliError::failed(format!("cannot read the repository file '{}'", file.display()), error)
    })?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err(CliError::usage(format!("the repository file '{}' is empty", file.display())));
    }
    Ok(text.to_owned())
}
