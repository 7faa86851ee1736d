//! Tasks of members: databases with built-in tasks, and users' Tasks. Reads AppBinding, Secrets, Task and Functions;
//! `plan::stash::{databases,tasks}` decides what follows from them. Called by backups and by restores:
//!
//! - [`has_task`]: whether a member has a task at all;
//! - [`task_work`]: the work of a mover for the only host of such a member, and its namespace; None if the task does
//!   the same as no task (upstream's `pvc-backup`);
//! - [`TaskWork::source`] is the source of a backup, stored at [`TaskWork::path`]; [`TaskWork::restore`] is the work of a restore, for
//!   each part that `rules::select` gives for `RestoreInto::Task`;
//! - the pod of the mover is that of `sessions::pod::pod_settings_on` with the settings of [`TaskWork::base`].

mod endpoint;
mod gather;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use endpoint::endpoint_pod;
pub(crate) use gather::{TaskProblem, TaskRequest, has_task, task_work};
pub(crate) use work::TaskWork;
