//! Repositories in restic's format, written and read by our binary and by genuine restic. `cargo xtask test repository`
//! builds the programs and says where they are; no cluster is needed.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod interop;
mod places;
mod several;

use std::path::Path;

use tempfile::TempDir;

/// A directory on the disk that holds the build: `/tmp` is memory on some machines, and knows no extended attributes.
fn directory() -> TempDir {
    tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}
