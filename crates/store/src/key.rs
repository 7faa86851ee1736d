//! Object keys. The same rule holds for every backend, so that a directory can be moved to a bucket and back:
//! segments separated by `/`, none of them empty, `.` or `..`, no control characters, no backslash (SeaweedFS turns
//! it into a `/`). The local backend relies on this rule: no key leads out of its directory.

use std::fmt;

use crate::error::{Error, Result};

/// S3's limit, the smallest of the supported stores.
const MAX_BYTES: usize = 1024;

/// A valid key, relative to the bucket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    pub fn new(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        match problem(&key) {
            None => Ok(Self(key)),
            Some(problem) => Err(Error::InvalidKey { key, problem }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn problem(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        return Some("it is empty");
    }
    if key.len() > MAX_BYTES {
        return Some("it is longer than 1024 bytes");
    }
    if key.chars().any(|c| c.is_ascii_control()) {
        return Some("it contains a control character");
    }
    if key.contains('\\') {
        return Some("it contains a backslash, which some servers treat as a '/'");
    }
    key.split('/').find_map(|segment| match segment {
        "" => Some("it starts or ends with '/' or contains '//'"),
        "." | ".." => Some("it contains a '.' or '..' segment"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("backups/a/velero-backup.json", true)]
    #[case::special("a b/ü+%~#1?*&=[x]", true)]
    #[case::dots_in_names("a/..b/c..", true)]
    #[case::parent("a/../b", false)]
    #[case::here("./a", false)]
    #[case::absolute("/etc/passwd", false)]
    #[case::trailing_slash("a/", false)]
    #[case::double_slash("a//b", false)]
    #[case::nul("a\0b", false)]
    #[case::newline("a\nb", false)]
    #[case::backslash("a\\b", false)]
    #[case::empty("", false)]
    fn keys_are_checked_before_any_backend_sees_them(#[case] key: &str, #[case] valid: bool) {
        assert_eq!(Key::new(key).is_ok(), valid);
    }

    #[test]
    fn a_key_has_at_most_1024_bytes() {
        assert!(Key::new("a".repeat(1024)).is_ok());
        assert!(Key::new("a".repeat(1025)).is_err());
    }
}
