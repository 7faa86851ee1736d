//! `lifeboat repository` as a person without a cluster meets it: the real program on directories.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod bench;
mod commands;
mod names;
mod pipes;
mod prepared;
mod restic_name;
