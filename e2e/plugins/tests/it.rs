//! The plugin host with a misbehaving program and, for `cargo xtask test plugins`, with programs in Go.

#[cfg(feature = "go-plugins")]
mod go;
mod misbehaving;
mod programs;
