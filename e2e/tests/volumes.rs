//! Volumes and their data, on the box: what is backed up comes back byte for byte, and every fault ends with a reason and
//! nothing left behind.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

#[path = "volumes/databases.rs"]
mod databases;
#[path = "volumes/faults.rs"]
mod faults;
#[path = "volumes/kills.rs"]
mod kills;
#[path = "volumes/pod_volumes.rs"]
mod pod_volumes;
#[path = "volumes/snapshots.rs"]
mod snapshots;
