//! Moves the data of volumes for any API: repositories and their maintenance, movers, CSI snapshots of claims and how
//! movers read them, claims that movers fill and how the filled volumes are bound to the restored claims, the gateway of
//! movers that get no keys. Callers pass requests, repository keys and traits; this crate knows no kind of Velero's API
//! or of any other caller's.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

pub mod attempts;
pub mod claims;
pub mod exposure;
pub mod gateway;
pub mod handover;
pub mod maintenance;
pub mod movers;
pub mod repositories;
mod service;
pub mod settings;
pub mod snapshots;

pub use service::TransferService;
pub use settings::MoverSettings;
