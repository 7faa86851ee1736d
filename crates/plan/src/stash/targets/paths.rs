//! Paths of a target: absolute, without `.`, `..`, doubled or trailing slashes, so that one directory has one name in the
//! repository. Takes what the user wrote; gives a [`CleanPath`] or the reason why it is none.

use std::fmt;

/// An absolute path in its shortest form: `/`, or components that are neither empty nor `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CleanPath(String);

/// Why paths or mounts of a spec cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("{field} {value:?} is not an absolute path; write it like /source/data")]
    NotAbsolute { field: &'static str, value: String },
    #[error("{field} {value:?} has a component '..'; write the path without it")]
    Parent { field: &'static str, value: String },
    #[error("{field} {value:?} has a character that no path may have: NUL")]
    Nul { field: &'static str, value: String },
    #[error(
        "target.volumeMounts has no entry; name the volumes that hold the data, each with the path at which it is mounted"
    )]
    NoMounts,
    #[error(
        "target.volumeMounts: volume {volume:?} has subPath {value:?}; expected a relative path without '..'"
    )]
    SubPath { volume: String, value: String },
    #[error(
        "target.volumeMounts: volume {volume:?} has subPathExpr {value:?}, which depends on the variables of a container; write \
         the directory as subPath"
    )]
    SubPathExpr { volume: String, value: String },
    #[error(
        "target.volumeMounts: volumes {first:?} and {second:?} are both mounted at {mount_path}; give each its own path"
    )]
    SameMount { mount_path: CleanPath, first: String, second: String },
    #[error(
        "path {path} is below no mount of the target; target.volumeMounts has {mounts}: correct the path, or mount the volume that holds it"
    )]
    BelowNoMount { path: CleanPath, mounts: String },
    #[error(
        "path {path} is inside of volume {volume:?}, which is a block volume and has no directories; write the path of its mount"
    )]
    InDevice { path: CleanPath, volume: String },
    #[error(
        "volume {volume:?} is a block volume, and its mountPath is /, which is no name for the file with its content; write it like /dev/data"
    )]
    DeviceRoot { volume: String },
}

impl CleanPath {
    /// Cleans a path. `field`: where the user wrote it, as in `target.paths`.
    pub fn new(field: &'static str, value: &str) -> Result<Self, PathError> {
        if !value.starts_with('/') {
            return Err(PathError::NotAbsolute { field, value: value.to_owned() });
        }
        if value.contains('\0') {
            return Err(PathError::Nul { field, value: value.to_owned() });
        }
        let parts: Vec<&str> = components(value).collect();
        if parts.contains(&"..") {
            return Err(PathError::Parent { field, value: value.to_owned() });
        }
        Ok(Self(format!("/{}", parts.join("/"))))
    }

    /// Reads a path that a snapshot has; None if it is no absolute path, as of a dump that was made with a relative name.
    pub fn stored(value: &str) -> Option<Self> {
        Self::new("path", value).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of `self` below `above`; empty if they are equal, None if it is not below it.
    pub fn below(&self, above: &Self) -> Option<&str> {
        let rest = self.0.strip_prefix(above.0.trim_end_matches('/'))?;
        if rest.is_empty() || rest == "/" {
            return Some("");
        }
        rest.strip_prefix('/')
    }

    /// Whether it is `above` or below it.
    pub fn is_within(&self, above: &Self) -> bool {
        self.below(above).is_some()
    }
}

impl fmt::Display for CleanPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The components that count.
fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !matches!(*part, "" | "."))
}

/// The relative path of a `subPath` in its shortest form; None if it is the volume's root.
pub(super) fn sub_path(volume: &str, value: &str) -> Result<Option<String>, PathError> {
    let parts: Vec<&str> = components(value).collect();
    if value.starts_with('/') || value.contains('\0') || parts.contains(&"..") {
        return Err(PathError::SubPath { volume: volume.to_owned(), value: value.to_owned() });
    }
    Ok((!parts.is_empty()).then(|| parts.join("/")))
}

/// A directory below another one, both relative to a volume's root.
pub(super) fn joined(above: Option<&str>, below: &str) -> Option<String> {
    match (above, below) {
        (None, "") => None,
        (None, below) => Some(below.to_owned()),
        (Some(above), "") => Some(above.to_owned()),
        (Some(above), below) => Some(format!("{above}/{below}")),
    }
}
