//! Cron expressions: five fields with names, `@daily` and the like, `@every 6h`, and an optional time zone in front.
//! Parses the text and computes the next time after a given one. Accepts what upstream accepts, with the same meaning
//! and two intended differences: an expression that matches no date is refused instead of never running, and a time
//! that a clock change skips (02:30 when the clock goes from 02:00 to 03:00) runs afterwards instead of being lost.

mod fields;

use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifeboat_api::common::{GoDuration, ParseDurationError};

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Cron {
    times: Times,
}

#[derive(Clone, Debug, PartialEq)]
enum Times {
    Every(SignedDuration),
    Pattern { pattern: Box<croner::Cron>, zone: TimeZone },
}

/// Why an expression is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error("it is empty; write a cron expression such as \"0 3 * * *\", \"@daily\" or \"@every 6h\"")]
    Empty,
    #[error(
        "{text:?} has {found} fields; a cron expression has five: minute, hour, day of month, month, day of week"
    )]
    Fields { text: String, found: usize },
    #[error("{text:?} is not a cron expression: {reason}")]
    Pattern { text: String, reason: String },
    #[error("{text:?} matches no date, so no backup would ever be created")]
    NoDate { text: String },
    #[error("{text:?} is unknown; there are @yearly, @monthly, @weekly, @daily, @hourly and @every DURATION")]
    Name { text: String },
    #[error("{text:?} has no valid duration: {source}")]
    Every { text: String, source: ParseDurationError },
    #[error("{text:?}: the shortest time between two backups is one second")]
    TooOften { text: String },
    #[error("time zone {zone:?} is unknown; write one such as Europe/Berlin or UTC")]
    Zone { zone: String },
}

impl Cron {
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        let (zone, rest) = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
            Some(zoned) => {
                let (name, rest) = zoned.split_once(char::is_whitespace).unwrap_or((zoned, ""));
                (zone(name)?, rest.trim())
            }
            None => (TimeZone::UTC, text),
        };
        if rest.is_empty() {
            return Err(CronError::Empty);
        }
        if let Some(length) = rest.strip_prefix("@every ") {
            return every(rest, length.trim());
        }
        pattern(rest, zone)
    }

    /// The first time after `after`, on a whole second. `None` only past the end of the calendar.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = Timestamp::from_second(after.as_second()).ok()?;
        match &self.times {
            Times::Every(length) => after.checked_add(*length).ok(),
            Times::Pattern { pattern, zone } => {
                let start = after.to_zoned(zone.clone());
                pattern.find_next_occurrence(&start, false).ok().map(|time| time.timestamp())
            }
        }
    }

    /// The latest time in `(from, until]`. It is found only through [`Cron::next`], so that a run has the same time
    /// no matter where the search starts.
    pub fn latest(&self, from: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let first = self.next(from).filter(|first| *first <= until)?;
        if let Times::Every(length) = &self.times {
            let more = until.duration_since(first).as_secs() / length.as_secs();
            return first.checked_add(SignedDuration::from_secs(more * length.as_secs())).ok();
        }
        // Invariant: the next time after `low` is in the range, the next time after `high` is not.
        let (mut low, mut high) = (from.as_second(), until.as_second());
        let mut found = first;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let next = Timestamp::from_second(middle).ok().and_then(|time| self.next(time));
            match next.filter(|time| *time <= until) {
                Some(time) => (low, found) = (time.as_second(), time),
                None => high = middle,
            }
            if low >= high {
                break;
            }
        }
        Some(found)
    }

    /// The latest time up to `now`, however long ago: for when the recorded time of the last run cannot be used.
    pub(super) fn latest_ever(&self, now: Timestamp) -> Option<Timestamp> {
        if matches!(self.times, Times::Every(_)) {
            return Timestamp::from_second(now.as_second()).ok();
        }
        // The longest gap is that of 29 February (1896 to 1904): eight years.
        let nine_years = SignedDuration::from_hours(9 * 366 * 24);
        self.latest(now.checked_sub(nine_years).unwrap_or(Timestamp::MIN), now)
    }
}

fn zone(name: &str) -> Result<TimeZone, CronError> {
    // Upstream's server knows its own zone as "Local", and no name means UTC; Lifeboat's server always uses UTC.
    if matches!(name, "UTC" | "Local" | "") {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| CronError::Zone { zone: name.to_owned() })
}

fn every(text: &str, length: &str) -> Result<Cron, CronError> {
    let duration: GoDuration =
        length.parse().map_err(|source| CronError::Every { text: text.to_owned(), source })?;
    // Fractions of a second are truncated, as upstream does.
    let seconds = duration.to_signed().as_secs();
    if seconds < 1 {
        return Err(CronError::TooOften { text: text.to_owned() });
    }
    Ok(Cron { times: Times::Every(SignedDuration::from_secs(seconds)) })
}

fn pattern(text: &str, zone: TimeZone) -> Result<Cron, CronError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        name if name.starts_with('@') => return Err(CronError::Name { text: name.to_owned() }),
        fields => fields,
    };
    let found = fields.split_whitespace().count();
    if found != 5 {
        return Err(CronError::Fields { text: text.to_owned(), found });
    }
    if let Some(reason) = fields::problem(fields) {
        return Err(CronError::Pattern { text: text.to_owned(), reason });
    }
    // `5/10` means "every 10th, starting at 5", as in upstream.
    let parser =
        CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).sloppy_ranges(true).build();
    let wrong = |error: &croner::errors::CronError| CronError::Pattern {
        text: text.to_owned(),
        reason: reason(error),
    };
    let pattern = parser.parse(fields).map_err(|error| wrong(&error))?;
    let cron = Cron { times: Times::Pattern { pattern: Box::new(pattern), zone } };
    // Any start works: every date recurs after 8 years at the latest.
    if cron.next(Timestamp::UNIX_EPOCH).is_none() {
        return Err(CronError::NoDate { text: text.to_owned() });
    }
    Ok(cron)
}

/// The parser's message, without its prefix.
fn reason(error: &croner::errors::CronError) -> String {
    use croner::errors::CronError as Inner;
    match error {
        Inner::InvalidPattern(message)
        | Inner::IllegalCharacters(message)
        | Inner::ComponentError(message) => message.trim_end_matches('.').to_owned(),
        other => other.to_string(),
    }
}
