//! Repositories: what opens them, their status, their data, and who uses them. Called by the controllers of invokers and sessions:
//!
//! - [`ready`] opens the repository of an invoker, and makes it where there is none;
//! - [`snapshots`] and [`forget`] list and remove snapshots;
//! - [`after_session`] records what a session left: status, Snapshot objects, metrics, the state in the backend;
//! - [`reservations`] says who may use a repository;
//! - [`TenantRepositories`] is the host of repositories for movers.
//!
//! A repository that only movers can open (a volume, pods with a cloud identity) gives [`RepositoryProblem::MoversOnly`] here; the
//! session sends a mover, and hands what it found to [`after_session`] and [`put_on_record`].

pub(crate) mod controller;
mod host;
mod key;
mod look;
mod object;
mod opened;
mod reports;
pub(crate) mod reservations;
mod retention;
mod session_end;
mod snapshot_objects;
pub(crate) mod state;
#[cfg(test)]
mod tests;

pub(crate) use host::TenantRepositories;
pub(crate) use key::{STORAGE, key_of, parts_of};
pub(crate) use look::Looked;
#[allow(
    unused_imports,
    reason = "for repositories that only movers open, which sessions do not use yet"
)]
pub(crate) use look::facts_of;
pub(crate) use opened::{forget, ready};
#[allow(unused_imports, reason = "for restores, and for repositories that only movers open")]
pub(crate) use opened::{put_on_record, snapshots};
pub(crate) use reports::NoReports;
pub(crate) use retention::{apply_policy, forget_safety_copies};
pub(crate) use session_end::{SessionEnd, after_session};

pub(crate) use lifeboat_transfer::repositories::{RepositoryKey, RepositoryProblem};
