//! Implements `Restoring` for a member of a restore, for the standstill of its workload: the record is in the status
//! of the session, and the movers are those of its hosts.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::try_join_all;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::in_place::{SAFETY_COPY, Standstill, Step, Work};
use lifeboat_plan::stash::state::{HostState, WorkPhase};
use tokio_util::sync::CancellationToken;

use super::choice::{is_copied, safety_parts};
use super::found::FoundMember;
use super::work::{RestoreWork, failures};
use crate::standstill::Restoring;

/// One member whose workload is stopped.
pub(super) struct MemberStandstill<'a> {
    pub(super) work: &'a RestoreWork,
    pub(super) member: usize,
    pub(super) found: Arc<FoundMember>,
    pub(super) cancel: &'a CancellationToken,
}

#[async_trait]
impl Restoring for MemberStandstill<'_> {
    async fn record(&self) -> Option<Standstill> {
        self.work.member_state(self.member).await.standstill
    }

    async fn write(&self, record: Standstill) -> Result<bool, ApiError> {
        self.work.change(self.member, |member| member.standstill = Some(record)).await
    }

    async fn work(&self, step: Step) -> Work {
        let hosts = self.work.member_state(self.member).await.hosts;
        match step {
            Step::SafetyCopy => of_copies(&hosts, &self.found),
            Step::Restoring => of_restores(&hosts),
            _ => Work::NotBegun,
        }
    }

    async fn run(&self, step: Step, cancel: &CancellationToken) -> Result<(), ApiError> {
        let records = self.work.hosts(self.member).await;
        if step == Step::SafetyCopy {
            let copies = records
                .iter()
                .map(|record| record.patiently(cancel, move || self.work.copy(record, &self.found, cancel)));
            return try_join_all(copies).await.map(drop);
        }
        if !cancel.is_cancelled()
            && (self.has_lost_hosts().await?
                || !self.work.block_backups(self.member, &self.found, cancel).await?)
        {
            return Ok(());
        }
        let restores = records
            .iter()
            .map(|record| record.patiently(cancel, move || self.work.restore(record, &self.found, cancel)));
        try_join_all(restores).await.map(drop)
    }

    async fn cancelled(&self, reason: &str) -> Result<(), ApiError> {
        for record in self.work.hosts(self.member).await {
            let state = record.state().await;
            if state.phase == WorkPhase::Failed {
                record.change(|host| host.error = Some(reason.to_owned())).await?;
            }
        }
        Ok(())
    }

    async fn give_up(&self) -> Option<String> {
        if self.cancel.is_cancelled() { Some(self.work.end_reason().await) } else { None }
    }

    async fn is_writable(&self) -> Result<(), ApiError> {
        self.work.record.rewrite().await
    }

    async fn waiting(&self, message: &str) -> Result<(), ApiError> {
        for record in self.work.hosts(self.member).await {
            record.change(|host| host.run.message = Some(message.to_owned())).await?;
        }
        Ok(())
    }
}

impl MemberStandstill<'_> {
    /// Whether a host has no volumes any more before the first mover is sent: they were changed while no server ran. It keeps all others
    /// from being restored, because a workload with data of two times is worse than one that was not restored.
    async fn has_lost_hosts(&self) -> Result<bool, ApiError> {
        let hosts = self.work.member_state(self.member).await.hosts;
        let lost = lost_hosts(&hosts, &self.found);
        if lost.is_empty() {
            return Ok(false);
        }
        let message = format!("the target has no volumes of host {} any more", lost.join(", "));
        self.work.fail_open_hosts(self.member, &message).await?;
        Ok(true)
    }
}

/// The hosts that have no volumes any more; none once a mover may have written.
fn lost_hosts<'a>(hosts: &'a [HostState], found: &FoundMember) -> Vec<&'a str> {
    if hosts.iter().any(HostState::may_have_written) {
        return Vec::new();
    }
    let open = hosts.iter().filter(|host| !host.phase.has_ended());
    open.map(|host| &host.name)
        .filter(|name| !found.destinations.contains_key(*name))
        .map(HostName::as_str)
        .collect()
}

/// The state of the safety copies. If a host failed, they have ended once no other host is being processed.
fn of_copies(hosts: &[HostState], found: &FoundMember) -> Work {
    // Without its volumes a host would have nothing to copy, and would count as copied: they were changed while no server ran.
    let copied = |host: &HostState| {
        let is_known = found.destinations.contains_key(&host.name);
        is_known && is_copied(host, &safety_parts(&found.mounts, &host.paths))
    };
    if hosts.iter().all(|host| host.phase == WorkPhase::Failed || copied(host)) {
        return match failures(hosts) {
            Some(message) => Work::Failed(format!(
                "{message}; annotate the restore with {SAFETY_COPY}: \"false\" to restore without a copy"
            )),
            None => Work::Done,
        };
    }
    let begun = |host: &HostState| host.run.attempt.is_some() || !host.snapshots.is_empty();
    if hosts.iter().any(begun) { Work::Running } else { Work::NotBegun }
}

/// The state of the movers that restore. Once a mover was requested, data may have been written, unless the mover
/// reported that it wrote nothing.
fn of_restores(hosts: &[HostState]) -> Work {
    let is_written = hosts.iter().any(HostState::may_have_written);
    if hosts.iter().all(|host| host.phase.has_ended()) {
        return match failures(hosts) {
            Some(message) if is_written => Work::Failed(message),
            Some(message) => Work::Untouched(message),
            None => Work::Done,
        };
    }
    if is_written || hosts.iter().any(|host| host.phase.has_ended()) { Work::Running } else { Work::NotBegun }
}

#[cfg(test)]
mod tests {
    use lifeboat_api::stash::{HostRun, RestoredPath, SnapshotStats};
    use lifeboat_plan::stash::targets::{CleanPath, Destination, Mount};
    use rstest::rstest;

    use super::*;

    fn found() -> FoundMember {
        let mount_path = CleanPath::stored("/data").unwrap();
        let mount = Mount { volume: "data".into(), mount_path, sub_path: None };
        let destinations = [(HostName::default(), Destination::default())].into();
        FoundMember { mounts: vec![mount], destinations, ..FoundMember::default() }
    }

    fn host(phase: WorkPhase) -> HostState {
        let path = RestoredPath { snapshot: "s".into(), path: "/data/x".into(), restored: false };
        HostState { phase, paths: vec![path], ..HostState::default() }
    }

    fn copied(phase: WorkPhase) -> HostState {
        let copy = SnapshotStats { path: Some("/data".into()), ..SnapshotStats::default() };
        HostState { snapshots: vec![copy], ..host(phase) }
    }

    fn at_work() -> HostState {
        let run = HostRun { attempt: Some(1), ..HostRun::default() };
        HostState { run, ..host(WorkPhase::Running) }
    }

    fn sent(phase: WorkPhase) -> HostState {
        HostState { phase, ..at_work() }
    }

    fn half() -> HostState {
        let mut host = copied(WorkPhase::Succeeded);
        host.paths[0].restored = true;
        host
    }

    fn shown(work: &Work) -> &'static str {
        match work {
            Work::NotBegun => "not begun",
            Work::Running => "running",
            Work::Done => "done",
            Work::Failed(_) => "failed",
            Work::Untouched(_) => "untouched",
        }
    }

    #[rstest]
    #[case::none(&[host(WorkPhase::Pending)], "not begun")]
    #[case::one_of_two(&[copied(WorkPhase::Running), host(WorkPhase::Pending)], "running")]
    #[case::all(&[copied(WorkPhase::Running)], "done")]
    #[case::one_failed(&[copied(WorkPhase::Running), host(WorkPhase::Failed)], "failed")]
    #[case::one_failed_and_one_at_work(&[at_work(), host(WorkPhase::Failed)], "running")]
    fn safety_copies_are_done_when_every_mount_has_one(#[case] hosts: &[HostState], #[case] expected: &str) {
        assert_eq!(shown(&of_copies(hosts, &found())), expected);
    }

    /// Its mounts were changed, or its pod template, while no server ran.
    #[test]
    fn a_host_without_volumes_has_no_safety_copy() {
        let unknown = FoundMember::default();
        assert_eq!(shown(&of_copies(&[host(WorkPhase::Pending)], &unknown)), "not begun");
        assert_eq!(shown(&of_copies(&[host(WorkPhase::Failed)], &unknown)), "failed");
    }

    #[test]
    fn a_host_without_volumes_keeps_the_others_from_being_restored_only_before_the_first_mover() {
        let other = HostState { name: HostName::from("gone"), ..host(WorkPhase::Running) };
        assert_eq!(lost_hosts(&[copied(WorkPhase::Running), other.clone()], &found()), ["gone"]);
        assert!(lost_hosts(&[at_work(), other], &found()).is_empty());
        assert!(lost_hosts(&[copied(WorkPhase::Running)], &found()).is_empty());
    }

    #[rstest]
    #[case::copied_only(&[copied(WorkPhase::Running)], "not begun")]
    #[case::sent(&[at_work(), host(WorkPhase::Pending)], "running")]
    #[case::between_two_movers(&[HostState { phase: WorkPhase::Running, ..half() }], "running")]
    #[case::one_ended(&[copied(WorkPhase::Succeeded), copied(WorkPhase::Running)], "running")]
    #[case::all_ended(&[copied(WorkPhase::Succeeded)], "done")]
    #[case::one_failed(&[half(), sent(WorkPhase::Failed)], "failed")]
    #[case::none_was_sent(&[copied(WorkPhase::Failed), copied(WorkPhase::Failed)], "untouched")]
    #[case::one_of_them_was_sent(&[copied(WorkPhase::Failed), sent(WorkPhase::Failed)], "failed")]
    fn data_counts_as_written_once_a_mover_was_requested(
        #[case] hosts: &[HostState],
        #[case] expected: &str,
    ) {
        assert_eq!(shown(&of_restores(hosts)), expected);
    }
}
