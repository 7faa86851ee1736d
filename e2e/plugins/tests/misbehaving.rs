//! Plugins that misbehave during calls: only the call fails, with a clear message, and no process is left.
#![allow(clippy::unwrap_used, clippy::panic)]

mod actions;
mod storage;
mod volumes;

const PROGRAM: &str = env!("CARGO_BIN_EXE_misbehaving");
const NAME: &str = "example.io/misbehaving";
