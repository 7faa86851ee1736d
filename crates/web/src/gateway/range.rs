//! The header `Range` with one range of bytes. Pure.

use std::ops::Range;

/// A range as it was requested; the size of the file is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// From the first to the second offset, both included.
    Within(u64, u64),
    /// From this offset to the end.
    From(u64),
    /// So many bytes at the end.
    Last(u64),
}

/// The range that a header asks for; None if it is not one range of bytes: then the whole file is sent, as HTTP says.
pub(super) fn parse(header: &str) -> Option<Asked> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    match (first, last) {
        ("", last) => number(last).map(Asked::Last),
        (first, "") => number(first).map(Asked::From),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Asked::Within(first, last))
        }
    }
}

/// The bytes of a file of this size; None if there are none.
pub(super) fn within(asked: Asked, size: u64) -> Option<Range<u64>> {
    let range = match asked {
        Asked::Within(first, last) => first..last.saturating_add(1).min(size),
        Asked::From(first) => first..size,
        Asked::Last(count) => size.saturating_sub(count)..size,
    };
    (range.start < range.end).then_some(range)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::some("bytes=2-4", Some(2..5))]
    #[case::one("bytes=9-9", Some(9..10))]
    #[case::beyond_the_end("bytes=8-99", Some(8..10))]
    #[case::to_the_end("bytes=3-", Some(3..10))]
    #[case::at_the_end("bytes=-4", Some(6..10))]
    #[case::more_than_all("bytes=-40", Some(0..10))]
    #[case::behind_the_end("bytes=10-", None)]
    #[case::nothing_at_the_end("bytes=-0", None)]
    fn a_range_is_cut_to_the_file(#[case] header: &str, #[case] expected: Option<Range<u64>>) {
        assert_eq!(within(parse(header).unwrap(), 10), expected);
    }

    #[rstest]
    #[case::several("bytes=0-1,4-5")]
    #[case::backwards("bytes=5-4")]
    #[case::other_unit("lines=1-2")]
    #[case::signs("bytes=+1-2")]
    #[case::no_number("bytes=a-b")]
    #[case::nothing("bytes=-")]
    #[case::too_large("bytes=0-99999999999999999999")]
    fn another_header_asks_for_no_range(#[case] header: &str) {
        assert_eq!(parse(header), None);
    }
}
