//! A volume snapshotter that copies directories, with progress. Volumes are PersistentVolumes of type hostPath or local
//! whose directories the plugin can reach; a VolumeSnapshotLocation says where copies go:
//!
//! ```yaml
//! spec:
//!   provider: example.io/directory-snapshotter
//!   config:
//!     snapshots: /snapshots      # where copies are kept
//!     volumes: /volumes          # where volumes are made from them
//!     bytesPerSecond: "1000000"  # optional: copy slowly, to see the progress
//!     progress: none             # optional: say nothing about progress; "object" to write the objects ourselves
//! ```

#[path = "directory_snapshotter/copy.rs"]
mod copy;
#[path = "directory_snapshotter/object.rs"]
mod object;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use copy::{Copied, Meter};
use lifeboat_plugin_sdk::{
    Config, Error, Object, Plugin, Result, Served, SnapshotRequest, VolumeInfo, VolumeProgress,
    VolumeRequest, VolumeSnapshotter, async_trait,
};
use object::Shown;

fn main() -> Served {
    Plugin::new()
        .volume_snapshotter("example.io/directory-snapshotter", DirectorySnapshotter::default())
        .serve()
}

/// What a location says.
#[derive(Clone, Default)]
struct Settings {
    snapshots: PathBuf,
    volumes: PathBuf,
    bytes_per_second: Option<u64>,
    progress: Progress,
}

/// How this plugin says how far it is.
#[derive(Clone, Copy, Default, PartialEq)]
enum Progress {
    /// It is asked, and Lifeboat writes the objects.
    #[default]
    Asked,
    /// It writes them itself, as plugins of Velero can.
    Object,
    Silent,
}

#[derive(Default)]
struct DirectorySnapshotter {
    settings: Mutex<Option<Settings>>,
    /// Copies under way and done, by the name of the snapshot; those of restores by `restore/` and that name.
    copies: Mutex<HashMap<String, Arc<Meter>>>,
}

impl DirectorySnapshotter {
    fn settings(&self) -> Result<Settings> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        settings.ok_or_else(|| Error::new("the snapshotter has not been configured"))
    }

    /// Copies a directory into one that is not there before the copy is whole.
    async fn copy(&self, key: String, from: PathBuf, to: PathBuf, shown: Shown) -> Result<()> {
        let settings = self.settings()?;
        let meter = Arc::new(Meter::new(settings.bytes_per_second));
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&meter));
        let showing = (settings.progress == Progress::Object).then(|| shown.follow(Arc::clone(&meter)));
        let copied = Copied { from, to, meter: Arc::clone(&meter) }.run().await;
        meter.end(copied.as_ref().err().map(ToString::to_string));
        if let Some(showing) = showing {
            showing.await?;
        }
        copied
    }

    fn progress(&self, key: &str) -> Result<Option<VolumeProgress>> {
        if self.settings()?.progress != Progress::Asked {
            return Ok(None);
        }
        Ok(self.copies.lock().unwrap_or_else(PoisonError::into_inner).get(key).map(|meter| meter.progress()))
    }
}

#[async_trait]
impl VolumeSnapshotter for DirectorySnapshotter {
    async fn init(&self, config: Config) -> Result<()> {
        let settings = settings(&config)?;
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings);
        Ok(())
    }

    async fn volume_id(&self, volume: &Object) -> Result<Option<String>> {
        let path = |kind: &str| volume["spec"][kind]["path"].as_str().map(str::to_owned);
        Ok(path("hostPath").or_else(|| path("local")))
    }

    async fn set_volume_id(&self, mut volume: Object, volume_id: &str) -> Result<Object> {
        let kind = if volume["spec"]["local"].is_object() { "local" } else { "hostPath" };
        volume["spec"][kind]["path"] = volume_id.into();
        Ok(volume)
    }

    async fn volume_info(&self, _volume_id: &str, _zone: &str) -> Result<VolumeInfo> {
        Ok(VolumeInfo { volume_type: "directory".to_owned(), iops: None })
    }

    async fn create_snapshot(&self, request: SnapshotRequest) -> Result<String> {
        let id = snapshot_id(&request);
        let to = self.settings()?.snapshots.join(&id);
        // The same request after a crash: what is there is whole.
        if !to.exists() {
            let shown = Shown::snapshot(&id, &request);
            self.copy(id.clone(), PathBuf::from(&request.volume_id), to, shown).await?;
        }
        tracing::info!(volume = request.volume_id, snapshot = id, "made a snapshot");
        Ok(id)
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<()> {
        let path = self.settings()?.snapshots.join(safe(snapshot_id));
        match tokio::fs::remove_dir_all(&path).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::new(format!("cannot delete '{}': {error}", path.display())))
            }
            _ => Ok(()),
        }
    }

    async fn create_volume(&self, request: VolumeRequest) -> Result<String> {
        let settings = self.settings()?;
        let id = safe(&request.snapshot_id);
        let from = settings.snapshots.join(&id);
        let to = free(&settings.volumes, &id);
        let name = to.display().to_string();
        let shown = Shown::volume(&request.snapshot_id, &name);
        self.copy(format!("restore/{}", request.snapshot_id), from, to, shown).await?;
        Ok(name)
    }

    fn reports_progress(&self) -> bool {
        true
    }

    async fn snapshot_progress(
        &self,
        snapshot_id: Option<&str>,
        request: &SnapshotRequest,
    ) -> Result<Option<VolumeProgress>> {
        let id = snapshot_id.map_or_else(|| self::snapshot_id(request), str::to_owned);
        self.progress(&id)
    }

    async fn restore_progress(
        &self,
        snapshot_id: &str,
        _volume_id: Option<&str>,
    ) -> Result<Option<VolumeProgress>> {
        self.progress(&format!("restore/{snapshot_id}"))
    }
}

fn settings(config: &Config) -> Result<Settings> {
    let mut settings = Settings::default();
    for (key, value) in config {
        match key.as_str() {
            "snapshots" => settings.snapshots = PathBuf::from(value),
            "volumes" => settings.volumes = PathBuf::from(value),
            "bytesPerSecond" => settings.bytes_per_second = Some(value.parse()?),
            "progress" => {
                settings.progress = match value.as_str() {
                    "asked" => Progress::Asked,
                    "object" => Progress::Object,
                    "none" => Progress::Silent,
                    other => {
                        return Err(Error::new(format!(
                            "config key \"progress\" is {other:?}; it must be asked, object or none"
                        )));
                    }
                };
            }
            "credentialsFile" => {}
            other => return Err(Error::new(format!("config has the unknown key {other:?}"))),
        }
    }
    for (key, path) in [("snapshots", &settings.snapshots), ("volumes", &settings.volumes)] {
        if !path.is_absolute() {
            return Err(Error::new(format!("config key {key:?} must name an absolute directory")));
        }
    }
    Ok(settings)
}

/// The same backup and volume give the same name, so that a request after a crash finds its snapshot.
fn snapshot_id(request: &SnapshotRequest) -> String {
    let tag = |name: &str| request.tags.get(name).map(String::as_str);
    let volume = tag("velero.io/pv").unwrap_or(&request.volume_id);
    safe(&format!("{}-{volume}", tag("velero.io/backup").unwrap_or("snapshot")))
}

/// One segment of a path, and the name of an object.
fn safe(text: &str) -> String {
    let lower = text.to_lowercase();
    lower.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect()
}

/// A directory that nobody has.
fn free(below: &Path, id: &str) -> PathBuf {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    below.join(format!("{id}-{now}"))
}
