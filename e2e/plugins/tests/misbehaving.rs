//! Plugins that misbehave in the middle of calls: only the call suffers, with a clear word, and no process stays.
#![allow(clippy::unwrap_used, clippy::panic)]

mod actions;
mod storage;
mod volumes;

const PROGRAM: &str = env!("CARGO_BIN_EXE_misbehaving");
const NAME: &str = "example.io/misbehaving";
