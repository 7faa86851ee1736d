//! The services that only our host uses, beyond Velero's protocol.

use lifeboat_plugin_protocol::lifeboat::capabilities_server::Capabilities;
use lifeboat_plugin_protocol::lifeboat::progress_server::Progress;
use lifeboat_plugin_protocol::lifeboat::{
    DescribeRequest, DescribeResponse, RestoreProgressRequest, SnapshotProgressRequest, VolumeProgress,
};
use tonic::{Request, Response, Status};

use super::common::{Answer, Service, find, run};
use crate::SnapshotRequest;

#[tonic::async_trait]
impl Capabilities for Service {
    async fn describe(&self, _: Request<DescribeRequest>) -> Answer<DescribeResponse> {
        let plugin = self.plugin();
        let reporting = plugin.snapshotters.iter().filter(|(_, snapshotter)| snapshotter.reports_progress());
        Ok(Response::new(DescribeResponse {
            concurrent_calls: plugin.concurrent_calls,
            snapshotters_with_progress: reporting.map(|(name, _)| name.clone()).collect(),
        }))
    }
}

fn known(progress: Option<crate::VolumeProgress>) -> Answer<VolumeProgress> {
    let unknown = || Status::not_found("unknown operation");
    progress.map(|progress| Response::new(progress.into())).ok_or_else(unknown)
}

fn text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

#[tonic::async_trait]
impl Progress for Service {
    async fn snapshot_progress(&self, request: Request<SnapshotProgressRequest>) -> Answer<VolumeProgress> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        let call = SnapshotRequest {
            volume_id: request.volume_id,
            zone: String::new(),
            tags: request.tags.into_iter().collect(),
        };
        known(run(snapshotter.snapshot_progress(text(&request.snapshot_id), &call)).await?)
    }

    async fn restore_progress(&self, request: Request<RestoreProgressRequest>) -> Answer<VolumeProgress> {
        let request = request.into_inner();
        let snapshotter = find(&self.plugin().snapshotters, &request.plugin)?;
        known(run(snapshotter.restore_progress(&request.snapshot_id, text(&request.volume_id))).await?)
    }
}
