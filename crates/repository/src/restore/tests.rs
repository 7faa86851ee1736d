//! Snapshots made by hand, good and hostile, restored into temporary directories.

mod damage;
mod exact;
mod hostile;
mod in_place;
pub(crate) mod large;
mod links;
pub(crate) mod make;
mod plain;
mod stored;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};

use super::*;
use make::{Entry, TestSnapshot, directory, file, link, make};

fn options(target: &Path) -> RestoreOptions {
    RestoreOptions { target: target.to_owned(), ..RestoreOptions::default() }
}

/// Without flushing the file system of the tests, which other programs may fill meanwhile.
async fn run(made: &TestSnapshot, options: RestoreOptions) -> Result<RestoreOutcome> {
    run_with(System { flush: |_| Ok(()), ..System::default() }, made, options).await
}

async fn run_with(system: System, made: &TestSnapshot, options: RestoreOptions) -> Result<RestoreOutcome> {
    let cancel = CancellationToken::new();
    restore_with(system, &made.repository, &made.snapshot, options, Arc::default(), cancel).await
}

/// Restores and expects no problems.
async fn run_well(made: &TestSnapshot, options: RestoreOptions) -> RestoreOutcome {
    let outcome = run(made, options).await.unwrap();
    assert_eq!(outcome.problems, []);
    assert!(!outcome.is_incomplete());
    outcome
}

/// Everything below a directory: one line per entry.
fn tree_of(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut stack = vec![root.to_owned()];
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name =
                String::from_utf8_lossy(path.strip_prefix(root).unwrap().as_os_str().as_bytes()).into_owned();
            let metadata = path.symlink_metadata().unwrap();
            let kind = metadata.file_type();
            let mode = metadata.permissions().mode() & 0o7777;
            let line = if kind.is_dir() {
                stack.push(path);
                format!("directory {mode:o}")
            } else if kind.is_symlink() {
                format!("link to {}", std::fs::read_link(&path).unwrap().display())
            } else if kind.is_fifo() {
                format!("fifo {mode:o}")
            } else {
                let content = std::fs::read(&path).unwrap();
                format!("file {mode:o} {} {}", content.len(), crate::id::Id::of(&content).short())
            };
            found.insert(name, format!("{line} {}.{:09}", metadata.mtime(), metadata.mtime_nsec()));
        }
    }
    found
}

/// Content that does not repeat.
pub(crate) fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u8::try_from(state >> 56).unwrap()
    };
    (0..length).map(|_| next()).collect()
}

fn read_at(path: &Path, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    std::fs::File::open(path).unwrap().read_exact_at(&mut bytes, at).unwrap();
    bytes
}
