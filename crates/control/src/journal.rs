//! A journal in a ConfigMap: text entries under keys, each written before the effect that it records, so that a
//! server that starts later knows about it. Used by controllers whose work has effects; they define the entries.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use serde_json::{Value, json};

/// How often a write is tried: a quiesced pod may wait for it.
const TRIES: u32 = 5;
/// Half of the pause before the second try; it doubles with each try.
const PAUSE: Duration = Duration::from_millis(200);

/// An entry that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The API server rejects the ConfigMap itself: an object holds at most a megabyte, and the entry does not fit.
    #[error(transparent)]
    Full(kube::Error),
    /// The API server could not be reached, or did not accept the write.
    #[error(transparent)]
    Unwritten(kube::Error),
    /// The entry cannot be serialised.
    #[error(transparent)]
    Entry(#[from] serde_json::Error),
}

/// One ConfigMap. It is created with its first entry.
#[derive(Clone)]
pub struct ConfigMapJournal {
    api: Api<ConfigMap>,
    metadata: ObjectMeta,
}

impl ConfigMapJournal {
    pub fn new(api: Api<ConfigMap>, metadata: ObjectMeta) -> Self {
        Self { api, metadata }
    }

    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// All entries; empty if there is no ConfigMap.
    pub async fn read(&self) -> Result<BTreeMap<String, String>, ApiError> {
        let found = self.api.get_opt(self.name()).await.attempt("read the journal")?;
        Ok(found.and_then(|found| found.data).unwrap_or_default())
    }

    /// Writes entries by their keys; null removes one. They are durable when this returns Ok.
    pub async fn write(&self, entries: &Value) -> Result<(), JournalError> {
        for attempt in 1.. {
            match self.write_once(entries).await {
                Ok(()) => break,
                // Another try would be rejected as well.
                Err(error) if is_final(&error) => return Err(JournalError::Full(error)),
                Err(error) if attempt == TRIES => return Err(JournalError::Unwritten(error)),
                Err(_) => tokio::time::sleep(PAUSE * (1 << attempt)).await,
            }
        }
        Ok(())
    }

    /// Deletes the ConfigMap. A failure is only logged: a later server finds the journal, or it is deleted with its
    /// owner.
    pub async fn remove(&self) {
        match self.api.delete(self.name(), &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => tracing::warn!(%error, journal = self.name(), "cannot remove the journal"),
        }
    }

    async fn write_once(&self, entries: &Value) -> Result<(), kube::Error> {
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match self.api.patch(self.name(), &params, &Patch::Merge(json!({"data": entries}))).await {
            Err(kube::Error::Api(status)) if status.code == 404 => self.create(entries).await,
            written => written.map(drop),
        }
    }

    async fn create(&self, entries: &Value) -> Result<(), kube::Error> {
        let texts = entries.as_object().into_iter().flatten();
        let data: BTreeMap<_, _> =
            texts.filter_map(|(key, text)| Some((key.clone(), text.as_str()?.to_owned()))).collect();
        // There are no entries that could be removed.
        if data.is_empty() {
            return Ok(());
        }
        let map = ConfigMap { metadata: self.metadata.clone(), data: Some(data), ..ConfigMap::default() };
        self.api.create(&PostParams::default(), &map).await.map(drop)
    }
}

/// Whether another try would get the same answer.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 413 | 422))
}
