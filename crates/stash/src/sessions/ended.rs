//! Sessions that have ended, as metrics show them: their members and hosts, from the state on record. Called at the end of backups, and
//! for restores whenever their object is looked at.

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_api::common::GoDuration;
use lifeboat_api::stash::Driver;
use lifeboat_plan::stash::hosts::HostName;
use lifeboat_plan::stash::state::{SessionPhase, SessionState, WorkPhase, empty_target};

use super::kind::SessionKind;
use crate::metrics::{EndedHost, EndedSession, EndedTarget, HostNumbers, SessionLabels};

/// The members of a session. `numbers`: what the movers of a host have copied, if this server sent them.
pub(super) fn targets(
    state: &SessionState,
    numbers: impl Fn(usize, &HostName) -> Option<HostNumbers>,
) -> Vec<EndedTarget> {
    let targets = state.members.iter().enumerate().map(|(member, of_member)| {
        let hosts = of_member.hosts.iter().map(|host| EndedHost {
            hostname: host.name.to_string(),
            succeeded: host.phase == WorkPhase::Succeeded,
            seconds: seconds(host.duration),
            numbers: numbers(member, &host.name),
        });
        let reference = of_member.reference.clone().unwrap_or_else(empty_target);
        let version = reference.api_version.unwrap_or_default();
        EndedTarget {
            kind: reference.kind,
            group: version.rsplit_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default(),
            name: reference.name,
            succeeded: of_member.current_phase() == WorkPhase::Succeeded,
            hosts: hosts.collect(),
        }
    });
    targets.collect()
}

pub(super) fn seconds(duration: Option<GoDuration>) -> Option<f64> {
    duration.and_then(GoDuration::to_std).map(|duration| duration.as_secs_f64())
}

/// A restore that has ended.
pub(super) fn restore(kind: SessionKind, object: &DynamicObject, state: &SessionState) -> EndedSession {
    let text = |pointer: &str| object.data.pointer(pointer).and_then(|value| value.as_str());
    let driver = text("/spec/driver").filter(|driver| !driver.is_empty());
    EndedSession {
        labels: SessionLabels {
            invoker_kind: kind.as_str().to_owned(),
            invoker_name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            driver: driver.map_or_else(|| Driver::Restic.to_string(), str::to_owned),
            repository: text("/spec/repository/name").unwrap_or_default().to_owned(),
        },
        succeeded: state.phase == SessionPhase::Succeeded,
        seconds: seconds(state.duration).unwrap_or_default(),
        end: 0,
        targets: targets(state, |_, _| None),
    }
}
