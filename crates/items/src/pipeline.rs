//! The way of an item, from its source to the cluster. An item may ask for other items, which take the same way: therefore
//! these files know each other.
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
