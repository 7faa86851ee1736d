//! The encoding of a task in its file. Version 1 has one work, whose UID is the task's; version 2 has parts with UIDs
//! of their own and fields that version 1 does not have. A task is written in the lowest version that can express it,
//! so that a mover with an older image, whose Secret a newer server rewrites, still understands it.

use std::collections::HashSet;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Limits, LockTerms, MOST_PARTS, Part, RepositoryAccess, Source, Target, Task, TaskWork, Transport, VERSION,
};

/// UIDs are part of object names, and of a result of limited size.
const LONGEST_UID: usize = 128;

/// Why a file is not a valid task. The message names the field and what is expected.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TaskFileError {
    #[error(
        "it has version {0}, this mover supports 1 to {VERSION}; server and mover have different versions: use the \
         server's image for movers"
    )]
    UnknownVersion(u64),
    #[error("it has no version; expected 1 to {VERSION}")]
    NoVersion,
    #[error("it has version {version} and the field '{field}'; expected '{expected}'")]
    OtherVersion { version: u32, field: &'static str, expected: &'static str },
    #[error("{field}: expected 1 to {LONGEST_UID} characters, but it has {length}")]
    Uid { field: &'static str, length: usize },
    #[error("parts: expected 1 to {MOST_PARTS}, but there are {0}")]
    Parts(usize),
    #[error("parts: two of them have the UID '{0}'; every part needs a UID of its own")]
    SameUid(String),
    #[error("parts: '{0}' is the done file of two parts for one target; only the last of them may have it")]
    SameDoneFile(String),
    #[error("repository.passwords: expected the name of at least one file")]
    NoPassword,
    #[error("repository: it is missing, and part '{0}' works on one")]
    NoRepository(String),
}

/// The content of `task.json`, of any version.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TaskFile {
    version: u32,
    uid: String,
    /// Version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work: Option<TaskWork>,
    /// Version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<Part>>,
    /// Missing if every part is a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repository: Option<RepositoryAccess>,
    lock: LockTerms,
    #[serde(default)]
    limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
}

impl From<Task> for TaskFile {
    fn from(task: Task) -> Self {
        let Task { uid, mut parts, repository, lock, limits, deadline } = task;
        let fits_version_1 = newer_setting(repository.as_ref(), &limits).is_none()
            && matches!(&*parts, [part] if part.uid == uid && newer_field(&part.work).is_none());
        let (version, work, parts) = if fits_version_1 {
            (1, parts.pop().map(|part| part.work), None)
        } else {
            (VERSION, None, Some(parts))
        };
        Self { version, uid, work, parts, repository, lock, limits, deadline }
    }
}

impl TryFrom<TaskFile> for Task {
    type Error = TaskFileError;

    fn try_from(file: TaskFile) -> Result<Self, TaskFileError> {
        let TaskFile { version, uid, work, parts, repository, lock, limits, deadline } = file;
        let other = |field, expected| TaskFileError::OtherVersion { version, field, expected };
        let parts = match (version, work, parts) {
            (1, Some(work), None) => {
                match newer_field(&work).or_else(|| newer_setting(repository.as_ref(), &limits)) {
                    None => vec![Part { uid: uid.clone(), work }],
                    Some(field) => return Err(other(field, "version 2")),
                }
            }
            (VERSION, None, Some(parts)) => parts,
            (1, ..) => return Err(other("parts", "work")),
            (VERSION, ..) => return Err(other("work", "parts")),
            (version, ..) => return Err(TaskFileError::UnknownVersion(version.into())),
        };
        let task = Self { uid, parts, repository, lock, limits, deadline };
        check(&task)?;
        Ok(task)
    }
}

/// The first field of a work that version 1 does not have.
fn newer_field(work: &TaskWork) -> Option<&'static str> {
    let fields: &[(bool, &'static str)] = match work {
        TaskWork::Backup(work) => &[
            (work.sub_path.is_some(), "subPath"),
            (work.at.is_some(), "at"),
            (work.incomplete_tag, "incompleteTag"),
            (matches!(work.source, Source::Agent { .. }), "agent"),
        ],
        TaskWork::Restore(work) => &[
            (!work.include.is_empty(), "include"),
            (!work.exclude.is_empty(), "exclude"),
            (work.folder.is_some(), "folder"),
            (work.sub_path.is_some(), "subPath"),
            (work.exact, "exact"),
            (matches!(work.target, Target::Agent { .. }), "agent"),
        ],
        TaskWork::Maintain(_) => &[],
        TaskWork::Init => &[(true, "init")],
        TaskWork::Look(_) => &[(true, "look")],
        TaskWork::Forget(_) => &[(true, "forget")],
        TaskWork::Call(_) => &[(true, "call")],
    };
    fields.iter().find(|(is_set, _)| *is_set).map(|(_, name)| *name)
}

/// The first field beside the work that version 1 does not have.
fn newer_setting(repository: Option<&RepositoryAccess>, limits: &Limits) -> Option<&'static str> {
    if repository.is_some_and(|repository| repository.guarded) {
        return Some("guarded");
    }
    match repository.map(|repository| &repository.transport) {
        Some(Transport::Rest { .. }) => Some("rest"),
        Some(Transport::Directory { .. }) => Some("directory"),
        Some(Transport::Direct(_) | Transport::Gateway { .. }) | None => limits.nice.map(|_| "nice"),
    }
}

fn check(task: &Task) -> Result<(), TaskFileError> {
    if task.parts.is_empty() || task.parts.len() > MOST_PARTS {
        return Err(TaskFileError::Parts(task.parts.len()));
    }
    let uids = task.parts.iter().map(|part| ("parts.uid", &part.uid));
    for (field, uid) in std::iter::once(("uid", &task.uid)).chain(uids) {
        if uid.is_empty() || uid.len() > LONGEST_UID {
            return Err(TaskFileError::Uid { field, length: uid.len() });
        }
    }
    let mut seen = HashSet::new();
    if let Some(part) = task.parts.iter().find(|part| !seen.insert(&part.uid)) {
        return Err(TaskFileError::SameUid(part.uid.clone()));
    }
    let mut seen = HashSet::new();
    if let Some((_, file)) = done_files(task).find(|done_file| !seen.insert(*done_file)) {
        return Err(TaskFileError::SameDoneFile(file.display().to_string()));
    }
    match &task.repository {
        Some(repository) if repository.passwords.is_empty() => Err(TaskFileError::NoPassword),
        Some(_) => Ok(()),
        None => match task.parts.iter().find(|part| part.work.needs_repository()) {
            Some(part) => Err(TaskFileError::NoRepository(part.uid.clone())),
            None => Ok(()),
        },
    }
}

/// Targets and their done files. A part that finds its done file has nothing to do, so no two parts may share one.
fn done_files(task: &Task) -> impl Iterator<Item = (&Path, &Path)> {
    task.parts.iter().filter_map(|part| match &part.work {
        TaskWork::Restore(work) => match (&work.target, &work.done_file) {
            (Target::Path { path, .. }, Some(file)) => Some((path.as_path(), file.as_path())),
            _ => None,
        },
        _ => None,
    })
}
