//! Places in the queue of movers for pods that pre hooks quiesce: one is reserved for the pods of a block before the
//! hooks run, so that no pod is quiesced while its volumes wait. Called by the blocks of a pass.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use kube::ResourceExt;
use lifeboat_api::common::NamespaceName;
use lifeboat_mover::report::LogLine;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_transfer::movers::{MoverObserver, PlaceRequest, Reserved};
use serde_json::Value;

use crate::backup::pass::Pass;
use crate::repositories;

/// A pod of a block.
pub(in crate::backup) struct BlockPod {
    pub(in crate::backup) id: ItemId,
    pub(in crate::backup) uid: String,
    pub(in crate::backup) object: Value,
    /// Whether it has pre hooks.
    pub(in crate::backup) is_hooked: bool,
}

/// Logs why the pre hooks of a pod do not run yet.
struct WaitLog<'a> {
    pass: &'a Pass,
    id: &'a ItemId,
    said: AtomicBool,
}

#[async_trait]
impl MoverObserver for WaitLog<'_> {
    async fn queued(&self, message: &str) {
        if !self.said.swap(true, Ordering::Relaxed) {
            let message =
                format!("The pre hooks run when a mover for the pod's volumes can start: {message}");
            self.pass.report.info_about(self.id, &message);
        }
    }
    async fn preparing(&self, _: &str) {}
    async fn running(&self, _: &str) {}
    async fn line(&self, _: &LogLine) {}
}

impl Pass {
    /// Reserves a place for the volumes of these pods, if one of the pods has pre hooks and volumes are copied. A block
    /// gets one place, where the first of its quiesced pods runs: several places could be waited for in turn by blocks that
    /// hold them. If there is no place in time, the volumes of the pods are not copied.
    pub(in crate::backup) async fn reserve_place(&self, pods: &[BlockPod]) -> Option<Reserved> {
        if pods.iter().all(|pod| !pod.is_hooked) {
            return None;
        }
        let mut read = Vec::new();
        for pod in pods {
            if self.will_copy(&pod.id, &pod.object).await {
                read.push(pod);
            }
        }
        let first = read.iter().find(|pod| pod.is_hooked).or(read.first())?;
        let namespace = NamespaceName::new(first.id.namespace.as_deref().unwrap_or_default());
        let wanted = PlaceRequest {
            name: format!("{}/{}", self.backup.backup_uid(), first.uid),
            group: self.backup.name_any(),
            node: first.object["spec"]["nodeName"].as_str().map(str::to_owned),
            repository: repositories::key(&self.location(), &namespace).to_string(),
            pods: read.iter().map(|pod| pod.uid.clone()).collect(),
        };
        let log = WaitLog { pass: self, id: &first.id, said: AtomicBool::new(false) };
        let reserved = self.copying.movers.reserve(wanted, &log, &self.stop).await;
        if reserved.is_none() {
            self.made().without_place.extend(read.iter().map(|pod| pod.uid.clone()));
        }
        reserved
    }
}
