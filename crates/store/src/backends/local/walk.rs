//! One page of a directory tree, in the order of the keys (so `a.b` comes before `a/b`, as in S3). Memory is
//! bounded by the largest directory. An entry that cannot be read fails the page; one that vanished is skipped.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::files;
use crate::backend::{Page, PageRequest};
use crate::backends::paging::Pager;
use crate::error::{Error, Result};

pub(super) fn page(root: &Path, request: &PageRequest) -> Result<Page> {
    let mut pager = Pager::new(request);
    walk(root, "", request, &mut pager)?;
    Ok(pager.finish())
}

/// Offers everything below `directory`, whose keys start with `base`; `false` once the page is full.
fn walk(directory: &Path, base: &str, request: &PageRequest, pager: &mut Pager<'_>) -> Result<bool> {
    for (name, is_directory) in entries(directory, request)? {
        // Folded into one prefix already: the rest of this directory adds nothing.
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
            // It may lead outside or in a circle.
            let detail = format!("'{}' is a link to a directory", entry.path().display());
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

/// Gone between two looks, as opposed to a link that points nowhere.
fn vanished(path: &Path, error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err()
}
