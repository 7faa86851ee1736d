//! The access to the repository of a Backend: takes the backend of a Repository and the data of its Secret, gives the
//! storage with its settings and credentials, or a problem that names the Secret, the key or the field, and the next
//! step. Called by crate `stash` each time a repository is opened.
//!
//! The repository is exactly `<bucket>/<prefix>`, as upstream has it. Values of the Secret become lines of credential files, so one that
//! could add a line is refused: otherwise a tenant could name another source of credentials there.

mod endpoint;
mod place;
mod problem;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::fmt;

use lifeboat_api::common::ByteString;
use lifeboat_api::stash::{
    AzureBackend, B2Backend, Backend, GcsBackend, LocalBackend, RestBackend, S3Backend, VolumeSource,
};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde_json::Value;

use super::repo_dirs::RepoDir;
use endpoint::Endpoint;
pub use place::{Place, place};
pub use problem::BackendProblem;
use values::{Values, bucket, prefix, relative};

/// Keys of the Secret.
pub const PASSWORD: &str = "RESTIC_PASSWORD";
pub const AUTHORITY: &str = "CA_CERT_DATA";
const AWS_ID: &str = "AWS_ACCESS_KEY_ID";
const AWS_KEY: &str = "AWS_SECRET_ACCESS_KEY";
const GOOGLE_KEY: &str = "GOOGLE_SERVICE_ACCOUNT_JSON_KEY";
const AZURE_ACCOUNT: &str = "AZURE_ACCOUNT_NAME";
const AZURE_KEY: &str = "AZURE_ACCOUNT_KEY";
const B2_ID: &str = "B2_ACCOUNT_ID";
const B2_KEY: &str = "B2_ACCOUNT_KEY";
const B2_ENDPOINT: &str = "B2_ENDPOINT";
const REST_USER: &str = "REST_SERVER_USERNAME";
const REST_PASSWORD: &str = "REST_SERVER_PASSWORD";

/// What opens the repository of a backend.
#[derive(Clone)]
pub struct BackendAccess {
    pub storage: BackendStorage,
    /// The repository in restic's syntax, for people and for stock restic; it contains no secret.
    pub identifier: String,
    pub password: SecretString,
    /// PEM certificates that are trusted in addition to the system's.
    pub authority: Option<Vec<u8>>,
    pub opened_by: OpenedBy,
    /// How many requests are made at a time, if the backend sets it.
    pub connections: Option<usize>,
}

/// Where the repository is.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "one exists for each repository that is opened, not in lists")]
pub enum BackendStorage {
    Bucket(Bucket),
    Rest(RestServer),
    Volume(Volume),
}

/// A prefix of a bucket.
#[derive(Clone)]
pub struct Bucket {
    /// `aws`, `gcp` or `azure`.
    pub provider: &'static str,
    pub name: String,
    /// Without slashes at its ends; empty for the bucket's root.
    pub prefix: String,
    /// The settings of the provider, with the names that locations use.
    pub config: BTreeMap<String, String>,
    /// A credentials file in the provider's format; None if the pod has a cloud identity.
    pub credentials: Option<SecretSlice<u8>>,
}

/// A server that speaks restic's REST protocol.
#[derive(Clone)]
pub struct RestServer {
    /// `http://` or `https://`, without user and password; the path is that of the repository.
    pub url: String,
    pub user: Option<String>,
    pub password: Option<SecretString>,
}

/// A directory of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    pub source: VolumeSource,
    /// The directory inside the volume; None for its root.
    pub sub_path: Option<String>,
}

/// Who can open the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenedBy {
    /// The server, and movers.
    Server,
    /// Movers only: the server has no access to volumes, and never uses an identity that is not given in the Secret.
    Movers(MoversOnly),
}

/// Why only movers can open a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoversOnly {
    /// It is on a volume.
    Volume,
    /// The Secret has no keys of the storage: pods have a cloud identity.
    CloudIdentity,
}

impl fmt::Display for MoversOnly {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Volume => "it is on a volume, which only pods of its namespace mount",
            Self::CloudIdentity => {
                "its Secret has no keys of the storage, so pods open it with a cloud identity of their own"
            }
        })
    }
}

impl BackendAccess {
    /// The repository in a directory below that of the backend.
    #[must_use]
    pub fn below(mut self, directory: &RepoDir) -> Self {
        let below = directory.relative();
        match &mut self.storage {
            BackendStorage::Bucket(bucket) => bucket.prefix = under(&bucket.prefix, below),
            BackendStorage::Rest(server) => server.url = under(&server.url, below),
            BackendStorage::Volume(volume) => {
                volume.sub_path = Some(under(volume.sub_path.as_deref().unwrap_or_default(), below));
            }
        }
        self.identifier = format!("{}/{below}", self.identifier.trim_end_matches('/'));
        self
    }
}

/// A path below another one, which may be empty.
fn under(above: &str, below: &str) -> String {
    if above.is_empty() { below.to_owned() } else { format!("{above}/{below}") }
}

/// The data of a Secret.
pub type SecretData = BTreeMap<String, ByteString>;

/// What opens the repository, or why nothing does.
pub fn access(backend: &Backend, secret: &SecretData) -> Result<BackendAccess, BackendProblem> {
    let values = Values { secret: &backend.storage_secret_name, data: secret };
    let Opening { storage, identifier, opened_by, connections } = opening(backend, &values)?;
    let password = values.required(PASSWORD, "the password of the repository")?;
    Ok(BackendAccess {
        storage,
        identifier,
        password: SecretString::from(password),
        authority: values.certificates(AUTHORITY)?,
        opened_by,
        connections,
    })
}

struct Opening {
    storage: BackendStorage,
    identifier: String,
    opened_by: OpenedBy,
    connections: Option<usize>,
}

impl Opening {
    fn bucket(bucket: Bucket, identifier: String, connections: Option<i64>) -> Self {
        let opened_by = match &bucket.credentials {
            Some(_) => OpenedBy::Server,
            None => OpenedBy::Movers(MoversOnly::CloudIdentity),
        };
        let connections = connections.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0);
        Self { storage: BackendStorage::Bucket(bucket), identifier, opened_by, connections }
    }
}

fn opening(backend: &Backend, values: &Values<'_>) -> Result<Opening, BackendProblem> {
    let Backend { storage_secret_name: _, local, s3, gcs, azure, swift, b2, rest } = backend;
    match (local, s3, gcs, azure, swift, b2, rest) {
        (Some(local), None, None, None, None, None, None) => of_volume(local),
        (None, Some(s3), None, None, None, None, None) => of_s3(s3, values),
        (None, None, Some(gcs), None, None, None, None) => of_gcs(gcs, values),
        (None, None, None, Some(azure), None, None, None) => of_azure(azure, values),
        (None, None, None, None, Some(_), None, None) => Err(BackendProblem::Swift),
        (None, None, None, None, None, Some(b2), None) => of_b2(b2, values),
        (None, None, None, None, None, None, Some(rest)) => of_rest(rest, values),
        _ => Err(BackendProblem::NotOne),
    }
}

fn of_s3(backend: &S3Backend, values: &Values<'_>) -> Result<Opening, BackendProblem> {
    let endpoint = Endpoint::parse("spec.backend.s3.endpoint", &backend.endpoint)?;
    let name = bucket("spec.backend.s3.bucket", &backend.bucket)?;
    let prefix = prefix("spec.backend.s3.prefix", backend.prefix.as_deref())?;
    let mut config = endpoint.config();
    if let Some(region) = backend.region.as_deref().filter(|region| !region.is_empty()) {
        config.insert("region".to_owned(), region.to_owned());
    }
    if backend.insecure_tls {
        config.insert("insecureSkipTLSVerify".to_owned(), "true".to_owned());
    }
    let credentials = aws_file(values.pair(AWS_ID, AWS_KEY)?);
    let identifier = format!("s3:{}/{}", endpoint.shown(), joined(&name, "/", &prefix));
    let bucket = Bucket { provider: "aws", name, prefix, config, credentials };
    Ok(Opening::bucket(bucket, identifier, None))
}

/// Backblaze's own API is not spoken. Its S3 API has one endpoint for each region, which the backend has no field for.
fn of_b2(backend: &B2Backend, values: &Values<'_>) -> Result<Opening, BackendProblem> {
    let name = bucket("spec.backend.b2.bucket", &backend.bucket)?;
    let prefix = prefix("spec.backend.b2.prefix", backend.prefix.as_deref())?;
    let id = values.required(B2_ID, "the ID of an application key")?;
    let key = values.required(B2_KEY, "the application key")?;
    let endpoint = values.required(
        B2_ENDPOINT,
        "the endpoint that Backblaze shows for the bucket, such as s3.us-west-004.backblazeb2.com",
    )?;
    let endpoint = Endpoint::parse(&values.name(B2_ENDPOINT), &endpoint)?;
    let identifier = format!("b2:{name}:/{prefix}");
    let credentials = aws_file(Some((id, key)));
    let bucket = Bucket { provider: "aws", name, prefix, config: endpoint.config(), credentials };
    Ok(Opening::bucket(bucket, identifier, backend.max_connections))
}

fn of_gcs(backend: &GcsBackend, values: &Values<'_>) -> Result<Opening, BackendProblem> {
    let name = bucket("spec.backend.gcs.bucket", &backend.bucket)?;
    let prefix = prefix("spec.backend.gcs.prefix", backend.prefix.as_deref())?;
    let key = values.text(GOOGLE_KEY)?;
    if let Some(json) = &key {
        // The text is a secret: the parser's message could quote it.
        let parsed = serde_json::from_str::<Value>(json).unwrap_or_default();
        if parsed["type"] != "service_account" || !parsed["private_key"].is_string() {
            return Err(values.wrong(GOOGLE_KEY, "the JSON of a service account, with its private key"));
        }
    }
    let credentials = key.map(|json| SecretSlice::from(json.into_bytes()));
    let identifier = format!("gs:{name}:/{prefix}");
    let bucket = Bucket { provider: "gcp", name, prefix, config: BTreeMap::new(), credentials };
    Ok(Opening::bucket(bucket, identifier, backend.max_connections))
}

fn of_azure(backend: &AzureBackend, values: &Values<'_>) -> Result<Opening, BackendProblem> {
    let name = bucket("spec.backend.azure.container", &backend.container)?;
    let prefix = prefix("spec.backend.azure.prefix", backend.prefix.as_deref())?;
    let account = values.required(AZURE_ACCOUNT, "the name of the storage account")?;
    let mut config = BTreeMap::from([("storageAccount".to_owned(), account)]);
    let key = values.key(AZURE_KEY)?;
    if key.is_none() {
        config.insert("useAAD".to_owned(), "true".to_owned());
    }
    let credentials = key.map(|key| SecretSlice::from(format!("AZURE_STORAGE_KEY={key}\n").into_bytes()));
    let identifier = format!("azure:{name}:/{prefix}");
    let bucket = Bucket { provider: "azure", name, prefix, config, credentials };
    Ok(Opening::bucket(bucket, identifier, backend.max_connections))
}

fn of_rest(backend: &RestBackend, values: &Values<'_>) -> Result<Opening, BackendProblem> {
    let url = endpoint::rest_url("spec.backend.rest.url", &backend.url, values.secret)?;
    let user = values.text(REST_USER)?;
    if user.as_deref().is_some_and(|user| user.contains(':')) {
        return Err(values.wrong(REST_USER, "a user name without ':'"));
    }
    let password = values.text(REST_PASSWORD)?.map(SecretString::from);
    let identifier = format!("rest:{url}");
    let storage = BackendStorage::Rest(RestServer { url, user, password });
    Ok(Opening { storage, identifier, opened_by: OpenedBy::Server, connections: None })
}

fn of_volume(backend: &LocalBackend) -> Result<Opening, BackendProblem> {
    let sub_path = relative("spec.backend.local.subPath", backend.sub_path.as_deref())?;
    let storage = BackendStorage::Volume(Volume { source: backend.volume.clone(), sub_path });
    let opened_by = OpenedBy::Movers(MoversOnly::Volume);
    Ok(Opening { storage, identifier: backend.mount_path.clone(), opened_by, connections: None })
}

/// A credentials file of AWS with one profile.
fn aws_file(keys: Option<(String, String)>) -> Option<SecretSlice<u8>> {
    let (id, key) = keys?;
    let text = format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {key}\n");
    Some(SecretSlice::from(text.into_bytes()))
}

/// Both parts with the separator between them, if the second is not empty.
fn joined(first: &str, separator: &str, second: &str) -> String {
    if second.is_empty() { first.to_owned() } else { format!("{first}{separator}{second}") }
}

impl fmt::Debug for BackendAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BackendAccess")
            .field("identifier", &self.identifier)
            .field("opened_by", &self.opened_by)
            .finish_non_exhaustive()
    }
}

impl Bucket {
    /// The credentials file as text, for tests and for callers that write it.
    pub fn credentials_text(&self) -> Option<&str> {
        self.credentials.as_ref().and_then(|content| std::str::from_utf8(content.expose_secret()).ok())
    }
}
