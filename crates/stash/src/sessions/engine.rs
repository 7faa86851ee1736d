//! The engine of sessions: runs members in order or in parallel, and the hosts of each member, both for backups and
//! for restores; the differences are in [`SessionWork`]. Every step is recorded before it has effects, so after a
//! crash the next server continues: a member whose hosts are recorded is not looked up again, a host that has ended
//! is not changed, and a hook before a host that has ended is not run again. An API request that failed is tried
//! again where it failed, so that no host waits for the end of another one. The engine starts again from the beginning only
//! if another server wrote into the status.

mod interrupted;
mod settle;

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hooks::ValidHook;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::invoker::MemberHooks;
use lifeboat_plan::stash::state::{HostState, MemberState, WorkPhase};
use tokio_util::sync::CancellationToken;

use super::batch_hooks::HookConditions;
use super::hooks::{HookFailure, HookPlace};
use super::host_hooks::{after, before, release_pod};
use super::host_record::HostRecord;
use super::interruption::{Interruption, InterruptionRecord, LIMIT};
use super::record::SessionRecord;
use crate::patience::{is_refusal, patiently};
use interrupted::{again_later, give_up};
use settle::settle;

/// The message of a member or host that ended before it started.
const NOT_BEGUN: &str = "it had not begun when the session was cancelled or its timeOut passed";

/// Why the work on the session has ended.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Its object no longer exists.
    Gone,
    /// This server stops being the leader: the next leader continues the session.
    Left,
    Api(ApiError),
}

impl From<ApiError> for Stopped {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Why a member has no hosts.
#[derive(Debug)]
pub(crate) enum NoHosts {
    /// The member fails, with this message.
    Failed(String),
    Api(ApiError),
}

impl From<ApiError> for NoHosts {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookMoment {
    Before,
    After,
}

/// What differs between backups and restores.
#[async_trait]
pub(crate) trait SessionWork: Send + Sync {
    fn record(&self) -> &Arc<SessionRecord>;

    /// Whether a member starts only when the one before has ended.
    fn is_sequential(&self) -> bool;

    /// Finds the target of a member, and records its hosts. Called again after a crash: recorded hosts keep their
    /// state.
    async fn find_hosts(&self, member: usize, cancel: &CancellationToken) -> Result<Vec<HostName>, NoHosts>;

    /// The hooks before and after each host of a member.
    fn hooks(&self, member: usize) -> Option<&MemberHooks>;

    /// How many retries are left, for hooks that run after the last one.
    fn retry_left(&self) -> i32;

    /// The conditions of a member that show its hooks.
    fn hook_conditions(&self) -> HookConditions;

    /// Where the hook before a host runs.
    async fn hook_place(&self, record: &HostRecord, hook: &ValidHook) -> Result<HookPlace, ApiError>;

    /// Keeps the object of the session until its hooks have run.
    async fn hold(&self) -> Result<(), ApiError>;

    /// Runs a hook of a host, in the recorded pod.
    async fn run_hook(
        &self,
        record: &HostRecord,
        hook: &ValidHook,
        when: HookMoment,
    ) -> Result<(), HookFailure>;

    /// Moves the data of one host, and records its end.
    async fn run_host(&self, record: HostRecord, cancel: &CancellationToken) -> Result<(), ApiError>;

    /// Whether the data of a host is fixed although the host has not ended: [`Self::settle_host`] follows.
    fn is_taken(&self, _host: &HostState) -> bool {
        false
    }

    /// Waits for the end of a host whose data is fixed, and records it.
    async fn settle_host(&self, _record: &HostRecord, _cancel: &CancellationToken) -> Result<(), ApiError> {
        Ok(())
    }

    /// Whether the hosts of a member are processed together, between the hooks before all of them and the hooks after
    /// all of them: a restore stops a workload once for all of its hosts.
    fn is_together(&self, _member: usize) -> bool {
        false
    }

    /// Moves the data of all hosts of a member that are processed together, and records their ends.
    async fn run_together(&self, _member: usize, _cancel: &CancellationToken) -> Result<(), ApiError> {
        Ok(())
    }

    /// Records that a member has no hosts, and why.
    async fn fail_member(&self, member: usize, message: &str) -> Result<bool, ApiError>;

    /// All hosts of a member have ended.
    async fn member_ended(&self, _member: usize) -> Result<(), ApiError> {
        Ok(())
    }
}

/// Runs all members that have not ended.
pub(crate) async fn run_members(work: &dyn SessionWork, cancel: &CancellationToken) -> Result<(), Stopped> {
    let count = work.record().read(|state| state.members.len()).await;
    if work.is_sequential() {
        for member in 0..count {
            run_member(work, member, cancel).await?;
        }
        return Ok(());
    }
    all((0..count).map(|member| run_member(work, member, cancel))).await
}

/// Waits for all of them, even if one failed, because each cleans up after itself. Returns the first error.
async fn all(runs: impl Iterator<Item = impl Future<Output = Result<(), Stopped>>>) -> Result<(), Stopped> {
    join_all(runs).await.into_iter().collect()
}

async fn run_member(
    work: &dyn SessionWork,
    member: usize,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let cancel = &cancel.child_token();
    let Some(hosts) = hosts_of(work, member, cancel).await? else {
        // Its hosts have ended, on this server or an earlier one, and hooks may still be due.
        return settle_hooks(work, member).await;
    };
    if work.is_together(member) {
        together(work, member, &hosts, cancel).await?;
        work.member_ended(member).await?;
        return Ok(());
    }
    // Hosts with hooks take turns, so that not all pods of a target are quiesced at once.
    let has_hooks = work.hooks(member).is_some_and(|hooks| hooks.pre.is_some() || hooks.post.is_some());
    if has_hooks {
        for host in hosts.clone() {
            run_host(work, member, host, cancel).await?;
        }
    } else {
        all(hosts.clone().into_iter().map(|host| run_host(work, member, host, cancel))).await?;
    }
    settle::settle_all(work, member, hosts, cancel).await?;
    work.member_ended(member).await?;
    Ok(())
}

/// Runs the hooks before all hosts of a member, then its hosts together, then the hooks after all.
async fn together(
    work: &dyn SessionWork,
    member: usize,
    hosts: &[HostName],
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let record = |host: &HostName| HostRecord { session: work.record().clone(), member, host: host.clone() };
    let records: Vec<HostRecord> = hosts.iter().map(record).collect();
    for record in &records {
        let state = record.state().await;
        // A restore that is given up starts no hook.
        if state.phase.has_ended() || (cancel.is_cancelled() && state.run.pre_hook.is_none()) {
            continue;
        }
        if let Some(message) = before(work, record, cancel).await? {
            on_record(record.failed(message).await?)?;
        }
    }
    run_together(work, member, &records, cancel).await?;
    if work.record().is_gone().await {
        for record in &records {
            release_pod(work, record).await;
        }
        return Err(Stopped::Gone);
    }
    for record in &records {
        if !record.state().await.phase.has_ended() {
            return Err(Stopped::Left);
        }
    }
    for record in &records {
        after(work, record).await?;
    }
    Ok(())
}

/// Runs the hosts of a member together. If the API server never carries out what they need, they fail, and the second run ends what the first
/// one began.
async fn run_together(
    work: &dyn SessionWork,
    member: usize,
    records: &[HostRecord],
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let Err(given_up) = patiently(cancel, || work.run_together(member, cancel)).await? else { return Ok(()) };
    for record in records {
        if !record.state().await.phase.has_ended() {
            on_record(record.failed(given_up.to_string()).await?)?;
        }
    }
    Ok(work.run_together(member, cancel).await?)
}

/// Runs the hooks of a member's hosts that are still due, from the record alone, even if the target no longer exists.
async fn settle_hooks(work: &dyn SessionWork, member: usize) -> Result<(), Stopped> {
    for record in records(work, member).await {
        let mut interruption = Interruption::new(LIMIT);
        loop {
            match after(work, &record).await {
                Err(Stopped::Api(error)) => match again_later(work.record(), error, &mut interruption).await?
                {
                    None => {}
                    Some(given_up) => return Err(given_up.error.into()),
                },
                ended => break ended?,
            }
        }
    }
    Ok(())
}

/// The recorded hosts of a member.
async fn records(work: &dyn SessionWork, member: usize) -> Vec<HostRecord> {
    let session = work.record();
    let names = session.read(|state| {
        let hosts = state.members.get(member).map(|member| member.hosts.as_slice()).unwrap_or_default();
        hosts.iter().map(|host| host.name.clone()).collect::<Vec<HostName>>()
    });
    let record = |host| HostRecord { session: session.clone(), member, host };
    names.await.into_iter().map(record).collect()
}

/// The hosts of a member; None if the member has ended. `cancel` is cancelled if they cannot be looked up again.
async fn hosts_of(
    work: &dyn SessionWork,
    member: usize,
    cancel: &CancellationToken,
) -> Result<Option<Vec<HostName>>, Stopped> {
    let (record, mut interruption) = (work.record(), Interruption::new(LIMIT));
    loop {
        let (has_ended, has_begun) = record
            .read(|state| {
                let member = state.members.get(member);
                let has_begun = member.is_some_and(|member| member.total_hosts.is_some());
                (member.is_none_or(MemberState::has_ended), has_begun)
            })
            .await;
        if has_ended {
            return Ok(None);
        }
        let found = if cancel.is_cancelled() && !has_begun {
            Err(NoHosts::Failed(NOT_BEGUN.to_owned()))
        } else {
            work.find_hosts(member, cancel).await
        };
        let message = match found {
            Ok(hosts) => {
                interruption.passed(&**record).await;
                return Ok(Some(hosts));
            }
            Err(NoHosts::Failed(message)) => message,
            Err(NoHosts::Api(error)) => {
                let given_up = if is_refusal(&error) {
                    Some(error.chain())
                } else {
                    again_later(record, error, &mut interruption).await?.map(|given_up| given_up.message)
                };
                match given_up {
                    None => continue,
                    // What they began, such as a workload that is stopped, is ended from the record.
                    Some(message) if has_begun && work.is_together(member) => {
                        record.interrupted(&message, false).await?;
                        cancel.cancel();
                        let known = records(work, member).await;
                        return Ok(Some(known.into_iter().map(|known| known.host).collect()));
                    }
                    Some(message) => message,
                }
            }
        };
        let failed = work.fail_member(member, &message).await?;
        return if failed { Ok(None) } else { Err(Stopped::Gone) };
    }
}

/// Runs a host to its end; tries again after an error of the API.
async fn run_host(
    work: &dyn SessionWork,
    member: usize,
    host: HostName,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let record = HostRecord { session: work.record().clone(), member, host };
    let (mut interruption, mut is_given_up) = (Interruption::new(LIMIT), false);
    loop {
        let error = match host_to_end(work, &record, cancel).await {
            Err(Stopped::Api(error)) => error,
            Err(Stopped::Gone) => {
                release_pod(work, &record).await;
                return Err(Stopped::Gone);
            }
            ended => {
                if ended.is_ok() {
                    work.record().resumed().await;
                }
                return ended;
            }
        };
        if is_refusal(&error) && !record.state().await.phase.has_ended() {
            on_record(record.failed(error.chain()).await?)?;
        } else if let Some(given_up) = again_later(work.record(), error, &mut interruption).await? {
            if is_given_up {
                return Err(given_up.error.into());
            }
            is_given_up = true;
            give_up(work, &record, &given_up.message).await?;
        }
    }
}

async fn host_to_end(
    work: &dyn SessionWork,
    record: &HostRecord,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let state = record.state().await;
    let has_begun = state.phase == WorkPhase::Running
        || state.run.start_time.is_some()
        || state.run.attempt.is_some()
        || state.run.pre_hook.is_some();
    if !state.phase.has_ended() {
        if cancel.is_cancelled() && !has_begun {
            on_record(record.failed(NOT_BEGUN).await?)?;
        } else {
            match before(work, record, cancel).await? {
                None => {
                    record.patiently(cancel, || work.run_host(record.clone(), cancel)).await?;
                }
                Some(message) => {
                    on_record(record.failed(message).await?)?;
                }
            }
        }
    }
    if work.record().is_gone().await {
        return Err(Stopped::Gone);
    }
    let state = record.state().await;
    if !state.phase.has_ended() && !work.is_taken(&state) {
        return Err(Stopped::Left);
    }
    if !state.phase.has_ended() && !settle::may_release(work, record.member) {
        settle(work, record, cancel).await?;
    }
    after(work, record).await
}

pub(super) fn on_record(written: bool) -> Result<(), Stopped> {
    if written { Ok(()) } else { Err(Stopped::Gone) }
}
