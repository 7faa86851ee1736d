//! The options of a Restore, and backups over time: on a real cluster, with a server process of the test.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod choices;
mod lifetime;
mod rights;
