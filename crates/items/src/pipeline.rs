//! The path of an item from its source to the cluster. An item may have additional items, which take the same path:
//! therefore these files depend on each other.
//!
//! ```text
//! run::drive -> item::steps -> namespaces, handler.transform, gates -> apply -> existing
//! ```

mod apply;
mod existing;
mod gates;
pub mod handler;
pub mod item;
pub(crate) mod namespaces;
pub mod recorder;
pub mod run;
mod schedule;
pub mod target;
