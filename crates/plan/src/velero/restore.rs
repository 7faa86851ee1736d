//! Decisions of a restore: which items, in which order, changed how, and what an object that already exists means. Called
//! by the restore controller and its executor in crate `velero`; a dry run prints the same decisions.

pub mod hooks;
pub mod idle;
pub mod native;
pub mod provisioned;
pub mod validate;
pub mod volumes;
