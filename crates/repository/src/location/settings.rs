//! The settings for opening a location, and their translation into the store's own config. This is the only module
//! here that reads files: certificates and credentials that the settings name.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use lifeboat_store::{Bandwidth, Environment, Files, RestConfig, Store, StoreConfig, Tls, Tuning};
use secrecy::{SecretSlice, SecretString};

use super::options::{Lookup, Options};
use super::{Location, StoreAddress, s3};
use crate::error::{Error, Result};

/// How to open a location. `main` fills it once from flags and environment.
#[derive(Clone, Default)]
pub struct OpenSettings {
    /// The environment of the process, or the part that contains credentials, with restic's names.
    pub environment: BTreeMap<String, String>,
    /// restic's `-o KEY=VALUE`.
    pub options: BTreeMap<String, String>,
    /// `--cacert`: files with PEM certificates that are trusted in addition to the system's.
    pub ca_certificates: Vec<PathBuf>,
    /// `--tls-client-cert`: a file of PEM with a certificate and its private key.
    pub client_certificate: Option<PathBuf>,
    /// `--insecure-tls`.
    pub insecure_tls: bool,
    /// Bytes per second.
    pub upload_limit: Option<NonZeroU64>,
    pub download_limit: Option<NonZeroU64>,
    /// The base of all other tuning.
    pub tuning: Tuning,
}

impl fmt::Debug for OpenSettings {
    /// The environment contains secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSettings")
            .field("options", &self.options)
            .field("ca_certificates", &self.ca_certificates)
            .field("client_certificate", &self.client_certificate)
            .field("insecure_tls", &self.insecure_tls)
            .finish_non_exhaustive()
    }
}

impl OpenSettings {
    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Refuses unsupported options before anything else is done.
    pub(super) fn check(&self, scheme: &str) -> Result<()> {
        Options::parse(scheme, &self.options).map(|_| ())
    }

    pub(super) fn tuning(&self, scheme: &str) -> Result<Tuning> {
        let options = Options::parse(scheme, &self.options)?;
        let mut tuning = self.tuning.clone();
        tuning.concurrency = options.connections.unwrap_or(tuning.concurrency);
        if let Some(retries) = options.retries {
            tuning.retry.attempts = retries.saturating_add(1);
        }
        if self.upload_limit.is_some() || self.download_limit.is_some() {
            tuning.bandwidth = Bandwidth::new(self.upload_limit, self.download_limit);
        }
        Ok(tuning)
    }

    fn tls(&self) -> Result<Tls> {
        let client_pem = self.client_certificate.as_deref().map(read).transpose()?.map(SecretSlice::from);
        Ok(Tls { skip_verify: self.insecure_tls, client_pem })
    }

    fn ca_pem(&self) -> Result<Option<Vec<u8>>> {
        if self.ca_certificates.is_empty() {
            return Ok(None);
        }
        let mut all = Vec::new();
        for path in &self.ca_certificates {
            all.extend(read(path)?);
            all.push(b'\n');
        }
        Ok(Some(all))
    }

    /// Reads the files that `config` names, checks everything and opens the store.
    pub(super) async fn open(
        &self,
        scheme: &str,
        config: StoreConfig,
        environment: Environment,
    ) -> Result<Store> {
        let failed = || Error::store(format!("open the {scheme} repository"));
        let files = Files::read(&config.files_needed(&environment)).await;
        let mut valid = config.validate(&environment, &files).map_err(failed())?.with_tls(self.tls()?);
        if Options::parse(scheme, &self.options)?.anonymous {
            valid = valid.anonymous();
        }
        valid.open(self.tuning(scheme)?).await.map_err(failed())
    }

    fn aws(&self, bucket: &s3::Bucket) -> Result<(StoreConfig, Environment)> {
        let options = Options::parse("s3", &self.options)?;
        let mut config = BTreeMap::new();
        if !bucket.is_amazon() {
            config.insert("s3Url".to_owned(), bucket.url());
        }
        let path_style = match options.lookup {
            Lookup::Auto => !bucket.is_amazon(),
            Lookup::Dns => false,
            Lookup::Path => true,
        };
        config.insert("s3ForcePathStyle".to_owned(), path_style.to_string());
        let region = options.region.as_deref().or_else(|| bucket.region());
        config.extend(region.map(|region| ("region".to_owned(), region.to_owned())));
        let mut environment = Environment::from_vars(self.environment.clone());
        // Not read if there are other credentials: a broken file would cause an error.
        let given = environment.aws_access_key_id.is_some() || options.anonymous;
        if environment.aws_shared_credentials_file.is_none() && !given {
            environment.aws_shared_credentials_file = self.usual_credentials();
        }
        let config = StoreConfig {
            provider: "aws".into(),
            bucket: bucket.name.clone(),
            prefix: bucket.prefix.clone(),
            config,
            ca_pem: self.ca_pem()?,
            ..StoreConfig::default()
        };
        Ok((config, environment))
    }

    /// `~/.aws/credentials`, the default of Amazon's tools.
    fn usual_credentials(&self) -> Option<String> {
        let path = Path::new(self.variable("HOME")?).join(".aws/credentials");
        path.is_file().then(|| path.display().to_string())
    }

    fn google(&self, bucket: &str, prefix: &str) -> Result<(StoreConfig, Environment)> {
        if self.variable("GOOGLE_ACCESS_TOKEN").is_some() {
            let problem =
                "not supported; set GOOGLE_APPLICATION_CREDENTIALS to the file with a service account's JSON";
            return Err(Error::invalid("GOOGLE_ACCESS_TOKEN", problem));
        }
        let config = StoreConfig {
            provider: "gcp".into(),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            ca_pem: self.ca_pem()?,
            ..StoreConfig::default()
        };
        Ok((config, Environment::from_vars(self.environment.clone())))
    }

    fn azure(&self, container: &str, prefix: &str) -> Result<(StoreConfig, Environment)> {
        let Some(account) = self.variable("AZURE_ACCOUNT_NAME") else {
            return Err(Error::invalid(
                "AZURE_ACCOUNT_NAME",
                "it is not set; set it to the name of the storage account",
            ));
        };
        let mut config = BTreeMap::from([("storageAccount".to_owned(), account.to_owned())]);
        if let Some(suffix) = self.variable("AZURE_ENDPOINT_SUFFIX") {
            config.insert("storageAccountURI".to_owned(), format!("https://{account}.blob.{suffix}"));
        }
        // From restic's names to those of the store.
        let secrets = match (self.variable("AZURE_ACCOUNT_KEY"), self.variable("AZURE_ACCOUNT_SAS")) {
            (Some(key), _) => format!("AZURE_STORAGE_KEY={key}\n"),
            (None, Some(signature)) => format!("AZURE_ACCOUNT_SAS={}\n", signature.trim_start_matches('?')),
            (None, None) => {
                config.insert("useAAD".to_owned(), "true".to_owned());
                ["AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET"]
                    .into_iter()
                    .filter_map(|name| Some(format!("{name}={}\n", self.variable(name)?)))
                    .collect()
            }
        };
        let config = StoreConfig {
            provider: "azure".into(),
            bucket: container.to_owned(),
            prefix: prefix.to_owned(),
            config,
            ca_pem: self.ca_pem()?,
            credentials: Some(secrets.into_bytes().into()),
            ..StoreConfig::default()
        };
        Ok((config, Environment::from_vars(self.environment.clone())))
    }
}

impl Location {
    /// The store's config for a bucket.
    pub(super) fn config(&self, settings: &OpenSettings) -> Result<(StoreConfig, Environment)> {
        match &self.address {
            StoreAddress::S3(bucket) => settings.aws(bucket),
            StoreAddress::Google { bucket, prefix } => settings.google(bucket, prefix),
            StoreAddress::Azure { container, prefix } => settings.azure(container, prefix),
            StoreAddress::Local(_) | StoreAddress::Rest { .. } => {
                Err(Error::invalid(self.to_string(), "it is not a bucket"))
            }
        }
    }

    /// The server and the credentials for it: from the URL, or else both from the environment, as in restic.
    pub(super) fn rest(&self, settings: &OpenSettings) -> Result<RestConfig> {
        let StoreAddress::Rest { url, user, password } = &self.address else {
            return Err(Error::invalid(self.to_string(), "it is not a REST server"));
        };
        let (user, password) = match (user, password) {
            (None, None) => (
                settings.variable("RESTIC_REST_USERNAME").map(str::to_owned),
                settings.variable("RESTIC_REST_PASSWORD").map(SecretString::from),
            ),
            (user, password) => (user.clone(), password.clone()),
        };
        let (ca_pem, tls) = (settings.ca_pem()?, settings.tls()?);
        Ok(RestConfig { url: url.clone(), user, password, ca_pem, tls })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(Error::file("read", path))
}
