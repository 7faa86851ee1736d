//! The source of a backup: the local file system. `given` and `targets` define the shape of the snapshot's tree,
//! `walk` traverses it through the handles of `directory`, `filter` and `patterns` exclude entries, `metadata` makes
//! the nodes, `change` decides which files to read, `scan` counts in advance for the progress display. The backup
//! pipeline calls all of them; restore uses `selection`, `accounts` and `stat`.

pub mod accounts;
pub mod change;
pub mod directory;
pub mod filter;
pub mod given;
pub mod metadata;
pub mod path;
pub mod pattern_files;
pub mod patterns;
pub mod scan;
pub mod selection;
pub mod stat;
pub mod targets;
pub mod walk;
mod xattr;
mod zone;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The path in error messages.
fn os_path(path: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(path.to_vec()))
}
