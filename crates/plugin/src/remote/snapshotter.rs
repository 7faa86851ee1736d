//! Volume snapshotters served by plugin processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_plugin_protocol::generated as wire;
use lifeboat_plugin_protocol::generated::volume_snapshotter_client::VolumeSnapshotterClient;
use lifeboat_plugin_protocol::lifeboat::progress_client::ProgressClient;
use lifeboat_plugin_protocol::lifeboat::{
    RestoreProgressRequest, SnapshotProgressRequest, VolumeProgress as WireProgress,
};
use serde_json::Value;
use tonic::Code;

use super::LARGEST_ANSWER;
use super::convert::{self, Answer, GroupKind};
use crate::ActionError;
use crate::host::{Call, Init, Kind, PluginError, Session, Slot, shortened};
use crate::volume::{
    ProgressOf, SnapshotRequest, VolumeInfo, VolumeProgress, VolumeRequest, VolumeSnapshotter,
};

/// The maximum number of plugin-specific facts that are shown.
const MOST_FACTS: usize = 64;
/// The maximum length of a provider's ID.
const LONGEST_ID: usize = 4096;

impl Session {
    /// A provider's snapshotter, configured for one location: the location's `config`, and `credentialsFile` if it
    /// names credentials. The plugin is started with the first call.
    pub fn volume_snapshotter(
        &self,
        provider: &str,
        config: BTreeMap<String, String>,
    ) -> Result<Arc<dyn VolumeSnapshotter>, PluginError> {
        let (slot, init) = self.configured(Kind::VolumeSnapshotter, provider, config)?;
        Ok(Arc::new(Remote { slot, init }))
    }
}

struct Remote {
    slot: Arc<Slot>,
    init: Arc<Init>,
}

impl Remote {
    fn call(&self, what: &'static str, limit: Duration) -> Call {
        Call { plugin: self.init.name.clone(), what, limit, init: Some(Arc::clone(&self.init)) }
    }

    fn short(&self, what: &'static str) -> Call {
        self.call(what, self.slot.timeouts().call)
    }

    /// An ID from the provider, which is written to files and status.
    fn id(&self, call: &'static str, id: String) -> Result<String, PluginError> {
        if id.is_empty() || id.len() > LONGEST_ID || id.contains(char::is_control) {
            let short: String = id.chars().take(100).collect();
            return Err(Answer { plugin: &self.init.name, call }.wrong(format!("the name {short:?}")));
        }
        Ok(id)
    }
}

#[async_trait]
impl VolumeSnapshotter for Remote {
    fn name(&self) -> &str {
        &self.init.name
    }

    async fn volume_id(&self, volume: &Value) -> Result<Option<String>, ActionError> {
        let request = wire::GetVolumeIdRequest {
            plugin: self.init.name.clone(),
            persistent_volume: convert::json(volume)?,
        };
        let answer = self
            .slot
            .call(self.short("GetVolumeID"), |channel| async move {
                VolumeSnapshotterClient::new(channel).get_volume_id(request).await
            })
            .await?;
        Ok(convert::text(answer.volume_id))
    }

    async fn with_volume_id(&self, volume: &Value, volume_id: &str) -> Result<Value, ActionError> {
        let asked = GroupKind::of(volume);
        let request = wire::SetVolumeIdRequest {
            plugin: self.init.name.clone(),
            persistent_volume: convert::json(volume)?,
            volume_id: volume_id.to_owned(),
        };
        let answer = self
            .slot
            .call(self.short("SetVolumeID"), |channel| async move {
                let client = VolumeSnapshotterClient::new(channel);
                client.max_decoding_message_size(LARGEST_ANSWER).set_volume_id(request).await
            })
            .await?;
        let reader = Answer { plugin: &self.init.name, call: "SetVolumeID" };
        Ok(reader.item(&answer.persistent_volume, &asked)?)
    }

    async fn volume_info(&self, volume_id: &str, zone: &str) -> Result<VolumeInfo, ActionError> {
        let request = wire::GetVolumeInfoRequest {
            plugin: self.init.name.clone(),
            volume_id: volume_id.to_owned(),
            volume_az: zone.to_owned(),
        };
        let answer = self
            .slot
            .call(self.short("GetVolumeInfo"), |channel| async move {
                VolumeSnapshotterClient::new(channel).get_volume_info(request).await
            })
            .await?;
        let iops = (answer.iops != 0).then_some(answer.iops);
        Ok(VolumeInfo { volume_type: answer.volume_type, iops })
    }

    async fn create_snapshot(&self, request: &SnapshotRequest) -> Result<String, ActionError> {
        const CALL: &str = "CreateSnapshot";
        let request = wire::CreateSnapshotRequest {
            plugin: self.init.name.clone(),
            volume_id: request.volume_id.clone(),
            volume_az: request.zone.clone(),
            tags: request.tags.clone().into_iter().collect(),
        };
        let call = self.call(CALL, self.slot.timeouts().volume);
        let answer = self
            .slot
            .call(call, |channel| async move {
                VolumeSnapshotterClient::new(channel).create_snapshot(request).await
            })
            .await?;
        Ok(self.id(CALL, answer.snapshot_id)?)
    }

    async fn delete_snapshot(&self, snapshot_id: &str) -> Result<(), ActionError> {
        let request = wire::DeleteSnapshotRequest {
            plugin: self.init.name.clone(),
            snapshot_id: snapshot_id.to_owned(),
        };
        self.slot
            .call(self.short("DeleteSnapshot"), |channel| async move {
                VolumeSnapshotterClient::new(channel).delete_snapshot(request).await
            })
            .await?;
        Ok(())
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<String, ActionError> {
        const CALL: &str = "CreateVolumeFromSnapshot";
        let request = wire::CreateVolumeRequest {
            plugin: self.init.name.clone(),
            snapshot_id: request.snapshot_id.clone(),
            volume_type: request.info.volume_type.clone(),
            volume_az: request.zone.clone(),
            iops: request.info.iops.unwrap_or_default(),
        };
        let call = self.call(CALL, self.slot.timeouts().volume);
        let answer = self
            .slot
            .call(call, |channel| async move {
                VolumeSnapshotterClient::new(channel).create_volume_from_snapshot(request).await
            })
            .await?;
        Ok(self.id(CALL, answer.volume_id)?)
    }

    async fn reports_progress(&self) -> Result<bool, ActionError> {
        Ok(self.slot.reports_progress(&self.short("Progress")).await?)
    }

    async fn progress(&self, of: &ProgressOf) -> Result<Option<VolumeProgress>, ActionError> {
        if !self.reports_progress().await? {
            return Ok(None);
        }
        let call = self.call("Progress", self.slot.timeouts().poll);
        let request = progress_request(&self.init.name, of);
        // Does not count towards the limit: only programs that support concurrent calls implement this service.
        let answer = self
            .slot
            .call_unlimited(&call, |channel| async move {
                let mut client = ProgressClient::new(channel);
                match request {
                    Asked::Snapshot(request) => client.snapshot_progress(request).await,
                    Asked::Restore(request) => client.restore_progress(request).await,
                }
            })
            .await;
        match answer {
            Ok(progress) => Ok(Some(read(progress))),
            Err(PluginError::Failed { code: Code::NotFound, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

enum Asked {
    Snapshot(SnapshotProgressRequest),
    Restore(RestoreProgressRequest),
}

fn progress_request(plugin: &str, of: &ProgressOf) -> Asked {
    let plugin = plugin.to_owned();
    match of {
        ProgressOf::Snapshotting(request) => Asked::Snapshot(SnapshotProgressRequest {
            plugin,
            volume_id: request.volume_id.clone(),
            tags: request.tags.clone().into_iter().collect(),
            snapshot_id: String::new(),
        }),
        ProgressOf::Snapshot { snapshot_id } => Asked::Snapshot(SnapshotProgressRequest {
            plugin,
            snapshot_id: snapshot_id.clone(),
            ..SnapshotProgressRequest::default()
        }),
        ProgressOf::Restore { snapshot_id, volume_id } => Asked::Restore(RestoreProgressRequest {
            plugin,
            snapshot_id: snapshot_id.clone(),
            volume_id: volume_id.clone().unwrap_or_default(),
        }),
    }
}

fn read(wire: WireProgress) -> VolumeProgress {
    VolumeProgress {
        phase: shortened(&wire.phase),
        message: shortened(&wire.message),
        bytes_done: wire.bytes_done,
        total_bytes: wire.total_bytes,
        started: convert::time(wire.started),
        completed: convert::time(wire.completed),
        plugin_specific: wire.plugin_specific.into_iter().take(MOST_FACTS).collect(),
    }
}
