//! The end of a restore: its last condition, its duration and its metrics. Safety copies that are old enough are forgotten.

use std::collections::BTreeSet;
use std::time::Duration;

use lifeboat_api::common::GoDuration;
use lifeboat_api::stash::Driver;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::invoker::ValidDriver;
use lifeboat_plan::stash::state::conditions::ConditionType;
use lifeboat_plan::stash::state::{HostState, MemberState, SessionPhase, WorkPhase, empty_target};

use super::others::needed_copies;
use super::work::RestoreWork;
use crate::context::Context;
use crate::metrics::{EndedHost, EndedSession, EndedTarget, SessionLabels};
use crate::repository::{RepositoryKey, forget_safety_copies};
use crate::sessions::backup::written;
use crate::sessions::engine::Stopped;
use crate::sessions::kind::SessionKind;
use crate::sessions::record::SessionRecord;

/// Ends a restore whose members have ended.
pub(super) async fn finish(work: &RestoreWork) -> Result<(), Stopped> {
    let hosts: BTreeSet<HostName> = work
        .record
        .read(|state| {
            let hosts = state.members.iter().flat_map(|member| &member.hosts);
            hosts.map(|host| host.name.clone()).collect()
        })
        .await;
    if let Some(key) = &work.repository {
        forget_old_copies(&work.context, &work.record.namespace, key, &hosts).await;
    }
    complete(&work.record).await?;
    show(&work.context, work.object.kind, &work.record, Some(&work.valid.driver)).await;
    Ok(())
}

/// Forgets safety copies of these hosts that are old enough, except for those of workloads that a restore left down. A failure is only
/// logged.
pub(in crate::sessions) async fn forget_old_copies(
    context: &Context,
    namespace: &str,
    key: &RepositoryKey,
    hosts: &BTreeSet<HostName>,
) {
    let forgotten = match needed_copies(context, namespace).await {
        Ok(needed) => Box::pin(forget_safety_copies(context, key, hosts, &needed)).await,
        Err(error) => Err(error.into()),
    };
    if let Err(problem) = forgotten {
        tracing::warn!(repository = %key, message = problem.chain(), "old safety copies were not forgotten");
    }
}

/// Ends a restore that could not begin.
pub(super) async fn end(
    context: &Context,
    kind: SessionKind,
    record: &SessionRecord,
    driver: Option<&ValidDriver>,
    message: &str,
) -> Result<(), Stopped> {
    record.warn("RestoreFailed", message).await;
    complete(record).await?;
    show(context, kind, record, driver).await;
    Ok(())
}

/// Shows a restore that has ended in the metrics. As upstream, it is its own invoker.
async fn show(context: &Context, kind: SessionKind, record: &SessionRecord, driver: Option<&ValidDriver>) {
    let state = record.state().await;
    let (driver, repository) = match driver {
        Some(ValidDriver::Restic(repository)) => (Driver::Restic.to_string(), repository.name.clone()),
        Some(ValidDriver::VolumeSnapshotter) => (Driver::VolumeSnapshotter.to_string(), String::new()),
        None => (String::new(), String::new()),
    };
    context.metrics.restores.ended(&EndedSession {
        labels: SessionLabels {
            invoker_kind: kind.as_str().to_owned(),
            invoker_name: record.name.clone(),
            namespace: record.namespace.clone(),
            driver,
            repository,
        },
        succeeded: state.phase == SessionPhase::Succeeded,
        seconds: seconds(state.duration).unwrap_or_default(),
        end: record.now().as_second(),
        targets: state.members.iter().map(ended).collect(),
    });
}

fn ended(member: &MemberState) -> EndedTarget {
    let reference = member.reference.clone().unwrap_or_else(empty_target);
    let version = reference.api_version.unwrap_or_default();
    let host = |host: &HostState| EndedHost {
        hostname: host.name.to_string(),
        succeeded: host.phase == WorkPhase::Succeeded,
        seconds: seconds(host.duration),
        numbers: None,
    };
    EndedTarget {
        kind: reference.kind,
        group: version.rsplit_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default(),
        name: reference.name,
        succeeded: member.current_phase() == WorkPhase::Succeeded,
        hosts: member.hosts.iter().map(host).collect(),
    }
}

fn seconds(duration: Option<GoDuration>) -> Option<f64> {
    duration.and_then(GoDuration::to_std).map(|duration| duration.as_secs_f64())
}

async fn complete(record: &SessionRecord) -> Result<(), Stopped> {
    let now = record.now();
    let changed = record.change(|state| {
        state.observe(&ConditionType::MetricsPushed.yes(""), now);
        let passed = Duration::try_from(now.duration_since(record.created)).unwrap_or_default();
        state.duration = Some(GoDuration::from(Duration::from_secs(passed.as_secs())));
    });
    written(changed.await?)
}
