//! How a task looks in its file. Version 1 has one work, whose UID is the task's; version 2 has parts, each with a UID of
//! its own, and fields that version 1 does not know. A task is written in the lowest version that holds all of it, so that
//! a mover of an older image, whose Secret a newer server writes again, still understands it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Limits, LockTerms, MOST_PARTS, Part, RepositoryAccess, Task, VERSION, Work};

/// UIDs are part of the names of objects, and of a result that has to fit.
const LONGEST_UID: usize = 128;

/// Why a file is not a task. The message names the field and what is expected.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TaskFileError {
    #[error(
        "it is of version {0}, this mover understands 1 to {VERSION}; server and mover are of different versions: give \
         movers the server's image"
    )]
    UnknownVersion(u64),
    #[error("it has no version; expected 1 to {VERSION}")]
    NoVersion,
    #[error("it is of version {version} and has '{field}'; expected '{expected}'")]
    OtherVersion { version: u32, field: &'static str, expected: &'static str },
    #[error("{field}: expected 1 to {LONGEST_UID} characters, it has {length}")]
    Uid { field: &'static str, length: usize },
    #[error("parts: expected 1 to {MOST_PARTS}, there are {0}")]
    Parts(usize),
    #[error("parts: two of them have the UID '{0}'; expected one for each")]
    SameUid(String),
    #[error("repository.passwords: expected the name of at least one file")]
    NoPassword,
}

/// The content of `task.json`, of any version.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TaskFile {
    version: u32,
    uid: String,
    /// Of version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work: Option<Work>,
    /// Of version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<Part>>,
    repository: RepositoryAccess,
    lock: LockTerms,
    #[serde(default)]
    limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
}

impl From<Task> for TaskFile {
    fn from(task: Task) -> Self {
        let Task { uid, mut parts, repository, lock, limits, deadline } = task;
        let fits_version_1 =
            matches!(&*parts, [part] if part.uid == uid && newer_field(&part.work).is_none());
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
            (1, Some(work), None) => match newer_field(&work) {
                None => vec![Part { uid: uid.clone(), work }],
                Some(field) => return Err(other(field, "version 2")),
            },
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
fn newer_field(work: &Work) -> Option<&'static str> {
    let fields: &[(bool, &'static str)] = match work {
        Work::Backup(work) => &[(work.sub_path.is_some(), "subPath"), (work.at.is_some(), "at")],
        Work::Restore(work) => &[
            (!work.include.is_empty(), "include"),
            (!work.exclude.is_empty(), "exclude"),
            (work.folder.is_some(), "folder"),
            (work.sub_path.is_some(), "subPath"),
        ],
        Work::Maintain(_) => &[],
    };
    fields.iter().find(|(is_set, _)| *is_set).map(|(_, name)| *name)
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
    let mut seen = std::collections::HashSet::new();
    if let Some(part) = task.parts.iter().find(|part| !seen.insert(&part.uid)) {
        return Err(TaskFileError::SameUid(part.uid.clone()));
    }
    if task.repository.passwords.is_empty() {
        return Err(TaskFileError::NoPassword);
    }
    Ok(())
}
