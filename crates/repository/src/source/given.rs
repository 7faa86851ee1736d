//! The targets that the user gave, before they become a tree: wildcards of `--files-from` are expanded as Go's
//! `filepath.Glob` does, and missing files are separated.

use rustix::fs::CWD;

use super::directory::DirectoryHandle;
use super::patterns::Glob;
use super::stat::Stat;
use super::{os_path, path};
use crate::error::{Error, Result};

/// The paths that a wildcard pattern matches; none if nothing matches. Entries that cannot be read do not match.
pub fn expand(pattern: &[u8]) -> Result<Vec<Vec<u8>>> {
    let malformed = || {
        let what = format!("the pattern '{}'", String::from_utf8_lossy(pattern));
        Error::invalid(what, "malformed: a '[' without its ']' or a '\\' at the end")
    };
    if !has_wildcard(pattern) {
        return Ok(if Stat::at(CWD, pattern).is_ok() { vec![pattern.to_vec()] } else { Vec::new() });
    }
    // The components from the first wildcard on are expanded one after the other.
    let mut found = vec![if pattern.starts_with(b"/") { b"/".to_vec() } else { Vec::new() }];
    for component in pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        let glob =
            has_wildcard(component).then(|| Glob::parse(component).ok_or_else(malformed)).transpose()?;
        found = found.iter().flat_map(|base| below(base, component, glob.as_ref())).collect();
    }
    Ok(found)
}

/// The targets that exist, and an error for each of the others.
pub fn existing(targets: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, Vec<Error>) {
    let mut missing = Vec::new();
    let exists = |target: &Vec<u8>| match Stat::at(CWD, target) {
        Ok(_) => true,
        Err(error) => {
            missing.push(Error::file("find", os_path(target))(error));
            false
        }
    };
    let targets = targets.into_iter().filter(exists).collect();
    (targets, missing)
}

fn has_wildcard(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| b"*?[\\".contains(byte))
}

/// The entries of `base` that match, sorted.
fn below(base: &[u8], component: &[u8], glob: Option<&Glob>) -> Vec<Vec<u8>> {
    let joined = |name: &[u8]| if base.is_empty() { name.to_vec() } else { path::join(base, name) };
    let Some(glob) = glob else {
        let path = joined(component);
        return if Stat::at(CWD, &path).is_ok() { vec![path] } else { Vec::new() };
    };
    let directory = DirectoryHandle::open(if base.is_empty() { b"." } else { base });
    let names = directory.and_then(|directory| directory.names()).unwrap_or_default();
    names.filter(|name| glob.matches(name)).map(|name| joined(&name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    #[rstest::rstest]
    #[case("a/x.txt", &["a/x.txt"], "no wildcard")]
    #[case("a/none", &[], "nothing there")]
    #[case("*", &[".hidden", "a", "b"], "hidden ones match, too")]
    #[case("*/*.txt", &["a/x.txt", "a/y.txt", "b/x.txt"], "in several directories")]
    #[case("[ab]/x.???", &["a/x.txt", "b/x.txt"], "other wildcards")]
    #[case("*/x.txt", &["a/x.txt", "b/x.txt"], "a plain name after a wildcard")]
    #[case("a/\\*", &["a/*"], "a star that is a star")]
    #[case("a/x.txt/*", &[], "a file is no directory")]
    fn wildcards_are_expanded(#[case] pattern: &str, #[case] expected: &[&str], #[case] reason: &str) {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", ".hidden"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        for name in ["a/x.txt", "a/y.txt", "a/*", "b/x.txt"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let absolute = |path: &str| dir.path().join(path).as_os_str().as_bytes().to_vec();
        let expected: Vec<_> = expected.iter().map(|path| absolute(path)).collect();
        assert_eq!(expand(&absolute(pattern)).unwrap(), expected, "{reason}");
    }

    #[test]
    fn a_malformed_wildcard_is_refused() {
        assert!(expand(b"/tmp/[").is_err());
    }

    #[test]
    fn missing_targets_are_reported() {
        let (there, missing) = existing(vec![b"/proc".to_vec(), b"/none at all".to_vec()]);
        assert_eq!(there, [b"/proc".to_vec()]);
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].to_string(), "cannot find '/none at all'");
    }
}
