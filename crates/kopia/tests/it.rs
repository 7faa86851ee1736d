//! The reader on repositories that genuine kopia made. `fixtures/README.md` says how they were made.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

#[path = "it/fixtures.rs"]
mod fixtures;
#[path = "it/hostile.rs"]
mod hostile;
#[path = "it/reading.rs"]
mod reading;
#[path = "it/restoring.rs"]
mod restoring;
#[path = "it/tree.rs"]
mod tree;
