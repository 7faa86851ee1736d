//! Reading the task: the whole of it is understood, or nothing is done.

use std::path::Path;

use serde_json::Value;

use crate::report::{Cause, Failure};
use crate::task::{FILE, Task, VERSION};

/// No UID is longer: it is part of the names of objects, and of a result that has to fit.
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
    parse(value).map_err(|problem| (uid, failed(problem)))
}

fn parse(value: Value) -> Result<Task, String> {
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "it is of version {version}, this mover understands {VERSION}; server and mover are of different \
                 versions: give movers the server's image"
            ));
        }
        None => return Err(format!("it has no version; expected {VERSION}")),
    }
    let task: Task = serde_json::from_value(value).map_err(|error| error.to_string())?;
    if task.uid.is_empty() || task.uid.len() > LONGEST_UID {
        return Err(format!("uid: expected 1 to {LONGEST_UID} characters, it has {}", task.uid.len()));
    }
    if task.repository.passwords.is_empty() {
        return Err("repository.passwords: expected the name of at least one file".to_owned());
    }
    Ok(task)
}
