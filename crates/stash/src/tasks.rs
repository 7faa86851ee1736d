//! Tasks of members: databases by built-in tools, and users' Tasks. Reads AppBinding, Secrets, Task and Functions; what they mean is
//! decided in `plan::stash::{databases,tasks}`. Called by backups and by restores:
//!
//! - [`has_task`]: whether a member is worked on by a task at all;
//! - [`task_work`]: what a mover does for the only host of such a member, and in which namespace; None where the task does what is
//!   done without one (upstream's `pvc-backup`);
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
