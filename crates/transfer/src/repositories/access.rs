//! Access to one repository: from the settings of its storage and its passwords to the engine's own `Repository` and
//! to the task file of a mover. Credentials that the server reads from its own disk or environment are copied for the
//! mover, which has neither. A tenant's repository is the root of its storage, and may be one that only movers can
//! open. Made by each [`super::AccessSource`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use lifeboat_mover::task::{DIRECTORY, Direct, RepositoryAccess, Transport};
use lifeboat_repository::repository::{InitOptions, Options, Repository};
use lifeboat_store::{Environment, Files, Guard, RestConfig, Store, StoreConfig, Tuning};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::problem::storage_message;
use super::{RepositoryKey, RepositoryProblem};

/// Names of the files next to the task file.
const PASSWORD: &str = "password";
const CREDENTIALS: &str = "credentials";
const AUTHORITY: &str = "ca.pem";
const CUSTOMER_KEY: &str = "customer-key";

/// Access to one repository: its storage, its passwords, and both in the form that a mover's task needs.
#[derive(Clone)]
pub struct Access {
    pub key: RepositoryKey,
    /// The repository in restic's syntax, as in `s3:https://storage/bucket/restic/shop`.
    pub identifier: String,
    /// The repository as a mover's task file describes it.
    pub task: RepositoryAccess,
    /// The files that the task file names.
    pub files: BTreeMap<String, SecretSlice<u8>>,
    opening: ServerOpening,
    passwords: Passwords,
    options: Options,
}

/// The passwords that may open a repository.
#[derive(Clone)]
pub struct Passwords {
    /// In the order to try them; the first one is used for new repositories.
    pub to_try: Vec<SecretString>,
    /// The message if there is no password: what is missing and what to do.
    pub missing: String,
}

/// The storage of a repository.
#[derive(Clone, Copy)]
pub struct Storage<'a> {
    pub config: &'a StoreConfig,
    /// The server's own cloud identity.
    pub environment: &'a Environment,
    /// The repository's directory below the prefix of the storage; empty if the repository is the prefix itself.
    pub path: &'a str,
}

/// The repository of a tenant, which is the root of its storage.
pub struct TenantRepository {
    /// For people and for stock restic; it contains no secret.
    pub identifier: String,
    pub storage: TenantStorage,
    pub opening: ServerOpening,
}

/// The storage of a tenant's repository.
pub enum TenantStorage {
    Bucket(StoreConfig),
    Rest(RestConfig),
    /// A directory of a volume, as movers see it.
    Directory(PathBuf),
}

/// How the server opens a repository.
#[derive(Clone)]
pub enum ServerOpening {
    Store(Store),
    /// A REST server, on which directories must be created before the repository.
    Rest {
        store: Store,
        config: RestConfig,
        guard: Guard,
    },
    /// Only movers can open it, for this reason.
    MoversOnly(String),
}

impl Access {
    /// Opens the storage; the repository itself is not read.
    pub async fn new(
        key: RepositoryKey,
        storage: Storage<'_>,
        passwords: Passwords,
        options: Options,
    ) -> Result<Self, RepositoryProblem> {
        let Storage { config, environment, path } = storage;
        let (direct, files) = direct(storage).await?;
        let identifier = identifier(config, path);
        let store = lifeboat_store::open(config, environment, Tuning::default()).await;
        let below = store.and_then(|store| store.below(path)).map_err(|error| unusable(&error))?;
        let opening = ServerOpening::Store(below.with_name(&identifier));
        let reach = Reach { identifier, transport: Transport::Direct(direct), files, opening };
        Ok(Self::assembled(key, reach, passwords, options))
    }

    /// The repository of a tenant. The task file contains only the tenant's own settings and credentials, and nothing
    /// of the server's.
    pub fn of_tenant(
        key: RepositoryKey,
        repository: TenantRepository,
        passwords: Passwords,
        options: Options,
    ) -> Self {
        let TenantRepository { identifier, storage, opening } = repository;
        let (transport, files) = tenant_transport(storage);
        Self::assembled(key, Reach { identifier, transport, files, opening }, passwords, options)
    }

    fn assembled(key: RepositoryKey, reach: Reach, passwords: Passwords, options: Options) -> Self {
        let Reach { identifier, transport, mut files, opening } = reach;
        let names = (0..passwords.to_try.len()).map(|number| format!("{PASSWORD}-{number}"));
        let names = names.collect::<Vec<_>>();
        for (name, password) in names.iter().zip(&passwords.to_try) {
            files.insert(name.clone(), SecretSlice::from(password.expose_secret().as_bytes().to_vec()));
        }
        let task = RepositoryAccess { transport, passwords: names, guarded: false };
        Self { key, identifier, task, files, opening, passwords, options }
    }

    /// Whether the server can open it, and not only movers.
    pub fn is_opened_by_server(&self) -> bool {
        !matches!(self.opening, ServerOpening::MoversOnly(_))
    }

    /// The storage of the repository, if the server can open it.
    pub fn store(&self) -> Result<&Store, RepositoryProblem> {
        match &self.opening {
            ServerOpening::Store(store) | ServerOpening::Rest { store, .. } => Ok(store),
            ServerOpening::MoversOnly(reason) => Err(RepositoryProblem::MoversOnly(reason.clone())),
        }
    }

    /// Whether both describe the same repository with the same secrets.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let secrets = |access: &Self| -> Vec<(String, Vec<u8>)> {
            let files = access.files.iter();
            files.map(|(name, content)| (name.clone(), content.expose_secret().to_vec())).collect()
        };
        self.task == other.task && secrets(self) == secrets(other)
    }

    /// Opens the repository for reads and small changes in the server, with options that need little memory.
    pub(super) async fn open(&self) -> Result<Repository, RepositoryProblem> {
        let store = self.store()?;
        let mut wrong = None;
        for password in &self.passwords.to_try {
            match Repository::open(store.clone(), password, self.options.clone()).await {
                Err(error @ lifeboat_repository::Error::WrongPassword { .. }) => wrong = Some(error),
                other => return Ok(other?),
            }
        }
        match wrong {
            Some(error) => Err(error.into()),
            None => Err(self.no_password()),
        }
    }

    /// Opens the repository; one that does not exist is created with the first password.
    pub(super) async fn open_or_create(&self) -> Result<Repository, RepositoryProblem> {
        match self.open().await {
            Err(problem) if problem.is_missing() => {}
            other => return other,
        }
        let password = self.passwords.to_try.first().ok_or_else(|| self.no_password())?;
        if let ServerOpening::Rest { config, guard, .. } = &self.opening {
            let made = config.clone().create_for_tenant(guard.clone(), Tuning::default()).await;
            made.map_err(|error| RepositoryProblem::Storage(storage_message(&error)))?;
        }
        let store = self.store()?.clone();
        match Repository::init(store, password, InitOptions::default(), self.options.clone()).await {
            // Another replica was faster.
            Err(lifeboat_repository::Error::RepositoryExists { .. }) => self.open().await,
            other => Ok(other?),
        }
    }

    fn no_password(&self) -> RepositoryProblem {
        RepositoryProblem::Unusable(self.passwords.missing.clone())
    }
}

/// The access to a repository, before its passwords are added.
struct Reach {
    identifier: String,
    transport: Transport,
    files: BTreeMap<String, SecretSlice<u8>>,
    opening: ServerOpening,
}

/// The storage of a tenant for the task file of a mover, and the files that it needs.
fn tenant_transport(storage: TenantStorage) -> (Transport, BTreeMap<String, SecretSlice<u8>>) {
    let mut files = BTreeMap::new();
    let transport = match storage {
        TenantStorage::Bucket(config) => {
            files.extend(config.credentials.map(|content| (CREDENTIALS.to_owned(), content)));
            files.extend(config.ca_pem.map(|pem| (AUTHORITY.to_owned(), SecretSlice::from(pem))));
            Transport::Direct(Direct {
                provider: config.provider,
                bucket: config.bucket,
                prefix: config.prefix,
                path: String::new(),
                config: config.config,
                credentials: named(&files, CREDENTIALS),
                ca: named(&files, AUTHORITY),
                customer_key: None,
            })
        }
        TenantStorage::Rest(config) => {
            let RestConfig { url, user, password, ca_pem, tls: _ } = config;
            if user.is_some() || password.is_some() {
                let password = password.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default();
                let text = format!("{}:{password}", user.unwrap_or_default());
                files.insert(CREDENTIALS.to_owned(), SecretSlice::from(text.into_bytes()));
            }
            files.extend(ca_pem.map(|pem| (AUTHORITY.to_owned(), SecretSlice::from(pem))));
            Transport::Rest {
                url: url.to_string(),
                credentials: named(&files, CREDENTIALS),
                ca: named(&files, AUTHORITY),
            }
        }
        TenantStorage::Directory(path) => Transport::Directory { path },
    };
    (transport, files)
}

/// The name of a file, if there is one.
fn named(files: &BTreeMap<String, SecretSlice<u8>>, name: &str) -> Option<String> {
    files.contains_key(name).then(|| name.to_owned())
}

/// The storage for the task file of a mover, and the files that it needs. Credentials that the server reads from its own
/// disk or environment are included, because a mover has neither.
async fn direct(
    storage: Storage<'_>,
) -> Result<(Direct, BTreeMap<String, SecretSlice<u8>>), RepositoryProblem> {
    let Storage { config, environment, path } = storage;
    let mut files = BTreeMap::new();
    let mut settings = config.config.clone();
    let on_disk = config.files_needed(environment);
    let read = Files::read(&on_disk).await;
    let credentials = config.credentials_content(environment, &read).map_err(|error| unusable(&error))?;
    if let Some(content) = credentials {
        files.insert(CREDENTIALS.to_owned(), content);
        settings.remove("credentialsFile");
    }
    if let Some(key) = config.customer_key_content(&read).map_err(|error| unusable(&error))? {
        files.insert(CUSTOMER_KEY.to_owned(), key);
        let path = format!("{DIRECTORY}/{CUSTOMER_KEY}");
        settings.entry("customerKeyEncryptionFile".to_owned()).and_modify(|named| *named = path);
    }
    if let Some(pem) = &config.ca_pem {
        files.insert(AUTHORITY.to_owned(), SecretSlice::from(pem.clone()));
    }
    let named = |name: &str| named(&files, name);
    let direct = Direct {
        provider: config.provider.clone(),
        bucket: config.bucket.clone(),
        prefix: config.prefix.clone(),
        path: path.to_owned(),
        config: settings,
        credentials: named(CREDENTIALS),
        ca: named(AUTHORITY),
        customer_key: named(CUSTOMER_KEY),
    };
    Ok((direct, files))
}

fn unusable(error: &lifeboat_store::Error) -> RepositoryProblem {
    RepositoryProblem::Unusable(storage_message(error))
}

/// The repository in the syntax of stock restic.
fn identifier(config: &StoreConfig, path: &str) -> String {
    let parts = [config.prefix.trim_matches('/'), path.trim_matches('/')];
    let path = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    let bucket = &config.bucket;
    let below = if path.is_empty() { bucket.clone() } else { format!("{bucket}/{path}") };
    match config.provider.rsplit('/').next().unwrap_or_default() {
        "aws" => {
            let region = config.config.get("region").map_or("us-east-1", String::as_str);
            let amazon = || format!("s3.{region}.amazonaws.com");
            let url = config.config.get("s3Url").filter(|url| !url.is_empty()).cloned();
            format!("s3:{}/{below}", url.unwrap_or_else(amazon).trim_end_matches('/'))
        }
        "gcp" => format!("gs:{bucket}:/{path}"),
        "azure" => format!("azure:{bucket}:/{path}"),
        _ => below,
    }
}

#[cfg(test)]
mod tests;
