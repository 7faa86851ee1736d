//! The client for Google Cloud Storage.

use std::sync::Arc;

use http::HeaderName;
use object_store::gcp::{GcpSigningCredential, GoogleCloudStorageBuilder};
use object_store::{ClientOptions, StaticCredentialProvider, TagSet};
use secrecy::ExposeSecret;

use super::{no_retries, refused};
use crate::backends::remote::{Remote, Signing};
use crate::config::gcp::GcpConfig;
use crate::error::{Result, Site};
use crate::http::Connector;

pub(super) fn remote(
    bucket: String,
    config: GcpConfig,
    options: ClientOptions,
    connector: Connector,
) -> Result<Remote> {
    let endpoint = config.endpoint.unwrap_or_else(|| "https://storage.googleapis.com".into());
    let discreet = connector.guard.is_some();
    let site = Site { bucket: bucket.clone(), endpoint: endpoint.clone(), discreet };
    let create_header =
        config.kms_key.map(|key| (HeaderName::from_static("x-goog-encryption-kms-key-name"), key));
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_base_url(&endpoint)
        .with_retry(no_retries())
        .with_client_options(options.with_allow_http(endpoint.starts_with("http://")))
        .with_http_connector(Connector { create_header, ..connector });
    if let Some(key) = &config.key {
        builder = builder.with_service_account_key(key.expose_secret());
    } else if let Some(email) = config.service_account {
        // Signed by Google's signBlob on behalf of this account.
        let signing = GcpSigningCredential { email, private_key: None };
        builder = builder.with_signing_credentials(Arc::new(StaticCredentialProvider::new(signing)));
    }
    let store = Arc::new(builder.build().map_err(|error| refused(&site, &error))?);
    Ok(Remote {
        single: store.clone(),
        signing: Signing::By(store.clone()),
        cloud: store,
        tags: TagSet::default(),
        site,
        uploads: None,
    })
}
