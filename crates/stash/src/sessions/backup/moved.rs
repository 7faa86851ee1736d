//! Detects that the pod of a host has moved to another node after the host was found: while its mover waits for its
//! turn, or between two movers. Called before each mover is started.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use lifeboat_cluster::{ApiError, Attempt};
use lifeboat_control::locked;
use lifeboat_plan::stash::targets::{HostPart, MoverParts, MoverSource};
use lifeboat_transfer::attempts::NotPrepared;

use super::hooks::replaced;
use super::work::BackupWork;
use crate::sessions::engine::NoHosts;
use crate::sessions::host_record::HostRecord;

impl BackupWork {
    /// The current source of a mover: if the pod has moved, the host is looked up again. If that fails, the mover is
    /// started as planned and reports the problem itself.
    pub(super) async fn current_source(
        &self,
        record: &HostRecord,
        parts: &MoverParts<HostPart>,
    ) -> Result<MoverSource, NotPrepared> {
        if let Some(pod) = self.lost_hook_pod(record).await? {
            return Err(NotPrepared::Because(replaced(&pod)));
        }
        let MoverSource::Volumes { node: Some(node), .. } = &parts.source else {
            return Ok(parts.source.clone());
        };
        if !self.has_moved(record, node).await? {
            return Ok(parts.source.clone());
        }
        let plan = match self.plan(record.member).await {
            Ok(plan) => plan,
            Err(NoHosts::Api(error)) => return Err(error.into()),
            Err(NoHosts::Failed(_)) => return Ok(parts.source.clone()),
        };
        let Some(host) = plan.hosts.into_iter().find(|host| host.name == record.host) else {
            return Ok(parts.source.clone());
        };
        let Ok(source) = &host.source else { return Ok(parts.source.clone()) };
        let same = source.movers().into_iter().find(|mover| mover.parts == parts.parts);
        self.note_pod(record, source).await?;
        locked(&self.at_work.plans).insert((record.member, record.host.clone()), host);
        Ok(same.map_or_else(|| parts.source.clone(), |mover| mover.source))
    }

    /// Whether the pod of a host no longer exists, or is on another node than its mover would be.
    pub(super) async fn has_moved(&self, record: &HostRecord, node: &str) -> Result<bool, ApiError> {
        let run = record.state().await.run;
        let target = self.member(record.member).and_then(|member| member.target.as_ref());
        let (Some(pod), Some(target)) = (run.pod, target) else { return Ok(false) };
        let api: Api<Pod> = Api::namespaced(self.context.core.client.clone(), &target.key.namespace);
        let found = api.get_opt(&pod).await.attempt(format!("read Pod {}/{pod}", target.key.namespace))?;
        let is_there = found.is_some_and(|found| {
            let on = found.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            found.uid() == run.pod_uid && on == Some(node)
        });
        Ok(!is_there)
    }
}
