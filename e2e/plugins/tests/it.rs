//! The plugin host against a program that misbehaves and, for `cargo xtask test plugins`, against programs in Go.

#[cfg(feature = "go-plugins")]
mod go;
mod misbehaving;
mod programs;
