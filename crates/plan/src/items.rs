//! Decisions about the items of a restore, for any API: which items are restored, in which order they start, which
//! fields are removed from an object, what to do with an object that already exists, what an item waits for. Called
//! by the item pipeline in crate `items`; a dry run prints the same decisions.

pub mod existing;
pub mod filter;
pub mod modifiers;
pub mod pod_security;
pub mod priorities;
pub mod relations;
pub mod rules;
pub mod sanitise;
pub mod scheduler;
pub mod trust;
pub mod versions;
pub mod waits;
