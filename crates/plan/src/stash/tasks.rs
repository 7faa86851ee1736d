//! Tasks: what a mover does for a member that has one. A built-in task streams the dump of a database; a user's Task
//! runs its Functions in turn and leaves files in a directory. Takes the facts that crate `stash` read; gives a
//! [`TaskMover`]: the data, and the additions to the mover's pod.
//!
//! - [`named_task`]: which task a member has, from the invoker or from the AppBinding.
//! - [`built_in_mover`]: the mover of a built-in task.
//! - [`steps_mover`]: the mover of a Task, with its Functions as further containers.
//! - [`TaskPod::onto`]: its pod, on the settings of all movers.

mod images;
mod named;
mod steps;
#[cfg(test)]
mod tests;

pub use named::{NamedTask, is_volume_task, named_task};
pub use steps::{Interim, StepsRequest, TaskFacts, needed_functions, steps_mover};

use std::collections::BTreeMap;

use lifeboat_api::stash::Param;
use serde_json::{Map, Value};

use super::databases::{
    AppAccess, AppError, AppFiles, BuiltIn, CommandError, DUMP_FILE, Family, tool_command,
};
use super::variables::VariableError;
use crate::transfer::movers::PodSettings;

/// What a mover does for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMover {
    pub data: TaskData,
    pub pod: TaskPod,
}

/// What is stored or restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskData {
    /// The output of a program, as one file; or its input.
    Stream { argv: Vec<String>, file: String },
    /// A directory.
    Directory {
        /// Where the mover has it.
        path: String,
        /// Its path in the snapshot, which is where the Functions have it.
        at: String,
    },
}

impl TaskData {
    /// The path in the snapshot.
    pub fn stored_at(&self) -> String {
        match self {
            Self::Stream { file, .. } => format!("/{file}"),
            Self::Directory { at, .. } => at.clone(),
        }
    }
}

/// What a pod has for a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskPod {
    /// The image in which the mover runs; None for the mover's own.
    pub tool_image: Option<String>,
    pub annotations: BTreeMap<String, String>,
    /// Fields of the pod's security context.
    pub security: Map<String, Value>,
    pub env: Vec<Value>,
    pub volumes: Vec<Value>,
    pub mounts: Vec<Value>,
    /// Containers that run before the mover's work, and after it.
    pub before: Vec<Value>,
    pub after: Vec<Value>,
}

impl TaskPod {
    /// The settings of the mover's pod. What runtimeSettings say is added later and takes precedence.
    pub fn onto(&self, mut settings: PodSettings) -> PodSettings {
        let overrides = &mut settings.overrides;
        overrides.annotations.extend(self.annotations.clone());
        overrides.security.extend(self.security.clone());
        overrides.env.extend(self.env.iter().cloned());
        overrides.volumes.extend(self.volumes.iter().cloned());
        overrides.mounts.extend(self.mounts.iter().cloned());
        overrides.init_containers.extend(self.before.iter().cloned());
        overrides.after.extend(self.after.iter().cloned());
        PodSettings { tool_image: self.tool_image.clone(), ..settings }
    }
}

/// Why a task cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    #[error(
        "{app} is backed up and restored by a task: set task.name, as in mysql-backup-8.0.14, or spec.parameters.stash.addon of the \
         AppBinding"
    )]
    NoneNamed { app: String },
    #[error(
        "{app}: spec.parameters.stash.addon.{field} cannot be read ({problem}); expected name and params"
    )]
    Addon { app: String, field: &'static str, problem: String },
    #[error("task.name {name:?} is a restore; expected {expected:?} in a backup")]
    RestoreInBackup { name: String, expected: String },
    #[error(
        "task.name: there is no Task {name:?}, and it is not built in; create it, or use {}-(backup|restore)-VERSION",
        families()
    )]
    NoTask { name: String },
    #[error("task.name {name:?} is a built-in task for databases; set target.ref to an AppBinding")]
    NeedsApp { name: String },
    #[error(
        "Task {task}: steps[{step}].name: there is no Function {function:?}; create it, or correct the name"
    )]
    NoFunction { task: String, step: usize, function: String },
    #[error("Task {task}: it has no step that does anything; add a Function to spec.steps")]
    NoSteps { task: String },
    #[error(
        "Function {function}: image {image:?} is an addon of Stash, which calls Stash's operator and cannot run here; delete Task \
         {task:?} to use the built-in task of this name, or use an image with the database's own tools"
    )]
    UpstreamImage { task: String, function: String, image: String },
    #[error(transparent)]
    Variable(#[from] VariableError),
    #[error("{object} cannot be read after its variables were replaced: {problem}")]
    Replaced { object: String, problem: String },
    #[error(
        "Task {task}: spec.volumes: the name {name:?} is used for the mover's own volumes; choose another"
    )]
    VolumeName { task: String, name: String },
    #[error(
        "Function {function}: volumeMounts: Task {task} has no volume {volume:?}; add it to the Task's spec.volumes"
    )]
    NoVolume { task: String, function: String, volume: String },
    #[error("interimVolumeTemplate has no spec; set accessModes and resources.requests.storage")]
    InterimSpec,
    #[error(transparent)]
    App(#[from] AppError),
    #[error(transparent)]
    Command(#[from] CommandError),
}

fn families() -> String {
    Family::ALL.map(Family::as_str).join("|")
}

/// The mover of a built-in task. `images`: images of tools that the administrator set, by family.
pub fn built_in_mover(
    tool: &BuiltIn,
    app: &AppAccess,
    params: &[Param],
    images: &BTreeMap<String, String>,
) -> Result<TaskMover, TaskError> {
    let command = tool_command(tool, app, params)?;
    let files = AppFiles::of(app);
    Ok(TaskMover {
        data: TaskData::Stream { argv: command.argv, file: DUMP_FILE.to_owned() },
        pod: TaskPod {
            tool_image: Some(tool.image(images)),
            annotations: files.annotations.clone(),
            env: command.env,
            mounts: files.mount().into_iter().collect(),
            volumes: files.volume.into_iter().collect(),
            ..TaskPod::default()
        },
    })
}
