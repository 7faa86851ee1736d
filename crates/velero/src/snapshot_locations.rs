//! Opens a VolumeSnapshotLocation: the only way from its object to its provider's snapshotter, configured for it. Its
//! own controller validates with it; backups, restores and deletions use it, each with a [`Session`] of its own,
//! because a snapshotter of upstream's SDK handles one call at a time. No program is started until the first call.

pub(crate) mod controller;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use lifeboat_api::velero::VolumeSnapshotLocation;
use lifeboat_cluster::{ApiError, Attempt, chain, objects};
use lifeboat_control::unreadable;
use lifeboat_plan::label;
use lifeboat_plan::velero::location::SecretKey;
use lifeboat_plugin::host::{Session, qualified};
use lifeboat_plugin::volume::VolumeSnapshotter;
use tempfile::NamedTempFile;

use crate::context::Context;
use crate::credential_files;
use crate::locations::{Secrets, named_secrets, secret_value};
use crate::storage_problem::Problem;

/// The key of a location's configuration in which plugins expect the path of its credentials file.
const CREDENTIALS_FILE: &str = "credentialsFile";

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
    /// May be temporary.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Permanent, until the location or the installation is changed.
    #[error("{0}")]
    Unusable(String),
}

impl SnapshotterError {
    /// The error with its causes, for people.
    pub(crate) fn chain(&self) -> String {
        chain(self)
    }

    pub(crate) fn unusable(name: &str, message: &str) -> Self {
        Self::Unusable(format!("volume snapshot location '{name}' cannot be used: {message}"))
    }
}

impl OpenSnapshotter {
    /// Opens a snapshotter that is not a plugin.
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
    let secrets = secrets(context, &location).await?;
    open_with(context, session, &location, &secrets)
}

async fn find(context: &Context, name: &str) -> Result<VolumeSnapshotLocation, SnapshotterError> {
    let resource = objects::resource_of::<VolumeSnapshotLocation>();
    let api = objects::namespaced(&context.client, &context.namespace, &resource);
    let missing = || {
        SnapshotterError::Unusable(format!(
            "volume snapshot location '{name}' does not exist; create it with `lifeboat snapshot-location create`"
        ))
    };
    if name.is_empty() {
        return Err(missing());
    }
    let mut found = api.get_opt(name).await.attempt(format!("read VolumeSnapshotLocation {name}"))?;
    if found.is_none() {
        // A name that is too long for a label is cut and ends in a hash.
        let all = api.list(&ListParams::default()).await.attempt("list volumesnapshotlocations")?;
        found = all.items.into_iter().find(|one| label::value(&one.name_any()) == name);
    }
    read(&found.ok_or_else(missing)?)
}

/// The typed form of a location.
pub(crate) fn read(object: &DynamicObject) -> Result<VolumeSnapshotLocation, SnapshotterError> {
    objects::typed(object).map_err(|error| {
        let message = unreadable::message(error, unreadable::EDIT);
        SnapshotterError::unusable(&object.name_any(), &message)
    })
}

/// The Secret that a location names.
pub(crate) async fn secrets(
    context: &Context,
    location: &VolumeSnapshotLocation,
) -> Result<Secrets, ApiError> {
    let names = location.spec.credential.iter().map(|credential| credential.name.clone());
    named_secrets(context, names.filter(|name| !name.is_empty()).collect()).await
}

/// Opens a location that was already read, with its Secret.
pub(crate) fn open_with(
    context: &Context,
    session: &Session,
    location: &VolumeSnapshotLocation,
    secrets: &Secrets,
) -> Result<OpenSnapshotter, SnapshotterError> {
    let name = location.name_any();
    let unusable = |message: String| SnapshotterError::unusable(&name, &message);
    if location.spec.provider.is_empty() {
        return Err(unusable("spec.provider is required: name the volume snapshotter plugin".into()));
    }
    let provider = qualified(&location.spec.provider);
    let credentials = credentials(location, secrets, &context.settings.storage.spool_directory);
    let credentials = credentials.map_err(|error| unusable(error.to_string()))?.map(Arc::new);
    if let Some(snapshotter) = context.snapshotters.get(&provider) {
        return Ok(OpenSnapshotter::built_in(&name, snapshotter.clone()));
    }
    let mut config: BTreeMap<String, String> = location.spec.config.clone().unwrap_or_default();
    if let Some(file) = &credentials {
        config.insert(CREDENTIALS_FILE.to_owned(), file.path().to_string_lossy().into_owned());
    }
    let snapshotter =
        session.volume_snapshotter(&provider, config).map_err(|error| unusable(error.to_string()))?;
    Ok(OpenSnapshotter { location: name, snapshotter, _credentials: credentials })
}

/// Why a location's own credentials cannot be used.
#[derive(Debug, thiserror::Error)]
enum CredentialsError {
    #[error("{}", .0.message)]
    Secret(Problem),
    #[error("its credentials cannot be written to a file in {}: {source}", .directory.display())]
    File { directory: PathBuf, source: std::io::Error },
}

/// The location's own credentials, in a file that only the server and its plugins can read; it is removed when
/// dropped.
fn credentials(
    location: &VolumeSnapshotLocation,
    secrets: &Secrets,
    directory: &Path,
) -> Result<Option<NamedTempFile>, CredentialsError> {
    let Some(credential) = &location.spec.credential else { return Ok(None) };
    let wanted = SecretKey { secret: credential.name.clone(), key: credential.key.clone() };
    let value = match secret_value(secrets, "spec.credential", &wanted) {
        Ok(value) => value,
        Err(_) if credential.optional == Some(true) => return Ok(None),
        Err(problem) => return Err(CredentialsError::Secret(problem)),
    };
    let file = credential_files::write(directory, &value);
    file.map(Some).map_err(|source| CredentialsError::File { directory: directory.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use lifeboat_api::common::SecretKeySelector;
    use lifeboat_api::velero::VolumeSnapshotLocationSpec;
    use lifeboat_plugin::host::ServerLog;

    use super::*;
    use crate::locations::SecretValues;

    fn location(credential: Option<(&str, &str)>, optional: bool) -> VolumeSnapshotLocation {
        let spec = VolumeSnapshotLocationSpec {
            provider: "fake".into(),
            config: Some([("region".to_owned(), "r".to_owned())].into()),
            credential: credential.map(|(name, key)| SecretKeySelector {
                name: name.into(),
                key: key.into(),
                optional: Some(optional),
            }),
        };
        VolumeSnapshotLocation::new("main", spec)
    }

    fn secrets() -> Secrets {
        let values =
            SecretValues { version: "1".into(), values: [("cloud".to_owned(), b"key".to_vec())].into() };
        [("s".to_owned(), Some(values)), ("gone".to_owned(), None)].into()
    }

    #[test]
    fn credentials_are_in_a_private_file_as_long_as_they_are_used() {
        let directory = tempfile::tempdir().unwrap();
        let location = location(Some(("s", "cloud")), false);
        let file = credentials(&location, &secrets(), directory.path()).unwrap().unwrap();
        let path = file.path().to_owned();
        assert_eq!(std::fs::read(&path).unwrap(), b"key");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_secret_that_need_not_be_there_is_not_missed() {
        let directory = tempfile::tempdir().unwrap();
        let location = location(Some(("gone", "cloud")), true);
        assert!(credentials(&location, &secrets(), directory.path()).unwrap().is_none());
    }

    #[rstest::rstest]
    #[case::no_secret(Some(("gone", "cloud")), "Secret \"gone\", which does not exist")]
    #[case::no_key(Some(("s", "other")), "key \"other\" of Secret \"s\", which has only: cloud")]
    #[case::no_plugin(None, "no VolumeSnapshotter plugin named 'velero.io/fake' is installed")]
    #[tokio::test]
    async fn what_keeps_a_location_from_being_used_is_named(
        #[case] credential: Option<(&str, &str)>,
        #[case] expected: &str,
    ) {
        let context = crate::testing::Cluster::new().await.context;
        let session = context.plugins.session(Arc::new(ServerLog));
        let opened = open_with(&context, &session, &location(credential, false), &secrets());
        let message = opened.err().unwrap().chain();
        assert!(message.contains("'main'") && message.contains(expected), "{message}");
    }
}
