//! Invokers: BackupConfiguration and BackupBatch. Each is checked, reserves its Repository, shows in its status whether it can run,
//! and makes a BackupSession at each due time.

mod controller;
mod gather;
mod invoker;
mod opening;
mod schedule;

pub(crate) use controller::run;
pub(crate) use gather::{
    about_repository, claim, nodes, not_allowed, read as read_repository, secret as backend_secret,
};
pub(crate) use invoker::Invoker;
pub(crate) use schedule::make_session;
