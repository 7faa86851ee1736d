//! Sessions: runs of backups and restores. One engine works on members and hosts for BackupSession, RestoreSession and RestoreBatch
//! ([`engine`]); what differs is in a folder of each. All that is done is on record in the status of the session ([`record`]).

pub(crate) mod backup;
mod batch_hooks;
mod ended;
mod engine;
mod finalizer;
mod hook_authority;
mod hooks;
mod host_hooks;
mod host_record;
mod kind;
mod places;
mod pod;
mod record;
pub(crate) mod restore;
mod restores;
mod sizes;
mod snapshotter;
mod tasks;
mod turns;
mod unfinished;
mod volumes;

pub(crate) use tasks::SessionTasks;
