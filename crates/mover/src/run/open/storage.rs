//! Opens the storage of a repository by the transport of the task: object storage, a REST server, Lifeboat's gateway, or a
//! directory of a volume that the mover mounts.

use std::num::NonZeroU64;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Duration;

use lifeboat_repository::Error;
use lifeboat_store::{Bandwidth, Guard, Local, RestConfig, RetryPolicy, Store, StoreConfig, Tls, Tuning};
use secrecy::{SecretSlice, SecretString};
use url::Url;

use crate::report::{Cause, Failure};
use crate::run::failure::{self, Failed};
use crate::run::{WorkContext, beside};
use crate::task::{Direct, GATEWAY_USER, Limits, Transport};

/// Storage may be away for a quarter of an hour. The lock on the repository is valid longer than that without being
/// renewed.
const STORAGE_RETRY: RetryPolicy = RetryPolicy {
    attempts: 22,
    first_pause: Duration::from_millis(200),
    longest_pause: Duration::from_secs(20),
    deadline: None,
    outage: Some(Duration::from_mins(15)),
};

/// The storage of the task, and the options for opening it.
#[derive(Clone, Copy)]
pub(super) struct Storage<'a> {
    pub(super) context: &'a WorkContext,
    pub(super) transport: &'a Transport,
    pub(super) limits: &'a Limits,
    /// The limits for storage that a tenant describes, where the mover is not in the tenant's namespace.
    pub(super) guard: Option<&'a Guard>,
}

impl Storage<'_> {
    /// Opens the location, if there is one beside the repository, and the repository's own part of it.
    pub(super) async fn open(self) -> Result<(Option<Store>, Store), Failed> {
        match self.transport {
            Transport::Direct(direct) => self.open_direct(direct).await,
            Transport::Rest { url, .. } => {
                let (config, tuning) = (self.rest()?, self.tuning());
                let opened = match self.guard {
                    Some(guard) => config.open_for_tenant(guard.clone(), tuning),
                    None => config.open(tuning),
                };
                let store = opened.map_err(of_store(OPEN))?;
                Ok((None, store.with_name(url)))
            }
            Transport::Directory { path } => Ok((None, self.open_directory(path)?)),
            Transport::Gateway { url, .. } => {
                let store = self.gateway()?.open_pinned(self.tuning()).map_err(of_store(OPEN))?;
                Ok((None, store.with_name(url)))
            }
        }
    }

    /// Creates the directory of a new repository; an existing one is not changed.
    pub(super) fn create_directory(self) -> Result<(), Failed> {
        let Transport::Directory { path } = self.transport else { return Ok(()) };
        must_be_plain(path)?;
        Local::create(path).map(drop).map_err(of_store("create the directory of the repository"))
    }

    /// Creates a new repository's directories on a REST server.
    pub(super) async fn create_on_server(self) -> Result<(), Failed> {
        let Transport::Rest { .. } = self.transport else { return Ok(()) };
        let (config, tuning) = (self.rest()?, self.tuning());
        let created = match self.guard {
            Some(guard) => config.create_for_tenant(guard.clone(), tuning).await,
            None => config.create(tuning).await.map(drop),
        };
        created.map_err(of_store("create the repository on the REST server"))
    }

    async fn open_direct(self, direct: &Direct) -> Result<(Option<Store>, Store), Failed> {
        let config = config(direct, &self.context.directory)?;
        let opened = match self.guard {
            Some(guard) => lifeboat_store::open_for_tenant(&config, guard.clone(), self.tuning()).await,
            None => lifeboat_store::open(&config, &self.context.environment, self.tuning()).await,
        };
        let location = opened.map_err(of_store(OPEN))?;
        let below = location.below(&direct.path).map_err(of_store(OPEN))?;
        let name = format!("{}/{}", direct.bucket, below.prefix().trim_end_matches('/'));
        Ok((Some(location), below.with_name(&name)))
    }

    fn open_directory(self, path: &Path) -> Result<Store, Failed> {
        must_be_plain(path)?;
        let local = match Local::new(path) {
            Err(lifeboat_store::Error::BucketNotFound { .. }) => {
                let message =
                    format!("there is no repository in '{}': the directory does not exist", path.display());
                return Err(Failed::new(Cause::NoRepository, message));
            }
            local => local.map_err(of_store(OPEN))?,
        };
        let store = Store::new(Arc::new(local), "", self.tuning()).map_err(of_store(OPEN))?;
        Ok(store.with_name(&path.to_string_lossy()))
    }

    fn rest(self) -> Result<RestConfig, Failure> {
        let Transport::Rest { url, credentials, ca } = self.transport else {
            return Err(invalid("transport", "expected a REST server"));
        };
        let directory = &self.context.directory;
        let url = Url::parse(url).map_err(|error| invalid("repository.transport.url", error))?;
        let ca_pem = ca.as_deref().map(|name| content(directory, name)).transpose()?;
        let credentials = credentials.as_deref().map(|name| content(directory, name)).transpose()?;
        let (user, password) = match credentials {
            None => (None, None),
            Some(credentials) => user_and_password(&credentials)?,
        };
        Ok(RestConfig { url, user, password, ca_pem, tls: Tls::default() })
    }

    fn gateway(self) -> Result<RestConfig, Failure> {
        let Transport::Gateway { url, token, ca } = self.transport else {
            return Err(invalid("transport", "expected a gateway"));
        };
        let directory = &self.context.directory;
        let url = Url::parse(url).map_err(|error| invalid("repository.transport.url", error))?;
        let ca_pem = ca.as_deref().map(|name| content(directory, name)).transpose()?;
        let token = content(directory, token)?;
        let Ok(token) = std::str::from_utf8(token.trim_ascii_end()) else {
            return Err(invalid("repository.transport.token", "expected a file with text"));
        };
        let (user, password) = (Some(GATEWAY_USER.to_owned()), Some(SecretString::from(token)));
        Ok(RestConfig { url, user, password, ca_pem, tls: Tls::default() })
    }

    fn tuning(self) -> Tuning {
        let rate = |bytes: Option<u64>| bytes.and_then(NonZeroU64::new);
        Tuning {
            retry: STORAGE_RETRY,
            bandwidth: Bandwidth::new(rate(self.limits.upload), rate(self.limits.download)),
            ..Tuning::default()
        }
    }
}

const OPEN: &str = "open the object storage";

/// For `map_err` on a call of the store.
fn of_store(action: &'static str) -> impl Fn(lifeboat_store::Error) -> Failed {
    move |error| failure::of(Cause::Storage)(Error::store(action)(error))
}

fn invalid(field: &str, problem: impl std::fmt::Display) -> Failure {
    Failure { cause: Cause::Task, message: format!("{field}: {problem}") }
}

/// The repository's directory must not lead out of its mount.
fn must_be_plain(path: &Path) -> Result<(), Failure> {
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    if path.is_absolute() && !goes_up {
        return Ok(());
    }
    let problem = format!("'{}' is not an absolute path without '..'", path.display());
    Err(invalid("repository.transport.path", problem))
}

/// Reads `user:password`; a line break at the end is ignored.
fn user_and_password(content: &[u8]) -> Result<(Option<String>, Option<SecretString>), Failure> {
    let text = std::str::from_utf8(content).ok().map(|text| text.trim_end_matches(['\r', '\n']));
    match text.and_then(|text| text.split_once(':')) {
        Some((user, password)) => Ok((Some(user.to_owned()), Some(SecretString::from(password.to_owned())))),
        None => Err(invalid("repository.transport.credentials", "expected a file with 'user:password'")),
    }
}

fn config(direct: &Direct, directory: &Path) -> Result<StoreConfig, Failure> {
    let read = |name: &Option<String>| {
        let content = name.as_deref().map(|name| content(directory, name));
        content.transpose()
    };
    let mut settings = direct.config.clone();
    if let (Some(name), Some(path)) = (&direct.customer_key, settings.get_mut("customerKeyEncryptionFile")) {
        *path = beside(directory, name)?.to_string_lossy().into_owned();
    }
    Ok(StoreConfig {
        provider: direct.provider.clone(),
        bucket: direct.bucket.clone(),
        prefix: direct.prefix.clone(),
        config: settings,
        ca_pem: read(&direct.ca)?,
        credentials: read(&direct.credentials)?.map(SecretSlice::from),
        customer_key: read(&direct.customer_key)?.map(SecretSlice::from),
    })
}

/// The content of a file in the task's directory.
pub(super) fn content(directory: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    let path = beside(directory, name)?;
    std::fs::read(&path).map_err(|error| {
        let message = format!("cannot read '{}', which the task names: {error}", path.display());
        Failure { cause: Cause::Task, message }
    })
}
