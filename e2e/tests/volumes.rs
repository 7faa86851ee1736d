//! Volumes and their data, on the box: restored byte for byte with every method, also when the server is killed
//! meanwhile. Other faults are in `volume_faults.rs` and `nodes.rs`.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod canary;
mod databases;
mod kills;
mod pod_volumes;
mod snapshots;
