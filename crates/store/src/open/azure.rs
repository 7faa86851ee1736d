//! The client for Azure Blob Storage.

use std::sync::Arc;

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::{ClientOptions, TagSet};
use secrecy::ExposeSecret;

use super::{no_retries, refused};
use crate::backends::remote::{Remote, Signing};
use crate::config::azure::{AzureAuth, AzureConfig};
use crate::error::{Result, Site};
use crate::http::Connector;

pub(super) fn remote(
    container: String,
    config: AzureConfig,
    options: ClientOptions,
    connector: Connector,
) -> Result<Remote> {
    let discreet = connector.guard.is_some();
    let site = Site { bucket: container.clone(), endpoint: config.endpoint.clone(), discreet };
    let builder = MicrosoftAzureBuilder::new()
        .with_container_name(container)
        .with_account(config.account)
        .with_client_options(options.with_allow_http(config.endpoint.starts_with("http://")))
        .with_endpoint(config.endpoint)
        .with_authority_host(config.authority)
        .with_retry(no_retries())
        .with_http_connector(connector);
    let builder = match config.auth {
        AzureAuth::AccountKey(key) => {
            builder.with_credential_type("access_key").with_access_key(key.expose_secret())
        }
        AzureAuth::ClientSecret { tenant, client, secret } => builder
            .with_credential_type("client_secret")
            .with_client_secret_authorization(client, secret.expose_secret(), tenant),
        AzureAuth::WorkloadIdentity { tenant, client, token_file } => builder
            .with_credential_type("workload_identity")
            .with_tenant_id(tenant)
            .with_client_id(client)
            .with_federated_token_file(token_file),
        AzureAuth::Sas(token) => builder
            .with_credential_type("sas_token")
            .with_config(AzureConfigKey::SasKey, token.expose_secret()),
        AzureAuth::ManagedIdentity { client } => {
            let builder = builder.with_credential_type("managed_identity");
            match client {
                Some(client) => builder.with_client_id(client),
                None => builder,
            }
        }
    };
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
