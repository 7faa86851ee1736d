//! Restores into volumes without stopping a workload: claims that no pod uses, new claims, and, if an annotation
//! requests it, volumes of running pods. If a pod starts to use a claim while data is written to it, the restore
//! ends, as during a standstill.

use std::pin::pin;

use futures::future::try_join_all;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::in_place::{VolumeUser, users};
use lifeboat_plan::stash::state::WorkPhase;
use tokio_util::sync::CancellationToken;

use super::found::FoundMember;
use super::work::RestoreWork;
use crate::target;

impl RestoreWork {
    pub(super) async fn write_at_once(
        &self,
        member: usize,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let found = self.found(member);
        if self.member_state(member).await.all_hosts_ended() {
            return self.settle_blocking(member, &found).await;
        }
        if !cancel.is_cancelled() && !self.make_claims(member, &found).await? {
            return self.settle_blocking(member, &found).await;
        }
        let limited = cancel.child_token();
        let mut disturbed = self.come_to_use(&found).await?;
        if disturbed.is_some() {
            limited.cancel();
        } else if !cancel.is_cancelled() && !self.block_backups(member, &found, cancel).await? {
            return self.settle_blocking(member, &found).await;
        }
        let records = self.hosts(member).await;
        let (of_member, until) = (&*found, &limited);
        let restores = records
            .iter()
            .map(|record| record.patiently(until, move || self.restore(record, of_member, until)));
        let mut restores = pin!(try_join_all(restores));
        if disturbed.is_none() {
            disturbed = tokio::select! {
                ended = &mut restores => {
                    ended?;
                    return self.settle_blocking(member, &found).await;
                }
                reason = self.disturbance(&found) => Some(reason),
            };
            limited.cancel();
        }
        restores.await?;
        for record in &records {
            if record.state().await.phase == WorkPhase::Failed {
                record.change(|host| host.error.clone_from(&disturbed)).await?;
            }
        }
        self.settle_blocking(member, &found).await
    }

    /// Completes when a pod starts to use the volumes that are written.
    async fn disturbance(&self, found: &FoundMember) -> String {
        loop {
            tokio::time::sleep(self.transfers.pace).await;
            match self.come_to_use(found).await {
                Ok(Some(reason)) => return reason,
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(
                        error = error.chain(),
                        "cannot look for users of claims that are restored"
                    );
                }
            }
        }
    }

    /// The pods that started to use the claims since these were found unused; None if there are none, or if the
    /// restore writes into running pods.
    async fn come_to_use(&self, found: &FoundMember) -> Result<Option<String>, ApiError> {
        let into_running = found.destinations.values().any(|destination| destination.pod.is_some());
        if into_running || found.claims.is_empty() {
            return Ok(None);
        }
        let (core, namespace) = (&self.context.core, &self.record.namespace);
        let pods = target::list(core, namespace, "", "v1", "Pod", "pods").await?;
        let mut using = users(&found.claims, &pods, Some(&self.record.uid));
        using.retain(|user| !user.is_leaving);
        let names: Vec<String> = using.iter().map(VolumeUser::to_string).collect();
        Ok((!names.is_empty())
            .then(|| format!("{} came to use the volumes while they were being restored", names.join(", "))))
    }
}
