//! [`GoDuration`]: a duration as Go writes it ("720h0m0s"), which is how every Velero and Stash object writes
//! durations.
//!
//! Parses text to nanoseconds and formats them again. The grammar is exactly that of Go's `time.ParseDuration`, so
//! that we accept and refuse the same texts as stock clients.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const SECOND: u64 = 1_000_000_000;

/// The units Go knows, with their length in nanoseconds; micro has two signs (U+00B5 and U+03BC).
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
];

/// A signed length of time in nanoseconds, written as Go writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// The error for a string that is not a Go duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {text:?}: {reason}; write it like \"720h\", \"1h30m\" or \"90s\"")]
pub struct ParseDurationError {
    text: String,
    reason: &'static str,
}

impl GoDuration {
    /// Zero, which in most fields of the API means "not set".
    pub const ZERO: Self = Self(0);

    /// A duration of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A duration of `secs` seconds; at most Go's 292 years.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(SECOND.cast_signed()))
    }

    /// The nanoseconds, negative for a duration into the past.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whether it is zero: stock clients send "0s" for every duration that is not set.
    pub const fn is_unset(&self) -> bool {
        self.0 == 0
    }

    /// Converts to a `jiff` duration, for time arithmetic.
    pub const fn to_signed(self) -> SignedDuration {
        SignedDuration::from_nanos(self.0)
    }

    /// Converts to a std duration, for timers; `None` if it is negative.
    pub fn to_std(self) -> Option<std::time::Duration> {
        u64::try_from(self.0).ok().map(std::time::Duration::from_nanos)
    }

    /// The value of an optional field, with "0s" read as unset.
    pub fn set(field: Option<Self>) -> Option<Self> {
        field.filter(|duration| !duration.is_unset())
    }
}

impl From<std::time::Duration> for GoDuration {
    /// At most Go's 292 years.
    fn from(duration: std::time::Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map(Self).map_err(|reason| ParseDurationError { text: text.to_owned(), reason })
    }
}

impl fmt::Display for GoDuration {
    /// As Go prints it: hours, minutes and seconds from one second on ("1h0m0.5s"), otherwise in one small unit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let text = match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", decimal(nanos, 1_000)),
            1_000_000..SECOND => format!("{}ms", decimal(nanos, 1_000_000)),
            _ => clock(nanos),
        };
        f.pad(&format!("{sign}{text}"))
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GoDuration".into()
    }

    /// Any string, as in upstream's CRDs: a pattern here could reject an object that Velero accepts.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Hours, minutes and seconds; leading zero units are left out.
fn clock(nanos: u64) -> String {
    let (hours, minutes) = (nanos / (3_600 * SECOND), nanos / (60 * SECOND) % 60);
    let seconds = decimal(nanos % (60 * SECOND), SECOND);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// `value / unit` as a decimal number without trailing zeros; `unit` is a power of ten.
fn decimal(value: u64, unit: u64) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
}

/// Go's `time.ParseDuration`: an optional sign, then "0" alone or numbers with units, which are added up.
fn parse(text: &str) -> Result<i64, &'static str> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err("it is empty");
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (nanos, after) = parse_part(rest)?;
        total = total.checked_add(nanos).filter(|sum| *sum <= 1 << 63).ok_or(TOO_LONG)?;
        rest = after;
    }
    match (negative, i64::try_from(total)) {
        (false, Ok(nanos)) => Ok(nanos),
        (false, Err(_)) => Err(TOO_LONG),
        // Includes -2^63, which has no positive counterpart.
        (true, _) => Ok(0i64.wrapping_sub_unsigned(total)),
    }
}

const TOO_LONG: &str = "it is longer than 292 years";

/// One number with its unit from the front of `text`, as nanoseconds, and the remaining text.
fn parse_part(text: &str) -> Result<(u64, &str), &'static str> {
    let (whole, rest) = take_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => take_digits(after),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err("a number is missing");
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    if unit.is_empty() {
        return Err("a number has no unit");
    }
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit).ok_or("a unit is unknown")?;
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| TOO_LONG)? };
    let nanos = whole
        .checked_mul(*unit)
        .and_then(|nanos| nanos.checked_add(fraction_nanos(fraction, *unit)))
        .filter(|nanos| *nanos <= 1 << 63)
        .ok_or(TOO_LONG)?;
    Ok((nanos, rest))
}

/// The digits at the front of `text`, and the remaining text.
fn take_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The fraction "0.<digits>" of a unit, in floating point and truncated as Go does it, so that both give the same
/// result.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Go's own arithmetic; the product is positive and below one unit"
)]
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1f64);
    for digit in digits.bytes() {
        let next = (value <= i64::MAX.unsigned_abs() / 10).then(|| value * 10 + u64::from(digit - b'0'));
        // Digits beyond the precision of 64 bits are ignored.
        let Some(next) = next.filter(|next| *next <= 1 << 63) else { break };
        (value, scale) = (next, scale * 10.0);
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::velero_default_ttl("720h0m0s", 2_592_000 * 1_000_000_000, "720h0m0s")]
    #[case::mixed("1h30m", 5_400_000_000_000, "1h30m0s")]
    #[case::fraction("1.5h", 5_400_000_000_000, "1h30m0s")]
    #[case::fraction_without_whole(".5s", 500_000_000, "500ms")]
    #[case::whole_without_fraction("1.s", 1_000_000_000, "1s")]
    #[case::millis("100ms", 100_000_000, "100ms")]
    #[case::micro_sign("1µs", 1_000, "1µs")]
    #[case::greek_mu("1μs", 1_000, "1µs")]
    #[case::ascii_micro("1.5us", 1_500, "1.5µs")]
    #[case::nanos("12ns", 12, "12ns")]
    #[case::negative("-5m", -300_000_000_000, "-5m0s")]
    #[case::plus("+5s", 5_000_000_000, "5s")]
    #[case::bare_zero("0", 0, "0s")]
    #[case::signed_zero("-0", 0, "0s")]
    #[case::zero("0s", 0, "0s")]
    #[case::any_order("5s1h", 3_605_000_000_000, "1h0m5s")]
    #[case::repeated_unit("1h1h", 7_200_000_000_000, "2h0m0s")]
    #[case::fraction_of_a_second("1h0m0.25s", 3_600_250_000_000, "1h0m0.25s")]
    #[case::sub_nano_is_cut("0.9ns", 0, "0s")]
    #[case::many_digits("0.333333333333333333333h", 1_200_000_000_000, "20m0s")]
    #[case::longest("9223372036854775807ns", i64::MAX, "2562047h47m16.854775807s")]
    #[case::shortest("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s")]
    fn reads_and_prints_as_go_does(#[case] text: &str, #[case] nanos: i64, #[case] printed: &str) {
        let duration: GoDuration = text.parse().expect("a Go duration");
        assert_eq!(duration.as_nanos(), nanos);
        assert_eq!(duration.to_string(), printed);
        assert_eq!(printed.parse(), Ok(duration));
    }

    #[rstest]
    #[case::empty("")]
    #[case::sign_alone("-")]
    #[case::no_unit("3")]
    #[case::zero_with_more("00")]
    #[case::unit_alone("s")]
    #[case::dot_alone(".s")]
    #[case::two_signs("--5s")]
    #[case::inner_sign("1h-5m")]
    #[case::days("3d")]
    #[case::blank("1h 5m")]
    #[case::capital("1H")]
    #[case::too_long("9223372036854775808ns")]
    #[case::far_too_long("99999999999999999999h")]
    #[case::sum_too_long("9223372036854775807ns1ns")]
    #[case::below_the_shortest("-9223372036854775809ns")]
    fn refuses_what_go_refuses(#[case] text: &str) {
        let error = text.parse::<GoDuration>().expect_err("no Go duration");
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }

    #[test]
    fn zero_reads_as_unset() {
        assert_eq!(GoDuration::set(Some(GoDuration::ZERO)), None);
        assert_eq!(GoDuration::set(Some(GoDuration::from_secs(1))), Some(GoDuration::from_secs(1)));
        assert_eq!(GoDuration::from_secs(-1).to_std(), None);
        assert_eq!(GoDuration::from_secs(90).to_std(), Some(std::time::Duration::from_secs(90)));
    }

    #[test]
    fn is_a_plain_string_in_json() {
        let duration: GoDuration = serde_json::from_str(r#""1h30m""#).expect("a duration");
        assert_eq!(serde_json::to_string(&duration).expect("a string"), r#""1h30m0s""#);
        assert!(serde_json::from_str::<GoDuration>("90").is_err(), "numbers are not durations in Go either");
    }
}
