//! Backups of workloads by Stash's API, on the box: every kind of target, read without a change of its pods, and compared byte for byte with
//! what genuine restic restores.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod backups;
mod batches;
mod databases;
mod faults;
mod restores;
mod snapshotter;
mod workloads;
