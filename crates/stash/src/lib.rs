//! Stash's API: the controllers of its kinds, and what they share. Each controller reads, validates, plans, applies
//! and writes status, in that order; all decisions are in crate `plan`.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::panic,
        clippy::large_futures,
        clippy::similar_names,
        clippy::items_after_statements,
        clippy::cloned_ref_to_slice_refs
    )
)]

mod abandoned;
mod context;
mod doubts;
mod gateway;
mod invokers;
mod looks;
mod metrics;
mod mover_pods;
mod openings;
mod patience;
mod policies;
mod repository;
mod repository_key;
mod reserved;
mod scope;
mod server_part;
mod sessions;
pub mod settings;
mod snapshot_classes;
mod standstill;
pub mod storage_config;
mod target;
mod tasks;
mod tenant_stores;
#[cfg(test)]
mod testing;

pub use server_part::Stash;
pub use settings::StashSettings;
