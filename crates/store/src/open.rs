//! Makes a `Store` from a checked config: the clients of object_store with our HTTP layer, timeouts and credentials.
//! The only network access before the first request is to ask AWS for the bucket's region, if the config names none.

mod aws;
mod azure;
mod gcp;
mod rest;

pub use rest::RestConfig;

use std::sync::Arc;

use object_store::{ClientOptions, RetryConfig};

use crate::backend::Backend;
use crate::backends::local::Local;
use crate::config::{Environment, Files, StoreConfig, Target, Tls, ValidConfig};
use crate::error::{Error, Operation, Result, Site, classify};
use crate::guard::Guard;
use crate::http::Connector;
use crate::store::{Store, Tuning};

/// Reads the files that `config` names, checks everything and opens the store. The bucket is not accessed: `probe`
/// does that.
pub async fn open(config: &StoreConfig, environment: &Environment, tuning: Tuning) -> Result<Store> {
    let files = Files::read(&config.files_needed(environment)).await;
    config.validate(environment, &files)?.open(tuning).await
}

/// Opens storage that a tenant describes: with the credentials in `config` only (no environment, no file, no metadata service,
/// no workload identity), at addresses that `guard` allows, without a proxy, without following redirects, and with error
/// messages that leave out what the server answers.
pub async fn open_for_tenant(config: &StoreConfig, guard: Guard, tuning: Tuning) -> Result<Store> {
    config.validate_for_tenant(guard)?.open(tuning).await
}

impl ValidConfig {
    /// Opens the store.
    pub async fn open(self, tuning: Tuning) -> Result<Store> {
        let Self { bucket, prefix, roots, mut tls, target, guard } = self;
        let mut tuning = tuning;
        if let Target::Local(directory) = target {
            return Store::new(Arc::new(Local::new(directory)?), &prefix, tuning);
        }
        let by_location = matches!(&target, Target::Aws(config) if config.skip_tls_verify);
        tls.skip_verify |= by_location;
        let for_tenant = guard.is_some();
        let connector = connector(&tls, roots, guard, &mut tuning)?;
        let options = ClientOptions::new();
        let backend: Arc<dyn Backend> = match target {
            Target::Local(directory) => Arc::new(Local::new(directory)?),
            Target::Gcp(config) => Arc::new(gcp::remote(bucket, config, options, connector)?),
            Target::Azure(config) => {
                tuning.part_size = config.part_size.unwrap_or(tuning.part_size);
                Arc::new(azure::remote(bucket, config, options, connector)?)
            }
            Target::Aws(config) => Arc::new(aws::remote(bucket, *config, options, connector).await?),
        };
        let setting = match (by_location, for_tenant) {
            (true, true) => Unverified::Repository,
            (true, false) => Unverified::Location,
            (false, _) => Unverified::CommandLine,
        };
        Ok(Store::new(backend, &prefix, tuning)?.with_warnings(warnings(&tls, setting)))
    }
}

/// The HTTP clients of a store. They limit the upload rate themselves, so that limit is removed from `tuning`.
fn connector(
    tls: &Tls,
    roots: Vec<reqwest::Certificate>,
    guard: Option<Guard>,
    tuning: &mut Tuning,
) -> Result<Connector> {
    Ok(Connector {
        create_header: None,
        roots,
        pinned: false,
        identity: tls.identity()?,
        skip_verify: tls.skip_verify,
        upload: tuning.bandwidth.upload.take(),
        guard,
    })
}

/// The setting that disables the verification of certificates.
#[derive(Clone, Copy)]
enum Unverified {
    Location,
    Repository,
    CommandLine,
}

/// The warning for unverified certificates, with the setting for the certificate authority.
fn warnings(tls: &Tls, setting: Unverified) -> Vec<String> {
    if !tls.skip_verify {
        return Vec::new();
    }
    let (setting, instead) = match setting {
        Unverified::Location => ("insecureSkipTLSVerify is on", "in objectStorage.caCert"),
        Unverified::Repository => ("insecureTLS is on", "as CA_CERT_DATA in the Secret"),
        Unverified::CommandLine => ("certificates are not verified (--insecure-tls)", "with --cacert"),
    };
    let warning = format!(
        "{setting}: an attacker on the network path can read and change the backups; set the certificate authority {instead} instead"
    );
    tracing::warn!("{warning}");
    vec![warning]
}

/// object_store's retries are off: only the retry layer repeats requests.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// The error for settings that object_store does not accept.
fn refused(site: &Site, error: &object_store::Error) -> Error {
    classify(site, Operation::new("open", &site.bucket), error)
}
