//! The record of a Repository's directories, which is in its status: one entry for each.

use std::collections::BTreeSet;

use jiff::Timestamp;
use lifeboat_api::common::{GoDuration, Time};
use lifeboat_api::stash::{BackupRepo, BackupRepoType};

use super::names::{DirPrefix, RepoDir, RepoDirError};
use crate::stash::hosts::{HostOf, TargetKind};

/// A host that needs a directory, and the Restic that stores in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirOwner {
    /// The namespace of the Restic and of the workload.
    pub namespace: String,
    pub restic: String,
    pub kind: TargetKind,
    pub name: String,
    pub part: HostOf,
    pub prefix: DirPrefix,
}

/// Which directory a host gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is on record.
    Recorded(RepoDir),
    /// It is free; the caller looks at what it holds, and records it before anything is stored.
    New(RepoDir),
    /// It has none; the message says who has it.
    Refused(String),
}

/// The other Restics on record for directories that the host may have: whether they still exist decides.
pub fn owners(record: &[BackupRepo], owner: &DirOwner) -> BTreeSet<(String, String)> {
    let candidates = owner.candidates();
    let of_candidates = record.iter().filter(|entry| {
        directory(entry).is_some_and(|directory| candidates.iter().flatten().any(|one| *one == directory))
    });
    let restic = |entry: &BackupRepo| Some((entry.restic_namespace.clone()?, entry.restic_name.clone()?));
    let own = (owner.namespace.clone(), owner.restic.clone());
    of_candidates.filter_map(restic).filter(|other| *other != own).collect()
}

/// Chooses the directory of a host. `existing`: those of [`owners`] that exist.
pub fn choose(record: &[BackupRepo], owner: &DirOwner, existing: &BTreeSet<(String, String)>) -> Choice {
    let candidates = match candidates(owner) {
        Ok(candidates) => candidates,
        Err(error) => return Choice::Refused(error.to_string()),
    };
    let entry_of = |wanted: &RepoDir| record.iter().find(|entry| directory(entry).as_ref() == Some(wanted));
    let own = candidates.iter().find_map(|candidate| {
        entry_of(candidate).filter(|entry| owner.is_of(entry)).map(|entry| (candidate, entry))
    });
    if let Some((candidate, entry)) = own {
        let namespace = entry.restic_namespace.clone().unwrap_or_default();
        let name = entry.restic_name.clone().unwrap_or_default();
        if name != owner.restic && existing.contains(&(namespace.clone(), name.clone())) {
            return Choice::Refused(format!(
                "directory {candidate} of the Repository is used by Restic {namespace}/{name}, which backs up the same workload; delete one of \
                 the two Restics, or set another spec.prefix"
            ));
        }
        return Choice::Recorded(candidate.clone());
    }
    let others: Vec<RepoDir> = record.iter().filter_map(directory).collect();
    let is_free = |candidate: &&RepoDir| !others.iter().any(|other| other.overlaps(candidate));
    match candidates.iter().find(is_free) {
        Some(free) => Choice::New(free.clone()),
        None => Choice::Refused(taken(record, &candidates)),
    }
}

/// The entry of a directory in which nothing was stored yet.
pub fn new_entry(owner: &DirOwner, directory: &RepoDir) -> BackupRepo {
    BackupRepo {
        type_: BackupRepoType::Volumes,
        workload_kind: Some(owner.kind.to_string()),
        workload_name: Some(owner.name.clone()),
        restic_name: Some(owner.restic.clone()),
        restic_namespace: Some(owner.namespace.clone()),
        repo_dir: Some(directory.to_string()),
        ..BackupRepo::default()
    }
}

/// Records a backup in the entry of its directory. `started`: when its session was created, by which a backup counts once, also if
/// the record is written again after a crash.
pub fn note_backup(
    record: &mut [BackupRepo],
    wanted: &RepoDir,
    restic: &str,
    started: Timestamp,
    took: Option<GoDuration>,
) {
    let Some(entry) = record.iter_mut().find(|entry| directory(entry).as_ref() == Some(wanted)) else {
        return;
    };
    if entry.last_backup_time.as_ref().is_some_and(|last| last.0 >= started) {
        return;
    }
    entry.restic_name = Some(restic.to_owned());
    entry.backup_count = Some(entry.backup_count.unwrap_or(0).saturating_add(1));
    entry.first_backup_time.get_or_insert(Time(started));
    entry.last_backup_time = Some(Time(started));
    entry.last_backup_duration = took;
}

impl DirOwner {
    fn candidates(&self) -> [Result<RepoDir, RepoDirError>; 2] {
        self.prefix.candidates(&self.namespace, self.kind, &self.name, &self.part)
    }

    /// Whether an entry is about the same workload. Its namespace is that of its Restic.
    fn is_of(&self, entry: &BackupRepo) -> bool {
        entry.type_ == BackupRepoType::Volumes
            && entry.restic_namespace.as_deref() == Some(&self.namespace)
            && entry.workload_kind.as_deref() == Some(self.kind.as_str())
            && entry.workload_name.as_deref() == Some(&self.name)
    }
}

fn candidates(owner: &DirOwner) -> Result<[RepoDir; 2], RepoDirError> {
    let [plain, of_namespace] = owner.candidates();
    Ok([plain?, of_namespace?])
}

fn directory(entry: &BackupRepo) -> Option<RepoDir> {
    RepoDir::parse("repoDir", entry.repo_dir.as_deref()?).ok()
}

/// Who has the directories of a host.
fn taken(record: &[BackupRepo], candidates: &[RepoDir]) -> String {
    let of = |candidate: &RepoDir| {
        let other =
            record.iter().find(|entry| directory(entry).is_some_and(|dir| dir.overlaps(candidate)))?;
        Some(format!(
            "directory {candidate} of the Repository is in the way of {}, which is used by Restic {}/{} for {} {}",
            other.repo_dir.as_deref().unwrap_or_default(),
            other.restic_namespace.as_deref().unwrap_or_default(),
            other.restic_name.as_deref().unwrap_or_default(),
            other.workload_kind.as_deref().unwrap_or_default(),
            other.workload_name.as_deref().unwrap_or_default(),
        ))
    };
    let found: Vec<String> = candidates.iter().filter_map(of).collect();
    format!("{}; set another spec.prefix", found.join(", and "))
}
