//! The service of volume snapshotters.

use lifeboat_plugin_protocol::generated as wire;
use lifeboat_plugin_protocol::generated::volume_snapshotter_server::VolumeSnapshotter;
use tonic::{Request, Response};

use super::common::{Answer, Service, find, json, object, run};
use crate::{SnapshotRequest, VolumeInfo, VolumeRequest};

#[tonic::async_trait]
impl VolumeSnapshotter for Service {
    async fn init(&self, request: Request<wire::VolumeSnapshotterInitRequest>) -> Answer<wire::Empty> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        run(snapshotter.init(request.config.into_iter().collect())).await?;
        Ok(Response::new(wire::Empty {}))
    }

    async fn create_volume_from_snapshot(
        &self,
        request: Request<wire::CreateVolumeRequest>,
    ) -> Answer<wire::CreateVolumeResponse> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        let iops = (request.iops != 0).then_some(request.iops);
        let wanted = VolumeRequest {
            snapshot_id: request.snapshot_id,
            zone: request.volume_az,
            info: VolumeInfo { volume_type: request.volume_type, iops },
        };
        let volume_id = run(snapshotter.create_volume(wanted)).await?;
        Ok(Response::new(wire::CreateVolumeResponse { volume_id }))
    }

    async fn get_volume_info(
        &self,
        request: Request<wire::GetVolumeInfoRequest>,
    ) -> Answer<wire::GetVolumeInfoResponse> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        let info = run(snapshotter.volume_info(&request.volume_id, &request.volume_az)).await?;
        let iops = info.iops.unwrap_or_default();
        Ok(Response::new(wire::GetVolumeInfoResponse { volume_type: info.volume_type, iops }))
    }

    async fn create_snapshot(
        &self,
        request: Request<wire::CreateSnapshotRequest>,
    ) -> Answer<wire::CreateSnapshotResponse> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        let wanted = SnapshotRequest {
            volume_id: request.volume_id,
            zone: request.volume_az,
            tags: request.tags.into_iter().collect(),
        };
        let snapshot_id = run(snapshotter.create_snapshot(wanted)).await?;
        Ok(Response::new(wire::CreateSnapshotResponse { snapshot_id }))
    }

    async fn delete_snapshot(&self, request: Request<wire::DeleteSnapshotRequest>) -> Answer<wire::Empty> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        run(snapshotter.delete_snapshot(&request.snapshot_id)).await?;
        Ok(Response::new(wire::Empty {}))
    }

    async fn get_volume_id(
        &self,
        request: Request<wire::GetVolumeIdRequest>,
    ) -> Answer<wire::GetVolumeIdResponse> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        let volume = object(&request.persistent_volume)?;
        let volume_id = run(snapshotter.volume_id(&volume)).await?.unwrap_or_default();
        Ok(Response::new(wire::GetVolumeIdResponse { volume_id }))
    }

    async fn set_volume_id(
        &self,
        request: Request<wire::SetVolumeIdRequest>,
    ) -> Answer<wire::SetVolumeIdResponse> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        let volume = object(&request.persistent_volume)?;
        let volume = run(snapshotter.set_volume_id(volume, &request.volume_id)).await?;
        Ok(Response::new(wire::SetVolumeIdResponse { persistent_volume: json(&volume)? }))
    }
}
