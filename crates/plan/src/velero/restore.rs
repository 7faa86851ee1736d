//! Decisions about Restores: validation, hooks, volumes, and warnings about settings without effect. Called by the
//! restore controller and its executor in crate `velero`; a dry run prints the same decisions.

pub mod hooks;
pub mod idle;
pub mod native;
pub mod outcome;
pub mod provisioned;
pub mod validate;
pub mod volumes;
