//! Invokers: whether a BackupConfiguration, BackupBatch, Restic, RestoreSession or RestoreBatch is valid beyond the checks of
//! the API server, and its conditions and phase. Takes the spec and the gathered facts; gives types that can only
//! hold valid values. Called by the controllers of these kinds.
//!
//! - [`backup_configuration`], [`backup_batch`], [`restic`] -> [`ValidBackup`]; [`restore_session`], [`restore_batch`] -> [`ValidRestore`]; or all
//!   [`Problems`] at once.
//! - [`backup_hosts`], [`restore_hosts`]: the hosts of the members, for `hosts::collisions` and for the claim of a reservation.
//! - [`InvokerStatus::of`]: conditions and phase of an invoker of backups; [`observe_restore`]: conditions of a restore.

mod backup;
mod elsewhere;
mod member;
mod problem;
mod restic;
mod restore;
mod status;

pub use backup::{ValidBackup, ValidRetries, backup_batch, backup_configuration};
pub use member::{MemberHooks, ValidDriver, ValidMember, ValidTarget, backup_hosts, restore_hosts};
pub use problem::{Problem, Problems};
pub use restic::restic;
pub use restore::{ValidRestore, ValidRestoreMember, ValidRestoreTarget, restore_batch, restore_session};
pub use status::{Gathered, InvokerStatus, Presence, observe_restore};

#[cfg(test)]
mod tests;
