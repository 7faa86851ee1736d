//! Times of nodes. A backup writes and reads three for every file, so they are formatted and parsed by hand; `jiff`
//! is only used for the offset of the machine's time zone.

use std::fmt::Write;

/// A time: seconds and nanoseconds UTC since 1970, and the offset in seconds with which it is written. The offset
/// does not change the time, so comparisons ignore it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeTime {
    pub seconds: i64,
    pub nanoseconds: u32,
    pub offset: i32,
}

impl PartialEq for NodeTime {
    fn eq(&self, other: &Self) -> bool {
        (self.seconds, self.nanoseconds) == (other.seconds, other.nanoseconds)
    }
}

impl Eq for NodeTime {}

impl PartialOrd for NodeTime {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for NodeTime {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.seconds, self.nanoseconds).cmp(&(other.seconds, other.nanoseconds))
    }
}

const DAY: i64 = 86_400;
/// The years 0 and 9999: the range of RFC 3339. Times outside of it are moved to the nearest limit.
const FIRST: i64 = -62_167_219_200;
const LAST: i64 = 253_402_300_799;

impl NodeTime {
    /// In UTC.
    pub fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self { seconds, nanoseconds, offset: 0 }
    }

    /// Appends `2026-11-15T18:24:22.123456789Z`: like Go, without trailing zeros in the fraction.
    pub fn write(&self, out: &mut String) {
        let offset = i64::from(self.offset);
        let local = self.seconds.saturating_add(offset).clamp(FIRST, LAST);
        let (days, rest) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        // Writing to a String cannot fail.
        let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if self.nanoseconds > 0 {
            let digits = format!("{:09}", self.nanoseconds.min(999_999_999));
            let _ = write!(out, ".{}", digits.trim_end_matches('0'));
        }
        if self.offset == 0 {
            out.push('Z');
        } else {
            let sign = if self.offset < 0 { '-' } else { '+' };
            let minutes = self.offset.unsigned_abs() / 60;
            let _ = write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        }
    }

    /// Parses RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            bytes.get(from..to)?.iter().try_fold(0_i64, |sum, digit| {
                digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
            })
        };
        let separator =
            |at: usize, expected: &[u8]| bytes.get(at).is_some_and(|byte| expected.contains(byte));
        let separated = separator(4, b"-")
            && separator(7, b"-")
            && separator(10, b"Tt ")
            && separator(13, b":")
            && separator(16, b":");
        let (month, day) = (number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let in_range =
            (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
        if !separated || !in_range {
            return None;
        }
        let mut at = 19;
        let mut nanoseconds = 0_i64;
        if separator(at, b".") {
            let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let used = digits.min(9);
            let power = 10_i64.pow(u32::try_from(9 - used).ok()?);
            nanoseconds = number(at + 1, at + 1 + used)? * power;
            at += 1 + digits;
        }
        let offset = match bytes.get(at..)? {
            b"Z" | b"z" => 0,
            [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
                let seconds = number(at + 1, at + 3)? * 3600 + number(at + 4, at + 6)? * 60;
                i32::try_from(if *sign == b'-' { -seconds } else { seconds }).ok()?
            }
            _ => return None,
        };
        let days = days(number(0, 4)?, month, day);
        let seconds = days * DAY + hour * 3600 + minute * 60 + second - i64::from(offset);
        Some(Self { seconds, nanoseconds: u32::try_from(nanoseconds).ok()?, offset })
    }
}

impl std::fmt::Display for NodeTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.pad(&text)
    }
}

/// Days since 1970 to year, month, day (Howard Hinnant's algorithm, proleptic Gregorian).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of `civil`.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rstest::rstest]
    #[case("1970-01-01T00:00:00Z", 0, 0)]
    #[case("2026-11-15T18:24:22.5+01:00", 1_794_763_462, 500_000_000)]
    #[case("1969-12-31T23:59:59.999999999Z", -1, 999_999_999)]
    #[case("0000-01-01T00:00:00Z", FIRST, 0)]
    #[case("2024-02-29T12:00:00.000000001-09:30", 1_709_242_200, 1)]
    fn times_are_written_as_go_writes_them(
        #[case] text: &str,
        #[case] seconds: i64,
        #[case] nanoseconds: u32,
    ) {
        let time = NodeTime::parse(text).unwrap();
        assert_eq!((time.seconds, time.nanoseconds), (seconds, nanoseconds));
        assert_eq!(time.to_string(), text);
    }

    #[rstest::rstest]
    #[case("")]
    #[case("2026-11-15")]
    #[case("2026-13-15T18:24:22Z")]
    #[case("2026-11-15T18:24:22")]
    #[case("2026-11-15T18:24:22+0100")]
    fn a_text_that_is_not_a_time_is_refused(#[case] text: &str) {
        assert!(NodeTime::parse(text).is_none());
    }

    proptest! {
        #[test]
        fn any_time_comes_back(seconds in FIRST..=LAST, nanoseconds in 0_u32..1_000_000_000) {
            let time = NodeTime::new(seconds, nanoseconds);
            prop_assert_eq!(NodeTime::parse(&time.to_string()), Some(time));
            let jiff: jiff::Timestamp = time.to_string().parse().unwrap();
            prop_assert_eq!(jiff.as_second(), seconds + i64::from(seconds < 0 && nanoseconds > 0));
        }
    }
}
