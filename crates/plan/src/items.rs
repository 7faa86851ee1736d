//! Decisions about the items of a restore, whichever API asks for it: which items are restored, in which order they start,
//! what is removed from an object, what an object that already exists means, what is waited for. Called by the item
//! pipeline in crate `items`; a preview prints the same decisions.

pub mod existing;
pub mod filter;
pub mod modifiers;
pub mod outcome;
pub mod priorities;
pub mod relations;
pub mod rules;
pub mod sanitise;
pub mod scheduler;
pub mod trust;
pub mod versions;
pub mod waits;
