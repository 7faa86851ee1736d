//! One repository command at work: its settings, how it is interrupted, and how it opens repositories and holds
//! their locks.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lifeboat_repository::Error;
use lifeboat_repository::location::{Location, OpenSettings};
use lifeboat_repository::lock::{Lock, LockKind, LockOptions};
use lifeboat_repository::repository::Repository;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::cache;
use super::password::{self, Ask};
use super::settings::{LocationSource, PasswordSource, Settings, Target};
use crate::args::Output;
use crate::error::CliError;

/// How long work that was told to stop may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(10);
/// On a terminal a password may be mistyped.
const TRIES: usize = 3;

/// See above.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    /// Cancelled by INT, TERM and HUP.
    pub(crate) interrupted: CancellationToken,
}

impl Session {
    /// A lock that is being taken is given up when the command is interrupted.
    pub(crate) fn new(mut settings: Settings, interrupted: CancellationToken) -> Self {
        settings.lock.cancel = interrupted.clone();
        Self { settings, interrupted }
    }

    /// Opens the repository that the arguments name.
    pub(crate) async fn open(&self) -> Result<Repository, CliError> {
        self.open_target(&self.settings.target.clone(), "password for the repository").await
    }

    /// Opens a repository; asks for its password if nothing says it.
    pub(crate) async fn open_target(&self, target: &Target, prompt: &str) -> Result<Repository, CliError> {
        let location = location(target)?;
        let opening = async { Ok(location.open(&self.open_settings()).await?) };
        let store = self.interruptible(opening).await?;
        let tries = if matches!(target.password, PasswordSource::Question) { TRIES } else { 1 };
        for number in 1.. {
            let password = self.password(target, prompt, Ask::Once).await?;
            let mut options = self.settings.engine(target);
            // What is on this machine already gains nothing from a second copy.
            let is_remote = location.directory().is_none() || self.settings.connection.cache_dir.is_some();
            options.cache = cache::directory(&self.settings).filter(|_| is_remote);
            let opening = Repository::open(store.clone(), &password, options);
            match self.interruptible(async { Ok(opening.await) }).await? {
                Ok(repository) => return Ok(repository),
                Err(Error::WrongPassword { .. }) if number < tries => tell!("wrong password, try again"),
                Err(Error::NoRepository { .. }) => {
                    return Err(Error::NoRepository { location: location.to_string() }.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Cancelled.into())
    }

    /// The password of a repository, off the threads that must not block.
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

    /// Work that may be dropped where it waits.
    pub(crate) async fn interruptible<T>(
        &self,
        work: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        tokio::select! {
            outcome = work => outcome,
            () = self.interrupted.cancelled() => Err(Error::Cancelled.into()),
        }
    }

    /// Reads under a shared lock, or without one if the user wants that.
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
        // Boxed: the work of a whole restore would make every future above it large.
        let mut work = Box::pin(work(stop.clone()));
        tokio::select! {
            outcome = &mut work => outcome,
            () = stop.cancelled() => rest(work).await,
        }
    }

    /// Works under a lock, which is given back on every path. Work that is interrupted, or whose lock is lost, is
    /// told so and gets a moment to come to rest.
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

    /// The same for work that deletes, and looks after the lock itself.
    pub(crate) async fn locked_by<T, F>(
        &self,
        repository: &Repository,
        kind: LockKind,
        work: impl FnOnce(Arc<Lock>, CancellationToken) -> F,
    ) -> Result<T, CliError>
    where
        F: Future<Output = Result<T, CliError>>,
    {
        // Not dropped when it is interrupted: it sees that itself, and takes back what it wrote.
        let lock = Arc::new(Lock::acquire(repository, kind, &self.settings.lock).await?);
        let (lost, stop) = (lock.lost(), self.interrupted.child_token());
        // Boxed: the work of a whole restore would make every future above it large.
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

    /// For operations that read under a lock of their own: none with --no-lock.
    pub(crate) fn lock_for_reading(&self) -> Option<&LockOptions> {
        (!self.settings.no_lock).then_some(&self.settings.lock)
    }

    /// A line for people, on standard error.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if self.settings.is_for_people() {
            tell!("{}", text.as_ref());
        }
    }

    /// Whether standard output gets restic's JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.settings.output == Output::Json
    }
}

async fn rest<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(Error::Cancelled.into()))
}

/// Where the repository is.
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
