//! The engine of sessions: runs members in their order or at once, and the hosts of each member, for backups and restores
//! alike. What differs is in [`SessionWork`]. Every step is on record before it has effects, so that a server that follows a
//! crash goes on: a member whose hosts are listed is not looked up again, a host that has ended is left alone, and a hook that
//! began is not run a second time before its host. An error is the API's, and worth another run from the beginning.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::try_join_all;
use lifeboat_api::stash::HookPhase;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hooks::{End, HookStep, ValidHook, post_step, pre_step};
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::invoker::MemberHooks;
use lifeboat_plan::stash::state::{HostState, MemberState, WorkPhase};
use tokio_util::sync::CancellationToken;

use super::hooks::HookFailure;
use super::host_record::HostRecord;
use super::record::SessionRecord;

/// Why the session is not worked on any more.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Its object is gone.
    Gone,
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
    /// It fails, for this reason.
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

    /// Finds the target of a member, and puts its hosts on record. Called again after a crash: hosts that are on record keep
    /// their state.
    async fn find_hosts(&self, member: usize, cancel: &CancellationToken) -> Result<Vec<HostName>, NoHosts>;

    /// The hooks before and after each host of a member.
    fn hooks(&self, member: usize) -> Option<&MemberHooks>;

    /// How many retries are left, for hooks that run after the last one.
    fn retry_left(&self) -> i32;

    /// Runs a hook of a host.
    async fn run_hook(
        &self,
        record: &HostRecord,
        hook: &ValidHook,
        when: HookMoment,
    ) -> Result<(), HookFailure>;

    /// Moves the data of one host; its end is on record afterwards.
    async fn run_host(&self, record: HostRecord, cancel: &CancellationToken) -> Result<(), ApiError>;

    /// Whether the hosts of a member are worked on together, after the hooks before all of them and before the hooks after all: a
    /// restore stops a workload once for all of its hosts.
    fn is_together(&self, _member: usize) -> bool {
        false
    }

    /// Moves the data of the hosts of a member that is worked on together: those whose hook before them did not fail. Their ends are on
    /// record afterwards.
    async fn run_together(
        &self,
        _member: usize,
        records: Vec<HostRecord>,
        cancel: &CancellationToken,
    ) -> Result<(), ApiError> {
        try_join_all(records.into_iter().map(|record| self.run_host(record, cancel))).await.map(drop)
    }

    /// Puts on record that a member has no hosts, and why.
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
    try_join_all((0..count).map(|member| run_member(work, member, cancel))).await.map(drop)
}

async fn run_member(
    work: &dyn SessionWork,
    member: usize,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let record = work.record();
    if record.read(|state| state.members.get(member).is_none_or(MemberState::has_ended)).await {
        return Ok(());
    }
    let hosts = match work.find_hosts(member, cancel).await {
        Ok(hosts) => hosts,
        Err(NoHosts::Failed(message)) => {
            let failed = work.fail_member(member, &message).await?;
            return if failed { Ok(()) } else { Err(Stopped::Gone) };
        }
        Err(NoHosts::Api(error)) => return Err(error.into()),
    };
    if work.is_together(member) {
        run_together(work, member, &hosts, cancel).await?;
        work.member_ended(member).await?;
        return Ok(());
    }
    // Hosts with hooks take turns, so that not all pods of a target are quiesced at once.
    let has_hooks = work.hooks(member).is_some_and(|hooks| hooks.pre.is_some() || hooks.post.is_some());
    if has_hooks {
        for host in hosts {
            run_host(work, member, host, cancel).await?;
        }
    } else {
        try_join_all(hosts.into_iter().map(|host| run_host(work, member, host, cancel))).await?;
    }
    work.member_ended(member).await?;
    Ok(())
}

async fn run_together(
    work: &dyn SessionWork,
    member: usize,
    hosts: &[HostName],
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let record = |host: &HostName| HostRecord { session: work.record().clone(), member, host: host.clone() };
    let records: Vec<HostRecord> = hosts.iter().map(record).collect();
    let mut ready = Vec::new();
    for record in &records {
        if record.state().await.phase.has_ended() {
            continue;
        }
        match before(work, record).await? {
            Ok(()) => ready.push(record.clone()),
            Err(message) => on_record(record.failed(message).await?)?,
        }
    }
    work.run_together(member, ready, cancel).await?;
    for record in &records {
        after(work, record).await?;
    }
    Ok(())
}

async fn run_host(
    work: &dyn SessionWork,
    member: usize,
    host: HostName,
    cancel: &CancellationToken,
) -> Result<(), Stopped> {
    let record = HostRecord { session: work.record().clone(), member, host };
    if !record.state().await.phase.has_ended() {
        match before(work, &record).await? {
            Ok(()) => work.run_host(record.clone(), cancel).await?,
            Err(message) => {
                on_record(record.failed(message).await?)?;
            }
        }
    }
    after(work, &record).await
}

/// The hook before the host. The inner error is the reason why the host is not worked on.
async fn before(work: &dyn SessionWork, record: &HostRecord) -> Result<Result<(), String>, Stopped> {
    let hook = work.hooks(record.member).and_then(|hooks| hooks.pre.as_ref());
    match (pre_step(hook.is_some(), &record.state().await), hook) {
        (HookStep::Run | HookStep::Continue, Some(hook)) => {
            on_record(record.change(|host| host.run.pre_hook = Some(HookPhase::Started)).await?)?;
            let ran = work.run_hook(record, hook, HookMoment::Before).await;
            let phase = if ran.is_ok() { HookPhase::Succeeded } else { HookPhase::Failed };
            on_record(record.change(|host| host.run.pre_hook = Some(phase)).await?)?;
            Ok(ran.map_err(|message| format!("the hook before the host failed: {message}")))
        }
        (HookStep::Ended(HookPhase::Failed), _) => Ok(Err("the hook before the host failed".to_owned())),
        _ => Ok(Ok(())),
    }
}

/// The hook after the host, whatever became of it. One that began before a crash is run again: it ends what the hook before
/// the host began.
async fn after(work: &dyn SessionWork, record: &HostRecord) -> Result<(), Stopped> {
    let host = record.state().await;
    let hooks = work.hooks(record.member);
    let post = hooks.and_then(|hooks| hooks.post.as_ref());
    let has_pre = hooks.is_some_and(|hooks| hooks.pre.is_some());
    let end = match host.phase {
        WorkPhase::Succeeded => Some(End::Succeeded),
        phase if phase.has_ended() => Some(End::Failed),
        _ => None,
    };
    match (post_step(post.map(|(_, policy)| *policy), has_pre, &host, end, work.retry_left()), post) {
        (HookStep::Run | HookStep::Continue, Some((hook, _))) => {
            on_record(record.change(|host| host.run.post_hook = Some(HookPhase::Started)).await?)?;
            let ran = work.run_hook(record, hook, HookMoment::After).await;
            on_record(record.change(|host| ended(host, ran)).await?)
        }
        (HookStep::Skip, _) => {
            on_record(record.change(|host| host.run.post_hook = Some(HookPhase::Skipped)).await?)
        }
        _ => Ok(()),
    }
}

/// Records how the hook after a host ended. A hook that failed fails the host.
fn ended(host: &mut HostState, ran: Result<(), HookFailure>) {
    let Err(message) = ran else {
        host.run.post_hook = Some(HookPhase::Succeeded);
        return;
    };
    host.run.post_hook = Some(HookPhase::Failed);
    host.phase = WorkPhase::Failed;
    let message = format!("the hook after the host failed: {message}");
    host.error = Some(match host.error.take() {
        Some(error) => format!("{error}; {message}"),
        None => message,
    });
}

fn on_record(written: bool) -> Result<(), Stopped> {
    if written { Ok(()) } else { Err(Stopped::Gone) }
}
