//! Reads the task: either all of it is understood, or nothing is done. Every version becomes one [`Task`] here.

use std::path::Path;

use serde_json::Value;

use crate::report::{Cause, Failure};
use crate::task::{FILE, Task, TaskFileError, VERSION};

/// The longest UID that is copied from a task that could not be read.
const LONGEST_UID: usize = 128;

/// The task in a directory; or the failure, with the task's UID if at least that can be read.
pub(super) fn load(directory: &Path) -> Result<Task, (Option<String>, Failure)> {
    let path = directory.join(FILE);
    let failed = |problem: String| {
        let message = format!("the task '{}' is invalid: {problem}", path.display());
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

/// Checked first, because a newer version may have unknown fields.
fn known_version(value: &Value) -> Result<(), TaskFileError> {
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if (1..=u64::from(VERSION)).contains(&version) => Ok(()),
        Some(version) => Err(TaskFileError::UnknownVersion(version)),
        None => Err(TaskFileError::NoVersion),
    }
}
