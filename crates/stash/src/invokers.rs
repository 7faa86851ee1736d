//! Invokers: BackupConfiguration, BackupBatch and Restic. For each of them the server validates the spec, reserves the
//! Repository, shows in the status whether backups can run, and creates a BackupSession at each due time.

mod controller;
mod gather;
mod invoker;
mod opening;
mod schedule;
mod targets;
mod workloads;

pub(crate) use controller::run;
pub(crate) use gather::{
    about_repository, claim, may_not_use, nodes, not_allowed, read as read_repository,
    secret as backend_secret,
};
pub(crate) use invoker::Invoker;
pub(crate) use schedule::make_session;
