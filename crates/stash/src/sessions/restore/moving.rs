//! Starts the movers of a host: those that make safety copies, and those that restore.

use std::sync::Arc;
use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::rules::SAFETY_TAG;
use lifeboat_plan::stash::session::{BackupArgs, RestoreArgs};
use lifeboat_plan::stash::state::HostState;
use lifeboat_plan::stash::targets::{Destination, MoverParts, MoverSource, by_mover};
use lifeboat_plan::transfer::limits::Counted;
use lifeboat_plan::transfer::movers::{MoverPlace, PodSettings};
use lifeboat_transfer::attempts::{Transfer, TransferSpec, run_transfer};
use lifeboat_transfer::gateway::Rights;
use tokio_util::sync::CancellationToken;

use super::choice::{WritePart, is_copied, is_restored, safety_parts, write_parts};
use super::found::FoundMember;
use super::work::RestoreWork;
use super::writing::Writing;
use crate::gateway::{NoPass, pass};
use crate::sessions::backup::copying::{CopyOptions, Copying};
use crate::sessions::host_record::HostRecord;
use crate::sessions::places::{Writable, place};
use crate::sessions::pod::{PodRequest, job_of, pod_settings};
use crate::sessions::tasks::{safety_base, task_base};

/// How long the mover of one host may take if the restore sets no `timeOut`.
const LONGEST: Duration = Duration::from_hours(24 * 7);

const GONE: &str = "the target has no such host any more";

impl RestoreWork {
    /// Copies the data that the restore of a host will overwrite into the repository.
    pub(super) async fn copy(
        &self,
        record: &HostRecord,
        found: &FoundMember,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let state = record.state().await;
        if state.phase.has_ended() {
            return Ok(());
        }
        let Some(destination) = found.destinations.get(&record.host) else {
            return record.failed(GONE).await.map(drop);
        };
        let standstill = self.member_state(record.member).await.standstill;
        // What is added to the copies of an earlier restore comes back with them.
        let copies_of =
            standstill.map_or_else(|| self.record.uid.clone(), |record| record.copies_of().to_owned());
        let parts = safety_parts(&found.mounts, &state.paths);
        let movers = by_mover(&destination.volumes, parts, |part| &part.volume);
        for (number, parts) in movers.into_iter().enumerate() {
            if is_copied(&record.state().await, &parts.parts) {
                continue;
            }
            let base = safety_base(&self.record.uid, record.member, &record.host, number);
            let transfer = self.transfer(record, base.clone(), &parts.source, true).await;
            let Some(transfer) = self.admitted(record, transfer, Rights::Backup).await? else {
                return Ok(());
            };
            let place = place(&parts.source, Writable::No);
            let Some(pod) = self.pod(record, &transfer, place, found, destination).await? else {
                return Ok(());
            };
            let target = self.member(record.member).and_then(|member| member.target.as_ref());
            let limits = target.map(|target| target.args.limits).unwrap_or_default();
            let args = BackupArgs { tags: vec![SAFETY_TAG.to_owned()], limits, ..BackupArgs::default() };
            let options = CopyOptions { session: copies_of.clone(), args, ..CopyOptions::default() };
            let wanted = parts.parts.clone();
            let numbers = Arc::default();
            let copying =
                Copying { work: None, transfer, base, record: record.clone(), parts, pod, options, numbers };
            run_transfer(&copying, cancel).await?;
            let state = record.state().await;
            if state.phase.has_ended() || !is_copied(&state, &wanted) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Restores a host, and records its end unless the server is shutting down.
    pub(super) async fn restore(
        &self,
        record: &HostRecord,
        found: &FoundMember,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let state = record.state().await;
        if state.phase.has_ended() {
            return Ok(());
        }
        let Some(destination) = found.destinations.get(&record.host) else {
            return record.failed(GONE).await.map(drop);
        };
        self.note_pod(record, destination).await?;
        for (number, parts) in self.movers(record.member, found, &state, destination).into_iter().enumerate()
        {
            let now = record.state().await;
            if parts.parts.iter().all(|part| is_restored(&now, part)) {
                continue;
            }
            let wanted = parts.parts.clone();
            self.send(record, found, destination, number, parts, cancel).await?;
            let now = record.state().await;
            if now.phase.has_ended() || !wanted.iter().all(|part| is_restored(&now, part)) {
                return Ok(());
            }
        }
        if record.state().await.phase.has_ended() { Ok(()) } else { record.succeeded().await.map(drop) }
    }

    /// What is written for a host, by mover.
    fn movers(
        &self,
        member: usize,
        found: &FoundMember,
        state: &HostState,
        destination: &Destination,
    ) -> Vec<MoverParts<WritePart>> {
        let is_rollback = self.object.rollback_of().is_some();
        let rules = self.member(member).filter(|_| !is_rollback).map(|member| member.rules.rules.as_slice());
        let parts = write_parts(state, &found.mounts, rules.unwrap_or_default(), is_rollback);
        by_mover(&destination.volumes, parts, |part| &part.volume)
    }

    async fn send(
        &self,
        record: &HostRecord,
        found: &FoundMember,
        destination: &Destination,
        number: usize,
        parts: MoverParts<WritePart>,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        let base = task_base(&self.record.uid, record.member, &record.host, number);
        let transfer = self.transfer(record, base, &parts.source, false).await;
        let Some(transfer) = self.admitted(record, transfer, Rights::Restore).await? else { return Ok(()) };
        let place = place(&parts.source, Writable::Yes);
        let Some(pod) = self.pod(record, &transfer, place, found, destination).await? else { return Ok(()) };
        let target = self.member(record.member).and_then(|member| member.target.as_ref());
        let mut args = target.map_or_else(RestoreArgs::default, |target| target.args.clone());
        if self.object.rollback_of().is_some() {
            // Its safety copies come back whole.
            (args.include, args.exclude) = (Vec::new(), Vec::new());
        }
        let record = record.clone();
        run_transfer(&Writing { transfer, record, parts, pod, args, task: None }, cancel).await
    }

    async fn note_pod(&self, record: &HostRecord, destination: &Destination) -> Result<(), ApiError> {
        let Some(pod) = &destination.pod else { return Ok(()) };
        let changed = record.change(|host| {
            host.run.pod = Some(pod.name.clone());
            host.run.pod_uid = Some(pod.uid.clone());
        });
        changed.await.map(drop)
    }

    /// `make`: the mover stores snapshots.
    pub(super) async fn transfer(
        &self,
        record: &HostRecord,
        task_base: String,
        source: &MoverSource,
        make: bool,
    ) -> Transfer {
        let state = record.state().await;
        let attempt = state.run.attempt.and_then(|attempt| u64::try_from(attempt).ok());
        let namespace = match source {
            // The namespace of the target: only an AppBinding may be in another namespace.
            MoverSource::Volumes { .. } => {
                let target = self.target(record.member);
                target.map_or(&self.record.namespace, |(_, target)| &target.namespace).clone()
            }
            MoverSource::NodeDirectory { .. } => self.transfers.settings.namespace.clone(),
        };
        let spec = TransferSpec {
            task_base,
            namespace,
            key: self.key().clone(),
            repository: format!("Repository {}", self.key().name()),
            make,
            group: format!("{}/{}", self.record.namespace, self.record.name),
            created: Some(self.record.created),
            limit: self.limit(),
            counted: Counted::FromCreation,
            was_running: false,
            pod: None,
            is_new: attempt.is_none(),
            attempt,
            dead_owners: state.run.dead_owners.clone(),
        };
        Transfer::new(&self.transfers, Arc::new(record.clone()), spec)
    }

    /// The transfer with the access to its repository; None if its movers may not use it, in which case the host
    /// fails.
    pub(super) async fn admitted(
        &self,
        record: &HostRecord,
        transfer: Transfer,
        rights: Rights,
    ) -> Result<Option<Transfer>, ApiError> {
        match pass(&self.context, self.key(), &transfer.namespace, rights).await {
            Ok(pass) => Ok(Some(transfer.through(pass))),
            Err(NoPass::Api(error)) => Err(error),
            Err(problem) => record.failed(problem.to_string()).await.map(|_| None),
        }
    }

    /// How long the movers may take, from the creation of the restore. The time in which the restore waited for
    /// missing objects counts only if it has a `timeOut`.
    fn limit(&self) -> Duration {
        let wait = self.context.settings.restore_wait;
        self.valid.time_out.and_then(GoDuration::to_std).unwrap_or(LONGEST.saturating_add(wait))
    }

    /// The settings of a mover's pod; None if no mover can run there, in which case the host fails.
    async fn pod(
        &self,
        record: &HostRecord,
        transfer: &Transfer,
        place: MoverPlace,
        found: &FoundMember,
        destination: &Destination,
    ) -> Result<Option<PodSettings>, ApiError> {
        let core = &self.context.core;
        let job = job_of(transfer, place);
        let member = self.member(record.member);
        let request = PodRequest {
            job: &job,
            runtime: member.and_then(|member| member.spec.runtime_settings.as_ref()),
            target: destination.pod.as_ref().map(|pod| &pod.object).or(found.pod.as_ref()),
        };
        match pod_settings(core, &self.transfers.settings, &request).await? {
            Ok(pod) => Ok(Some(pod)),
            Err(error) => record.failed(error.to_string()).await.map(|_| None),
        }
    }
}
