//! From a checked config to a `Store`: the clients of object_store with our HTTP layer, timeouts and
//! credentials. Only here is the network touched before the first request, and only to ask AWS for a bucket's
//! region that nobody gave.

mod aws;
mod azure;
mod gcp;

use std::sync::Arc;
use std::time::Duration;

use object_store::{ClientOptions, HeaderValue, RetryConfig};

use crate::backend::Backend;
use crate::backends::local::Local;
use crate::config::{Environment, Files, StoreConfig, Target, ValidConfig};
use crate::error::{Error, Operation, Result, Site, classify};
use crate::store::{Store, Tuning};

/// A server that does not take a connection in this time is not there.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest silence on a connection. It also bounds the upload of one part, so it must be generous.
const SILENCE: Duration = Duration::from_mins(2);

/// Reads the files that `config` names, checks everything and opens the store. Nothing is asked of the bucket:
/// that is `probe`'s work.
pub async fn open(config: &StoreConfig, environment: &Environment, tuning: Tuning) -> Result<Store> {
    let files = Files::read(&config.files_needed(environment)).await;
    config.validate(environment, &files)?.open(tuning).await
}

impl ValidConfig {
    /// Opens the store.
    pub async fn open(self, tuning: Tuning) -> Result<Store> {
        let Self { bucket, prefix, roots, target } = self;
        let mut options = client_options();
        for root in roots {
            options = options.with_root_certificate(root);
        }
        let mut warnings = Vec::new();
        let mut tuning = tuning;
        let backend: Arc<dyn Backend> = match target {
            Target::Local(directory) => Arc::new(Local::new(directory)?),
            Target::Gcp(config) => Arc::new(gcp::remote(bucket, config, options)?),
            Target::Azure(config) => {
                tuning.part_size = config.part_size.unwrap_or(tuning.part_size);
                Arc::new(azure::remote(bucket, config, options)?)
            }
            Target::Aws(config) => {
                if config.skip_tls_verify {
                    let warning = "insecureSkipTLSVerify is on: anyone on the way can read and change the backups; \
                                   give the authority in objectStorage.caCert instead";
                    tracing::warn!(bucket, "{warning}");
                    warnings.push(warning.to_owned());
                    options = options.with_allow_invalid_certificates(true);
                }
                Arc::new(aws::remote(bucket, *config, options).await?)
            }
        };
        Ok(Store::new(backend, &prefix, tuning)?.with_warnings(warnings))
    }
}

fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_connect_timeout(CONNECT)
        // No limit on a whole request: large objects take long. The retry layer has deadlines.
        .with_timeout_disabled()
        .with_read_timeout(SILENCE)
        .with_user_agent(HeaderValue::from_static(concat!("lifeboat/", env!("CARGO_PKG_VERSION"))))
}

/// The retry layer is the one place that repeats.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// What object_store says of settings that it does not take.
fn refused(site: &Site, error: &object_store::Error) -> Error {
    classify(site, Operation::new("open", &site.bucket), error)
}
