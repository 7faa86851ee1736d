//! Opening a VolumeSnapshotLocation: the one way from its object to the snapshotter of its provider. Its own controller
//! judges with it; backups, restores and deletions call plugins through it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_api::velero::VolumeSnapshotLocation;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::location::SecretKey;
use lifeboat_plugin::host::{PluginError, Session, qualified};
use lifeboat_plugin::volume::VolumeSnapshotter;
use tempfile::NamedTempFile;

use crate::context::Context;
use crate::locations::{Secrets, named_secrets, secret_value};

/// The key of a location's configuration under which plugins look for the file with its credentials.
const CREDENTIALS_FILE: &str = "credentialsFile";

/// Where snapshotters come from: the plugins of a session, or a function in a test.
pub(crate) trait Snapshotters: Send + Sync {
    fn snapshotter(
        &self,
        provider: &str,
        config: BTreeMap<String, String>,
    ) -> Result<Arc<dyn VolumeSnapshotter>, PluginError>;
}

impl Snapshotters for Session {
    fn snapshotter(
        &self,
        provider: &str,
        config: BTreeMap<String, String>,
    ) -> Result<Arc<dyn VolumeSnapshotter>, PluginError> {
        self.volume_snapshotter(provider, config)
    }
}

impl<F> Snapshotters for F
where
    F: Fn(&str, BTreeMap<String, String>) -> Result<Arc<dyn VolumeSnapshotter>, PluginError> + Send + Sync,
{
    fn snapshotter(
        &self,
        provider: &str,
        config: BTreeMap<String, String>,
    ) -> Result<Arc<dyn VolumeSnapshotter>, PluginError> {
        self(provider, config)
    }
}

/// A location that can be used. Its file with credentials goes when it is dropped, so keep it while plugins are called.
pub(crate) struct SnapshotLocation {
    pub(crate) name: String,
    /// The plugin's full name.
    pub(crate) provider: String,
    pub(crate) snapshotter: Arc<dyn VolumeSnapshotter>,
    _credentials: Option<NamedTempFile>,
}

/// Why a location cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotLocationError {
    #[error(
        "volume snapshot location '{0}' does not exist; make it with `lifeboat snapshot-location create {0}`"
    )]
    NotFound(String),
    #[error("volume snapshot location '{name}' cannot be used: {message}")]
    Unusable { name: String, message: String },
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl SnapshotLocationError {
    /// The error with its causes, for people.
    pub(crate) fn chain(&self) -> String {
        match self {
            Self::Api(error) => error.chain(),
            other => other.to_string(),
        }
    }
}

/// The location called `name`, if it exists, as it can be read.
pub(crate) async fn find(
    context: &Context,
    name: &str,
) -> Result<VolumeSnapshotLocation, SnapshotLocationError> {
    let missing = || SnapshotLocationError::NotFound(name.to_owned());
    if name.is_empty() {
        return Err(missing());
    }
    let resource = objects::resource_of::<VolumeSnapshotLocation>();
    let api = objects::namespaced(&context.client, &context.settings.namespace, &resource);
    let found = api.get_opt(name).await.attempt(format!("read VolumeSnapshotLocation {name}"))?;
    read(&found.ok_or_else(missing)?)
}

/// The typed form of a location.
pub(crate) fn read(object: &DynamicObject) -> Result<VolumeSnapshotLocation, SnapshotLocationError> {
    objects::typed(object).map_err(|error| {
        let message =
            format!("the object cannot be read: {error}; correct it with `kubectl edit`, or make it anew");
        SnapshotLocationError::Unusable { name: object.name_any(), message }
    })
}

/// The location called `name`, ready to be used. Nothing is asked of its plugin yet.
pub(crate) async fn open(
    context: &Context,
    snapshotters: &dyn Snapshotters,
    name: &str,
) -> Result<SnapshotLocation, SnapshotLocationError> {
    open_found(context, snapshotters, &find(context, name).await?).await
}

/// Opens a location that was read already. Its phase is not asked: what is wrong shows, and is newer.
pub(crate) async fn open_found(
    context: &Context,
    snapshotters: &dyn Snapshotters,
    location: &VolumeSnapshotLocation,
) -> Result<SnapshotLocation, SnapshotLocationError> {
    let secrets = secrets(context, location).await?;
    open_with(snapshotters, location, &secrets, &context.settings.storage.spool_directory)
}

/// The Secret that a location names.
pub(crate) async fn secrets(
    context: &Context,
    location: &VolumeSnapshotLocation,
) -> Result<Secrets, ApiError> {
    let names = location.spec.credential.iter().map(|credential| credential.name.clone());
    named_secrets(context, names.filter(|name| !name.is_empty()).collect()).await
}

/// Opens a location with its Secret; the file with its credentials is made in `directory`.
pub(crate) fn open_with(
    snapshotters: &dyn Snapshotters,
    location: &VolumeSnapshotLocation,
    secrets: &Secrets,
    directory: &Path,
) -> Result<SnapshotLocation, SnapshotLocationError> {
    let name = location.name_any();
    let unusable = |message: String| SnapshotLocationError::Unusable { name: location.name_any(), message };
    if location.spec.provider.is_empty() {
        return Err(unusable("spec.provider is required: name the volume snapshotter plugin".into()));
    }
    let mut config = location.spec.config.clone().unwrap_or_default();
    let credentials = match &location.spec.credential {
        None => None,
        Some(credential) => {
            let wanted = SecretKey { secret: credential.name.clone(), key: credential.key.clone() };
            match secret_value(secrets, "spec.credential", &wanted) {
                Ok(value) => Some(private_file(directory, &value).map_err(|error| {
                    unusable(format!("its credentials cannot be written to {}: {error}", directory.display()))
                })?),
                Err(_) if credential.optional == Some(true) => None,
                Err(problem) => return Err(unusable(problem.message)),
            }
        }
    };
    if let Some(file) = &credentials {
        config.insert(CREDENTIALS_FILE.to_owned(), file.path().to_string_lossy().into_owned());
    }
    let snapshotter = snapshotters
        .snapshotter(&location.spec.provider, config)
        .map_err(|error| unusable(error.to_string()))?;
    let provider = qualified(&location.spec.provider);
    Ok(SnapshotLocation { name, provider, snapshotter, _credentials: credentials })
}

/// A file that only this user can read (`tempfile` makes it with mode 0600), gone when it is dropped.
fn private_file(directory: &Path, content: &[u8]) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("credentials-").tempfile_in(directory)?;
    file.write_all(content)?;
    file.flush()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    use lifeboat_api::common::SecretKeySelector;
    use lifeboat_api::velero::VolumeSnapshotLocationSpec;

    use super::*;
    use crate::locations::SecretValues;
    use crate::testing::volumes::FakeSnapshotter;

    fn location(credential: Option<(&str, &str)>) -> VolumeSnapshotLocation {
        let spec = VolumeSnapshotLocationSpec {
            provider: "fake".into(),
            config: Some([("region".to_owned(), "r".to_owned())].into()),
            credential: credential.map(|(name, key)| SecretKeySelector {
                name: name.into(),
                key: key.into(),
                ..SecretKeySelector::default()
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
    fn credentials_are_in_a_private_file_as_long_as_the_location_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let seen = Mutex::new(BTreeMap::new());
        let fake = FakeSnapshotter::default();
        let snapshotters = |_: &str, config: BTreeMap<String, String>| {
            *seen.lock().unwrap() = config;
            Ok(Arc::new(fake.clone()) as Arc<dyn VolumeSnapshotter>)
        };
        let opened =
            open_with(&snapshotters, &location(Some(("s", "cloud"))), &secrets(), directory.path()).unwrap();
        assert_eq!((opened.name.as_str(), opened.provider.as_str()), ("main", "velero.io/fake"));
        let path = seen.lock().unwrap()[CREDENTIALS_FILE].clone();
        assert_eq!(std::fs::read(&path).unwrap(), b"key");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(seen.lock().unwrap()["region"], "r");
        drop(opened);
        assert!(!Path::new(&path).exists());
    }

    #[rstest::rstest]
    #[case::no_secret(Some(("gone", "cloud")), "Secret \"gone\", which does not exist")]
    #[case::no_key(Some(("s", "other")), "key \"other\" of Secret \"s\", which has only: cloud")]
    #[case::no_plugin(None, "no VolumeSnapshotter plugin named 'velero.io/fake' is installed")]
    fn what_keeps_a_location_from_being_used_is_named(
        #[case] credential: Option<(&str, &str)>,
        #[case] expected: &str,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let nothing = |provider: &str, _: BTreeMap<String, String>| {
            Err(PluginError::NotInstalled { kind: "VolumeSnapshotter", name: qualified(provider) })
        };
        let error = open_with(&nothing, &location(credential), &secrets(), directory.path());
        let words = error.err().unwrap().chain();
        assert!(words.contains("'main'") && words.contains(expected), "{words}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a file is left");
    }
}
