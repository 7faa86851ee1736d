//! Decisions of a restore: which items, in which order, changed how, and what an object that already exists means. Called
//! by the restore controller and its executor in crate `operator`; a dry run prints the same decisions.

pub mod existing;
pub mod filter;
pub mod hooks;
pub mod idle;
pub mod modifiers;
pub mod native;
pub mod outcome;
pub mod priorities;
pub mod provisioned;
pub mod relations;
pub mod sanitise;
pub mod scheduler;
pub mod trust;
pub mod validate;
pub mod versions;
pub mod volumes;
pub mod waits;
