//! Reads the task: the whole of it is understood, or nothing is done. Every version becomes one [`Task`] here.

use std::path::Path;

use serde_json::Value;

use crate::report::{Cause, Failure};
use crate::task::{FILE, Task, TaskFileError, VERSION};

/// The most of a UID that is repeated from a task that could not be read.
const LONGEST_UID: usize = 128;

/// The task of a directory; or why there is none, with its UID if that much can be read.
pub(super) fn load(directory: &Path) -> Result<Task, (Option<String>, Failure)> {
    let path = directory.join(FILE);
    let failed = |problem: String| {
        let message = format!("cannot understand the task '{}': {problem}", path.display());
        Failure { cause: Cause::Task, message }
    };
    let content = std::fs::read(&path).map_err(|error| (None, failed(error.to_string())))?;
    let value: Value = serde_json::from_slice(&content).map_err(|error| (None, failed(error.to_string())))?;
    let uid = value.get("uid").and_then(Value::as_str).map(|uid| uid.chars().take(LONGEST_UID).collect());
    if let Err(problem) = known_version(&value) {
        return Err((uid, failed(problem.to_string())));
    }
    serde_json::from_value(value).map_err(|error| (uid, failed(error.to_string())))
}

/// Looked at first: a field that is not known is no surprise in a version that is not.
fn known_version(value: &Value) -> Result<(), TaskFileError> {
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if (1..=u64::from(VERSION)).contains(&version) => Ok(()),
        Some(version) => Err(TaskFileError::UnknownVersion(version)),
        None => Err(TaskFileError::NoVersion),
    }
}
