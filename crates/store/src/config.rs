//! Turns the settings of a BackupStorageLocation into a type that can only hold valid values. Pure: the files that
//! the config or the environment names are read by `open`, which passes their content in. Every key is either
//! honoured or refused by name; encryption settings are never ignored.

pub(crate) mod aws;
pub(crate) mod azure;
mod environment;
pub(crate) mod gcp;
mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use reqwest::Certificate;
use secrecy::{ExposeSecret, SecretSlice};

use crate::credentials::aws_file::AwsSource;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::key::Key;

pub use environment::Environment;

/// The settings of a location, unchecked.
#[derive(Debug, Clone, Default)]
pub struct StoreConfig {
    /// `aws`, `gcp`, `azure` (each also as `velero.io/…`) or `lifeboat.io/local`.
    pub provider: String,
    pub bucket: String,
    pub prefix: String,
    /// Velero's `spec.config`.
    pub config: BTreeMap<String, String>,
    /// PEM certificates that are trusted in addition to the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// The content of the credentials Secret's key.
    pub credentials: Option<SecretSlice<u8>>,
    /// The content of the Secret that `customerKeyEncryptionSecret` names; see `customer_key_secret`.
    pub customer_key: Option<SecretSlice<u8>>,
}

impl StoreConfig {
    /// `(secret name, key)` of the Secret in the server's namespace that holds the SSE-C key, if the config names
    /// one. This crate has no Kubernetes client, so the caller reads the Secret into `customer_key`.
    pub fn customer_key_secret(&self) -> Result<Option<(&str, &str)>> {
        let key = "customerKeyEncryptionSecret";
        match self.config.get(key).map(String::as_str).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(value) => match value.split_once('/') {
                Some((name, entry)) if !name.is_empty() && !entry.is_empty() && !entry.contains('/') => {
                    Ok(Some((name, entry)))
                }
                _ => Err(keys::value(key, value, "'secretName/key'")),
            },
        }
    }

    /// Checks the settings of a tenant's storage: no environment, no file of the server is used.
    pub(crate) fn validate_for_tenant(&self, guard: Guard) -> Result<ValidConfig> {
        for key in ["credentialsFile", "customerKeyEncryptionFile"] {
            if self.config.contains_key(key) {
                return Err(Error::config(key, "a tenant's storage cannot name a file of the server"));
            }
        }
        self.validate(&Environment::default(), &Files::default())?.for_tenant(guard)
    }

    /// Checks everything that needs no network. `files` holds the content of the files from `files_needed`.
    pub fn validate(&self, environment: &Environment, files: &Files) -> Result<ValidConfig> {
        let provider = Provider::parse(&self.provider)?;
        let bucket = bucket(provider, &self.bucket)?;
        let prefix = self.prefix.trim_matches('/').to_owned();
        if !prefix.is_empty() {
            Key::new(prefix.as_str()).map_err(|error| Error::config("prefix", error.to_string()))?;
        }
        let roots = match &self.ca_pem {
            Some(pem) => certificates(pem)?,
            None => Vec::new(),
        };
        let target = match provider {
            Provider::Aws => Target::Aws(Box::new(aws::validate(self, environment, files)?)),
            Provider::Gcp => Target::Gcp(gcp::validate(self, environment, files)?),
            Provider::Azure => Target::Azure(azure::validate(self, environment, files)?),
            Provider::Local => Target::Local(local(self, &bucket)?),
        };
        Ok(ValidConfig { bucket, prefix, roots, tls: Tls::default(), target, guard: None })
    }

    /// The files whose content `validate` needs: those that the config names, or else the environment.
    pub fn files_needed(&self, environment: &Environment) -> Vec<PathBuf> {
        let Ok(provider) = Provider::parse(&self.provider) else {
            return Vec::new();
        };
        let named = |key: &str| self.config.get(key).filter(|value| !value.is_empty()).map(PathBuf::from);
        let credentials = match &self.credentials {
            Some(_) => None,
            None => {
                named("credentialsFile").or_else(|| environment.credentials_file(provider).map(PathBuf::from))
            }
        };
        credentials.into_iter().chain(named("customerKeyEncryptionFile")).collect()
    }

    /// The static credentials, if there are any, for another process that opens the same store and has neither the
    /// files nor the environment of this one. `files` holds the content of the files from `files_needed`.
    pub fn credentials_content(
        &self,
        environment: &Environment,
        files: &Files,
    ) -> Result<Option<SecretSlice<u8>>> {
        if let Some(content) = self.credentials(environment, files)? {
            return Ok(Some(SecretSlice::from(content.to_vec())));
        }
        let is_aws = Provider::parse(&self.provider)? == Provider::Aws;
        Ok(environment.aws_credentials().filter(|_| is_aws))
    }

    /// The SSE-C key, if the config takes it from a file, for another process that opens the same store.
    pub fn customer_key_content(&self, files: &Files) -> Result<Option<SecretSlice<u8>>> {
        let named = self.config.get("customerKeyEncryptionFile").filter(|path| !path.is_empty());
        match (&self.customer_key, named) {
            (Some(key), _) => Ok(Some(key.clone())),
            (None, Some(path)) => Ok(Some(SecretSlice::from(files.get(path)?.to_vec()))),
            (None, None) => Ok(None),
        }
    }

    /// The content of the credentials: from the Secret, or else from the file that the config or the environment
    /// names.
    fn credentials<'a>(&'a self, environment: &Environment, files: &'a Files) -> Result<Option<&'a [u8]>> {
        if let Some(secret) = &self.credentials {
            return Ok(Some(secret.expose_secret()));
        }
        let provider = Provider::parse(&self.provider)?;
        let named = self.config.get("credentialsFile").filter(|value| !value.is_empty());
        match named.map(String::as_str).or_else(|| environment.credentials_file(provider)) {
            None => Ok(None),
            Some(path) => files.get(path).map(Some),
        }
    }
}

/// The kind of object storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    Aws,
    Gcp,
    Azure,
    Local,
}

impl Provider {
    /// Parses Velero's provider names, with or without their domain.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "aws" | "velero.io/aws" => Ok(Self::Aws),
            "gcp" | "velero.io/gcp" => Ok(Self::Gcp),
            "azure" | "velero.io/azure" => Ok(Self::Azure),
            "local" | "lifeboat.io/local" => Ok(Self::Local),
            _ => Err(keys::value("provider", name, "'aws', 'gcp', 'azure' or 'lifeboat.io/local'")),
        }
    }
}

/// The content of the files that a config names, or the error from reading them.
#[derive(Debug, Default)]
pub struct Files(BTreeMap<PathBuf, std::io::Result<SecretSlice<u8>>>);

impl Files {
    /// Reads each of `paths`. A file that cannot be read is reported only when its content is needed.
    pub async fn read(paths: &[PathBuf]) -> Self {
        let mut files = BTreeMap::new();
        for path in paths {
            let content = tokio::fs::read(path).await.map(SecretSlice::from);
            files.insert(path.clone(), content);
        }
        Self(files)
    }

    pub(crate) fn get(&self, path: &str) -> Result<&[u8]> {
        match self.0.get(std::path::Path::new(path)) {
            Some(Ok(content)) => Ok(content.expose_secret()),
            Some(Err(problem)) => Err(Error::credentials_format(format!("cannot read '{path}': {problem}"))),
            None => Err(Error::credentials_format(format!("'{path}' was not read"))),
        }
    }
}

impl<P: Into<PathBuf>> FromIterator<(P, Vec<u8>)> for Files {
    fn from_iter<I: IntoIterator<Item = (P, Vec<u8>)>>(files: I) -> Self {
        Self(files.into_iter().map(|(path, content)| (path.into(), Ok(content.into()))).collect())
    }
}

/// A checked config, from which `open` makes a store.
pub struct ValidConfig {
    pub(crate) bucket: String,
    pub(crate) prefix: String,
    pub(crate) roots: Vec<Certificate>,
    pub(crate) tls: Tls,
    pub(crate) target: Target,
    pub(crate) guard: Option<Guard>,
}

impl ValidConfig {
    /// Limits the store to what a tenant's storage may do: connections are made to addresses that `guard` allows, error
    /// messages leave out what the server answers. Fails if credentials would come from anywhere but the config itself, and
    /// for a directory.
    pub(crate) fn for_tenant(self, guard: Guard) -> Result<Self> {
        let is_given = match &self.target {
            Target::Aws(config) => matches!(config.source, AwsSource::Static(_)),
            Target::Gcp(config) => config.key.is_some(),
            Target::Azure(config) => config.auth.is_given(),
            Target::Local(_) => {
                return Err(Error::config(
                    "provider",
                    "a directory of the server is not opened for a tenant",
                ));
            }
        };
        if !is_given {
            return Err(Error::credentials_format(
                "they are missing, and a tenant's storage is never opened with another identity",
            ));
        }
        Ok(Self { guard: Some(guard), ..self })
    }

    /// Sets TLS options that a location does not have but the command line does.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls, ..self }
    }

    /// Access without credentials to a public S3 bucket; other providers are not changed.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        if let Target::Aws(config) = &mut self.target {
            config.source = AwsSource::Anonymous;
        }
        self
    }
}

/// How a server's certificate is verified, and which client certificate is presented.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// Accept any certificate. An attacker on the network path can then read and change all data.
    pub skip_verify: bool,
    /// PEM with a client certificate and its private key, for servers that require one.
    pub client_pem: Option<SecretSlice<u8>>,
}

impl Tls {
    pub(crate) fn identity(&self) -> Result<Option<reqwest::Identity>> {
        let Some(pem) = &self.client_pem else { return Ok(None) };
        let identity = reqwest::Identity::from_pem(pem.expose_secret());
        // reqwest's message would not help, and the PEM is secret.
        let problem = "expected PEM with a certificate and its private key";
        identity.map(Some).map_err(|_| Error::config("client certificate", problem))
    }
}

impl fmt::Debug for ValidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidConfig")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("roots", &self.roots.len())
            .field("tls", &self.tls)
            .field("target", &self.target)
            .field("guard", &self.guard)
            .finish()
    }
}

/// The settings of the provider.
#[derive(Debug)]
pub(crate) enum Target {
    Aws(Box<aws::AwsConfig>),
    Gcp(gcp::GcpConfig),
    Azure(azure::AzureConfig),
    Local(PathBuf),
}

fn bucket(provider: Provider, name: &str) -> Result<String> {
    let trimmed = name.trim_matches('/');
    if trimmed.is_empty() {
        return Err(Error::config("bucket", "it is empty"));
    }
    if trimmed.contains('/') && !(provider == Provider::Aws && trimmed.starts_with("arn:aws:s3:")) {
        let problem =
            format!("'{name}' contains a '/'; move the part after the bucket's name to objectStorage.prefix");
        return Err(Error::config("bucket", problem));
    }
    if trimmed == "." || trimmed == ".." || trimmed.chars().any(char::is_control) {
        return Err(keys::value("bucket", name, "a bucket's name"));
    }
    Ok(trimmed.to_owned())
}

/// `<path>/<bucket>`. Both must exist: if a mount is missing, no directory must be created in its place.
fn local(config: &StoreConfig, bucket: &str) -> Result<PathBuf> {
    let entries = keys::Keys::new("lifeboat.io/local", &config.config, &["path"], &[])?;
    let Some(path) = entries.get("path") else {
        return Err(Error::config(
            "path",
            "it is missing; set it to the absolute path of the directory that contains the bucket",
        ));
    };
    let path = PathBuf::from(path);
    if !path.is_absolute() || path.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(keys::value("path", &path.display().to_string(), "an absolute path without '..'"));
    }
    Ok(path.join(bucket))
}

pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<Certificate>> {
    let bad = |problem: &str| Error::config("caCert", problem);
    if !pem.windows(27).any(|window| window == b"-----BEGIN CERTIFICATE-----") {
        return Err(bad("it contains no PEM certificate ('-----BEGIN CERTIFICATE-----')"));
    }
    match Certificate::from_pem_bundle(pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(bad("its PEM cannot be parsed")),
    }
}
