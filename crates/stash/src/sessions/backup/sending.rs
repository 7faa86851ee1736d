//! Starts the movers of the hosts of a backup. Called by [`super::work`].

use std::sync::Arc;
use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_cluster::ApiError;
use lifeboat_control::locked;
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::targets::{HostPart, HostSource, MoverParts, MoverSource};
use lifeboat_plan::transfer::limits::Counted;
use lifeboat_transfer::attempts::{Transfer, TransferSpec, run_transfer};
use lifeboat_transfer::gateway::Rights;
use lifeboat_transfer::repositories::RepositoryKey;
use tokio_util::sync::CancellationToken;

use super::copying::{CopyOptions, Copying};
use super::work::BackupWork;
use crate::gateway::{NoPass, pass};
use crate::sessions::host_record::HostRecord;
use crate::sessions::places::{Writable, place};
use crate::sessions::pod::{PodRequest, job_of, pod_settings_on};
use crate::sessions::tasks::task_base;
use crate::tasks::TaskWork;

/// How long the mover of one host may take if the invoker sets no `timeOut`.
const LONGEST: Duration = Duration::from_hours(24 * 7);

impl BackupWork {
    fn transfer(
        &self,
        key: &RepositoryKey,
        record: &HostRecord,
        state: &HostState,
        mover: usize,
        namespace: &str,
    ) -> Transfer {
        let attempt = state.run.attempt.and_then(|attempt| u64::try_from(attempt).ok());
        let limit = self.valid.time_out.and_then(GoDuration::to_std).unwrap_or(LONGEST);
        let spec = TransferSpec {
            task_base: task_base(&self.record.uid, record.member, &record.host, mover),
            namespace: namespace.to_owned(),
            key: key.clone(),
            repository: format!("Repository {}", key.name()),
            make: true,
            group: format!("{}/{}", self.record.namespace, self.record.name),
            created: Some(self.record.created),
            limit,
            counted: Counted::FromCreation,
            was_running: false,
            pod: None,
            is_new: attempt.is_none(),
            attempt,
            dead_owners: state.run.dead_owners.clone(),
        };
        Transfer::new(&self.transfers, Arc::new(record.clone()), spec)
    }

    /// The namespace of a mover: that of the target, except for directories of nodes.
    fn movers_namespace(&self, member: usize, source: &MoverSource) -> String {
        let target = self.member(member).and_then(|member| member.target.as_ref());
        match (source, target) {
            (MoverSource::Volumes { .. }, Some(target)) => target.key.namespace.clone(),
            (MoverSource::Volumes { .. }, None) => self.record.namespace.clone(),
            (MoverSource::NodeDirectory { .. }, _) => self.transfers.settings.namespace.clone(),
        }
    }

    fn options(&self, member: usize, task: Option<&TaskWork>) -> CopyOptions {
        let directory = self.tags(member);
        let member = self.member(member);
        let target = member.and_then(|member| member.spec.target.as_ref());
        CopyOptions {
            session: self.record.uid.clone(),
            exclude: target.map(|target| target.exclude.clone()).unwrap_or_default(),
            args: member
                .and_then(|member| member.target.as_ref())
                .map(|target| target.args.clone())
                .unwrap_or_default(),
            source: task.map(TaskWork::source),
            directory,
        }
    }

    /// Starts one mover of a host and waits for its end.
    pub(super) async fn send(
        &self,
        key: &RepositoryKey,
        record: &HostRecord,
        source: &HostSource,
        mover: usize,
        parts: MoverParts<HostPart>,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let namespace = self.movers_namespace(record.member, &parts.source);
        let pass = match pass(&self.context, key, &namespace, Rights::Backup).await {
            Ok(pass) => pass,
            Err(NoPass::Api(error)) => return Err(error),
            Err(problem) => return record.failed(problem.to_string()).await.map(drop),
        };
        let transfer = self.transfer(key, record, &record.state().await, mover, &namespace).through(pass);
        let member = self.member(record.member);
        let job = job_of(&transfer, place(&parts.source, Writable::No));
        let request = PodRequest {
            job: &job,
            runtime: member.and_then(|member| member.spec.runtime_settings.as_ref()),
            target: source.pod_of_data(),
        };
        let task = self.task(record.member);
        let base = job.pod.clone();
        let base = if let Some(task) = &task { task.base(base) } else { base };
        let pod = match pod_settings_on(&self.context.core, base, &request).await? {
            Ok(pod) => pod,
            Err(message) => return record.failed(message.to_string()).await.map(drop),
        };
        let options = self.options(record.member, task.as_ref());
        let base = task_base(&self.record.uid, record.member, &record.host, mover);
        let host = (record.member, record.host.clone());
        let numbers = locked(&self.at_work.numbers).entry(host).or_default().clone();
        let copying = Copying {
            work: Some(self),
            transfer,
            base,
            record: record.clone(),
            parts,
            pod,
            options,
            numbers,
        };
        run_transfer(&copying, cancel).await
    }
}
