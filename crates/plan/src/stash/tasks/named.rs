//! Which task a member has: the invoker's, or the one that the AppBinding names in `parameters.stash.addon`. In a restore the name of a
//! backup's task stands for its counterpart.

use lifeboat_api::stash::{Param, TaskRef};
use serde_json::Value;

use super::TaskError;
use crate::stash::databases::{AppFacts, Direction};

/// Upstream's tasks for a claim, which Lifeboat reads and writes without a task.
const VOLUME_TASKS: [&str; 2] = ["pvc-backup", "pvc-restore"];

/// A task and the values of its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTask {
    pub name: String,
    pub params: Vec<Param>,
}

/// Whether the task of this name does what is done without a task.
pub fn is_volume_task(name: &str) -> bool {
    VOLUME_TASKS.contains(&name)
}

/// The task of a member. `app`: its AppBinding, if it has one.
pub fn named_task(
    direction: Direction,
    task: Option<&TaskRef>,
    app: Option<&AppFacts>,
) -> Result<NamedTask, TaskError> {
    let own = task.cloned().unwrap_or_default();
    let addon = match app {
        Some(app) => addon(direction, app)?,
        None => None,
    };
    let named = match addon {
        Some(addon) if own.name.is_empty() || own.name == addon.name => {
            NamedTask { params: merged(&addon.params, &own.params), name: addon.name }
        }
        _ if own.name.is_empty() => {
            let app = app.map_or_else(|| "a target of this kind".to_owned(), AppFacts::title);
            return Err(TaskError::NoneNamed { app });
        }
        _ => NamedTask { name: own.name, params: own.params },
    };
    match direction {
        Direction::Restore => Ok(NamedTask { name: turned(&named.name, "backup", "restore"), ..named }),
        Direction::Backup => {
            let expected = turned(&named.name, "restore", "backup");
            if expected == named.name {
                Ok(named)
            } else {
                Err(TaskError::RestoreInBackup { name: named.name, expected })
            }
        }
    }
}

/// A name in which `-<from>-`, or `-<from>` at its end, is replaced.
fn turned(name: &str, from: &str, to: &str) -> String {
    if let Some((begin, end)) = name.split_once(&format!("-{from}-")) {
        return format!("{begin}-{to}-{end}");
    }
    match name.strip_suffix(&format!("-{from}")) {
        Some(begin) => format!("{begin}-{to}"),
        None => name.to_owned(),
    }
}

/// The task that an AppBinding names.
fn addon(direction: Direction, app: &AppFacts) -> Result<Option<TaskRef>, TaskError> {
    let field = match direction {
        Direction::Backup => "backupTask",
        Direction::Restore => "restoreTask",
    };
    let addon = app.spec.parameters.as_ref().and_then(|parameters| parameters.get("stash")?.get("addon"));
    let task = addon.and_then(|addon| addon.get(field)).filter(|task| !task.is_null());
    let Some(task) = task else { return Ok(None) };
    let read: Result<TaskRef, _> = serde_json::from_value(Value::clone(task));
    let read = read.map_err(|error| TaskError::Addon { app: app.title(), field, problem: error.to_string() });
    read.map(|task| Some(task).filter(|task| !task.name.is_empty()))
}

/// Parameters, of which those of the invoker take precedence.
fn merged(addon: &[Param], own: &[Param]) -> Vec<Param> {
    let is_replaced = |param: &&Param| own.iter().any(|other| other.name == param.name);
    addon.iter().filter(|param| !is_replaced(param)).chain(own).cloned().collect()
}
