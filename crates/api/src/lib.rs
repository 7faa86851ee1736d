//! Lifeboat's API objects: every kind of `velero.io`, of Stash's groups and of `appcatalog.appscode.com` as Rust
//! types, the CustomResourceDefinitions made from them, and the names of items and resource types ([`catalogue`]).
//!
//! Only types, their JSON form and their schema; no I/O. Used by every other crate;
//! [`crds`] feeds `lifeboat crds`, `lifeboat install` and the Helm chart.

#![allow(clippy::duplicated_attributes, reason = "two printer columns of one type are no duplicates")]

pub mod appcatalog;
pub mod catalogue;
pub mod common;
pub mod crds;
mod definition;
pub mod repositories;
pub mod stash;
pub mod velero;
