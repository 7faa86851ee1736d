//! Repositories: their storage and keys, their status, their data, and their users. Called by the controllers of
//! invokers and sessions:
//!
//! - [`ready`] opens the repository of an invoker, and creates it if it does not exist;
//! - [`snapshots`] lists snapshots, [`apply_policy`] and [`forget_safety_copies`] remove them;
//! - [`directories`] gives the hosts of Restics repositories of their own, in directories of a Repository;
//! - [`after_session`] records the results of a session: status, Snapshot objects, metrics, the state in the backend;
//! - [`reservations`] records who may use a repository;
//! - [`TenantRepositories`] gives movers access to repositories, and [`TenantEffects`] has the effects of transfers
//!   on them.
//!
//! A repository that only movers can open (on a volume, or with the cloud identity of pods) is opened by movers that
//! `by_mover` starts; callers see no difference.

mod by_mover;
pub(crate) mod claims;
pub(crate) mod controller;
pub(crate) mod directories;
mod effects;
mod host;
mod look;
mod object;
mod opened;
mod reports;
pub(crate) mod reservations;
mod retention;
mod session_end;
mod shown;
mod snapshot_objects;
pub(crate) mod state;
#[cfg(test)]
mod tests;
mod used_by;

pub(crate) use crate::repository_key::{key_of, parts_of};
pub(crate) use claims::{invoker_resource, release_gone};
pub(crate) use effects::TenantEffects;
pub(crate) use host::TenantRepositories;
#[cfg(test)]
pub(crate) use opened::forget;
pub(crate) use opened::{Ready, ready, snapshots};
pub(crate) use reports::NoReports;
pub(crate) use retention::{Applied, PolicyRequest, apply_policy, forget_safety_copies};
pub(crate) use session_end::{SessionEnd, after_session, before_end};

pub(crate) use lifeboat_transfer::repositories::{RepositoryKey, RepositoryProblem};
