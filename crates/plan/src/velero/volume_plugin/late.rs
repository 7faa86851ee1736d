//! The time limit of an operation that continues after its call. Takes its object, a limit and the time.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::json::text;

/// Whether an operation has exceeded its time limit. `since`: its start, if its object does not have it.
pub fn is_over(object: &Value, since: Option<Timestamp>, limit: Duration, now: Timestamp) -> bool {
    let time = |pointer: &str| text(object, pointer).parse::<Timestamp>().ok();
    let begun = time("/status/startTimestamp").or(since).or_else(|| time("/metadata/creationTimestamp"));
    begun.is_none_or(|begun| begun.checked_add(limit).is_ok_and(|end| now >= end))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::by_its_start(json!({"status": {"startTimestamp": "1970-01-01T00:01:00Z"}}), Some(0), 100, false)]
    #[case::by_its_owner(json!({}), Some(0), 100, true)]
    #[case::by_its_creation(json!({"metadata": {"creationTimestamp": "1970-01-01T00:01:00Z"}}), None, 100, false)]
    #[case::at_its_limit(json!({"status": {"startTimestamp": "1970-01-01T00:00:40Z"}}), None, 100, true)]
    #[case::nobody_knows(json!({}), None, 100, true)]
    fn an_operation_has_its_time(
        #[case] object: Value,
        #[case] since: Option<i64>,
        #[case] now: i64,
        #[case] expected: bool,
    ) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let over = is_over(&object, since.map(at), Duration::from_mins(1), at(now));
        assert_eq!(over, expected);
    }
}
