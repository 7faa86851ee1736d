//! Validates Restics. Takes the spec and the members that [`crate::stash::restic::members`] made of it; gives the [`ValidBackup`] that
//! the engine runs, or the problems of the spec.

use lifeboat_api::stash::{BackupMember, BackupMode, BackupType, Driver, ResticSpec, ResticTargetType};

use super::backup::{ValidBackup, duration};
use super::member::{self, ValidMember, ValidTarget};
use super::problem::{Collect, Problem, Problems};
use crate::schedule::Cron;
use crate::stash::hooks::HookPod;
use crate::stash::hosts::TargetKind;
use crate::stash::restic::{Directories, ResticError, VOLUME_AGENT, mounts};
use crate::stash::retention::Retention;
use crate::stash::session::{BackupArgs, Order, TargetKey, backup_args};
use crate::stash::targets::MountPlan;

/// The finished sessions of a Restic that are kept.
const HISTORY: usize = 1;

/// Checks a Restic of the namespace `own`. `members`: none while its workloads were not looked for.
pub fn restic(own: &str, spec: &ResticSpec, members: &[BackupMember]) -> Result<ValidBackup, Problems> {
    let mut problems = Vec::new();
    if let Some(fields) = earlier_form(spec) {
        return Problems::check(None, vec![Problem::Restic(ResticError::EarlierForm { fields })]);
    }
    problems.extend(not_served(spec).into_iter().map(Problem::Restic));
    let cron = cron(spec).kept(&mut problems);
    let driver = member::driver(&Driver::Restic, spec.repository.as_ref(), own).kept(&mut problems);
    let plan = volumes(spec).map_err(Problem::Restic).kept(&mut problems);
    let args = backup_args(&spec.args).map_err(Problem::ResticArgs).kept(&mut problems);
    let hooks = member::backup_hooks("spec", spec.hooks.as_ref(), HookPod::Present, &mut problems);
    let time_out = duration("timeOut", spec.time_out).kept(&mut problems);
    let valid = cron.zip(driver).zip(plan).zip(args).zip(time_out);
    let valid = valid.map(|((((cron, driver), (mounts, directories)), args), time_out)| ValidBackup {
        cron,
        driver,
        members: members.iter().filter_map(|one| valid_member(own, one, &mounts, &args, &hooks)).collect(),
        order: Order::Parallel,
        hooks: member::MemberHooks::default(),
        retention: Retention::KeepAll,
        directories: Some(directories),
        paused: spec.paused,
        history_limit: HISTORY,
        time_out,
        retries: None,
    });
    Problems::check(valid, problems)
}

/// The fields of the earlier form that a spec has.
fn earlier_form(spec: &ResticSpec) -> Option<&'static str> {
    let earlier = &spec.earlier;
    let is_earlier =
        !earlier.file_groups.is_empty() || earlier.backend.is_some() || earlier.selector.is_some();
    is_earlier.then_some("selector, fileGroups, backend")
}

/// Values for which this version has no code yet.
fn not_served(spec: &ResticSpec) -> Vec<ResticError> {
    let mut found = Vec::new();
    let mut not = |field: &'static str, value: &str, expected: &'static str| {
        found.push(ResticError::NotServed { field, value: value.to_owned(), expected });
    };
    match &spec.target_type {
        Some(ResticTargetType::Volume) => {}
        Some(other) => not("targetType", other.as_str(), "Volume"),
        None => not("targetType", "", "Volume"),
    }
    match &spec.backup_mode {
        None | Some(BackupMode::Online) => {}
        Some(other) => not("backupMode", other.as_str(), "Online"),
    }
    match spec.backup_agent.as_deref() {
        Some(VOLUME_AGENT) => {}
        other => not("backupAgent", other.unwrap_or_default(), "stash for volumes"),
    }
    found
}

/// None for a Restic that backs up once.
fn cron(spec: &ResticSpec) -> Result<Option<Cron>, Problem> {
    match (&spec.backup_type, spec.schedule.as_deref()) {
        (Some(BackupType::Instant), _) => Ok(None),
        (Some(BackupType::Scheduled), Some(schedule)) => {
            Cron::parse(schedule).map(Some).map_err(Problem::Schedule)
        }
        (Some(BackupType::Scheduled), None) => Err(missing("schedule")),
        (Some(BackupType::Other(value)), _) => {
            let (field, expected) = ("backupType", "Scheduled or Instant");
            Err(Problem::Restic(ResticError::NotServed { field, value: value.clone(), expected }))
        }
        (None, _) => Err(missing("backupType")),
    }
}

fn missing(field: &'static str) -> Problem {
    Problem::Restic(ResticError::Missing { field })
}

fn volumes(spec: &ResticSpec) -> Result<(MountPlan, Directories), ResticError> {
    let selector = spec.volume_selector.as_ref().ok_or(ResticError::Missing { field: "volumeSelector" })?;
    crate::selector::Selector::new(&selector.selector)?;
    let mounts = mounts(selector)?;
    let directories = Directories::of(spec, &mounts)?;
    Ok((mounts, directories))
}

/// A member whose workload is of a kind that this version knows.
fn valid_member(
    own: &str,
    one: &BackupMember,
    mounts: &MountPlan,
    args: &BackupArgs,
    hooks: &member::MemberHooks,
) -> Option<ValidMember> {
    let target = one.target.as_ref()?;
    let kind = TargetKind::of(&target.reference).ok()?;
    Some(ValidMember {
        place: "spec".to_owned(),
        target: Some(ValidTarget {
            key: TargetKey::of(&target.reference, own),
            kind,
            alias: target.alias.clone(),
            mounts: Some(mounts.clone()),
            args: args.clone(),
        }),
        task: None,
        hooks: hooks.clone(),
        spec: one.clone(),
    })
}
