//! An age such as `1y5m7d2h`: restic's durations of calendar years, months, days, and hours.

use std::fmt;
use std::str::FromStr;

use jiff::Zoned;

use crate::error::Error;

const SECOND: i128 = 1_000_000_000;

/// How far back from the newest snapshot; zero by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Age {
    pub years: u32,
    pub months: u32,
    pub days: u32,
    pub hours: u32,
}

/// Nanoseconds since 1970; wide enough for any age before any time.
pub(super) fn nanoseconds(time: &Zoned) -> i128 {
    time.timestamp().as_nanosecond()
}

impl Age {
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// The time this long before `time`, by the calendar in its UTC offset: one month before the 31st of March is the
    /// 31st of February, which is the 3rd of March, as in Go.
    pub(super) fn before(&self, time: &Zoned) -> i128 {
        let months = i64::from(time.year()) * 12 + i64::from(time.month() - 1)
            - i64::from(self.years) * 12
            - i64::from(self.months);
        let first = days_to(months.div_euclid(12), months.rem_euclid(12) + 1);
        let days = first + i64::from(time.day() - 1) - i64::from(self.days);
        // Go looks up the offset of the new time; ours is fixed.
        let of_day = nanoseconds(time) + i128::from(time.offset().seconds()) * SECOND;
        let of_day = of_day.rem_euclid(86_400 * SECOND);
        i128::from(days) * 86_400 * SECOND + of_day
            - i128::from(time.offset().seconds()) * SECOND
            - i128::from(self.hours) * 3600 * SECOND
    }
}

/// Days from 1970 to the first of a month of the Gregorian calendar, for any year.
fn days_to(year: i64, month: i64) -> i64 {
    // Years that start in March, so that the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 - 719_468
}

impl FromStr for Age {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let problem = |problem: &str| Error::invalid(format!("duration '{text}'"), problem);
        let mut age = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if rest.starts_with('-') {
                return Err(problem("negative values are not allowed"));
            }
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, unit) = rest.split_at(digits);
            if number.is_empty() {
                return Err(problem("a number was expected, as in '1y5m7d2h'"));
            }
            let number = number.parse().map_err(|_| problem("a number is too large"))?;
            match unit.chars().next() {
                Some('y') => age.years = number,
                Some('m') => age.months = number,
                Some('d') => age.days = number,
                Some('h') => age.hours = number,
                _ => {
                    return Err(problem(
                        "a number must be followed by y, m, d or h (years, months, days, hours)",
                    ));
                }
            }
            rest = &unit[1..];
        }
        Ok(age)
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, unit) in [(self.years, 'y'), (self.months, 'm'), (self.days, 'd'), (self.hours, 'h')] {
            if number != 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1y5m7d2h", "1y5m7d2h")]
    #[case(" 2h7d ", "7d2h")]
    #[case("1d2d", "2d")]
    #[case("0d", "")]
    #[case("", "")]
    fn durations_are_read_as_restic_reads_them(#[case] age: Age, #[case] shown: &str) {
        assert_eq!(age.to_string(), shown);
    }

    #[rstest]
    #[case("5")]
    #[case("d")]
    #[case("5w")]
    #[case("5ä")]
    #[case("-1d")]
    #[case("1d-2h")]
    #[case("1 d")]
    #[case("99999999999y")]
    fn a_text_that_is_not_a_duration_is_refused(#[case] text: &str) {
        assert!(text.parse::<Age>().is_err());
    }

    #[rstest]
    #[case("2026-03-31T12:00:00Z", "1m", "2026-03-03T12:00:00Z")]
    #[case("2024-02-29T00:00:00Z", "1y", "2023-03-01T00:00:00Z")]
    #[case("2026-01-15T00:30:00+05:30", "1m15d1h", "2025-11-29T23:30:00+05:30")]
    #[case("2026-01-01T00:00:00Z", "2026y", "0000-01-01T00:00:00Z")]
    fn days_and_months_follow_the_calendar(#[case] time: &str, #[case] age: Age, #[case] expected: &str) {
        let [time, expected] = [time, expected].map(|text| crate::time::parse(text).unwrap());
        assert_eq!(age.before(&time), nanoseconds(&expected));
    }

    #[test]
    fn no_age_is_too_large_to_count_back() {
        let most = Age { years: u32::MAX, months: u32::MAX, days: u32::MAX, hours: u32::MAX };
        let time = crate::time::parse("2026-01-01T00:00:00Z").unwrap();
        assert!(most.before(&time) < nanoseconds(&time));
    }
}
