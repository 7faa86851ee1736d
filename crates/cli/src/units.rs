//! Sizes, durations and times: parsing them as restic's flags accept them, and formatting them.

use std::time::Duration;

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use lifeboat_api::common::{GoDuration, ParseDurationError};

/// Why a size, a duration or a time is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnitError {
    #[error(transparent)]
    Duration(#[from] ParseDurationError),
    #[error("'{0}' is negative")]
    Negative(String),
    #[error("'{0}' is not a size; write it like 500, 10k, 20M, 1G or 2T")]
    Size(String),
    #[error("'{0}' is not a time; write it like '2026-01-31 12:00:00' or 2026-01-31T12:00:00Z")]
    Time(String),
}

/// A duration in Go's form: `5m`, `2h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, UnitError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed: GoDuration = text.parse()?;
    u64::try_from(parsed.as_nanos())
        .map(Duration::from_nanos)
        .map_err(|_| UnitError::Negative(text.to_owned()))
}

/// A size in bytes with powers of 1024: `512`, `10k`, `1.5G`.
pub(crate) fn size(text: &str) -> Result<u64, UnitError> {
    let wrong = || UnitError::Size(text.to_owned());
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A time: `2026-01-31 12:00:00` in the local zone, RFC 3339, or `now`.
pub(crate) fn time(text: &str) -> Result<Zoned, UnitError> {
    if text == "now" {
        return Ok(Zoned::now());
    }
    let offset = || text.parse::<jiff::Timestamp>().ok().map(|time| time.to_zoned(TimeZone::UTC));
    let local = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"]
        .iter()
        .find_map(|form| DateTime::strptime(form, text).ok())
        .or_else(|| jiff::civil::Date::strptime("%Y-%m-%d", text).ok().map(|date| date.at(0, 0, 0, 0)));
    let zoned = local.and_then(|time| time.to_zoned(TimeZone::system()).ok());
    zoned.or_else(offset).ok_or_else(|| UnitError::Time(text.to_owned()))
}

/// Formats bytes as restic does: `1.500 MiB`.
#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn bytes(count: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| count >> shift > 0) {
        Some((shift, unit)) => format!("{:.3} {unit}", count as f64 / (1_u64 << shift) as f64),
        None => format!("{count} B"),
    }
}

/// Formats a duration as `0:05` or `1:02:03`.
pub(crate) fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Formats a snapshot's time in the local zone.
pub(crate) fn moment(time: &Zoned) -> String {
    time.with_time_zone(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes_of_1024() {
        assert_eq!(size("12"), Ok(12));
        assert_eq!(size("2k"), Ok(2048));
        assert_eq!(size("3M"), Ok(3 << 20));
        for wrong in ["", "k", "-1", "1x", "99999999999T"] {
            assert!(size(wrong).unwrap_err().to_string().contains("not a size"), "{wrong}");
        }
    }

    #[test]
    fn times_are_local_or_have_an_offset() {
        assert_eq!(time("2026-01-31 12:00:00").unwrap().hour(), 12);
        assert_eq!(time("2026-01-31T12:00:00Z").unwrap().timestamp().as_second(), 1_769_860_800);
        assert!(time("yesterday").unwrap_err().to_string().contains("'yesterday'"));
    }

    #[test]
    fn sizes_and_durations_are_readable() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536 * 1024), "1.500 MiB");
        assert_eq!(clock(Duration::from_secs(5)), "0:05");
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
    }
}
