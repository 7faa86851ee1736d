//! Converts the storage of a Repository into the settings of crate `store`: takes the access to a backend, gives the
//! settings of a bucket or a REST server. Called by the host of repositories, and by the command line.

use lifeboat_plan::stash::backend::{BackendAccess, Bucket, RestServer};
use lifeboat_store::{Error, RestConfig, Result, StoreConfig, Tls};

/// The settings of a bucket.
pub fn bucket(backend: &BackendAccess, bucket: &Bucket) -> StoreConfig {
    StoreConfig {
        provider: bucket.provider.to_owned(),
        bucket: bucket.name.clone(),
        prefix: bucket.prefix.clone(),
        config: bucket.config.clone(),
        ca_pem: backend.authority.clone(),
        credentials: bucket.credentials.clone(),
        customer_key: None,
    }
}

/// The settings of a REST server.
pub fn rest(backend: &BackendAccess, server: &RestServer) -> Result<RestConfig> {
    let problem = |_| Error::Config { key: "rest.url".into(), problem: "it is not a URL".into() };
    Ok(RestConfig {
        url: server.url.parse().map_err(problem)?,
        user: server.user.clone(),
        password: server.password.clone(),
        ca_pem: backend.authority.clone(),
        tls: Tls::default(),
    })
}
