//! Volumes and their data, on the box: what is backed up comes back byte for byte by every way, also when the server is killed
//! meanwhile. What else goes wrong is in `volume_faults.rs` and `nodes.rs`.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod databases;
mod kills;
mod pod_volumes;
mod snapshots;
