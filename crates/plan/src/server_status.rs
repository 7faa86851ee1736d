//! ServerStatusRequest: a client asks which server answers. Takes the request, gives what to do with it now.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::time::seconds;

/// The version of Velero's API that is served. Stock clients warn unless major and minor are theirs; our own version
/// follows as build metadata.
pub const VELERO_VERSION: &str = "v1.18.3";

/// How long an answered request is kept, upstream's value.
pub const KEEP: Duration = Duration::from_mins(1);

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestPlan {
    /// Write this status.
    Answer(Value),
    /// Answered; look again after this time.
    KeepFor(Duration),
    /// Answered long enough ago.
    Delete,
}

/// Decides for one request. `own_version` is Lifeboat's.
pub fn plan(request: &Value, own_version: &str, now: Timestamp) -> RequestPlan {
    let phase = request.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if phase != "Processed" {
        return RequestPlan::Answer(json!({"status": {
            "phase": "Processed",
            "processedTimestamp": seconds(now),
            "serverVersion": format!("{VELERO_VERSION}+lifeboat.{own_version}"),
            "plugins": [],
        }}));
    }
    let processed = request
        .pointer("/status/processedTimestamp")
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<Timestamp>().ok());
    let Some(processed) = processed else { return RequestPlan::Delete };
    let age = Duration::try_from(now.duration_since(processed)).unwrap_or_default();
    match KEEP.checked_sub(age) {
        Some(rest) if !rest.is_zero() => RequestPlan::KeepFor(rest),
        _ => RequestPlan::Delete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[rstest]
    #[case::new_without_status(json!({}))]
    #[case::new_from_the_stock_client(json!({"spec": {}, "status": {}}))]
    #[case::phase_new(json!({"status": {"phase": "New"}}))]
    fn a_new_request_is_answered_with_a_version_that_stock_clients_accept(#[case] request: Value) {
        let RequestPlan::Answer(patch) = plan(&request, "0.1.0", at(0)) else { panic!("not answered") };
        assert_eq!(patch["status"]["serverVersion"], "v1.18.3+lifeboat.0.1.0");
        assert_eq!(patch["status"]["phase"], "Processed");
        assert_eq!(patch["status"]["processedTimestamp"], "1970-01-01T00:00:00Z");
    }

    #[rstest]
    #[case::just_answered(0, RequestPlan::KeepFor(Duration::from_mins(1)))]
    #[case::half_a_minute_ago(30, RequestPlan::KeepFor(Duration::from_secs(30)))]
    #[case::a_minute_ago(60, RequestPlan::Delete)]
    #[case::the_clock_went_back(-5, RequestPlan::KeepFor(Duration::from_mins(1)))]
    fn an_answered_request_is_kept_for_a_minute(#[case] now: i64, #[case] expected: RequestPlan) {
        let request = json!({"status": {"phase": "Processed", "processedTimestamp": "1970-01-01T00:00:00Z"}});
        assert_eq!(plan(&request, "0.1.0", at(now)), expected);
    }

    #[test]
    fn an_answer_without_a_readable_time_does_not_stay_for_ever() {
        let request = json!({"status": {"phase": "Processed", "processedTimestamp": "yesterday"}});
        assert_eq!(plan(&request, "0.1.0", at(0)), RequestPlan::Delete);
    }
}
