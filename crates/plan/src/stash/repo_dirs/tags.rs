//! The tags of snapshots in a directory. They say what is stored, so that the record of a directory can be made again from its
//! snapshots alone, after the Repository was lost.

use std::collections::BTreeSet;

use lifeboat_api::common::Time;
use lifeboat_api::stash::{BackupRepo, BackupRepoType};

use super::names::RepoDir;
use crate::stash::repository::SnapshotFacts;
use crate::stash::rules::SESSION_TAG;

/// The prefix of the tag with the workload's namespace.
pub const NAMESPACE_TAG: &str = "lifeboat-namespace=";
/// The prefix of the tag with its kind.
pub const KIND_TAG: &str = "lifeboat-kind=";
/// The prefix of the tag with its name.
pub const NAME_TAG: &str = "lifeboat-name=";
/// The prefix of the tag with the Restic that made the backup.
pub const RESTIC_TAG: &str = "lifeboat-restic=";
/// The prefix of the tag with the content of the directory.
pub const TYPE_TAG: &str = "lifeboat-type=";
/// The prefix of the tag with the name of the volume.
pub const VOLUME_TAG: &str = "lifeboat-volume=";

/// The longest value that is believed: no object has a longer name.
const LONGEST: usize = 253;

/// What the tags of a snapshot say about its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirTags {
    pub type_: BackupRepoType,
    pub namespace: String,
    pub kind: String,
    pub name: String,
    pub restic: String,
}

impl DirTags {
    /// The tags, without that of the volume.
    pub fn tags(&self) -> Vec<String> {
        let Self { type_, namespace, kind, name, restic } = self;
        vec![
            format!("{TYPE_TAG}{type_}"),
            format!("{NAMESPACE_TAG}{namespace}"),
            format!("{KIND_TAG}{kind}"),
            format!("{NAME_TAG}{name}"),
            format!("{RESTIC_TAG}{restic}"),
        ]
    }

    /// What the tags of a snapshot say; None if any is missing, or is not of the form that the server writes.
    pub fn read(tags: &[String]) -> Option<Self> {
        let value = |prefix: &str| {
            let found = tags.iter().find_map(|tag| tag.strip_prefix(prefix))?;
            let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
            let is_name = !found.is_empty() && found.len() <= LONGEST && found.chars().all(is_usual);
            is_name.then(|| found.to_owned())
        };
        let type_ = BackupRepoType::from(value(TYPE_TAG)?);
        let is_known = BackupRepoType::KNOWN.contains(&type_);
        Some(Self {
            type_,
            namespace: value(NAMESPACE_TAG)?,
            kind: value(KIND_TAG)?,
            name: value(NAME_TAG)?,
            restic: value(RESTIC_TAG)?,
        })
        .filter(|_| is_known)
    }
}

/// The entry of a directory, from its snapshots; None if none of them has the tags. The newest one says what is stored; backups
/// are counted by their sessions.
pub fn rebuilt(directory: &RepoDir, snapshots: &[SnapshotFacts]) -> Option<BackupRepo> {
    let tagged = || {
        let backups = snapshots.iter().filter(|snapshot| snapshot.is_backup());
        backups.filter_map(|snapshot| Some((snapshot, DirTags::read(&snapshot.tags)?)))
    };
    let (_, newest) = tagged().max_by_key(|(snapshot, _)| (snapshot.time, snapshot.id.clone()))?;
    let session = |snapshot: &SnapshotFacts| {
        let tag = snapshot.tags.iter().find_map(|tag| tag.strip_prefix(SESSION_TAG));
        tag.unwrap_or(&snapshot.id).to_owned()
    };
    let sessions: BTreeSet<String> = tagged().map(|(snapshot, _)| session(snapshot)).collect();
    let complete =
        || tagged().filter(|(snapshot, _)| snapshot.is_complete()).map(|(snapshot, _)| snapshot.time);
    Some(BackupRepo {
        type_: newest.type_,
        workload_kind: Some(newest.kind),
        workload_name: Some(newest.name),
        restic_name: Some(newest.restic),
        restic_namespace: Some(newest.namespace),
        repo_dir: Some(directory.to_string()),
        backup_count: i64::try_from(sessions.len()).ok(),
        first_backup_time: complete().min().map(Time),
        last_backup_duration: None,
        last_backup_time: complete().max().map(Time),
    })
}
