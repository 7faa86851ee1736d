//! Backs up members with driver VolumeSnapshotter: each claim of the target is a host, and the storage system takes a
//! VolumeSnapshot of it.

use lifeboat_api::common::GoDuration;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::invoker::ValidMember;
use lifeboat_plan::stash::snapshotter::SnapshotOwner;
use lifeboat_plan::stash::targets::{HostSource, TargetPlan, VolumeAccess, snapshot_plan};
use tokio_util::sync::CancellationToken;

use super::hooks::replaced;
use super::work::{BackupWork, failed};
use crate::sessions::engine::NoHosts;
use crate::sessions::host_record::HostRecord;
use crate::sessions::snapshotter::taking::Taking;
use crate::snapshot_classes;
use crate::target::{self, TargetName};

impl BackupWork {
    /// The claims of a member.
    pub(super) async fn plan_snapshots(&self, valid: &ValidMember) -> Result<TargetPlan, NoHosts> {
        let (Some(target), Some(spec)) = (&valid.target, &valid.spec.target) else {
            return Err(failed("driver VolumeSnapshotter needs a target"));
        };
        let classes = match snapshot_classes::read(&self.context.core).await? {
            Ok(classes) => classes,
            Err(problem) => return Err(NoHosts::Failed(problem.to_string())),
        };
        let name = TargetName { kind: target.kind, namespace: &target.key.namespace, name: &target.key.name };
        let facts = target::read(&self.context.core, &self.transfers.settings, name, None).await?;
        snapshot_plan(&facts, spec, &classes).map_err(|error| NoHosts::Failed(error.to_string()))
    }

    /// Takes the snapshot of a host.
    pub(super) async fn take_snapshot(
        &self,
        record: &HostRecord,
        source: &HostSource,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let refusal = self.lost_hook_pod(record).await?.map(|pod| replaced(&pod));
        match self.taking(record, source) {
            Some(taking) => Taking { refusal, ..taking }.take(cancel).await,
            None => record.failed("the host has no claim").await.map(drop),
        }
    }

    /// Waits for the snapshot of a host that is taken.
    pub(super) async fn settle_snapshot(
        &self,
        record: &HostRecord,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let plan = locked(&self.at_work.plans).get(&(record.member, record.host.clone())).cloned();
        let source = plan.and_then(|plan| plan.source.ok());
        match source.as_ref().and_then(|source| self.taking(record, source)) {
            Some(taking) => taking.settle(cancel).await,
            None => record.failed("the target has no such claim any more").await.map(drop),
        }
    }

    fn taking<'a>(&'a self, record: &'a HostRecord, source: &'a HostSource) -> Option<Taking<'a>> {
        let volume = source.volumes.first()?;
        let VolumeAccess::Snapshot { claim, class, .. } = &volume.access else { return None };
        let target = self.member(record.member).and_then(|member| member.target.as_ref());
        Some(Taking {
            core: &self.context.core,
            record,
            owner: SnapshotOwner {
                invoker: self.invoker.id.clone(),
                session: self.record.name.clone(),
                uid: self.record.uid.clone(),
                created: self.record.created,
            },
            claim,
            class,
            target: target.map(|target| &target.key),
            time_out: self.valid.time_out.and_then(GoDuration::to_std),
            refusal: None,
        })
    }
}
