//! Download links that this server answers: the secret that signs them, shared by all replicas through a Secret, and
//! the file that a link refers to. Every replica answers, leader or not.

pub(crate) mod request;

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::StreamExt;
use futures::TryStreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use lifeboat_api::velero::names::EXCLUDE_FROM_BACKUP;
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_plan::velero::download::{self, TokenError};
use lifeboat_web::{Download, DownloadRefused, Downloads};

use crate::context::Context;
use crate::locations;

/// The Secret and its key.
pub(crate) const SECRET: (&str, &str) = ("lifeboat-download-key", "key");

/// The secret that signs links; created if it does not exist.
pub(crate) async fn sealing_secret(context: &Context) -> Result<Vec<u8>, ApiError> {
    let (name, key) = SECRET;
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &context.namespace);
    if let Some(found) = read(&api).await? {
        return Ok(found);
    }
    let made = rand::random::<[u8; 32]>().to_vec();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.into()),
            // A user who reads the key in a backup could sign links.
            labels: Some(BTreeMap::from([(EXCLUDE_FROM_BACKUP.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(key.to_owned(), ByteString(made.clone()))])),
        ..Secret::default()
    };
    match api.create(&PostParams::default(), &secret).await.attempt(format!("create Secret {name}")) {
        Ok(_) => Ok(made),
        // Another replica created it at the same time: that one is used.
        Err(error) if error.is_conflict() => match read(&api).await? {
            Some(found) => Ok(found),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// None if there is no Secret, or its key is too short.
async fn read(api: &Api<Secret>) -> Result<Option<Vec<u8>>, ApiError> {
    let (name, key) = SECRET;
    let found = api.get_opt(name).await.attempt(format!("read Secret {name}"))?;
    let value = found.and_then(|secret| secret.data?.remove(key));
    Ok(value.map(|value| value.0).filter(|value| value.len() >= 16))
}

/// Verifies links and opens their files.
pub(crate) struct Links {
    pub(crate) context: Context,
}

#[async_trait]
impl Downloads for Links {
    async fn open(&self, token: &str) -> Result<Download, DownloadRefused> {
        let context = &self.context;
        let api: Api<Secret> = Api::namespaced(context.client.clone(), &context.namespace);
        // Without the secret that signed it, no link is valid.
        let secret = read(&api).await.map_err(|error| unavailable(&error.chain()))?;
        let secret = secret.ok_or(DownloadRefused::Invalid)?;
        let grant = download::open(token, &secret, context.now()).map_err(|error| match error {
            TokenError::Forged => DownloadRefused::Invalid,
            TokenError::Expired => DownloadRefused::Expired,
        })?;
        let location = locations::open(context, &grant.location).await;
        let location = location.map_err(|error| unavailable(&error.to_string()))?;
        match location.store.get_stream(&grant.key).await {
            Ok(reading) => Ok(Download {
                file_name: grant.key.rsplit('/').next().unwrap_or_default().to_owned(),
                size: reading.size,
                body: reading.body.map_err(std::io::Error::other).boxed(),
            }),
            Err(error) if error.is_not_found() => Err(DownloadRefused::NotFound),
            Err(error) => Err(unavailable(&locations::message(&error))),
        }
    }
}

/// The details go to the log: the user of a link need not know how storage is reached.
fn unavailable(detail: &str) -> DownloadRefused {
    tracing::warn!(detail, "cannot serve a download");
    DownloadRefused::Unavailable
}
