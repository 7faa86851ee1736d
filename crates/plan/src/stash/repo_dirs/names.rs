//! Names of directories in a backend. Each component must be a name that every storage takes, and none that restic uses in a
//! repository.

use std::fmt;

use crate::stash::hosts::{HostName, HostOf, TargetKind};

/// The longest directory: the key of a file in it has room in every storage.
pub const LONGEST: usize = 512;

/// The files and directories of a repository. A directory of one of these names at the root of a backend would be a part of a
/// repository there.
const OF_RESTIC: [&str; 6] = ["data", "index", "keys", "locks", "snapshots", "config"];

/// Why a text is no directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepoDirError {
    #[error("{field} {value:?} has no name; write it like \"volumes\"")]
    Empty { field: &'static str, value: String },
    #[error(
        "{field} {value:?} begins with {name:?}, which restic itself uses in a repository; use another name, such as \"backups/{name}\""
    )]
    OfRestic { field: &'static str, value: String, name: String },
    #[error(
        "{field} {value:?} has the component {component:?}; expected names of letters, digits, '-', '_' and '.', with '/' between them"
    )]
    Component { field: &'static str, value: String, component: String },
    #[error("{field} {value:?} has more than {LONGEST} bytes; use a shorter one")]
    TooLong { field: &'static str, value: String },
}

/// The first part of the directories of a Restic, such as `volumes` or `team-a/volumes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirPrefix(String);

/// A directory in a backend, below its prefix: `/volumes/deployment/app`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoDir(String);

impl DirPrefix {
    /// The prefix that a spec has; without one, the default.
    pub fn of(field: &'static str, given: Option<&str>, default: &str) -> Result<Self, RepoDirError> {
        let given = given.filter(|given| !given.is_empty()).unwrap_or(default);
        checked(field, given).map(Self)
    }

    /// The directories that a host may have, in the order in which they are tried: the plain one, and one for the workload's
    /// namespace.
    pub fn candidates(
        &self,
        namespace: &str,
        kind: TargetKind,
        name: &str,
        part: &HostOf,
    ) -> [Result<RepoDir, RepoDirError>; 2] {
        let kind = kind.as_str().to_lowercase();
        // The host with the workload's name as alias: its pod for a StatefulSet.
        let below = match part {
            HostOf::Node(node) => format!("{kind}/{name}/{node}"),
            part => format!("{kind}/{}", HostName::of(Some(name), part)),
        };
        let directory = |path: String| RepoDir::parse("the directory", &path);
        [directory(format!("/{}/{below}", self.0)), directory(format!("/{}/{namespace}/{below}", self.0))]
    }
}

impl RepoDir {
    /// Reads a directory as a status or a spec has it; slashes at its ends do not matter.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, RepoDirError> {
        checked(field, text).map(|path| Self(format!("/{path}")))
    }

    /// With a slash in front, as the Repository's status shows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without that slash, as a part of keys in the storage.
    pub fn relative(&self) -> &str {
        self.0.trim_start_matches('/')
    }

    /// Whether one of two directories is, or is inside of, the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let within = |inner: &Self, outer: &Self| {
            inner.0.strip_prefix(&outer.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        within(self, other) || within(other, self)
    }
}

impl fmt::Display for RepoDir {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The components of a directory, each checked, with single slashes between them.
fn checked(field: &'static str, value: &str) -> Result<String, RepoDirError> {
    let owned = || value.chars().take(LONGEST).collect::<String>();
    let trimmed = value.strip_prefix('/').unwrap_or(value);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    if trimmed.is_empty() {
        return Err(RepoDirError::Empty { field, value: owned() });
    }
    if trimmed.len() > LONGEST {
        return Err(RepoDirError::TooLong { field, value: owned() });
    }
    if let Some(component) = trimmed.split('/').find(|component| !is_name(component)) {
        return Err(RepoDirError::Component { field, value: owned(), component: component.to_owned() });
    }
    let first = trimmed.split('/').next().unwrap_or_default();
    if OF_RESTIC.contains(&first) {
        return Err(RepoDirError::OfRestic { field, value: owned(), name: first.to_owned() });
    }
    Ok(trimmed.to_owned())
}

fn is_name(component: &str) -> bool {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !matches!(component, "" | "." | "..") && component.chars().all(is_usual)
}
