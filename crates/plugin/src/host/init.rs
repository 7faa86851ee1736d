//! Sends the configuration of object stores and volume snapshotters before the first call to a process.

use lifeboat_plugin_protocol::generated::object_store_client::ObjectStoreClient;
use lifeboat_plugin_protocol::generated::volume_snapshotter_client::VolumeSnapshotterClient;
use lifeboat_plugin_protocol::generated::{Empty, ObjectStoreInitRequest, VolumeSnapshotterInitRequest};
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::kind::Kind;
use super::slot::Init;

pub(super) async fn send(channel: Channel, init: &Init) -> Result<Response<Empty>, Status> {
    let (plugin, config) = (init.name.clone(), init.config.clone().into_iter().collect());
    if init.kind == Kind::VolumeSnapshotter {
        let request = VolumeSnapshotterInitRequest { plugin, config };
        VolumeSnapshotterClient::new(channel).init(request).await
    } else {
        ObjectStoreClient::new(channel).init(ObjectStoreInitRequest { plugin, config }).await
    }
}
