//! Faults at exact moments, on a real cluster: a server of our own process, killed, cut off from storage, answered with
//! nonsense; objects that the API server refuses; archives that nobody should have written.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

#[path = "faults/kills.rs"]
mod kills;
