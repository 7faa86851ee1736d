//! `lifeboat stash delete snapshot REPOSITORY-ID`: removes a snapshot from the repository itself. Deleting the Snapshot object with kubectl only
//! hides it for a while.

use kube::api::DynamicObject;
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::stash::repository::{INCOMPLETE_TAG, SAFETY_TAG};
use lifeboat_repository::files::FileKind;
use lifeboat_repository::forget::forget_named;
use lifeboat_repository::id::SnapshotId;
use lifeboat_repository::snapshot::Snapshot;
use lifeboat_repository::snapshots::{FoundSnapshot, by_prefix};

use super::Tenant;
use super::repository::{self, AccessArgs, RepositoryToOpen};
use crate::args::{ValueError, object_name};
use crate::commands::repository::run_in;
use crate::commands::repository::session::Session;
use crate::error::CliError;
use crate::nouns::{SNAPSHOT, text};
use crate::printer;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Delete a snapshot from its repository; the next prune removes its data
    Snapshot(Args),
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the Snapshot: its Repository and the first digits of its id
    #[arg(value_name = "REPOSITORY-ID", value_parser = SnapshotName::parse)]
    snapshot: SnapshotName,
    #[command(flatten)]
    access: AccessArgs,
}

/// The name of a Snapshot object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SnapshotName {
    name: String,
    repository: String,
    /// The first digits of the snapshot's id.
    id: String,
}

/// Why a name is refused; clap prints it after the argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SnapshotNameError {
    #[error(transparent)]
    Name(#[from] ValueError),
    #[error(
        "it is not the name of a Snapshot; write the Repository and 8 digits of the id, as in repo-0123abcd"
    )]
    NoId,
}

impl SnapshotName {
    fn parse(text: &str) -> Result<Self, SnapshotNameError> {
        let (repository, id) = text.rsplit_once('-').ok_or(SnapshotNameError::NoId)?;
        let is_id = (8..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            return Err(SnapshotNameError::NoId);
        }
        let (name, repository) = (object_name(text)?, object_name(repository)?);
        Ok(Self { name, repository, id: id.to_ascii_lowercase() })
    }
}

pub(super) async fn run(tenant: &Tenant, command: &Command) -> Result<(), CliError> {
    let Command::Snapshot(args) = command;
    let object = object(tenant, &args.snapshot.name).await;
    let snapshot = match &object {
        Some(object) => on_record(&args.snapshot, object),
        None => args.snapshot.clone(),
    };
    let RepositoryToOpen { session, .. } =
        repository::find(tenant, &snapshot.repository, &args.access, "forget ID").await?;
    run_in(&session, async {
        if let Some(warning) = Box::pin(remove(&session, &snapshot)).await? {
            eprintln!("{warning}");
        }
        let (name, repository, namespace) = (&snapshot.name, &snapshot.repository, &tenant.namespace);
        printer::line(&format!("Snapshot {name:?} deleted."));
        session.say(format!(
            "its data stays until two prunes have run, the second at least 24 hours after the first; the server prunes after retention, and \
             `lifeboat stash prune {repository} -n {namespace}` starts one"
        ));
        Ok(())
    })
    .await?;
    if let Some(object) = object {
        let deleted = objects::delete(&tenant.api(SNAPSHOT), &object).await;
        if let Err(error) = deleted {
            eprintln!("The server removes the Snapshot object later: {}", error.chain());
        }
    }
    Ok(())
}

/// The Snapshot object. There is none of older snapshots, and without the right to read it the name has to do.
async fn object(tenant: &Tenant, name: &str) -> Option<DynamicObject> {
    tenant.api(SNAPSHOT).get_opt(name).await.attempt("read the Snapshot").ok().flatten()
}

/// Repository and full id from the object: its name may be shortened.
fn on_record(named: &SnapshotName, object: &DynamicObject) -> SnapshotName {
    let either = |pointer: &str, other: &str| {
        let found = text(object, pointer);
        if found.is_empty() { other.to_owned() } else { found }
    };
    SnapshotName {
        name: named.name.clone(),
        repository: either("/status/repository", &named.repository),
        id: either("/status/id", &named.id),
    }
}

/// Removes the snapshot beside running backups, and gives a warning if its host has no other.
async fn remove(session: &Session, snapshot: &SnapshotName) -> Result<Option<String>, CliError> {
    let repository = session.open().await?;
    let files = repository.list(FileKind::Snapshot).await?;
    let ids: Vec<SnapshotId> = files.iter().map(|file| SnapshotId(file.id)).collect();
    let id = by_prefix(&ids, &snapshot.id)?;
    let warning = last_of_host(&repository.load_readable_snapshots().await?.found, id);
    let removed = forget_named(&repository, &[id], &session.settings.lock).await?;
    if removed.is_empty() {
        return Err(CliError::not_found(format!("snapshot {} is gone already", id.short())));
    }
    Ok(warning)
}

/// The warning that a host has no other complete backup than this one.
fn last_of_host(all: &[FoundSnapshot], id: SnapshotId) -> Option<String> {
    let is_backup =
        |snapshot: &Snapshot| !snapshot.tags.iter().any(|tag| tag == SAFETY_TAG || tag == INCOMPLETE_TAG);
    let (_, own) = all.iter().find(|(known, snapshot)| *known == id && is_backup(snapshot))?;
    let is_other = |(known, snapshot): &&FoundSnapshot| {
        *known != id
            && is_backup(snapshot)
            && (&snapshot.hostname, &snapshot.paths) == (&own.hostname, &own.paths)
    };
    all.iter().find(is_other).is_none().then(|| {
        let (host, paths) = (&own.hostname, own.paths.join(", "));
        format!("Warning: it was the only complete snapshot of {paths} of host {host:?}: until the next backup there is nothing to restore.")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::{back_up, session};

    #[tokio::test]
    async fn the_snapshot_itself_is_removed_and_no_other() {
        let session = session().await;
        let id = back_up(&session, "app", "/data", "one").await;
        let other = back_up(&session, "app", "/data", "two").await;
        let name = SnapshotName::parse(&format!("repo-{}", id.short())).unwrap();
        assert_eq!(remove(&session, &name).await.unwrap(), None);
        let left = session.open().await.unwrap().list(FileKind::Snapshot).await.unwrap();
        assert_eq!(left.iter().map(|file| SnapshotId(file.id)).collect::<Vec<_>>(), [other]);
        let error = remove(&session, &name).await.unwrap_err();
        assert!(error.to_string().contains(&id.short()), "{error}");
        let name = SnapshotName::parse(&format!("repo-{}", other.short())).unwrap();
        let warning = remove(&session, &name).await.unwrap().unwrap();
        assert!(warning.contains("the only complete snapshot of /data of host \"app\""), "{warning}");
    }

    #[test]
    fn a_name_is_a_repository_and_digits() {
        let parsed = SnapshotName::parse("my-repo-0123abcd").unwrap();
        assert_eq!((parsed.repository.as_str(), parsed.id.as_str()), ("my-repo", "0123abcd"));
        for wrong in ["repo", "repo-0123", "repo-0123abcx", "-0123abcd", "Repo-0123abcd"] {
            assert!(SnapshotName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_object_knows_more_than_its_name() {
        let named = SnapshotName::parse("re-0123abcd").unwrap();
        let object = json!({"apiVersion": "repositories.stash.appscode.com/v1alpha1", "kind": "Snapshot",
            "metadata": {"name": "re-0123abcd"}, "status": {"repository": "repository", "id": "0123abcdef"}});
        let found = on_record(&named, &serde_json::from_value(object).unwrap());
        assert_eq!((found.repository.as_str(), found.id.as_str()), ("repository", "0123abcdef"));
    }
}
