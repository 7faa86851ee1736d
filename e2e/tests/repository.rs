//! Repositories in restic's format, written and read by our program and by genuine restic; kopia repositories, written by
//! genuine kopia. `cargo xtask test
//! repository` builds the programs and passes their paths; no cluster is needed.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod agents;
#[cfg(feature = "torture")]
mod gateway;
mod interop;
mod kopia;
mod places;
mod several;

use std::path::Path;

use tempfile::TempDir;

/// A directory on the disk of the build: `/tmp` is in memory on some machines, without extended attributes.
fn directory() -> TempDir {
    tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}
