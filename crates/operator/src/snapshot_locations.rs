//! Opening a VolumeSnapshotLocation: the one way from its object to the snapshotter of its provider, configured for it.
//! Used by backups, restores and deletion, each with a [`Session`] of its own, because a stock snapshotter does one call at
//! a time. Nothing is started until the first call.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use lifeboat_api::velero::VolumeSnapshotLocation;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::label;
use lifeboat_plugin::host::{Session, qualified};
use lifeboat_plugin::volume::VolumeSnapshotter;
use tempfile::NamedTempFile;

use crate::context::Context;

/// The snapshotter of one location. Its credentials are in a file for as long as this value lives.
#[derive(Clone)]
pub(crate) struct OpenSnapshotter {
    /// Name of the VolumeSnapshotLocation.
    pub(crate) location: String,
    pub(crate) snapshotter: Arc<dyn VolumeSnapshotter>,
    _credentials: Option<Arc<NamedTempFile>>,
}

/// Why a location has no snapshotter.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotterError {
    /// May pass.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Will not pass by itself.
    #[error("{0}")]
    Unusable(String),
}

impl SnapshotterError {
    /// The error with its causes, for people.
    pub(crate) fn chain(&self) -> String {
        match self {
            Self::Api(error) => error.chain(),
            Self::Unusable(words) => words.clone(),
        }
    }
}

impl OpenSnapshotter {
    /// For snapshotters that are no plugins.
    pub(crate) fn built_in(location: &str, snapshotter: Arc<dyn VolumeSnapshotter>) -> Self {
        Self { location: location.to_owned(), snapshotter, _credentials: None }
    }
}

/// The snapshotter of the location called `name`, which may be given as the value of a label.
pub(crate) async fn open(
    context: &Context,
    session: &Session,
    name: &str,
) -> Result<OpenSnapshotter, SnapshotterError> {
    let location = find(context, name).await?;
    let name = location.name_any();
    let provider = qualified(&location.spec.provider);
    if let Some(snapshotter) = context.snapshotters.get(&provider) {
        return Ok(OpenSnapshotter::built_in(&name, snapshotter.clone()));
    }
    let mut config: BTreeMap<String, String> = location.spec.config.clone().unwrap_or_default();
    let credentials = credentials(context, &location).await?;
    if let Some(file) = &credentials {
        config.insert("credentialsFile".to_owned(), file.path().to_string_lossy().into_owned());
    }
    let snapshotter = session.volume_snapshotter(&provider, config).map_err(|error| {
        SnapshotterError::Unusable(format!(
            "volume snapshot location {name:?}: {error}; `lifeboat plugin get` lists what is installed"
        ))
    })?;
    Ok(OpenSnapshotter { location: name, snapshotter, _credentials: credentials.map(Arc::new) })
}

async fn find(context: &Context, name: &str) -> Result<VolumeSnapshotLocation, SnapshotterError> {
    let resource = objects::resource_of::<VolumeSnapshotLocation>();
    let api = objects::namespaced(&context.client, &context.settings.namespace, &resource);
    let missing = || SnapshotterError::Unusable(format!("volume snapshot location {name:?} does not exist"));
    if name.is_empty() {
        return Err(missing());
    }
    let mut found = api.get_opt(name).await.attempt(format!("read VolumeSnapshotLocation {name}"))?;
    if found.is_none() {
        // A name that is too long for a label is there with a hash at its end.
        let all = api.list(&ListParams::default()).await.attempt("list volumesnapshotlocations")?;
        found = all.items.into_iter().find(|one| label::value(&one.name_any()) == name);
    }
    objects::typed(&found.ok_or_else(missing)?).map_err(|error| {
        SnapshotterError::Unusable(format!("volume snapshot location {name:?} cannot be read: {error}"))
    })
}

/// The location's own credentials, in a file that only the server and its plugins read.
async fn credentials(
    context: &Context,
    location: &VolumeSnapshotLocation,
) -> Result<Option<NamedTempFile>, SnapshotterError> {
    let Some(reference) = &location.spec.credential else { return Ok(None) };
    let (name, key) = (reference.name.as_str(), reference.key.as_str());
    let unusable = |words: String| {
        let location = location.name_any();
        SnapshotterError::Unusable(format!("volume snapshot location {location:?}: spec.credential {words}"))
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &context.settings.namespace);
    let found = api.get_opt(name).await.attempt(format!("read Secret {name}"))?;
    let secret = found.ok_or_else(|| {
        unusable(format!("names Secret {name:?}, which does not exist in Lifeboat's namespace"))
    })?;
    let value =
        secret.data.as_ref().and_then(|data| data.get(key)).ok_or_else(|| {
            unusable(format!("names key {key:?} of Secret {name:?}, which does not have it"))
        })?;
    let written = file(&context.settings.storage.spool_directory, &value.0);
    written.map(Some).map_err(|error| unusable(format!("cannot be given to the plugin in a file: {error}")))
}

/// Readable for this user only, which is what a temporary file is made as.
fn file(directory: &Path, content: &[u8]) -> std::io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(content)?;
    file.flush()?;
    Ok(file)
}
