//! A repository engine in restic's format. See ARCHITECTURE.md for how the modules hang together.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod error;
pub mod id;
pub mod location;
pub mod node;
pub mod snapshot;
pub mod time;

pub use error::{Error, Result, Retry};
