//! `lifeboat repository`: the real program on directories, without a cluster.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod bench;
mod commands;
mod names;
mod pipes;
mod prepared;
mod restic_name;
