//! The claims that a restore makes for what it writes. They carry its UID: a restore that failed before it wrote deletes its own again, and
//! none of others. An empty volume would pass for restored data.

use std::collections::BTreeSet;

use lifeboat_cluster::ApiError;
use lifeboat_plan::json::text;
use lifeboat_plan::stash::in_place::{Step, users};
use lifeboat_plan::stash::snapshotter::{RESTORE, is_of_restore, labelled};
use lifeboat_plan::stash::state::{HostState, MemberState, RestoredData, WorkPhase};
use lifeboat_transfer::claims::Claims;

use super::found::FoundMember;
use super::work::RestoreWork;
use crate::patience::is_refusal;

impl RestoreWork {
    /// Makes the claims that do not exist yet. False where the API server refuses one before anything began: the hosts have failed.
    pub(super) async fn make_claims(&self, member: usize, found: &FoundMember) -> Result<bool, ApiError> {
        if self.member_state(member).await.all_hosts_ended() {
            return Ok(true);
        }
        let claims = Claims::new(&self.context.core.client);
        for claim in &found.new_claims {
            match claims.make(&labelled(claim, &self.record.uid)).await {
                Err(error) if is_refusal(&error) && !has_begun(&self.member_state(member).await) => {
                    self.fail_open_hosts(member, &error.chain()).await?;
                    return Ok(false);
                }
                made => made?,
            }
        }
        Ok(true)
    }

    /// Deletes the claims that the restore made for a member which failed before anything was written. Those that a pod uses stay. A
    /// failure is only logged.
    pub(super) async fn discard_claims(&self, member: usize) {
        let read = self.record.read(|state| {
            let others = state.members.iter().enumerate().filter(|(number, _)| *number != member);
            let of_others: BTreeSet<String> =
                others.flat_map(|(_, other)| other.claims.iter().cloned()).collect();
            (state.members.get(member).cloned().unwrap_or_default(), of_others)
        });
        let (state, of_others) = read.await;
        if !is_given_up(&state) {
            return;
        }
        if let Err(error) = self.discard(&(&state.claims - &of_others)).await {
            let (restore, error) = (&self.record.name, error.chain());
            tracing::warn!(restore, error, "claims of a restore that was given up may be left");
        }
    }

    async fn discard(&self, of_member: &BTreeSet<String>) -> Result<(), ApiError> {
        let (claims, namespace) = (Claims::new(&self.context.core.client), &self.record.namespace);
        let mut own = claims.made_for(namespace, RESTORE).await?;
        own.retain(|claim| {
            is_of_restore(claim, &self.record.uid) && of_member.contains(text(claim, "/metadata/name"))
        });
        if own.is_empty() {
            return Ok(());
        }
        let used = users(of_member, &claims.pods(namespace).await?, Some(&self.record.uid));
        for claim in own {
            if !used.iter().any(|user| user.claim == text(&claim, "/metadata/name")) {
                claims.delete_unchanged(&claim).await?;
            }
        }
        Ok(())
    }

    /// Fails the hosts of a member that have not ended.
    pub(super) async fn fail_open_hosts(&self, member: usize, message: &str) -> Result<(), ApiError> {
        for record in self.hosts(member).await {
            if !record.state().await.phase.has_ended() {
                record.failed(message).await?;
            }
        }
        Ok(())
    }
}

/// Whether the workload may stand still already, or data may have been written.
fn has_begun(member: &MemberState) -> bool {
    let stands = member.standstill.as_ref().is_some_and(|record| record.step != Step::Recorded);
    stands || member.hosts.iter().any(HostState::may_have_written)
}

/// Whether hosts failed before a mover wrote anything.
fn is_given_up(member: &MemberState) -> bool {
    member.restored_data() == RestoredData::Untouched
        && member.hosts.iter().any(|host| host.phase == WorkPhase::Failed)
}

#[cfg(test)]
mod tests {
    use lifeboat_api::stash::{HostRun, RestoredPath};
    use rstest::rstest;

    use super::*;

    fn host(phase: WorkPhase, attempt: Option<i64>) -> HostState {
        HostState { phase, run: HostRun { attempt, ..HostRun::default() }, ..HostState::default() }
    }

    fn restored() -> HostState {
        let path = RestoredPath { restored: true, ..RestoredPath::default() };
        HostState { paths: vec![path], ..host(WorkPhase::Succeeded, None) }
    }

    #[rstest]
    #[case::all_failed_before(&[host(WorkPhase::Failed, None), host(WorkPhase::Failed, None)], true)]
    #[case::one_was_sent_a_mover(&[host(WorkPhase::Failed, None), host(WorkPhase::Failed, Some(1))], false)]
    #[case::one_has_its_data(&[host(WorkPhase::Failed, None), restored()], false)]
    #[case::one_is_left_to_the_next_server(&[host(WorkPhase::Failed, None), host(WorkPhase::Pending, None)], false)]
    #[case::all_have_their_data(&[restored()], false)]
    #[case::there_are_none(&[], false)]
    fn claims_stay_as_soon_as_data_may_be_in_them(#[case] hosts: &[HostState], #[case] expected: bool) {
        let member = MemberState { hosts: hosts.to_vec(), ..MemberState::default() };
        assert_eq!(is_given_up(&member), expected);
    }
}
