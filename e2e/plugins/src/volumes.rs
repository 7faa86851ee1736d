//! A volume snapshotter without volumes that reports invalid progress for some of them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use lifeboat_plugin_sdk::{
    Config, Error, Object, Result, SnapshotRequest, VolumeProgress, VolumeRequest, VolumeSnapshotter,
    async_trait,
};

#[derive(Default)]
pub(crate) struct Volumes {
    config: Mutex<Option<Config>>,
    asked: AtomicI64,
}

#[async_trait]
impl VolumeSnapshotter for Volumes {
    async fn init(&self, config: Config) -> Result<()> {
        if config.contains_key("refuse") {
            return Err(Error::new("config has the unknown key \"refuse\""));
        }
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
        Ok(())
    }

    async fn volume_id(&self, volume: &Object) -> Result<Option<String>> {
        Ok(volume["spec"]["hostPath"]["path"].as_str().map(str::to_owned))
    }

    async fn set_volume_id(&self, mut volume: Object, volume_id: &str) -> Result<Object> {
        volume["spec"]["hostPath"]["path"] = volume_id.into();
        Ok(volume)
    }

    async fn create_snapshot(&self, request: SnapshotRequest) -> Result<String> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let config = config.ok_or_else(|| Error::new("used before Init"))?;
        match request.volume_id.as_str() {
            "crash" => std::process::exit(7),
            "hang" => std::future::pending().await,
            "nameless" => Ok(String::new()),
            "wild" => Ok("a\nb".to_owned()),
            volume => Ok(format!("{}-of-{volume}", config.get("name").map_or("snapshot", String::as_str))),
        }
    }

    async fn delete_snapshot(&self, _snapshot_id: &str) -> Result<()> {
        Ok(())
    }

    async fn create_volume(&self, request: VolumeRequest) -> Result<String> {
        Ok(format!("volume-of-{}", request.snapshot_id))
    }

    fn reports_progress(&self) -> bool {
        true
    }

    async fn snapshot_progress(
        &self,
        snapshot_id: Option<&str>,
        request: &SnapshotRequest,
    ) -> Result<Option<VolumeProgress>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let bytes = |bytes_done, total_bytes| {
            Ok(Some(VolumeProgress { bytes_done, total_bytes, ..VolumeProgress::default() }))
        };
        match snapshot_id.unwrap_or(&request.volume_id) {
            "backwards" => bytes(10 - asked, 10),
            "beyond" => bytes(100, 10),
            "error" => Err(Error::new("the test requested a failure")),
            _ => Ok(None),
        }
    }
}
