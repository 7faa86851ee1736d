//! One page of a directory tree, in key order (`a.b` comes before `a/b`, as in S3). Memory is bounded by the largest
//! directory. An entry that cannot be read fails the page; one that was deleted meanwhile is skipped.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::files;
use crate::backend::{Page, PageRequest};
use crate::backends::paging::Pager;
use crate::error::{Error, Result};

pub(super) fn page(root: &Path, request: &PageRequest) -> Result<Page> {
    let mut pager = Pager::new(request);
    walk(root, "", request, &mut pager)?;
    Ok(pager.finish())
}

/// Offers everything below `directory`, whose keys start with `base`, to the pager; `false` once the page is full.
fn walk(directory: &Path, base: &str, request: &PageRequest, pager: &mut Pager<'_>) -> Result<bool> {
    for (name, is_directory) in entries(directory, request)? {
        // Already grouped into one prefix: the remaining entries of this directory add nothing.
        if !base.is_empty() && pager.skips(base) {
            return Ok(true);
        }
        let key = format!("{base}{name}");
        let path = directory.join(name.trim_end_matches('/'));
        if is_directory {
            if !pager.skips(&key) && !walk(&path, &key, request, pager)? {
                return Ok(false);
            }
            continue;
        }
        if pager.passed(&key) {
            continue;
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                if !pager.offer(&key, || files::info(&key, &metadata)) {
                    return Ok(false);
                }
            }
            Ok(_) => {}
            Err(error) if vanished(&path, &error) => {}
            Err(error) => return Err(files::disk("read", &path, error)),
        }
    }
    Ok(true)
}

/// Removes the unfinished files below `directory` that were not modified for `age`, and counts them. Links are not
/// followed. A file that another process removes meanwhile is not an error.
pub(super) fn remove_unfinished(root: &Path, directory: &Path, age: Duration) -> Result<u64> {
    let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
    let Ok(before) = files::clock(root)?.checked_sub(age) else { return Ok(0) };
    let (mut removed, mut waiting) = (0, vec![directory.to_path_buf()]);
    while let Some(directory) = waiting.pop() {
        let reader = match fs::read_dir(&directory) {
            Ok(reader) => reader,
            Err(error) if vanished(&directory, &error) => continue,
            Err(error) => return Err(files::disk("list", &directory, error)),
        };
        for entry in reader {
            let entry = entry.map_err(|error| files::disk("list", &directory, error))?;
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(path),
                Ok(kind) if kind.is_file() && left_behind(&entry, before) => {
                    files::remove(root, &path)?;
                    removed += 1;
                }
                Ok(_) => {}
                Err(error) if vanished(&path, &error) => {}
                Err(error) => return Err(files::disk("read", &path, error)),
            }
        }
    }
    Ok(removed)
}

fn left_behind(entry: &fs::DirEntry, before: Timestamp) -> bool {
    entry.file_name().to_str().is_some_and(files::is_unfinished)
        && entry.metadata().is_ok_and(|metadata| files::info("", &metadata).modified < before)
}

/// The names in a directory, those of directories with a `/`, sorted.
fn entries(directory: &Path, request: &PageRequest) -> Result<Vec<(String, bool)>> {
    let fail = |error| files::disk("list", directory, error);
    let reader = match fs::read_dir(directory) {
        Ok(reader) => reader,
        Err(error) if vanished(directory, &error) => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    let mut names = Vec::new();
    for entry in reader {
        let entry = entry.map_err(fail)?;
        let Ok(mut name) = entry.file_name().into_string() else {
            let detail = format!("'{}' is not UTF-8", entry.path().display());
            return Err(Error::Listing { prefix: request.prefix.clone(), detail });
        };
        if files::is_unfinished(&name) {
            continue;
        }
        let kind = entry.file_type().map_err(fail)?;
        if kind.is_symlink() && entry.path().is_dir() {
            // The link may lead outside of the root or back to a parent.
            let detail = format!("'{}' is a symbolic link to a directory", entry.path().display());
            return Err(Error::Listing { prefix: request.prefix.clone(), detail });
        }
        let is_directory = kind.is_dir();
        if is_directory {
            name.push('/');
        }
        names.push((name, is_directory));
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether the entry was deleted between listing and reading; a dangling link still exists.
fn vanished(path: &Path, error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err()
}
