//! Validates RestoreSessions and RestoreBatches. Takes the spec and gives a [`ValidRestore`], or the problems of the
//! spec.

use std::collections::BTreeMap;

use lifeboat_api::common::GoDuration;
use lifeboat_api::stash::{
    Driver, RestoreBatchSpec, RestoreMember, RestoreSessionSpec, RestoreTarget, TaskRef,
};

use super::backup::{duration, order};
use super::elsewhere::{self, PodFields};
use super::member::{self, MemberHooks, ValidDriver};
use super::problem::{Collect, Problem, Problems};
use crate::stash::hooks::HookPod;
use crate::stash::hosts::{Collision, TargetKind};
use crate::stash::rules::EffectiveRules;
use crate::stash::session::{Order, RestoreArgs, TargetKey, restore_args};
use crate::stash::snapshotter::{check_rules, restored_claims};
use crate::stash::targets::MountPlan;

/// A RestoreSession or RestoreBatch that can run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidRestore {
    pub driver: ValidDriver,
    /// At least one.
    pub members: Vec<ValidRestoreMember>,
    pub order: Order,
    /// Hooks of a whole batch: calls only.
    pub hooks: MemberHooks,
    pub time_out: Option<GoDuration>,
}

/// One member of a restore.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidRestoreMember {
    /// As messages name it: `spec`, or `spec.members[2]`.
    pub place: String,
    /// None for a task that needs none.
    pub target: Option<ValidRestoreTarget>,
    pub task: Option<TaskRef>,
    pub rules: EffectiveRules,
    pub hooks: MemberHooks,
    /// The rest of the member: claim templates, settings of pods, temporary directory, interim volume.
    pub spec: RestoreMember,
}

/// The target of a restore.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidRestoreTarget {
    /// None if the restore only creates claims from templates.
    pub reference: Option<(TargetKey, TargetKind)>,
    pub alias: Option<String>,
    /// The mounts of a workload, claim or templates whose volumes are written without a task.
    pub mounts: Option<MountPlan>,
    pub args: RestoreArgs,
}

/// Checks a RestoreSession of the namespace `own`.
pub fn restore_session(own: &str, spec: &RestoreSessionSpec) -> Result<ValidRestore, Problems> {
    let mut problems = Vec::new();
    let driver = member::driver(&spec.driver, spec.repository.as_ref(), own).kept(&mut problems);
    let members = std::slice::from_ref(&spec.member);
    let members = checked(members, own, &spec.driver, false, &mut problems);
    let time_out = duration("timeOut", spec.time_out).kept(&mut problems);
    let valid = driver.zip(time_out).map(|(driver, time_out)| ValidRestore {
        driver,
        members,
        order: Order::Parallel,
        hooks: MemberHooks::default(),
        time_out,
    });
    Problems::check(valid, problems)
}

/// Checks a RestoreBatch of the namespace `own`. `collisions`: of the hosts of its members.
pub fn restore_batch(
    own: &str,
    spec: &RestoreBatchSpec,
    collisions: &[Collision],
) -> Result<ValidRestore, Problems> {
    let mut problems = Vec::new();
    let driver = member::driver(&spec.driver, spec.repository.as_ref(), own).kept(&mut problems);
    let members = checked(&spec.members, own, &spec.driver, true, &mut problems);
    let order = order(spec.maintain_order, spec.execution_order.as_ref()).kept(&mut problems);
    let hooks = member::restore_hooks("spec", spec.hooks.as_ref(), HookPod::Absent, &mut problems);
    let time_out = duration("timeOut", spec.time_out).kept(&mut problems);
    if spec.driver == Driver::VolumeSnapshotter {
        problems.extend(same_claims(&members, own));
    } else {
        problems.extend(collisions.iter().cloned().map(Problem::Hosts));
    }
    let valid = driver.zip(order).zip(time_out).map(|((driver, order), time_out)| ValidRestore {
        driver,
        members,
        order,
        hooks,
        time_out,
    });
    Problems::check(valid, problems)
}

fn checked(
    members: &[RestoreMember],
    own: &str,
    driver: &Driver,
    is_batch: bool,
    problems: &mut Vec<Problem>,
) -> Vec<ValidRestoreMember> {
    let places = member::places(members.len(), is_batch);
    let valid = places
        .iter()
        .zip(members)
        .filter_map(|(place, one)| restore_member(place, one, own, driver, problems))
        .collect();
    let references = members.iter().filter_map(|member| member.target.as_ref()?.reference.as_ref());
    elsewhere::bounded(references, own).kept(problems);
    valid
}

fn restore_member(
    place: &str,
    member: &RestoreMember,
    own: &str,
    driver: &Driver,
    problems: &mut Vec<Problem>,
) -> Option<ValidRestoreMember> {
    let before = problems.len();
    let has_task = member::named_task(member.task.as_ref()).is_some();
    let target = match &member.target {
        Some(target) => restore_target(place, target, own, has_task || *driver != Driver::Restic, problems),
        None if *driver == Driver::VolumeSnapshotter => {
            problems.push(Problem::NoSnapshotTarget { member: place.to_owned() });
            None
        }
        None if !has_task => {
            problems.push(Problem::NoTarget { member: place.to_owned() });
            None
        }
        None => None,
    };
    let reference = member.target.as_ref().and_then(|target| target.reference.as_ref());
    let pod = if reference.is_some() { HookPod::Present } else { HookPod::Absent };
    let hooks = member::restore_hooks(place, member.hooks.as_ref(), pod, problems);
    let fields = PodFields {
        runtime: member.runtime_settings.as_ref(),
        has_interim_volume: member.interim_volume_template.is_some(),
    };
    elsewhere::pod_fields(place, reference, own, &fields, problems);
    let rules = EffectiveRules::of(member);
    let rules = rules.map_err(|source| Problem::Rules { member: place.to_owned(), source }).kept(problems)?;
    if *driver == Driver::VolumeSnapshotter {
        let kind = target.as_ref().and_then(|target| target.reference.as_ref()).map(|(_, kind)| *kind);
        problems.extend(member::snapshot_problems(place, kind, member.task.as_ref()));
        snapshot_claims(place, member, &rules, own).kept(problems);
    }
    (problems.len() == before).then(|| ValidRestoreMember {
        place: place.to_owned(),
        target,
        task: member.task.clone(),
        rules,
        hooks,
        spec: member.clone(),
    })
}

/// Checks that a restore from VolumeSnapshots only creates new claims, from its templates.
fn snapshot_claims(
    place: &str,
    member: &RestoreMember,
    rules: &EffectiveRules,
    own: &str,
) -> Result<(), Problem> {
    let Some(target) = &member.target else { return Ok(()) };
    if target.volume_claim_templates.is_empty() {
        return Err(Problem::NoClaimTemplates { member: place.to_owned() });
    }
    let checked = restored_claims(target, own).and_then(|_| check_rules(&rules.rules));
    checked.map_err(|source| Problem::SnapshotRestore { member: place.to_owned(), source })
}

/// Claims that two members of a restore from VolumeSnapshots would both create; one problem for each member.
fn same_claims(members: &[ValidRestoreMember], own: &str) -> Vec<Problem> {
    let mut makers: BTreeMap<String, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    for member in members {
        let claims = member.spec.target.as_ref().and_then(|target| restored_claims(target, own).ok());
        for claim in claims.unwrap_or_default() {
            let (claim, second) = (claim.claim.name, member.place.as_str());
            if let Some(first) = makers.insert(claim.clone(), second) {
                problems.push(Problem::SameClaim {
                    first: first.to_owned(),
                    second: second.to_owned(),
                    claim,
                });
                break;
            }
        }
    }
    problems
}

/// `without_mounts`: no volume is written through its mounts, because a task runs or the storage system has snapshots.
fn restore_target(
    place: &str,
    target: &RestoreTarget,
    own: &str,
    without_mounts: bool,
    problems: &mut Vec<Problem>,
) -> Option<ValidRestoreTarget> {
    let has_templates = !target.volume_claim_templates.is_empty();
    let reference = target.reference.as_ref().map(|reference| member::reference(place, reference, own));
    let reference = reference.transpose().kept(problems)?;
    if reference.is_none() && !has_templates {
        problems.push(Problem::NoTarget { member: place.to_owned() });
        return None;
    }
    let plan = match &reference {
        _ if without_mounts => Ok(None),
        _ if has_templates => MountPlan::of_templates(target).map(Some),
        Some((_, TargetKind::AppBinding)) | None => Ok(None),
        Some((key, kind)) => MountPlan::of_restore(*kind, &key.name, target).map(Some),
    };
    let mounts = plan.map_err(|source| Problem::Mounts { member: place.to_owned(), source }).kept(problems);
    let args = restore_args(&target.args);
    let args = args.map_err(|source| Problem::Args { member: place.to_owned(), source }).kept(problems);
    let alias = target.alias.clone().filter(|alias| !alias.is_empty());
    Some(ValidRestoreTarget { reference, alias, mounts: mounts?, args: args? })
}
