//! Sizes and times as upstream writes them into a status.

/// As in "1.234 GiB".
pub(crate) fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    let mut divisor: u128 = 1024;
    while u128::from(bytes) / divisor >= 1024 && unit + 1 < UNITS.len() {
        divisor *= 1024;
        unit += 1;
    }
    let thousandths = u128::from(bytes) * 1000 / divisor;
    format!("{}.{:03} {}", thousandths / 1000, thousandths % 1000, UNITS[unit])
}

/// As in "1:05": minutes and seconds.
pub(crate) fn minutes(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing(0, "0 B")]
    #[case::bytes(1023, "1023 B")]
    #[case::one(1024, "1.000 KiB")]
    #[case::thousandths(1_325_000_000, "1.234 GiB")]
    #[case::most(u64::MAX, "15.999 EiB")]
    fn a_size_has_three_decimals_and_a_unit(#[case] bytes: u64, #[case] expected: &str) {
        assert_eq!(human_size(bytes), expected);
    }

    #[test]
    fn a_time_is_in_minutes_and_seconds() {
        assert_eq!((minutes(65_900), minutes(0)), ("1:05".to_owned(), "0:00".to_owned()));
    }
}
