//! Validates members of invokers: the target, arguments and hooks of each.

use lifeboat_api::stash::{
    BackupHooks, BackupMember, BackupTarget, Driver, HookHandler, ObjectRef, RestoreHooks, RestoreMember,
    TargetRef, TaskRef,
};

use super::elsewhere::{PodFields, pod_fields};
use super::problem::{Collect, Problem};
use crate::stash::hooks::{HookPod, PostPolicy, ValidHook};
use crate::stash::hosts::{HostSet, MemberHosts, TargetKind};
use crate::stash::reservation::RepositoryName;
use crate::stash::session::{BackupArgs, TargetKey, backup_args};
use crate::stash::targets::MountPlan;

/// How data is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidDriver {
    /// Into this Repository.
    Restic(RepositoryName),
    VolumeSnapshotter,
}

/// One member of a backup.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidMember {
    /// As messages name it: `spec`, or `spec.members[2]`.
    pub place: String,
    /// None for a task that needs none.
    pub target: Option<ValidTarget>,
    /// None if the kind of the target, or its AppBinding, determines it.
    pub task: Option<TaskRef>,
    pub hooks: MemberHooks,
    /// The rest of the member: settings of pods, temporary directory, interim volume.
    pub spec: BackupMember,
}

/// The target of a backup.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValidTarget {
    pub key: TargetKey,
    pub kind: TargetKind,
    pub alias: Option<String>,
    /// Of a workload or claim whose volumes are read without a task.
    pub mounts: Option<MountPlan>,
    pub args: BackupArgs,
}

/// The hooks before and after each host of a member, or a whole batch.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct MemberHooks {
    pub pre: Option<ValidHook>,
    pub post: Option<(ValidHook, PostPolicy)>,
}

pub(super) fn driver(
    driver: &Driver,
    repository: Option<&ObjectRef>,
    own: &str,
) -> Result<ValidDriver, Problem> {
    match (driver, repository) {
        (Driver::VolumeSnapshotter, _) => Ok(ValidDriver::VolumeSnapshotter),
        (Driver::Restic, Some(repository)) => {
            let namespace = repository.namespace.as_deref().filter(|namespace| !namespace.is_empty());
            let (namespace, name) = (namespace.unwrap_or(own).to_owned(), repository.name.clone());
            Ok(ValidDriver::Restic(RepositoryName { namespace, name }))
        }
        (Driver::Restic, None) => Err(Problem::NoRepository),
        (Driver::Other(value), _) => Err(Problem::Driver { value: value.clone() }),
    }
}

/// The place of each member: a BackupConfiguration or RestoreSession is its only member.
pub(super) fn places(count: usize, is_batch: bool) -> Vec<String> {
    let place = |index| if is_batch { format!("spec.members[{index}]") } else { "spec".to_owned() };
    (0..count).map(place).collect()
}

/// The task, if it is named.
pub(super) fn named_task(task: Option<&TaskRef>) -> Option<&TaskRef> {
    task.filter(|task| !task.name.is_empty())
}

pub(super) fn backup_member(
    place: &str,
    member: &BackupMember,
    own: &str,
    driver: &Driver,
    problems: &mut Vec<Problem>,
) -> Option<ValidMember> {
    let before = problems.len();
    let has_task = named_task(member.task.as_ref()).is_some();
    let target = match &member.target {
        Some(target) => backup_target(place, target, own, has_task || *driver != Driver::Restic, problems),
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
    if *driver == Driver::VolumeSnapshotter {
        let kind = target.as_ref().map(|target| target.kind);
        problems.extend(snapshot_problems(place, kind, member.task.as_ref()));
    }
    let pod = if member.target.is_some() { HookPod::Present } else { HookPod::Absent };
    let hooks = backup_hooks(place, member.hooks.as_ref(), pod, problems);
    let fields = PodFields {
        runtime: member.runtime_settings.as_ref(),
        has_interim_volume: member.interim_volume_template.is_some(),
    };
    let reference = member.target.as_ref().map(|target| &target.reference);
    pod_fields(place, reference, own, &fields, problems);
    (problems.len() == before).then(|| ValidMember {
        place: place.to_owned(),
        target,
        task: member.task.clone(),
        hooks,
        spec: member.clone(),
    })
}

/// What driver VolumeSnapshotter cannot work with: it has claims only, and no tasks.
pub(super) fn snapshot_problems(
    place: &str,
    kind: Option<TargetKind>,
    task: Option<&TaskRef>,
) -> impl Iterator<Item = Problem> {
    let member = || place.to_owned();
    let no_claims = (kind == Some(TargetKind::AppBinding)).then(|| Problem::NoClaims { member: member() });
    let task =
        named_task(task).map(|task| Problem::SnapshotTask { member: member(), task: task.name.clone() });
    no_claims.into_iter().chain(task)
}

/// `without_mounts`: no volume is read through its mounts, because a task runs or the storage system takes snapshots.
fn backup_target(
    place: &str,
    target: &BackupTarget,
    own: &str,
    without_mounts: bool,
    problems: &mut Vec<Problem>,
) -> Option<ValidTarget> {
    let (key, kind) = reference(place, &target.reference, own).kept(problems)?;
    let has_mounts = kind != TargetKind::AppBinding && !without_mounts;
    let plan = has_mounts.then(|| MountPlan::of_backup(kind, target)).transpose();
    let mounts = plan.map_err(|source| Problem::Mounts { member: place.to_owned(), source }).kept(problems);
    let args = backup_args(&target.args);
    let args = args.map_err(|source| Problem::Args { member: place.to_owned(), source }).kept(problems);
    let alias = target.alias.clone().filter(|alias| !alias.is_empty());
    Some(ValidTarget { key, kind, alias, mounts: mounts?, args: args? })
}

/// The target of a reference, in a namespace where it may be.
pub(super) fn reference(
    place: &str,
    reference: &TargetRef,
    own: &str,
) -> Result<(TargetKey, TargetKind), Problem> {
    let kind = TargetKind::of(reference);
    let kind = kind.map_err(|source| Problem::Kind { member: place.to_owned(), source })?;
    let key = TargetKey::of(reference, own);
    if key.namespace != own && kind != TargetKind::AppBinding {
        return Err(Problem::Namespace {
            member: place.to_owned(),
            namespace: key.namespace,
            own: own.to_owned(),
            kind: kind.to_string(),
        });
    }
    Ok((key, kind))
}

pub(super) fn backup_hooks(
    place: &str,
    hooks: Option<&BackupHooks>,
    pod: HookPod,
    problems: &mut Vec<Problem>,
) -> MemberHooks {
    let Some(hooks) = hooks else { return MemberHooks::default() };
    let pre = hooks.pre_backup.as_ref();
    let pre = pre.and_then(|pre| hook(format!("{place}.hooks.preBackup"), pre, pod).kept(problems));
    let post = hooks.post_backup.as_ref().and_then(|post| {
        let place = format!("{place}.hooks.postBackup");
        let value = post.execution_policy.to_string();
        let policy = PostPolicy::of_backup(&post.execution_policy);
        let policy = policy.ok_or(Problem::Policy { place: place.clone(), value }).kept(problems);
        Some((hook(place, &post.handler, pod).kept(problems)?, policy?))
    });
    MemberHooks { pre, post }
}

pub(super) fn restore_hooks(
    place: &str,
    hooks: Option<&RestoreHooks>,
    pod: HookPod,
    problems: &mut Vec<Problem>,
) -> MemberHooks {
    let Some(hooks) = hooks else { return MemberHooks::default() };
    let pre = hooks.pre_restore.as_ref();
    let pre = pre.and_then(|pre| hook(format!("{place}.hooks.preRestore"), pre, pod).kept(problems));
    let post = hooks.post_restore.as_ref().and_then(|post| {
        let place = format!("{place}.hooks.postRestore");
        let value = post.execution_policy.to_string();
        let policy = PostPolicy::of_restore(&post.execution_policy);
        let policy = policy.ok_or(Problem::Policy { place: place.clone(), value }).kept(problems);
        Some((hook(place, &post.handler, pod).kept(problems)?, policy?))
    });
    MemberHooks { pre, post }
}

fn hook(place: String, handler: &HookHandler, pod: HookPod) -> Result<ValidHook, Problem> {
    ValidHook::parse(handler, pod).map_err(|source| Problem::Hook { place, source })
}

/// The hosts of the members of a backup. `nodes`: for each member, the nodes of a DaemonSet's pods.
pub fn backup_hosts(members: &[BackupMember], nodes: impl Fn(usize) -> Vec<String>) -> Vec<MemberHosts> {
    let hosts = |(index, member): (usize, &BackupMember)| {
        let target = member.target.as_ref();
        let reference = target.map(|target| &target.reference);
        let alias = target.and_then(|target| target.alias.as_deref());
        member_hosts(index, reference, alias, &nodes(index))
    };
    members.iter().enumerate().map(hosts).collect()
}

/// The hosts of the members of a restore.
pub fn restore_hosts(members: &[RestoreMember], nodes: impl Fn(usize) -> Vec<String>) -> Vec<MemberHosts> {
    let hosts = |(index, member): (usize, &RestoreMember)| {
        let target = member.target.as_ref();
        let reference = target.and_then(|target| target.reference.as_ref());
        let alias = target.and_then(|target| target.alias.as_deref());
        // Claims of templates are restored one by one, like those of a StatefulSet.
        let replicas = target.filter(|target| !target.volume_claim_templates.is_empty());
        if replicas.is_some_and(|target| target.replicas.is_some()) {
            let hosts = HostSet::of(Some(TargetKind::StatefulSet), alias, &[]);
            return MemberHosts { member: shown(index, reference), hosts };
        }
        member_hosts(index, reference, alias, &nodes(index))
    };
    members.iter().enumerate().map(hosts).collect()
}

fn member_hosts(
    index: usize,
    reference: Option<&TargetRef>,
    alias: Option<&str>,
    nodes: &[String],
) -> MemberHosts {
    let kind = reference.and_then(|reference| TargetKind::of(reference).ok());
    MemberHosts { member: shown(index, reference), hosts: HostSet::of(kind, alias, nodes) }
}

fn shown(index: usize, reference: Option<&TargetRef>) -> String {
    match reference {
        Some(reference) => format!("members[{index}] ({} {})", reference.kind, reference.name),
        None => format!("members[{index}]"),
    }
}
