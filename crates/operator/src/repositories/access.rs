//! What reaches and opens one repository: from a location, its Secrets and the passwords of the installation to the
//! engine's own `Repository` and to what a mover is told. What the server reads from its own disk or environment goes
//! along to the mover, which has neither.

use std::collections::BTreeMap;

use lifeboat_cluster::ApiError;
use lifeboat_mover::task::{DIRECTORY, Direct, RepositoryAccess, Transport};
use lifeboat_plan::password::{SECRET, to_try};
use lifeboat_repository::repository::{Identity, InitOptions, Options, Repository};
use lifeboat_store::{Files, Store, StoreConfig, Tuning};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::RepositoryProblem;
use crate::context::Context;
use crate::locations::{self, Opening};
use crate::password;

/// Names of the files beside a task.
const PASSWORD: &str = "password";
const CREDENTIALS: &str = "credentials";
const AUTHORITY: &str = "ca.pem";
const CUSTOMER_KEY: &str = "customer-key";

/// What reaches and opens one repository.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) location: String,
    pub(crate) namespace: String,
    /// For people and for stock restic, as in `s3:https://storage/bucket/restic/shop`.
    pub(crate) identifier: String,
    /// For a mover.
    pub(crate) task: RepositoryAccess,
    /// The files that it names.
    pub(crate) files: BTreeMap<String, SecretSlice<u8>>,
    store: Store,
    /// In the order to try them; the first is that of new repositories.
    passwords: Vec<SecretString>,
    options: Options,
}

/// The repository of a namespace in a location.
pub(crate) async fn access(
    context: &Context,
    location: &str,
    namespace: &str,
) -> Result<Access, RepositoryProblem> {
    let object = locations::find(context, location).await?;
    let secrets = locations::secrets(context, &object).await?;
    let opening = locations::opening(&object, &secrets, &context.plugins)
        .map_err(|problem| RepositoryProblem::Unusable(problem.message))?;
    let Opening::BuiltIn(config) = opening else {
        return Err(RepositoryProblem::Unusable(format!(
            "location '{location}' is served by {}; movers reach only storage that Lifeboat speaks itself: remove the plugin, \
             or give the volumes a location with provider aws, gcp or azure",
            opening.used()
        )));
    };
    let passwords = passwords(context).await?;
    let path = format!("restic/{namespace}");
    let (direct, mut files) = direct(context, &config, &path).await?;
    let names = (0..passwords.len()).map(|place| format!("{PASSWORD}-{place}")).collect::<Vec<_>>();
    for (name, password) in names.iter().zip(&passwords) {
        files.insert(name.clone(), SecretSlice::from(password.expose_secret().as_bytes().to_vec()));
    }
    let identifier = identifier(&config, &path);
    let store = lifeboat_store::open(&config, &context.settings.cloud, Tuning::default()).await;
    let store = store.map_err(|error| RepositoryProblem::Unusable(locations::problem(&error).message))?;
    let below = store
        .below(&path)
        .map_err(|error| RepositoryProblem::Unusable(locations::problem(&error).message))?;
    let options = Options {
        uploads: 1,
        reads: 2,
        threads: 1,
        temporary: context.settings.storage.spool_directory.clone(),
        identity: Identity {
            host: format!("{}/{}", context.repositories.cluster(context).await?, context.settings.identity),
            ..Identity::of_system()
        },
        ..Options::default()
    };
    Ok(Access {
        location: location.to_owned(),
        namespace: namespace.to_owned(),
        store: below.with_name(&identifier),
        identifier,
        task: RepositoryAccess { transport: Transport::Direct(direct), passwords: names },
        files,
        passwords,
        options,
    })
}

impl Access {
    /// Whether both lead to the same repository with the same secrets.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let secrets = |access: &Self| -> Vec<(String, Vec<u8>)> {
            let files = access.files.iter();
            files.map(|(name, content)| (name.clone(), content.expose_secret().to_vec())).collect()
        };
        self.task == other.task && secrets(self) == secrets(other)
    }

    /// Opens it in the server: for looks and small changes, with little memory.
    pub(crate) async fn open(&self) -> Result<Repository, RepositoryProblem> {
        let mut wrong = None;
        for password in &self.passwords {
            match Repository::open(self.store.clone(), password, self.options.clone()).await {
                Err(error @ lifeboat_repository::Error::WrongPassword { .. }) => wrong = Some(error),
                other => return Ok(other?),
            }
        }
        match wrong {
            Some(error) => Err(error.into()),
            None => Err(no_password()),
        }
    }

    /// The same; where there is none yet, it is made with the password of new ones.
    pub(crate) async fn open_or_create(&self) -> Result<Repository, RepositoryProblem> {
        match self.open().await {
            Err(RepositoryProblem::Repository(lifeboat_repository::Error::NoRepository { .. })) => {}
            other => return other,
        }
        let password = self.passwords.first().ok_or_else(no_password)?;
        let made =
            Repository::init(self.store.clone(), password, InitOptions::default(), self.options.clone());
        match made.await {
            // Another replica was faster.
            Err(lifeboat_repository::Error::RepositoryExists { .. }) => self.open().await,
            other => Ok(other?),
        }
    }
}

fn no_password() -> RepositoryProblem {
    RepositoryProblem::Unusable(format!(
        "Secret {SECRET} holds no repository password; restore it (`lifeboat install --repository-password-file`), or let the \
         server make one"
    ))
}

/// The passwords that may open a repository, that of new ones first.
async fn passwords(context: &Context) -> Result<Vec<SecretString>, ApiError> {
    let secret = password::read(&context.client, &context.settings.namespace).await?.unwrap_or_default();
    Ok(to_try(&secret).into_iter().map(|text| SecretString::from(text.to_owned())).collect())
}

/// The location for a mover, and the files that it needs: what the server reads from its own disk or environment goes
/// along, because a mover has neither.
async fn direct(
    context: &Context,
    config: &StoreConfig,
    path: &str,
) -> Result<(Direct, BTreeMap<String, SecretSlice<u8>>), RepositoryProblem> {
    let cloud = &context.settings.cloud;
    let mut files = BTreeMap::new();
    let mut settings = config.config.clone();
    let on_disk = config.files_needed(cloud);
    let read = Files::read(&on_disk).await;
    let credentials = config.credentials_content(cloud, &read).map_err(|error| unusable(&error))?;
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
    RepositoryProblem::Unusable(locations::problem(error).message)
}

/// The repository as stock restic is told where it is.
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
