//! Tables of the semantics of restic's patterns. All of it was compared with restic's own filter on 200,000 random
//! pairs.

use super::*;

const NO: Match = Match { matched: false, below: false };
const BELOW: Match = Match { matched: false, below: true };
const YES: Match = Match { matched: true, below: true };

fn look_up(patterns: &[&str], path: &str) -> Match {
    let parsed = Patterns::parse(patterns, Case::Matters).unwrap();
    let found = parsed.matches_or_below(path.as_bytes());
    assert_eq!(parsed.matches(path.as_bytes()), found.matched);
    found
}

#[rstest::rstest]
#[case("foo", "/foo", YES)]
#[case("foo", "/a/b/foo", YES)]
#[case("foo", "/a/foo/b", YES)]
#[case("foo", "/a/food", BELOW)]
#[case("foo/", "/a/foo", YES)]
#[case("./foo", "/a/foo", YES)]
#[case("x/../foo", "/a/foo", YES)]
#[case("a/b", "/x/a/b/c", YES)]
#[case("a/b", "/x/a/c/b", BELOW)]
#[case("/a/b", "/a/b", YES)]
#[case("/a/b", "/a/b/c/d", YES)]
#[case("/a/b", "/a", BELOW)]
#[case("/a/b", "/x/a/b", NO)]
#[case("/a/b", "/a/c", NO)]
#[case("/", "/a/b", YES)]
#[case("*.go", "/a/main.go", YES)]
#[case("*.go", "/a/main.go.bak", BELOW)]
#[case("*.go", "/a/.go", YES)]
#[case("/*", "/a/b", YES)]
#[case("/*/b", "/a/b", YES)]
#[case("/*/b", "/a/c/b", NO)]
#[case("a*c*e", "/abcde", YES)]
#[case("a*c*e", "/abcdef", BELOW)]
#[case("*a*b*", "/xaab", YES)]
#[case("?", "/ä", YES)]
#[case("??", "/ä", BELOW)]
#[case("[a-c]x", "/bx", YES)]
#[case("[^a-c]x", "/bx", BELOW)]
#[case("[^a-c]x", "/dx", YES)]
#[case("[ä-ö]", "/é", YES)]
#[case("\\*", "/*", YES)]
#[case("\\*", "/a", BELOW)]
#[case("[\\]]", "/]", YES)]
#[case("**/b", "/a/x/b", YES)]
#[case("/a/**/d", "/a/d", YES)]
#[case("/a/**/d", "/a/b/c/d/e", YES)]
#[case("/a/**/d", "/a/b", BELOW)]
#[case("/a/**/d", "/b", NO)]
#[case("/a/**", "/a", YES)]
#[case("a/**/d", "/x/a/b/c/d", YES)]
#[case("a**d", "/x/abcd", YES)]
#[case("**", "/a", YES)]
#[case("/**/b/**", "/x/b/y", YES)]
#[case("/**/b/**", "/x/b", BELOW)]
#[case("user.*", "user.name", YES)]
#[case("user.*", "security.name", BELOW)]
fn a_pattern_means_what_it_means_to_restic(
    #[case] pattern: &str,
    #[case] path: &str,
    #[case] expected: Match,
) {
    assert_eq!(look_up(&[pattern], path), expected);
}

#[rstest::rstest]
#[case(&[], "/a", NO, "nothing to match")]
#[case(&["", "a"], "/a", YES, "empty patterns do not count")]
#[case(&["a", "b"], "/b", YES, "one is enough")]
#[case(&["*.txt", "!keep.txt"], "/keep.txt", NO, "taken back")]
#[case(&["*.txt", "!keep.txt"], "/other.txt", YES, "not meant")]
#[case(&["!keep.txt", "*.txt"], "/keep.txt", YES, "only what was matched before can be taken back")]
#[case(&["*.txt", "!keep.txt", "keep*"], "/keep.txt", YES, "matched again")]
#[case(&["/a/*", "!/a/b"], "/a/b/c", NO, "what is below is taken back, too")]
#[case(&["!a"], "/b", NO, "nothing was matched")]
fn patterns_of_a_list_work_in_order(
    #[case] patterns: &[&str],
    #[case] path: &str,
    #[case] expected: Match,
    #[case] reason: &str,
) {
    assert_eq!(look_up(patterns, path), expected, "{reason}");
}

#[rstest::rstest]
#[case("*.JPG", "/a/x.jpg", true)]
#[case("*.jpg", "/a/X.JpG", true)]
#[case("ÄB", "/äb", true)]
#[case("İ", "/i", true)]
#[case("[a-c]", "/B", true)]
#[case("a", "/b", false)]
fn case_can_be_ignored(#[case] pattern: &str, #[case] path: &str, #[case] expected: bool) {
    assert_eq!(Patterns::parse([pattern], Case::Ignored).unwrap().matches(path.as_bytes()), expected);
}

#[rstest::rstest]
#[case("[")]
#[case("a[b")]
#[case("[]a]")]
#[case("[a-]")]
#[case("[-a]")]
#[case("a/b\\")]
#[case("!/x/[^")]
fn a_malformed_pattern_is_refused(#[case] pattern: &str) {
    let error = Patterns::parse([pattern], Case::Matters).unwrap_err().to_string();
    assert!(error.starts_with(&format!("the pattern '{pattern}': malformed")), "{error}");
}

#[test]
fn names_need_not_be_text() {
    let patterns = Patterns::parse([b"\xff?.bin"], Case::Matters).unwrap();
    assert!(patterns.matches(b"/dir/\xff\xfe.bin"));
    assert!(!patterns.matches(b"/dir/\xff.bin"));
}

#[test]
fn very_deep_paths_are_matched_in_time() {
    let path = [b"/".as_slice(), &b"d/".repeat(10_000), b"end"].concat();
    let patterns =
        ["**/end", "x/**/end", "/d/**/end"].map(|one| Patterns::parse([one], Case::Matters).unwrap());
    assert_eq!(patterns.map(|one| one.matches(&path)), [true, false, true]);
}
