//! `lifeboat repository` as a person without a cluster meets it: the real program on directories.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

#[path = "repository/bench.rs"]
mod bench;
#[path = "repository/commands.rs"]
mod commands;
#[path = "repository/names.rs"]
mod names;
#[path = "repository/pipes.rs"]
mod pipes;
#[path = "repository/prepared.rs"]
mod prepared;
#[path = "repository/restic_name.rs"]
mod restic_name;
