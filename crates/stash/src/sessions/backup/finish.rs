//! The end of a BackupSession: retention, the Repository's status, the last condition; and afterwards retries and the history.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::controller::Action;
use lifeboat_api::common::GoDuration;
use lifeboat_api::stash::{BackupSession, HookPhase};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::invoker::ValidDriver;
use lifeboat_plan::stash::reservation::RepositoryName;
use lifeboat_plan::stash::retention::{Policies, Retention, would_remove};
use lifeboat_plan::stash::session::{
    FailedSession, InvokerId, OldSession, Retry, due_annotation, labels, retry, to_delete,
};
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation, Truth};
use lifeboat_plan::stash::state::{SessionPhase, SessionState, WorkPhase};

use super::directories;
use super::reserved::{NotReserved, Reserved};
use super::work::BackupWork;
use super::written;
use crate::context::Context;
use crate::invokers::{Invoker, make_session};
use crate::metrics::EndedSession;
use crate::repository::{
    Applied, PolicyRequest, RepositoryKey, SessionEnd, after_session, apply_policy, before_end, key_of,
};
use crate::sessions::ended::{labels as labels_of, seconds, targets};
use crate::sessions::engine::Stopped;
use crate::sessions::host_record::end_host;
use crate::sessions::record::SessionRecord;
use crate::sessions::restore::finish::forget_old_copies;
use crate::sessions::snapshotter::retention;

/// Ends a session whose members have ended.
pub(super) async fn finish(
    context: &Context,
    record: &SessionRecord,
    work: &BackupWork,
) -> Result<(), Stopped> {
    let hosts: BTreeSet<HostName> = record
        .read(|state| {
            state
                .members
                .iter()
                .flat_map(|member| member.hosts.iter().map(|host| host.name.clone()))
                .collect()
        })
        .await;
    let observed = match &work.valid.driver {
        ValidDriver::Restic(repository) => match &work.valid.directories {
            Some(of_restic) => directories::finish(record, work, repository, of_restic).await?,
            None => finish_repository(context, record, work, repository, &hosts).await?,
        },
        ValidDriver::VolumeSnapshotter => {
            let (invoker, kept) = (&work.invoker, &work.valid.retention);
            let dry_run = invoker.policy().dry_run;
            let applied = retention::apply(&context.core, &invoker.id, &hosts, kept, dry_run).await;
            let now = record.now();
            written(record.change(|state| state.observe(&applied, now)).await?)?;
            Vec::new()
        }
    };
    written(record.complete(&observed).await?)?;
    let state = record.state().await;
    doubt(context, &work.invoker, work.key.as_ref(), &state);
    context.metrics.sessions.ended(&ended(work, &state, record.now()));
    written(record.change(SessionState::shorten).await?)?;
    Ok(())
}

/// After a session that failed, its invoker is looked at again, and its Repository if that was not reached: both may show a
/// state of long ago.
fn doubt(context: &Context, invoker: &Invoker, key: Option<&RepositoryKey>, state: &SessionState) {
    if state.phase == SessionPhase::Succeeded {
        return;
    }
    context.invoker_doubts.add(&invoker.uid);
    let steps = [ConditionType::BackendRepositoryInitialized, ConditionType::RepositoryMetricsPushed];
    if let Some(key) = key.filter(|_| steps.iter().any(|step| step.is_false(&state.conditions))) {
        context.repository_doubts.add(&key.to_string());
    }
}

/// Applies the retention policy to the repository, and brings its status and state up to date. Returns the conditions that show this.
async fn finish_repository(
    context: &Context,
    record: &SessionRecord,
    work: &BackupWork,
    repository: &RepositoryName,
    hosts: &BTreeSet<HostName>,
) -> Result<Vec<Observation>, Stopped> {
    let key = key_of(&repository.namespace, &repository.name);
    let (invoker, names) =
        (work.invoker.to_json(), hosts.iter().map(ToString::to_string).collect::<Vec<_>>());
    // The reservation may have been lost while movers ran.
    let held = Box::pin(Reserved::of(context, &work.invoker, repository)).await;
    if held.is_ok()
        && let Err(problem) = Box::pin(before_end(context, &key, &invoker, &names)).await
    {
        let (repository, message) = (key.to_string(), problem.chain());
        tracing::warn!(repository, message, "the state in the backend may not be written");
    }
    let (applied, removed) = match &held {
        Ok(reserved) => apply_retention(context, &key, record, work, reserved, hosts).await,
        Err(problem) => (not_applied(problem), None),
    };
    if held.is_ok() && !work.invoker.policy().dry_run {
        forget_old_copies(context, &record.namespace, &key, hosts).await;
    }
    let now = record.now();
    written(record.change(|state| state.observe(&applied, now)).await?)?;
    let all_well = record
        .read(|state| state.members.iter().all(|member| member.current_phase() == WorkPhase::Succeeded))
        .await;
    let end = SessionEnd {
        invoker,
        hosts: names,
        looked: None,
        backed_up_at: all_well.then_some(record.created),
        removed,
        prune: held.is_ok() && work.invoker.prunes(),
    };
    let (checked, pushed) =
        (ConditionType::RepositoryIntegrityVerified, ConditionType::RepositoryMetricsPushed);
    Ok(match Box::pin(after_session(context, &key, &end)).await {
        Ok(integrity) => vec![integrity, pushed.yes("")],
        Err(problem) => {
            let message = problem.chain();
            vec![checked.observed(Truth::Unknown, message.clone()), pushed.no(message)]
        }
    })
}

/// The result of a session, as its metrics show it.
fn ended(work: &BackupWork, state: &SessionState, now: jiff::Timestamp) -> EndedSession {
    EndedSession {
        labels: labels_of(&work.invoker),
        succeeded: state.phase == SessionPhase::Succeeded,
        seconds: seconds(state.duration).unwrap_or_default(),
        end: now.as_second(),
        targets: targets(state, |member, host| work.at_work.numbers_of(member, host)),
    }
}

/// Ends a session whose members cannot run, and sets its invoker's metric of success to 0. `invoker` is None if the invoker is
/// gone; its metrics are removed with it.
pub(super) async fn end(
    context: &Context,
    invoker: Option<&Invoker>,
    record: &SessionRecord,
    message: &str,
) -> Result<(), Stopped> {
    written(record.fail(message).await?)?;
    if let Some(invoker) = invoker {
        let key = invoker.valid(|_| Vec::new()).ok().and_then(|valid| match valid.driver {
            ValidDriver::Restic(repository) => Some(key_of(&repository.namespace, &repository.name)),
            ValidDriver::VolumeSnapshotter => None,
        });
        doubt(context, invoker, key.as_ref(), &record.state().await);
        context.metrics.sessions.failed(&labels_of(invoker));
    }
    Ok(())
}

/// Ends a session that cannot continue because its invoker no longer exists or is not valid. The hooks that were still
/// due cannot run and are named.
pub(super) async fn end_without_invoker(
    context: &Context,
    invoker: Option<&Invoker>,
    record: &SessionRecord,
) -> Result<(), Stopped> {
    const GONE: &str = "its invoker is gone or not valid any more";
    end_from_record(context, invoker, record, GONE, "is not known and was not run").await
}

/// Ends a session that cannot be brought to its end, because its requests fail for too long.
pub(super) async fn end_now(
    context: &Context,
    invoker: Option<&Invoker>,
    record: &SessionRecord,
    message: &str,
) -> Result<(), Stopped> {
    let (now, interrupted) = (record.now(), ConditionType::Interrupted.yes(message));
    written(record.change(|state| state.observe(&interrupted, now)).await?)?;
    end_from_record(context, invoker, record, message, "was not run").await
}

/// Ends a session from its record alone, for this reason. Its hosts fail, and hooks that were still due are named. `fate`: what became of
/// these hooks.
async fn end_from_record(
    context: &Context,
    invoker: Option<&Invoker>,
    record: &SessionRecord,
    reason: &str,
    fate: &str,
) -> Result<(), Stopped> {
    if record.read(|state| state.phase.has_ended()).await {
        return Ok(());
    }
    let now = record.now();
    let changed = record.change(|state| {
        for member in &mut state.members {
            let owed: Vec<String> = member
                .hosts
                .iter()
                .filter(|host| host.owes_post_hook())
                .map(|host| format!("host {}", host.name))
                .collect();
            for host in &mut member.hosts {
                if host.owes_post_hook() {
                    host.run.post_hook = Some(HookPhase::Failed);
                }
                if !host.phase.has_ended() {
                    end_host(host, Some(reason.to_owned()), now);
                }
            }
            if !owed.is_empty() {
                let message = format!("{reason}, so the hook after {} {fate}", owed.join(", "));
                member.observe(&ConditionType::PostBackupHookExecutionSucceeded.no(message), now);
            }
        }
    });
    written(changed.await?)?;
    end(context, invoker, record, reason).await
}

/// Forgets the snapshots of the session's own hosts that the policy does not keep. A failure is only a warning,
/// because the data is stored.
async fn apply_retention(
    context: &Context,
    key: &RepositoryKey,
    record: &SessionRecord,
    work: &BackupWork,
    reserved: &Reserved,
    hosts: &BTreeSet<HostName>,
) -> (Observation, Option<u64>) {
    let kind = ConditionType::RetentionPolicyApplied;
    let dry_run = work.invoker.policy().dry_run;
    let Retention::Keep(keep) = &work.valid.retention else {
        return (kind.yes("everything is kept"), (!dry_run).then_some(0));
    };
    let stored: Vec<String> = record.read(stored_snapshots).await;
    let policies = Policies::One(keep.clone());
    let request =
        PolicyRequest { policies: &policies, hosts, id: &reserved.repository, stored: &stored, dry_run };
    match Box::pin(apply_policy(context, key, &request)).await {
        Ok(applied) => {
            let removed = u64::try_from(applied.removed.len()).ok().filter(|_| !dry_run);
            (observed(&applied, dry_run), removed)
        }
        Err(problem) => (kind.no(problem.chain()), None),
    }
}

/// The IDs of all snapshots that a session stored.
fn stored_snapshots(state: &SessionState) -> Vec<String> {
    let hosts = state.members.iter().flat_map(|member| &member.hosts);
    hosts.flat_map(|host| &host.snapshots).filter_map(|stats| stats.name.clone()).collect()
}

/// The message about what a policy removed, or would remove.
fn observed(applied: &Applied, dry_run: bool) -> Observation {
    let kind = ConditionType::RetentionPolicyApplied;
    if !applied.kept_whole.is_empty() {
        return kind.no(format!(
            "the policy keeps no snapshot of {}; all of them were kept: use a policy that keeps at least one",
            applied.kept_whole.join("; ")
        ));
    }
    kind.yes(if dry_run { would_remove(&applied.removed) } else { String::new() })
}

/// Why nothing was forgotten.
fn not_applied(problem: &NotReserved) -> Observation {
    let kind = ConditionType::RetentionPolicyApplied;
    match problem {
        NotReserved::Api(error) => kind.no(error.chain()),
        NotReserved::NotHeld(message) | NotReserved::NotOpened(message) => {
            kind.no(format!("nothing was removed: {message}"))
        }
    }
}

/// After a session has ended: creates a retry, and deletes old sessions.
pub(super) async fn after_end(
    context: &Context,
    session: &BackupSession,
    record: &SessionRecord,
) -> Result<Action, ApiError> {
    let id = InvokerId {
        kind: session.spec.invoker.kind.clone(),
        namespace: record.namespace.clone(),
        name: session.spec.invoker.name.clone(),
    };
    let Some(invoker) = Invoker::read(context, &id).await? else { return Ok(Action::await_change()) };
    let Ok(valid) = invoker.valid(|_| Vec::new()) else { return Ok(Action::await_change()) };
    // A history that cannot be cleaned is a warning: no retry waits for it.
    let cleaned = match clean_history(context, session, valid.history_limit).await {
        Ok(()) => ConditionType::BackupHistoryCleaned.yes(""),
        Err(error) if error.is_transient() => return Err(error),
        Err(error) => ConditionType::BackupHistoryCleaned.no(error.chain()),
    };
    let now = record.now();
    if !record.change(|state| state.observe(&cleaned, now)).await? {
        return Ok(Action::await_change());
    }
    let state = record.state().await;
    let ended = record.created.checked_add(state.duration.map(GoDuration::to_signed).unwrap_or_default());
    let failed = FailedSession {
        phase: state.phase,
        retry_left: session.spec.retry_left,
        ended: ended.unwrap_or(record.created),
        retried: state.retried,
        next_retry: state.next_retry,
    };
    let delay = valid.retries.and_then(|retries| retries.delay);
    match retry(&failed, delay, context.core.now()) {
        Retry::Nothing => Ok(Action::await_change()),
        Retry::Wait(until) => {
            record.change(|state| state.next_retry = Some(until)).await?;
            let left = Duration::try_from(until.duration_since(context.core.now())).unwrap_or_default();
            Ok(Action::requeue(left.max(Duration::from_secs(1))))
        }
        Retry::Now { due, retry_left } => {
            make_retry(context, session, &invoker, due, retry_left).await?;
            record.change(|state| state.retried = Some(true)).await?;
            Ok(Action::await_change())
        }
    }
}

/// Creates the session of a retry, with the owner of the failed session.
async fn make_retry(
    context: &Context,
    session: &BackupSession,
    invoker: &Invoker,
    due: jiff::Timestamp,
    retry_left: i32,
) -> Result<(), ApiError> {
    make_session(context, &invoker.id, due, |name| {
        let mut again = BackupSession::new(name, session.spec.clone());
        again.spec.retry_left = Some(retry_left);
        again.metadata.namespace = Some(invoker.id.namespace.clone());
        again.metadata.labels = session.metadata.labels.clone().or_else(|| Some(labels(&invoker.id, None)));
        again.metadata.annotations = Some(std::iter::once(due_annotation(due)).collect());
        again.metadata.owner_references.clone_from(&session.metadata.owner_references);
        again
    })
    .await
    .map(drop)
}

async fn clean_history(context: &Context, session: &BackupSession, limit: usize) -> Result<(), ApiError> {
    let namespace = session.namespace().unwrap_or_default();
    let api = objects::namespaced(&context.core.client, &namespace, &objects::resource_of::<BackupSession>());
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.attempt(format!("list BackupSessions of namespace {namespace}"))?;
    let own = listed.items.iter().filter_map(|object| objects::typed::<BackupSession>(object).ok()).filter(
        |other| {
            other.spec.invoker.kind == session.spec.invoker.kind
                && other.spec.invoker.name == session.spec.invoker.name
        },
    );
    let old: Vec<OldSession> = own
        .map(|other| {
            let state = SessionState::of_backup_session(&other.status.clone().unwrap_or_default());
            OldSession {
                name: other.name_any(),
                created: other.creation_timestamp().map_or_else(|| context.core.now(), |time| time.0),
                awaits_retry: state.phase == SessionPhase::Failed
                    && other.spec.retry_left.unwrap_or(0) > 0
                    && state.retried != Some(true),
                phase: state.phase,
            }
        })
        .collect();
    for name in to_delete(&old, limit) {
        match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => deleted.attempt(format!("delete BackupSession {name}")).map(drop)?,
        }
    }
    Ok(())
}
