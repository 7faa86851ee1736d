//! What can be done to single items while they are backed up, restored or deleted. [`actions`] has the traits: built-in
//! actions implement them in process, plugin processes will implement them over the wire, and the pipelines of crate
//! `operator` know nothing else. [`applies`] says who an action is for. [`builtin`] has the actions that every installation has.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod actions;
pub mod applies;
pub mod builtin;

pub use actions::{ActionError, Registry};
pub use applies::Applies;
