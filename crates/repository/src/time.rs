//! Times as Go writes them to JSON: RFC 3339 with up to nine decimals and the UTC offset of the machine.

/// For `#[serde(with = …)]` on a `Zoned`.
pub mod rfc3339 {
    use jiff::Zoned;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the offset, never the name of a zone.
    pub fn serialize<S: Serializer>(time: &Zoned, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::text(time))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zoned, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        super::parse(&text).map_err(serde::de::Error::custom)
    }
}

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

/// `2026-11-15T18:24:22.123456789+01:00`, with `Z` for UTC.
pub fn text(time: &Zoned) -> String {
    if time.offset() == Offset::UTC {
        return time.timestamp().to_string();
    }
    time.timestamp().display_with_offset(time.offset()).to_string()
}

/// Parses times written by `text` and by Go; keeps the offset.
pub fn parse(text: &str) -> Result<Zoned, jiff::Error> {
    let pieces = jiff::fmt::temporal::DateTimeParser::new().parse_timestamp(text)?;
    let offset = match text.rfind(['+', '-', 'Z', 'z']) {
        Some(at) if text.len() - at == 6 => offset(&text[at..]).unwrap_or(Offset::UTC),
        _ => Offset::UTC,
    };
    Ok(zoned(pieces, offset))
}

/// The time `timestamp`, displayed with `offset`.
pub fn zoned(timestamp: Timestamp, offset: Offset) -> Zoned {
    timestamp.to_zoned(TimeZone::fixed(offset))
}

/// `+02:00` or `-09:30`.
fn offset(text: &str) -> Option<Offset> {
    let (sign, rest) = text.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':')?;
    let seconds = hours.parse::<i32>().ok()? * 3600 + minutes.parse::<i32>().ok()? * 60;
    Offset::from_seconds(if sign == "-" { -seconds } else { seconds }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("2026-11-15T18:24:22.123456789+01:00")]
    #[case("2026-11-15T18:24:22Z")]
    #[case("2026-11-15T18:24:22.5-09:30")]
    #[case("0000-01-01T00:00:00Z")]
    fn a_time_comes_back_as_it_was_written(#[case] given: &str) {
        assert_eq!(text(&parse(given).unwrap()), given);
    }
}
