//! Opens the bucket of a backup: that of its location in the cluster, or the one named by flags, with the passwords of
//! the repositories in it.

use std::io::Read;
use std::path::PathBuf;

use flate2::read::MultiGzDecoder;
use lifeboat_archive::BackupFiles;
use lifeboat_archive::documents::BackupVolumeInfo;
use lifeboat_operator::{password, store_config};
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::repository::Repository;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::{Error, snapshots};
use lifeboat_store::{Environment, Store, Tuning};
use secrecy::SecretString;

use super::volumes::{self, Volume};
use crate::commands::repository::password::Ask;
use crate::commands::repository::session::{Session, location};
use crate::commands::repository::settings::Settings as RepositorySettings;
use crate::commands::repository::{CommonArgs, signals, variables};
use crate::error::CliError;
use crate::objects::{BACKUP, typed};
use crate::settings::{Settings, readable_variables};

/// Limit for a decompressed list of volumes.
const LARGEST: u64 = 64 << 20;

/// The bucket, and how it is opened.
#[derive(clap::Args, Clone)]
pub(super) struct BucketArgs {
    /// Without a cluster: location of the backups, as in s3:https://HOST/BUCKET/PREFIX, or a directory
    #[arg(long, value_name = "LOCATION")]
    location: Option<String>,
    /// File with the repository password (default: the cluster's; without a cluster $RESTIC_PASSWORD_FILE,
    /// then a prompt)
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// PEM file of certificate authorities to trust; can be repeated
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    cacert: Vec<PathBuf>,
    /// Setting of the storage, as in s3.bucket-lookup=path; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', requires = "location")]
    option: Vec<String>,
    /// Read without a lock, for read-only access
    #[arg(long)]
    no_lock: bool,
}

/// An open bucket.
pub(super) struct OpenBucket {
    pub(super) session: Session,
    store: Store,
    /// The cluster's passwords; None without a cluster: the user is asked.
    passwords: Option<Vec<SecretString>>,
}

impl OpenBucket {
    /// Opens the bucket that holds a backup.
    pub(super) async fn open(settings: &Settings, args: &BucketArgs, backup: &str) -> Result<Self, CliError> {
        let common = CommonArgs {
            repo: args.location.clone(),
            password_file: args.password_file.clone(),
            cacert: args.cacert.clone(),
            option: args.option.clone(),
            no_lock: args.no_lock,
            ..CommonArgs::default()
        };
        let session =
            Session::new(RepositorySettings::resolve(common, variables())?, signals::interruption(true)?);
        if args.location.is_some() {
            let location = location(&session.settings.target)?;
            let settings = session.open_settings();
            let opening = async { location.open(&settings).await.map_err(failed) };
            let store = session.interruptible(opening).await?;
            return Ok(Self { session, store, passwords: None });
        }
        let found = session.interruptible(of_cluster(settings, args, backup)).await;
        let (store, passwords) = found?;
        let passwords = Some(passwords).filter(|_| args.password_file.is_none());
        Ok(Self { session, store, passwords })
    }

    /// The volumes of a backup.
    pub(super) async fn volumes(&self, backup: &str) -> Result<Vec<Volume>, CliError> {
        let files = BackupFiles::new(backup).map_err(|error| CliError::refused(error.to_string()))?;
        let reading = async {
            match self.store.get(&files.volume_info()).await {
                Ok(packed) => Ok(Some(packed)),
                Err(error) if error.is_not_found() => {
                    let there = self.store.exists(&files.metadata()).await;
                    if there.map_err(|error| unreachable(&error))? {
                        Ok(None)
                    } else {
                        Err(no_backup(backup))
                    }
                }
                Err(error) => Err(unreachable(&error)),
            }
        };
        let Some(packed) = self.session.interruptible(reading).await? else { return Ok(Vec::new()) };
        let mut text = Vec::new();
        let unpacked = MultiGzDecoder::new(&*packed).take(LARGEST).read_to_end(&mut text);
        let unreadable = |error: &dyn std::fmt::Display| {
            CliError::ended(format!("the list of volumes of backup {backup:?} cannot be read: {error}"))
        };
        unpacked.map_err(|error| unreadable(&error))?;
        let infos: Vec<BackupVolumeInfo> =
            serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        Ok(infos.iter().map(Volume::of).collect())
    }

    /// The repository that holds a volume's data (below the location's prefix), and the restic snapshot in it.
    async fn kept(&self, backup: &str, name: &str) -> Result<(String, String), CliError> {
        let volumes = self.volumes(backup).await?;
        let volume = volumes::find(&volumes, name).map_err(|there| {
            CliError::not_found(format!("backup {backup:?} has no volume {name:?}")).help(there.to_string())
        })?;
        let (Some(path), Some(snapshot)) = (&volume.repository, &volume.snapshot) else {
            let message =
                format!("the data of volume {} is not in a repository ({})", volume.name, volume.way);
            return Err(CliError::refused(message)
                .help("restore it with the backup: `lifeboat restore create --from-backup`"));
        };
        Ok((path.clone(), snapshot.clone()))
    }

    /// The namespace whose repository holds a volume's data, and the restic snapshot in it.
    pub(super) async fn named(&self, backup: &str, name: &str) -> Result<(String, String), CliError> {
        let (path, snapshot) = self.kept(backup, name).await?;
        Ok((path.trim_start_matches("restic/").to_owned(), snapshot))
    }

    /// Opens the repository of a volume and loads its restic snapshot.
    pub(super) async fn snapshot(
        &self,
        backup: &str,
        name: &str,
    ) -> Result<(Repository, Snapshot), CliError> {
        let (path, snapshot) = self.kept(backup, name).await?;
        let repository = self.repository(&path).await?;
        let finding = async {
            let files = repository.list(lifeboat_repository::files::FileKind::Snapshot).await?;
            let ids: Vec<_> = files.iter().map(|file| SnapshotId(file.id)).collect();
            let id = snapshots::by_prefix(&ids, &snapshot)?;
            repository.load_snapshot(id).await
        };
        let found = self.session.interruptible(async { finding.await.map_err(failed) }).await?;
        Ok((repository, found))
    }

    async fn repository(&self, path: &str) -> Result<Repository, CliError> {
        let store = self.store.below(path).map_err(|error| unreachable(&error))?;
        let name = format!("{}/{path}", store.name().trim_end_matches('/'));
        let store = store.with_name(&name);
        let target = self.session.settings.target.clone();
        let passwords = match &self.passwords {
            Some(passwords) => passwords.clone(),
            None => vec![self.session.password(&target, "the repository password", Ask::Once).await?],
        };
        let mut outcome = Err(CliError::ended("the cluster has no repository password")
            .help("pass the exported password with --password-file"));
        for password in &passwords {
            let options = self.session.settings.engine(&target);
            let opening = Repository::open(store.clone(), password, options);
            match self.session.interruptible(async { Ok(opening.await) }).await? {
                Err(error @ Error::WrongPassword { .. }) => outcome = Err(failed(error)),
                other => return other.map_err(failed),
            }
        }
        outcome
    }
}

async fn of_cluster(
    settings: &Settings,
    args: &BucketArgs,
    backup: &str,
) -> Result<(Store, Vec<SecretString>), CliError> {
    let client = settings.client().await?;
    let object = BACKUP.find(&BACKUP.api(&client, &settings.namespace), backup).await?;
    let backup: lifeboat_api::velero::Backup = typed(&object)?;
    let location = backup.spec.storage_location.unwrap_or_default();
    let found = store_config(&client, &settings.namespace, &location).await;
    let mut config = found.map_err(|error| CliError::ended(error.to_string()))?;
    // Outside the cluster, the storage may have another address than inside.
    if let Some(public) = config.config.get("publicUrl").filter(|url| !url.is_empty()).cloned() {
        config.config.insert("s3Url".to_owned(), public);
    }
    for file in &args.cacert {
        let pem = std::fs::read(file).map_err(|error| {
            CliError::failed(format!("cannot read the certificate authority from {}", file.display()), error)
        })?;
        config.ca_pem.get_or_insert_default().extend(pem);
    }
    let environment = Environment::from_vars(readable_variables());
    let store = lifeboat_store::open(&config, &environment, Tuning::default()).await;
    let store = store.map_err(|error| unreachable(&error))?.with_name(&format!("location {location}"));
    let secret = password::read(&client, &settings.namespace).await?.unwrap_or_default();
    let passwords = lifeboat_plan::password::to_try(&secret).into_iter();
    Ok((store, passwords.map(|text| SecretString::from(text.to_owned())).collect()))
}

fn no_backup(name: &str) -> CliError {
    CliError::not_found(format!("there is no backup {name:?} in this location"))
        .help("check the name, and that the location ends with the prefix of its backups")
}

fn unreachable(error: &lifeboat_store::Error) -> CliError {
    CliError::ended(format!("cannot read the bucket: {error}")).help(error.hint())
}

/// Converts an engine error; this command's exit codes are not restic's.
pub(super) fn failed(error: Error) -> CliError {
    let hint = error.hint();
    let made = match error {
        Error::Cancelled => return error.into(),
        Error::NothingFound { what } => CliError::not_found(what),
        error => CliError::ended(CliError::text_of(&error)),
    };
    match hint {
        Some(hint) => made.help(hint),
        None => made,
    }
}
