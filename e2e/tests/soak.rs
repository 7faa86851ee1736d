//! Faults again and again: `cargo xtask test soak`. What was seen is in docs/reliability.md.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // tests end by panicking; the soak reports

#[path = "soak/kills.rs"]
mod kills;
#[path = "soak/leadership.rs"]
mod leadership;
#[path = "soak/restores.rs"]
mod restores;
#[path = "soak/volumes.rs"]
mod volumes;
