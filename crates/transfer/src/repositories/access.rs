//! Access to one repository: from the settings of its storage and its passwords to the engine's own `Repository` and
//! to the task file of a mover. Credentials that the server reads from its own disk or environment are copied for the
//! mover, which has neither. Made by each [`super::AccessSource`].

use std::collections::BTreeMap;

use lifeboat_mover::task::{DIRECTORY, Direct, RepositoryAccess, Transport};
use lifeboat_repository::repository::{InitOptions, Options, Repository};
use lifeboat_store::{Environment, Files, Store, StoreConfig, Tuning};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::problem::storage_message;
use super::{RepositoryKey, RepositoryProblem};

/// Names of the files beside the task file.
const PASSWORD: &str = "password";
const CREDENTIALS: &str = "credentials";
const AUTHORITY: &str = "ca.pem";
const CUSTOMER_KEY: &str = "customer-key";

/// Access to one repository: its storage, its passwords, and what a mover needs of both.
#[derive(Clone)]
pub struct Access {
    pub key: RepositoryKey,
    /// The repository in restic's syntax, as in `s3:https://storage/bucket/restic/shop`.
    pub identifier: String,
    /// The repository as a mover's task file describes it.
    pub task: RepositoryAccess,
    /// The files that the task file names.
    pub files: BTreeMap<String, SecretSlice<u8>>,
    store: Store,
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
    /// The repository's directory below the prefix of the storage.
    pub path: &'a str,
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
        let (direct, mut files) = direct(storage).await?;
        let names = (0..passwords.to_try.len()).map(|number| format!("{PASSWORD}-{number}"));
        let names = names.collect::<Vec<_>>();
        for (name, password) in names.iter().zip(&passwords.to_try) {
            files.insert(name.clone(), SecretSlice::from(password.expose_secret().as_bytes().to_vec()));
        }
        let identifier = identifier(config, path);
        let store = lifeboat_store::open(config, environment, Tuning::default()).await;
        let below = store.and_then(|store| store.below(path)).map_err(|error| unusable(&error))?;
        Ok(Self {
            key,
            store: below.with_name(&identifier),
            identifier,
            task: RepositoryAccess { transport: Transport::Direct(direct), passwords: names },
            files,
            passwords,
            options,
        })
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
        let mut wrong = None;
        for password in &self.passwords.to_try {
            match Repository::open(self.store.clone(), password, self.options.clone()).await {
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
        let made =
            Repository::init(self.store.clone(), password, InitOptions::default(), self.options.clone());
        match made.await {
            // Another replica created it first.
            Err(lifeboat_repository::Error::RepositoryExists { .. }) => self.open().await,
            other => Ok(other?),
        }
    }

    fn no_password(&self) -> RepositoryProblem {
        RepositoryProblem::Unusable(self.passwords.missing.clone())
    }
}

/// The storage as a mover's task file describes it, and the files that it needs. Credentials from the server's own
/// disk or environment are copied, because a mover has neither.
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
    let named = |name: &str| files.contains_key(name).then(|| name.to_owned());
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
    let prefix = config.prefix.trim_matches('/');
    let path = if prefix.is_empty() { path.to_owned() } else { format!("{prefix}/{path}") };
    let bucket = &config.bucket;
    match config.provider.rsplit('/').next().unwrap_or_default() {
        "aws" => {
            let region = config.config.get("region").map_or("us-east-1", String::as_str);
            let amazon = || format!("s3.{region}.amazonaws.com");
            let url = config.config.get("s3Url").filter(|url| !url.is_empty()).cloned();
            format!("s3:{}/{bucket}/{path}", url.unwrap_or_else(amazon).trim_end_matches('/'))
        }
        "gcp" => format!("gs:{bucket}:/{path}"),
        "azure" => format!("azure:{bucket}:/{path}"),
        _ => format!("{bucket}/{path}"),
    }
}
