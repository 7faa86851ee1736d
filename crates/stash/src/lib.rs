//! Stash's API: the controllers of its kinds, and what they share. Each controller reads, validates, plans, applies and writes
//! status, in that order; what is decided is decided in crate `plan`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod context;
mod metrics;
mod repository;
mod scope;
pub mod settings;
mod tenant_stores;
#[cfg(test)]
mod testing;

pub use settings::StashSettings;
