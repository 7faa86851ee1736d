//! What a Restore can be told, and what becomes of backups over time: on a real cluster, with a server of our own process.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod choices;
mod lifetime;
