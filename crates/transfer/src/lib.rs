//! Moves the bytes of volumes for any API: repositories, movers, CSI snapshots of a claim, claims that movers fill. It gets
//! requests, keys and traits; it knows no kind of Velero's API or of any other that asks.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod attempts;
pub mod claims;
pub mod movers;
pub mod repositories;
pub mod settings;
pub mod snapshots;

pub use settings::MoverSettings;
