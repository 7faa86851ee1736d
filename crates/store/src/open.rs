//! From a checked config to a `Store`: the clients of object_store with our HTTP layer, timeouts and
//! credentials. Only here is the network touched before the first request, and only to ask AWS for a bucket's
//! region that nobody gave.

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
use crate::http::Connector;
use crate::store::{Store, Tuning};

/// Reads the files that `config` names, checks everything and opens the store. Nothing is asked of the bucket:
/// that is `probe`'s work.
pub async fn open(config: &StoreConfig, environment: &Environment, tuning: Tuning) -> Result<Store> {
    let files = Files::read(&config.files_needed(environment)).await;
    config.validate(environment, &files)?.open(tuning).await
}

impl ValidConfig {
    /// Opens the store.
    pub async fn open(self, tuning: Tuning) -> Result<Store> {
        let Self { bucket, prefix, roots, mut tls, target } = self;
        let mut tuning = tuning;
        if let Target::Local(directory) = target {
            return Store::new(Arc::new(Local::new(directory)?), &prefix, tuning);
        }
        let by_location = matches!(&target, Target::Aws(config) if config.skip_tls_verify);
        tls.skip_verify |= by_location;
        let connector = connector(&tls, roots, &mut tuning)?;
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
        Ok(Store::new(backend, &prefix, tuning)?.with_warnings(warnings(&tls, by_location)))
    }
}

/// The HTTP clients of a store. They pace what is sent themselves, so the limit on it is taken out of `tuning`.
fn connector(tls: &Tls, roots: Vec<reqwest::Certificate>, tuning: &mut Tuning) -> Result<Connector> {
    Ok(Connector {
        create_header: None,
        roots,
        identity: tls.identity()?,
        skip_verify: tls.skip_verify,
        upload: tuning.bandwidth.upload.take(),
    })
}

/// What is said where certificates are not verified; `by_location` if the location's own config asks for it.
fn warnings(tls: &Tls, by_location: bool) -> Vec<String> {
    let (setting, instead) = match (by_location, tls.skip_verify) {
        (true, _) => ("insecureSkipTLSVerify is on", "in objectStorage.caCert"),
        (false, true) => ("certificates are not verified (--insecure-tls)", "with --cacert"),
        (false, false) => return Vec::new(),
    };
    let warning = format!(
        "{setting}: anyone on the way can read and change the backups; give the authority {instead} instead"
    );
    tracing::warn!("{warning}");
    vec![warning]
}

/// The retry layer is the one place that repeats.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// What object_store says of settings that it does not take.
fn refused(site: &Site, error: &object_store::Error) -> Error {
    classify(site, Operation::new("open", &site.bucket), error)
}
