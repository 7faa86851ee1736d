//! Validates BackupConfigurations and BackupBatches. Takes the spec and gives a [`ValidBackup`], or the problems of
//! the spec.

use lifeboat_api::common::GoDuration;
use lifeboat_api::stash::{
    BackupBatchSpec, BackupConfigurationSpec, BackupMember, Driver, ExecutionOrder, RetryConfig,
};

use super::elsewhere;
use super::member::{self, MemberHooks, ValidDriver, ValidMember};
use super::problem::{Collect, Problem, Problems};
use crate::schedule::Cron;
use crate::stash::hooks::HookPod;
use crate::stash::hosts::Collision;
use crate::stash::restic::Directories;
use crate::stash::retention::Retention;
use crate::stash::session::Order;

/// A BackupConfiguration or BackupBatch that can run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidBackup {
    /// None for an invoker that backs up once.
    pub cron: Option<Cron>,
    pub driver: ValidDriver,
    /// At least one, except of a Restic, whose workloads are looked for when they are needed.
    pub members: Vec<ValidMember>,
    pub order: Order,
    /// Hooks of a whole batch: calls only.
    pub hooks: MemberHooks,
    pub retention: Retention,
    /// Of a Restic: its directories in the Repository, and their policies.
    pub directories: Option<Directories>,
    pub paused: bool,
    pub history_limit: usize,
    pub time_out: Option<GoDuration>,
    pub retries: Option<ValidRetries>,
}

/// Whether and when a failed backup is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValidRetries {
    pub most: i32,
    pub delay: Option<GoDuration>,
}

/// The fields that both kinds have.
struct Common<'a> {
    schedule: &'a str,
    driver: &'a Driver,
    members: &'a [BackupMember],
    is_batch: bool,
    history_limit: i32,
    time_out: Option<GoDuration>,
    retries: Option<&'a RetryConfig>,
}

/// Checks a BackupConfiguration of the namespace `own`.
pub fn backup_configuration(own: &str, spec: &BackupConfigurationSpec) -> Result<ValidBackup, Problems> {
    let mut problems = Vec::new();
    let driver = member::driver(&spec.driver, spec.repository.as_ref(), own).kept(&mut problems);
    let common = Common {
        schedule: &spec.schedule,
        driver: &spec.driver,
        members: std::slice::from_ref(&spec.member),
        is_batch: false,
        history_limit: spec.backup_history_limit,
        time_out: spec.time_out,
        retries: spec.retry_config.as_ref(),
    };
    let valid = checked(&common, own, driver, &mut problems).map(|valid| ValidBackup {
        retention: Retention::of(&spec.retention_policy),
        paused: spec.paused,
        ..valid
    });
    Problems::check(valid, problems)
}

/// Checks a BackupBatch of the namespace `own`. `collisions`: of the hosts of its members.
pub fn backup_batch(
    own: &str,
    spec: &BackupBatchSpec,
    collisions: &[Collision],
) -> Result<ValidBackup, Problems> {
    let mut problems = Vec::new();
    let driver = member::driver(&spec.driver, spec.repository.as_ref(), own).kept(&mut problems);
    let common = Common {
        schedule: &spec.schedule,
        driver: &spec.driver,
        members: &spec.members,
        is_batch: true,
        history_limit: spec.backup_history_limit,
        time_out: spec.time_out,
        retries: spec.retry_config.as_ref(),
    };
    let valid = checked(&common, own, driver, &mut problems);
    let order = order(spec.maintain_order, spec.execution_order.as_ref()).kept(&mut problems);
    let hooks = member::backup_hooks("spec", spec.hooks.as_ref(), HookPod::Absent, &mut problems);
    if spec.driver == Driver::Restic {
        // Collisions matter only in repositories: VolumeSnapshots are named after claims and do not conflict.
        problems.extend(collisions.iter().cloned().map(Problem::Hosts));
    }
    let valid = valid.zip(order).map(|(valid, order)| ValidBackup {
        retention: Retention::of(&spec.retention_policy),
        paused: spec.paused,
        order,
        hooks,
        ..valid
    });
    Problems::check(valid, problems)
}

fn checked(
    common: &Common<'_>,
    own: &str,
    driver: Option<ValidDriver>,
    problems: &mut Vec<Problem>,
) -> Option<ValidBackup> {
    let cron = Cron::parse(common.schedule).map_err(Problem::Schedule).kept(problems);
    let places = member::places(common.members.len(), common.is_batch);
    let members: Vec<_> = places
        .iter()
        .zip(common.members)
        .filter_map(|(place, one)| member::backup_member(place, one, own, common.driver, problems))
        .collect();
    let targets = common.members.iter().filter_map(|member| member.target.as_ref());
    elsewhere::bounded(targets.map(|target| &target.reference), own).kept(problems);
    let limit = i64::from(common.history_limit);
    not_negative("backupHistoryLimit", limit, || limit.to_string()).kept(problems);
    let time_out = duration("timeOut", common.time_out).kept(problems);
    let retries = common.retries.map(retries).transpose().kept(problems);
    Some(ValidBackup {
        cron: Some(cron?),
        driver: driver?,
        members,
        order: Order::Parallel,
        hooks: MemberHooks::default(),
        retention: Retention::KeepAll,
        directories: None,
        paused: false,
        history_limit: usize::try_from(limit).unwrap_or(0),
        time_out: time_out?,
        retries: retries?,
    })
}

fn retries(config: &RetryConfig) -> Result<ValidRetries, Problem> {
    let most = i64::from(config.max_retry);
    not_negative("retryConfig.maxRetry", most, || most.to_string())?;
    Ok(ValidRetries { most: config.max_retry, delay: duration("retryConfig.delay", config.delay)? })
}

/// The order of members, from both fields that set it.
pub(super) fn order(maintain: Option<bool>, order: Option<&ExecutionOrder>) -> Result<Order, Problem> {
    let wanted = match order {
        None => None,
        Some(ExecutionOrder::Parallel) => Some(Order::Parallel),
        Some(ExecutionOrder::Sequential) => Some(Order::Sequential),
        Some(ExecutionOrder::Other(value)) => {
            return Err(Problem::ExecutionOrder { value: value.clone() });
        }
    };
    let maintained = |maintain| if maintain { Order::Sequential } else { Order::Parallel };
    match (maintain, wanted) {
        (Some(maintain), Some(wanted)) if maintained(maintain) != wanted => {
            let order = order.map(ToString::to_string).unwrap_or_default();
            Err(Problem::Order { maintain, order })
        }
        (_, Some(wanted)) => Ok(wanted),
        (maintain, None) => Ok(maintained(maintain.unwrap_or(false))),
    }
}

/// A duration that is set, and not negative.
pub(super) fn duration(
    field: &'static str,
    value: Option<GoDuration>,
) -> Result<Option<GoDuration>, Problem> {
    let Some(value) = GoDuration::set(value) else { return Ok(None) };
    not_negative(field, value.as_nanos(), || value.to_string())?;
    Ok(Some(value))
}

fn not_negative(field: &'static str, number: i64, shown: impl Fn() -> String) -> Result<(), Problem> {
    if number < 0 { Err(Problem::Negative { field, value: shown() }) } else { Ok(()) }
}
