//! Decisions about Kubernetes objects, as pure functions: what they need (the time, random text, what the
//! cluster holds) comes in as arguments, what they decide goes out as a value that can be compared and printed.
//! There is no client, no clock, no randomness and no tokio in this crate; `cargo xtask lint` checks that.

pub mod backup;
pub mod backup_repository;
pub mod conditions;
pub mod csi;
pub mod data_movement;
pub mod deletion;
pub mod download;
pub mod filter;
pub mod foreign;
pub mod garbage;
pub mod glob;
pub mod hooks;
pub mod includes;
pub mod install;
pub mod json;
pub mod label;
pub mod lease;
pub mod location;
pub mod movers;
pub mod order;
pub mod password;
pub mod plugin_images;
pub mod pod_volumes;
pub mod policy;
pub mod restore;
pub mod schedule;
pub mod selector;
pub mod server_status;
pub mod sync;
pub mod volume_plugin;
pub mod wishes;

pub use lifeboat_api::catalogue;
pub use lifeboat_api::common::time;
