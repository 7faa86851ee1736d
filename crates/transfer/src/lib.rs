//! Moves the bytes of volumes for any API: repositories, movers, CSI snapshots of claims and how movers see them,
//! claims that movers fill and how their volumes are handed over. It gets
//! requests, keys and traits; it knows no kind of Velero's API or of any other that asks.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod attempts;
pub mod claims;
pub mod exposure;
pub mod handover;
pub mod movers;
pub mod repositories;
mod service;
pub mod settings;
pub mod snapshots;

pub use service::TransferService;
pub use settings::MoverSettings;
