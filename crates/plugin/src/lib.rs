//! Actions on single items of backups, restores and deletions. [`actions`] has the traits: built-in actions implement
//! them in process, plugin processes over the wire, and the pipelines of crate `operator` use nothing else. [`applies`]
//! decides which items an action is for. [`builtin`] has the built-in actions; [`volume`] the trait of volume
//! snapshotters. [`host`] finds and runs plugin programs, [`remote`] implements the traits with them.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod actions;
pub mod applies;
pub mod builtin;
pub mod host;
pub mod remote;
pub mod volume;

pub use actions::{ActionError, Registry};
pub use applies::Applies;
