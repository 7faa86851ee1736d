//! The settings of Velero's API, resolved once by the CLI (flag, then environment, then default) and passed down.

mod backup;
mod plugins;
mod restore;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lifeboat_archive::SpoolLimits;
use url::Url;

pub use backup::BackupSettings;
pub use plugins::PluginSettings;
pub use restore::RestoreSettings;

/// All that can be set about Velero's controllers.
#[derive(Clone, Debug)]
pub struct VeleroSettings {
    /// How often a location without its own frequency is validated.
    pub validation_frequency: Duration,
    /// The default for schedules without `skipImmediately`: whether a run that is due at once is skipped.
    pub schedule_skip_immediately: bool,
    /// The server's own cloud identity, for locations without credentials.
    pub cloud: lifeboat_store::Environment,
    pub storage: StorageSettings,
    pub backup: BackupSettings,
    pub restore: RestoreSettings,
    /// How plugin programs are found and started; None if there are none.
    pub plugins: Option<PluginSettings>,
}

impl VeleroSettings {
    /// Everything else as it is by default.
    pub fn new(cloud: lifeboat_store::Environment) -> Self {
        Self {
            validation_frequency: Duration::from_mins(1),
            schedule_skip_immediately: false,
            cloud,
            storage: StorageSettings::default(),
            backup: BackupSettings::default(),
            restore: RestoreSettings::default(),
            plugins: None,
        }
    }
}

/// What can be set about backups in storage.
#[derive(Clone, Debug)]
pub struct StorageSettings {
    /// How often a location without its own period is synced.
    pub sync_period: Duration,
    /// How often expired backups are looked for.
    pub garbage_frequency: Duration,
    /// How the server serves download links; None if storage signs them itself.
    pub downloads: Option<DownloadSettings>,
    /// Where archives are unpacked and logs are written.
    pub spool_directory: PathBuf,
    /// How large a spool may become; None for what the disk has.
    pub spool_bytes: Option<u64>,
    /// How long a backup or restore waits for storage that is away.
    pub outage_timeout: Duration,
}

impl Default for StorageSettings {
    fn default() -> Self {
        Self {
            sync_period: Duration::from_mins(1),
            garbage_frequency: Duration::from_hours(1),
            downloads: None,
            spool_directory: std::env::temp_dir(),
            spool_bytes: None,
            outage_timeout: Duration::from_mins(15),
        }
    }
}

impl StorageSettings {
    pub fn spool_limits(&self) -> SpoolLimits {
        SpoolLimits { spool_bytes: self.spool_bytes.unwrap_or(u64::MAX), ..SpoolLimits::default() }
    }
}

/// Links that this server answers.
#[derive(Clone, Debug)]
pub struct DownloadSettings {
    /// What people reach: the address below, or an ingress in front of it.
    pub url: Url,
    /// What is listened on.
    pub address: SocketAddr,
}
