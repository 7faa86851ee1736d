//! Gathers what decides whether an invoker can run: its Repository and Secret, its targets, its place among the users of the repository.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::{Api, api::ListParams};
use lifeboat_api::stash::Repository;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::install::policies::REPOSITORY;
use lifeboat_plan::json::text;
use lifeboat_plan::stash::hosts::{HostSet, TargetKind};
use lifeboat_plan::stash::invoker::{Gathered, Presence, ValidBackup, ValidDriver, backup_hosts};
use lifeboat_plan::stash::reservation::{Claim, RepositoryName, Standing};

use super::invoker::Invoker;
use super::opening::RepositoryOpenings;
use super::targets;
use crate::context::Context;
use crate::repository::reservations::{self, ReservedId};
use crate::repository::{RepositoryProblem, key_of, release_gone};
use crate::snapshot_classes;

/// The message in the status while a slow repository is opened.
pub(super) const OPENING: &str = "the repository is being opened";

/// What was gathered, and whether the repository is still being opened.
pub(super) struct GatheredNow {
    pub(super) gathered: Gathered,
    pub(super) is_opening: bool,
}

impl From<Gathered> for GatheredNow {
    fn from(gathered: Gathered) -> Self {
        Self { gathered, is_opening: false }
    }
}

/// Reads all of this, and records the invoker's claim.
pub(super) async fn gather(
    context: &Context,
    openings: &RepositoryOpenings,
    invoker: &Invoker,
    valid: Option<&ValidBackup>,
    nodes: &[String],
) -> Result<GatheredNow, ApiError> {
    let Some(valid) = valid else { return Ok(Gathered::default().into()) };
    if let Some(refusal) = unchecked(context, invoker, valid) {
        return Ok(Gathered { refusal: Some(refusal), ..Gathered::default() }.into());
    }
    let (targets, not_found) = targets::find(context, &invoker.id.namespace, valid).await?;
    let mut gathered = Gathered { targets, not_found, ..Gathered::default() };
    let ValidDriver::Restic(repository) = &valid.driver else {
        gathered.refusal = snapshot_classes::refusal(&context.core, valid).await?;
        return Ok(gathered.into());
    };
    let found = read(context, repository).await?;
    let Some(object) = found else {
        let message = format!(
            "Repository {}/{} does not exist; create it, or correct spec.repository",
            repository.namespace, repository.name
        );
        gathered.repository = Some(Presence::No(message));
        return Ok(gathered.into());
    };
    if let Some(refusal) = may_not_use(context, invoker, valid, &object).await? {
        gathered.repository = Some(Presence::No(refusal));
        return Ok(gathered.into());
    }
    gathered.repository = Some(Presence::Yes);
    gathered.secret = Some(secret(context, &object).await?);
    if gathered.secret != Some(Presence::Yes) {
        return Ok(gathered.into());
    }
    if valid.directories.is_some() {
        // Sessions reserve the repositories in the directories of their hosts, one by one.
        gathered.standing = Some(Standing::Holds);
        return Ok(gathered.into());
    }
    reserved(context, openings, invoker, repository, nodes, gathered).await
}

/// Opens the repository, and records the invoker's claim.
async fn reserved(
    context: &Context,
    openings: &RepositoryOpenings,
    invoker: &Invoker,
    repository: &RepositoryName,
    nodes: &[String],
    mut gathered: Gathered,
) -> Result<GatheredNow, ApiError> {
    let key = key_of(&repository.namespace, &repository.name);
    let Some(opened) = openings.open(context, &key).await else {
        gathered.repository = Some(Presence::Unknown(OPENING.to_owned()));
        return Ok(GatheredNow { gathered, is_opening: true });
    };
    match opened.as_ref() {
        Ok(opened) => {
            let id = ReservedId::new(&opened.access, &repository.namespace, &opened.id);
            let claim = claim(invoker, repository, nodes);
            release_gone(&context.core, &id).await?;
            match reservations::claim(&context.core, &id, &claim).await {
                Ok(standing) => gathered.standing = Some(standing),
                Err(error) => gathered.repository = Some(Presence::Unknown(error.chain())),
            }
        }
        // An error of the API says nothing about the repository, which is opened again soon.
        Err(problem @ RepositoryProblem::Api(_)) => {
            gathered.repository = Some(Presence::Unknown(problem.chain()));
            return Ok(GatheredNow { gathered, is_opening: true });
        }
        Err(problem) => gathered.repository = Some(Presence::Unknown(problem.chain())),
    }
    Ok(gathered.into())
}

/// Why the invoker is left alone: nothing checks who may write it, or its Repository.
fn unchecked(context: &Context, invoker: &Invoker, valid: &ValidBackup) -> Option<String> {
    let stores = matches!(valid.driver, ValidDriver::Restic(_));
    let of_repository = || context.policies.refusal(REPOSITORY).filter(|_| stores);
    let own = context.policies.refusal(invoker.id.kind.as_str());
    own.or_else(|| of_repository().map(|refusal| about_repository(&refusal)))
}

/// Why the Repository of an object is not used, as the status of that object says it.
pub(crate) fn about_repository(refusal: &str) -> String {
    format!("its {REPOSITORY} is not used: {refusal}")
}

pub(crate) async fn read(context: &Context, name: &RepositoryName) -> Result<Option<Repository>, ApiError> {
    let api: Api<Repository> = Api::namespaced(context.core.client.clone(), &name.namespace);
    api.get_opt(&name.name).await.attempt(format!("read Repository {}/{}", name.namespace, name.name))
}

/// Why an invoker may not use a Repository of another namespace. For a Restic, whose author was checked for the right to use it, a
/// Repository without usagePolicy is enough.
pub(crate) async fn may_not_use(
    context: &Context,
    invoker: &Invoker,
    valid: &ValidBackup,
    repository: &Repository,
) -> Result<Option<String>, ApiError> {
    if valid.directories.is_some() && repository.spec.usage_policy.is_none() {
        return Ok(None);
    }
    not_allowed(context, &invoker.id.namespace, repository).await
}

/// Why a Repository of another namespace may not be used.
pub(crate) async fn not_allowed(
    context: &Context,
    namespace: &str,
    repository: &Repository,
) -> Result<Option<String>, ApiError> {
    let own = repository.namespace().unwrap_or_default();
    if own == namespace {
        return Ok(None);
    }
    let resource = objects::resource("", "v1", "Namespace", "namespaces");
    let api: Api<DynamicObject> = Api::all_with(context.core.client.clone(), &resource);
    let found = api.get_opt(namespace).await.attempt(format!("read Namespace {namespace}"))?;
    let labels = found.map(|found| found.labels().clone()).unwrap_or_default();
    let allowed =
        lifeboat_plan::stash::repository::usage::may_use(&repository.spec, &own, namespace, &labels);
    Ok((!allowed).then(|| {
        format!(
            "Repository {own}/{} does not allow namespace {namespace}: set its spec.usagePolicy, or use a Repository of this namespace",
            repository.name_any()
        )
    }))
}

pub(crate) async fn secret(context: &Context, repository: &Repository) -> Result<Presence, ApiError> {
    let namespace = repository.namespace().unwrap_or_default();
    let name = &repository.spec.backend.storage_secret_name;
    let api: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(context.core.client.clone(), &namespace);
    let found = api.get_metadata_opt(name).await.attempt(format!("read Secret {namespace}/{name}"))?;
    Ok(if found.is_some() {
        Presence::Yes
    } else {
        Presence::No(format!(
            "Secret {namespace}/{name}, which backend.storageSecretName names, does not exist; create it with RESTIC_PASSWORD and the \
             keys of the storage"
        ))
    })
}

/// The invoker's claim to the repository.
pub(crate) fn claim(invoker: &Invoker, repository: &RepositoryName, nodes: &[String]) -> Claim {
    let members = backup_hosts(invoker.members(), |_| nodes.to_vec());
    let hosts: Vec<HostSet> = members.into_iter().map(|member| member.hosts).collect();
    Claim {
        kind: invoker.id.kind.clone(),
        namespace: invoker.id.namespace.clone(),
        name: invoker.id.name.clone(),
        uid: invoker.uid.clone(),
        created: invoker.created.unwrap_or(Timestamp::UNIX_EPOCH),
        repository: repository.clone(),
        hosts,
    }
}

/// The names of all nodes, if a target is a DaemonSet.
pub(crate) async fn nodes(context: &Context, invoker: &Invoker) -> Result<Vec<String>, ApiError> {
    let is_daemon_set = |member: &lifeboat_api::stash::BackupMember| {
        let target = member.target.as_ref();
        target.is_some_and(|target| TargetKind::of(&target.reference) == Ok(TargetKind::DaemonSet))
    };
    if !invoker.members().iter().any(is_daemon_set) {
        return Ok(Vec::new());
    }
    let resource = objects::resource("", "v1", "Node", "nodes");
    let api: Api<DynamicObject> = Api::all_with(context.core.client.clone(), &resource);
    let listed = api.list(&ListParams::default()).await.attempt("list nodes")?;
    Ok(listed
        .items
        .iter()
        .map(objects::to_json)
        .map(|node| text(&node, "/metadata/name").to_owned())
        .collect())
}
