//! Decisions about Kubernetes objects, as pure functions: their inputs (the time, random text, the state of the
//! cluster) are arguments, and a decision is a value that can be compared and printed. There is no client, no clock,
//! no randomness and no tokio in this crate; `cargo xtask lint` checks that.
//!
//! [`velero`] decides about Velero's kinds, [`stash`] about Stash's. [`transfer`] (data of volumes) and [`items`] (objects of a restore)
//! decide for any API and do not depend on the kinds of one. The other modules are shared by all of them.

pub mod conditions;
pub mod facts;
pub mod foreign;
pub mod glob;
pub mod includes;
pub mod install;
pub mod items;
pub mod json;
pub mod label;
pub mod lease;
pub mod own;
pub mod password;
pub mod plugin_images;
pub mod policy;
pub(crate) mod quantity;
pub mod schedule;
pub mod selector;
pub mod stash;
pub mod transfer;
pub mod velero;

pub use lifeboat_api::catalogue;
pub use lifeboat_api::common::time;
