//! The repositories of a Restic's hosts: each host has one of its own, in a directory of the Repository. Before the first mover of
//! a host, its directory is on record and its repository is reserved; at the end of the session each gets its own policies.

use std::collections::BTreeSet;

use kube::Api;
use kube::api::PostParams;
use lifeboat_api::common::{GoDuration, Time};
use lifeboat_api::stash::{BackupRepoType, Restic, ResticStatus};
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_control::locked;
use lifeboat_plan::stash::hosts::{HostName, HostSet};
use lifeboat_plan::stash::invoker::ValidDriver;
use lifeboat_plan::stash::repo_dirs::{DirOwner, DirTags, RepoDir};
use lifeboat_plan::stash::reservation::{Claim, RepositoryName};
use lifeboat_plan::stash::restic::Directories;
use lifeboat_plan::stash::retention::{Policies, would_remove};
use lifeboat_plan::stash::rules::SnapshotFact;
use lifeboat_plan::stash::state::conditions::{ConditionType, Observation, Truth};
use lifeboat_plan::stash::state::{HostState, SessionState, WorkPhase};
use lifeboat_plan::stash::targets::{Host, SentHosts, TargetError, TargetPlan};

use super::reserved::{NotReserved, confirmed};
use super::work::BackupWork;
use crate::context::Context;
use crate::invokers::claim;
use crate::repository::directories::{NoDirectory, Stored, allot, note};
use crate::repository::reservations::ReservedId;
use crate::repository::{
    Applied, PolicyRequest, RepositoryKey, RepositoryProblem, apply_policy, ready, release_gone,
};
use crate::sessions::record::SessionRecord;

/// How often the numbers of a Restic are written if others change its status.
const TRIES: u32 = 5;

/// The directory of a host.
#[derive(Clone, Debug)]
pub(super) struct HostDirectory {
    pub(super) directory: RepoDir,
    pub(super) key: RepositoryKey,
}

impl From<NotReserved> for NoDirectory {
    fn from(problem: NotReserved) -> Self {
        match problem {
            NotReserved::NotOpened(message) | NotReserved::NotHeld(message) => Self::Taken(message),
            NotReserved::Api(error) => error.into(),
        }
    }
}

impl BackupWork {
    /// Gives each host of a Restic's member its directory. A host without one cannot be backed up; the others go on.
    pub(super) async fn give_directories(
        &self,
        member: usize,
        plan: &mut TargetPlan,
        sent: &SentHosts,
    ) -> Result<(), ApiError> {
        let (Some(directories), ValidDriver::Restic(repository)) =
            (&self.valid.directories, &self.valid.driver)
        else {
            return Ok(());
        };
        for host in plan.hosts.iter_mut().filter(|host| host.source.is_ok()) {
            let Some(owner) = self.owner(member, host, directories) else { continue };
            let is_sent = sent.contains_key(&host.name);
            match Box::pin(self.directory(repository, &owner, &host.name, is_sent)).await {
                Ok(found) => {
                    locked(&self.at_work.directories).insert((member, host.name.clone()), found);
                }
                Err(NoDirectory::Repository(RepositoryProblem::Api(error))) => return Err(error),
                Err(NoDirectory::Repository(problem)) => {
                    host.source = Err(TargetError::Directory(problem.chain()));
                }
                Err(problem) => host.source = Err(TargetError::Directory(problem.to_string())),
            }
        }
        Ok(())
    }

    /// `is_sent`: its mover was started by an earlier server, and waits for the storage if that does not answer.
    async fn directory(
        &self,
        repository: &RepositoryName,
        owner: &DirOwner,
        host: &HostName,
        is_sent: bool,
    ) -> Result<HostDirectory, NoDirectory> {
        let (directory, key) = Box::pin(allot(&self.context, repository, owner)).await?;
        if !is_sent {
            Box::pin(self.reserve(repository, &key, host)).await?;
        }
        Ok(HostDirectory { directory, key })
    }

    /// Opens or creates the repository of a host, and confirms that this Restic alone writes the host into it. Returns its ID.
    async fn reserve(
        &self,
        repository: &RepositoryName,
        key: &RepositoryKey,
        host: &HostName,
    ) -> Result<String, NoDirectory> {
        let opened = Box::pin(ready(&self.context, key)).await?;
        let id = ReservedId::new(&opened.access, &repository.namespace, &opened.id);
        release_gone(&self.context.core, &id).await?;
        let hosts = vec![HostSet::One(host.clone())];
        let claim = Claim { hosts, ..claim(&self.invoker, repository, &[]) };
        confirmed(&self.context, &id, &claim).await?;
        Ok(opened.id)
    }

    fn owner(&self, member: usize, host: &Host, directories: &Directories) -> Option<DirOwner> {
        let target = self.member(member)?.target.as_ref()?;
        Some(DirOwner {
            namespace: target.key.namespace.clone(),
            restic: self.invoker.id.name.clone(),
            kind: target.kind,
            name: target.key.name.clone(),
            part: host.of.clone(),
            prefix: directories.prefix.clone(),
        })
    }

    /// The repository of a host. None with driver VolumeSnapshotter, and for a host of a Restic without a directory.
    pub(super) fn key_of_host(&self, member: usize, host: &HostName) -> Option<RepositoryKey> {
        if self.valid.directories.is_none() {
            return self.key.clone();
        }
        let directories = locked(&self.at_work.directories);
        directories.get(&(member, host.clone())).map(|found| found.key.clone())
    }

    /// What the tags of a Restic's snapshots say.
    pub(super) fn tags(&self, member: usize) -> Option<DirTags> {
        self.valid.directories.as_ref()?;
        let target = self.member(member)?.target.as_ref()?;
        Some(DirTags {
            type_: BackupRepoType::Volumes,
            namespace: target.key.namespace.clone(),
            kind: target.kind.to_string(),
            name: target.key.name.clone(),
            restic: self.invoker.id.name.clone(),
        })
    }
}

/// What the end of a session did in the directories of its hosts.
#[derive(Default)]
struct Ended {
    stored: Vec<Stored>,
    would_remove: Vec<SnapshotFact>,
    problems: Vec<String>,
}

/// Applies the policies of a Restic, each in its directory, and records the backups. Returns the conditions that show this.
pub(super) async fn finish(
    record: &SessionRecord,
    work: &BackupWork,
    repository: &RepositoryName,
    directories: &Directories,
) -> Result<Vec<Observation>, ApiError> {
    let places = locked(&work.at_work.directories).clone();
    let state = record.state().await;
    let mut ended = Ended::default();
    for ((member, host), place) in places {
        let Some(of_host) = state_of(&state, member, &host) else { continue };
        if of_host.phase == WorkPhase::Succeeded {
            ended.stored.push(Stored { directory: place.directory.clone(), took: of_host.duration });
        }
        if of_host.snapshots.is_empty() {
            continue;
        }
        let end = HostEnd { work, repository, directories, place: &place, host: of_host };
        match Box::pin(end.apply()).await {
            Ok(would_remove) => ended.would_remove.extend(would_remove),
            Err(NoDirectory::Repository(RepositoryProblem::Api(error))) => return Err(error),
            Err(NoDirectory::Repository(problem)) => {
                ended.problems.push(format!("{}: {}", place.directory, problem.chain()));
            }
            Err(problem) => ended.problems.push(format!("{}: {problem}", place.directory)),
        }
    }
    let restic = work.invoker.id.name.as_str();
    note(&work.context, repository, restic, record.created, &ended.stored).await?;
    count(&work.context, work, record, &state).await?;
    let not_checked = "the repositories in directories are checked by `lifeboat repository check` only";
    Ok(vec![
        policy_applied(&ended, directories, work.invoker.prunes()),
        ConditionType::RepositoryIntegrityVerified.observed(Truth::Unknown, not_checked),
        ConditionType::RepositoryMetricsPushed.yes(""),
    ])
}

fn state_of<'s>(state: &'s SessionState, member: usize, host: &HostName) -> Option<&'s HostState> {
    state.members.get(member)?.hosts.iter().find(|known| known.name == *host)
}

/// `prunes`: whether a policy requests a prune, which the server does not do in directories.
fn policy_applied(ended: &Ended, directories: &Directories, prunes: bool) -> Observation {
    let kind = ConditionType::RetentionPolicyApplied;
    if !ended.problems.is_empty() {
        return kind.no(ended.problems.join("; "));
    }
    let has_dry = matches!(&directories.dry, Policies::ByDirectory(all) if !all.is_empty());
    let mut said = Vec::new();
    if has_dry {
        said.push(would_remove(&ended.would_remove));
    }
    if prunes {
        said.push("the space of removed snapshots is freed by `lifeboat repository prune` only".to_owned());
    }
    kind.yes(said.join("; "))
}

/// The end of the session for one host.
struct HostEnd<'a> {
    work: &'a BackupWork,
    repository: &'a RepositoryName,
    directories: &'a Directories,
    place: &'a HostDirectory,
    host: &'a HostState,
}

impl HostEnd<'_> {
    /// Forgets what the policies do not keep, and returns what those with `dryRun` would have removed. The reservation may have
    /// been lost while movers ran.
    async fn apply(&self) -> Result<Vec<SnapshotFact>, NoDirectory> {
        let id = Box::pin(self.work.reserve(self.repository, &self.place.key, &self.host.name)).await?;
        let applied = self.policy(&id, &self.directories.policies, false).await?;
        if !applied.kept_whole.is_empty() {
            return Err(NoDirectory::Taken(format!(
                "the policy keeps no snapshot of {}; all of them were kept: use a policy that keeps at least one",
                applied.kept_whole.join("; ")
            )));
        }
        Ok(self.policy(&id, &self.directories.dry, true).await?.removed)
    }

    async fn policy(
        &self,
        id: &str,
        policies: &Policies,
        dry_run: bool,
    ) -> Result<Applied, RepositoryProblem> {
        if matches!(policies, Policies::ByDirectory(all) if all.is_empty()) {
            return Ok(Applied::default());
        }
        let hosts = BTreeSet::from([self.host.name.clone()]);
        let stored: Vec<String> = self.host.snapshots.iter().filter_map(|stats| stats.name.clone()).collect();
        let request = PolicyRequest { policies, hosts: &hosts, id, stored: &stored, dry_run };
        Box::pin(apply_policy(&self.work.context, &self.place.key, &request)).await
    }
}

/// Adds a session to the numbers in the status of its Restic, once.
async fn count(
    context: &Context,
    work: &BackupWork,
    record: &SessionRecord,
    state: &SessionState,
) -> Result<(), ApiError> {
    let name = &work.invoker.id.name;
    let api: Api<Restic> = Api::namespaced(context.client.clone(), &record.namespace);
    let succeeded = state.members.iter().all(|member| member.current_phase() == WorkPhase::Succeeded);
    let took: i64 = state
        .members
        .iter()
        .flat_map(|member| &member.hosts)
        .filter_map(|host| host.duration.map(GoDuration::as_nanos))
        .fold(0, i64::saturating_add);
    let mut tries = 0;
    loop {
        let Some(mut restic) = api.get_opt(name).await.attempt(format!("read Restic {name}"))? else {
            return Ok(());
        };
        let mut status: ResticStatus = restic.status.take().unwrap_or_default();
        if status.last_backup_time.as_ref().is_some_and(|last| last.0 >= record.created) {
            return Ok(());
        }
        let number = if succeeded { &mut status.successful_backups } else { &mut status.failed_backups };
        *number = Some(number.unwrap_or(0).saturating_add(1));
        status.last_backup_time = Some(Time(record.created));
        let took = std::time::Duration::from_nanos(u64::try_from(took).unwrap_or_default());
        status.last_backup_duration = Some(took.into());
        restic.status = Some(status);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        let written = api.replace_status(name, &params, &restic).await;
        match written.attempt(format!("update the status of Restic {name}")) {
            Err(error) if error.is_conflict() && tries < TRIES => tries += 1,
            Err(error) if error.is_not_found() => return Ok(()),
            written => return written.map(drop),
        }
    }
}
