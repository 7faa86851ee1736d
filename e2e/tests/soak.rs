//! Repeated faults: `cargo xtask test soak`. The results are in docs/reliability.md.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // tests end by panicking; the soak reports

mod kills;
mod leadership;
mod restores;
mod volumes;
