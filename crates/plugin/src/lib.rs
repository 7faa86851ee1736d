//! What can be done to single items while they are backed up, restored or deleted, and who else can do it. [`actions`] has
//! the traits: built-in actions implement them in process, plugin processes over the wire, and the pipelines of crate
//! `velero` know nothing else. [`applies`] says who an action is for. [`builtin`] has the actions that every installation has;
//! [`volume`] the trait of volume snapshotters. [`host`] finds and runs plugin programs, [`remote`] puts them behind the traits.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod actions;
pub mod applies;
pub mod builtin;
pub mod host;
pub mod remote;
pub mod volume;

pub use actions::{ActionError, Registry};
pub use applies::Applies;
