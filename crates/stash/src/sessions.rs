//! Sessions: runs of backups and restores. One engine processes the members and hosts of BackupSession,
//! RestoreSession and RestoreBatch ([`engine`]); the differences are in the folders `backup` and `restore`.
//! Everything that is done is recorded in the status of the session ([`record`]).

pub(crate) mod backup;
mod batch_hooks;
mod ended;
mod engine;
mod finalizer;
mod hook_authority;
mod hooks;
mod host_hooks;
mod host_record;
mod interruption;
mod kind;
mod lasting;
mod places;
mod pod;
mod record;
mod reported;
pub(crate) mod restore;
mod restores;
mod sizes;
mod snapshotter;
mod tasks;
mod turns;
mod unfinished;
mod volumes;

pub(crate) use tasks::SessionTasks;
