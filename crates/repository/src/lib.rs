//! A repository engine in restic's format. ARCHITECTURE.md describes how the modules work together.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod backup;
pub mod blobs;
mod cache;
pub mod cat;
pub mod change_password;
pub mod check;
pub mod chunker;
pub mod compress;
pub mod config;
pub mod copy;
pub mod crypto;
pub mod diff;
pub mod dump;
pub mod error;
pub mod files;
pub mod find;
pub mod forget;
pub mod id;
pub mod identity;
pub mod index;
pub mod keys;
mod listing;
pub mod location;
pub mod lock;
mod locked;
pub mod ls;
pub mod migrate;
pub mod node;
pub mod pack;
pub mod progress;
pub mod prune;
pub mod remove_key;
pub mod repair;
pub mod repository;
pub mod restore;
pub mod saver;
pub mod snapshot;
pub mod snapshots;
pub mod source;
pub mod states;
pub mod stats;
pub mod tag;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod time;
pub mod used;
pub mod walk;

pub use error::{Error, Result, Retry};
