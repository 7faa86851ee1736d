//! The work on a restore until its end, also where its requests fail for too long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::in_place::{LeftData, Standstill, Step};
use lifeboat_plan::stash::session::{TargetKey, TargetVolumes};
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation};
use lifeboat_plan::stash::state::{HostState, MemberState, WorkPhase};
use lifeboat_transfer::attempts::WorkContext;
use tokio_util::sync::CancellationToken;

use super::object::RestoreObject;
use super::work::started;
use super::{advance, finish};
use crate::context::Context;
use crate::patience::WEBHOOKS;
use crate::sessions::backup::written;
use crate::sessions::engine::Stopped;
use crate::sessions::host_record::end_host;
use crate::sessions::kind::SessionKind;
use crate::sessions::lasting::{Advance, Lasting};
use crate::sessions::record::SessionRecord;
use crate::sessions::unfinished;
use crate::standstill::Workload;
use crate::target::TargetName;

/// A restore that has not ended.
pub(super) struct LastingRestore {
    pub(super) context: Context,
    pub(super) transfers: WorkContext,
    pub(super) restore: RestoreObject,
}

#[async_trait]
impl Lasting for LastingRestore {
    fn context(&self) -> &Context {
        &self.context
    }

    fn kind(&self) -> SessionKind {
        self.restore.kind
    }

    async fn advance(
        &self,
        record: &Arc<SessionRecord>,
        cancel: &CancellationToken,
    ) -> Result<Advance, Stopped> {
        Box::pin(advance(&self.context, &self.transfers, &self.restore, record, cancel)).await
    }

    async fn reread(&self, record: &SessionRecord) -> Result<Option<Arc<SessionRecord>>, ApiError> {
        let (found, kind) = (record.current().await?, self.restore.kind);
        let record = |found| SessionRecord::new(&self.context.core, kind, &kind.resource(), found).ok();
        Ok(found.and_then(record).map(Arc::new))
    }

    async fn release(&self, record: &SessionRecord, message: &str) {
        for member in record.state().await.members {
            self.cut_short(record, &member, message).await;
        }
    }

    async fn end_now(&self, record: &SessionRecord, message: &str) -> Result<(), Stopped> {
        let mut state = record.state().await;
        if state.has_ended() {
            return Ok(());
        }
        let now = record.now();
        for member in &mut state.members {
            let was_at_work = member.standstill.as_ref().is_some_and(|known| !known.step.is_end());
            member.standstill = self.cut_short(record, member, message).await;
            if let Some(known) = member.standstill.as_ref().filter(|_| was_at_work) {
                let observed = started(known.failure.clone(), known.step.is_down(), true);
                member.observe(&observed, now);
            }
            let open: Vec<_> = member.hosts.iter_mut().filter(|host| !host.phase.has_ended()).collect();
            let is_open = !open.is_empty() || member.total_hosts.is_none();
            for host in open {
                end_host(host, Some(message.to_owned()), now);
            }
            if is_open {
                member.observe(&ConditionType::RestoreExecutorEnsured.no(message), now);
            }
            member.complete_restore(now);
            if let Some(allowed) = self.allow_backups(record, member).await {
                member.observe(&allowed, now);
            }
        }
        state.observe(&ConditionType::Interrupted.yes(message), now);
        written(record.change(|known| *known = state).await?)?;
        finish::end(record, message).await
    }
}

impl LastingRestore {
    /// Removes the record of the restore from data that it did not write, or wrote wholly. If that fails, the record stays for a person.
    async fn allow_backups(&self, record: &SessionRecord, member: &MemberState) -> Option<Observation> {
        let reference = member.reference.as_ref().filter(|_| {
            ConditionType::BackupsBlocked.is_true(&member.conditions) && left(&member.hosts) != LeftData::Half
        })?;
        let key = TargetKey::of(reference, &record.namespace);
        let target = TargetKind::of(reference).ok().map(|kind| (kind, &key));
        let on = TargetVolumes::new(&record.namespace, Some(key.clone()), member.claims.clone());
        let core = &self.context.core;
        let (removed, message) = if left(&member.hosts) == LeftData::Whole {
            (unfinished::clear(core, &on, target).await, "all data was restored")
        } else {
            (unfinished::withdraw(core, &on, target, &record.uid).await, "nothing was written")
        };
        removed.is_ok().then(|| ConditionType::BackupsBlocked.no(message))
    }

    /// Starts the workload of a member, unless its data may be half restored; gives the record of what became of it.
    async fn cut_short(
        &self,
        record: &SessionRecord,
        member: &MemberState,
        message: &str,
    ) -> Option<Standstill> {
        let standstill = member.standstill.as_ref()?;
        let reference = member.reference.as_ref()?;
        let kind = TargetKind::of(reference).ok()?;
        let key = TargetKey::of(reference, &record.namespace);
        let workload = Workload {
            core: &self.context.core,
            target: TargetName { kind, namespace: &key.namespace, name: &key.name },
            claims: BTreeSet::new(),
            session: &record.uid,
            grace: Duration::ZERO,
            webhooks: WEBHOOKS,
        };
        let next = standstill.cut_short(message, left(&member.hosts));
        if next.step != Step::Starting {
            if let Err(error) = workload.mark(&next).await {
                tracing::warn!(
                    session = record.name,
                    error = error.chain(),
                    "a workload does not carry the record of its restore"
                );
            }
            return Some(next);
        }
        Some(match workload.start(&next).await {
            Ok(()) => next.started(),
            Err(why) => next.not_started(&why.chain()),
        })
    }
}

/// What the movers of a member did, which have ended.
fn left(hosts: &[HostState]) -> LeftData {
    let is_whole = |host: &HostState| matches!(host.phase, WorkPhase::Succeeded | WorkPhase::Unknown);
    if !hosts.is_empty() && hosts.iter().all(is_whole) {
        LeftData::Whole
    } else if hosts.iter().any(HostState::may_have_written) {
        LeftData::Half
    } else {
        LeftData::Untouched
    }
}
