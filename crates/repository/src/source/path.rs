//! Paths as bytes, cleaned and joined as Go's `path/filepath` does on Linux: pure text, without access to the file
//! system.

/// Removes `.`, `..` after another component, and doubled or trailing slashes. `.` for an empty path.
pub fn clean(path: &[u8]) -> Vec<u8> {
    let absolute = path.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            b".." if absolute => {}
            part => parts.push(part),
        }
    }
    let cleaned = parts.join(&b'/');
    match (absolute, cleaned.is_empty()) {
        (true, _) => [b"/", cleaned.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => cleaned,
    }
}

/// `path` below `base`, cleaned.
pub fn join(base: &[u8], path: &[u8]) -> Vec<u8> {
    match (base, path) {
        (b"", path) => clean(path),
        (base, path) => clean(&[base, b"/", path].concat()),
    }
}

/// The path itself if it is absolute, otherwise below `current`; cleaned.
pub fn absolute(current: &[u8], path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") { clean(path) } else { join(current, path) }
}

/// The directory and the last component of a cleaned path; `None` if it has no last component (`/`, `.`, `..`).
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (dir, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&path[..1], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&b"."[..], path),
    };
    (!matches!(name, b"" | b"." | b"..")).then_some((dir, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("", ".")]
    #[case(".", ".")]
    #[case("./", ".")]
    #[case("a//b/./c/", "a/b/c")]
    #[case("a/../..", "..")]
    #[case("../../a", "../../a")]
    #[case("a/../../b", "../b")]
    #[case("/", "/")]
    #[case("//", "/")]
    #[case("/..", "/")]
    #[case("/../a/../b", "/b")]
    fn paths_are_cleaned_as_go_does(#[case] given: &str, #[case] expected: &str) {
        assert_eq!(String::from_utf8(clean(given.as_bytes())).unwrap(), expected);
    }

    #[rstest::rstest]
    #[case("/a/b", Some(("/a", "b")))]
    #[case("/a", Some(("/", "a")))]
    #[case("a", Some((".", "a")))]
    #[case("../a", Some(("..", "a")))]
    #[case("/", None)]
    #[case(".", None)]
    #[case("../..", None)]
    fn the_last_component_is_split_off(#[case] given: &str, #[case] expected: Option<(&str, &str)>) {
        assert_eq!(split(given.as_bytes()), expected.map(|(dir, name)| (dir.as_bytes(), name.as_bytes())));
    }

    #[test]
    fn a_relative_path_is_below_the_current_directory() {
        assert_eq!(absolute(b"/srv", b"a/../b"), b"/srv/b");
        assert_eq!(absolute(b"/srv", b".."), b"/");
        assert_eq!(absolute(b"/srv", b"/x/"), b"/x");
        assert_eq!(join(b"", b"a"), b"a");
        assert_eq!(join(b".", b".."), b"..");
    }
}
