//! ServerStatusRequest: a client asks for the server's version and plugins. Takes the request, gives the next step.
//! What the kind has no field for (the programs of plugins, problems with others) is in an annotation, which
//! `lifeboat plugin get` reads with [`Details::read`].

use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::common::time::seconds;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version of Velero's API that is served. Stock clients warn unless major and minor version equal theirs;
/// Lifeboat's own version is appended as build metadata.
pub const VELERO_VERSION: &str = "v1.18.3";

/// How long an answered request is kept: upstream's value.
pub const KEEP: Duration = Duration::from_mins(1);

/// The next step for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestPlan {
    /// Write this status.
    Answer(Value),
    /// Answered; check again after this time.
    KeepFor(Duration),
    /// Answered long enough ago.
    Delete,
}

/// The annotation of an answer.
pub const DETAILS_ANNOTATION: &str = "lifeboat.io/plugin-details";

/// Limits of the annotation's size: the number of problems, and the length of each.
const MOST_PROBLEMS: usize = 50;
const LONGEST_PROBLEM: usize = 1000;

/// One plugin of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPlugin {
    pub kind: String,
    pub name: String,
    /// `None` where it is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

/// A file in the plugin directory that is not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedProblem {
    pub program: String,
    pub message: String,
}

/// All plugins, and problems with unused files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Plugins of programs only; plugins of the status that are not listed here are built in.
    #[serde(default)]
    pub plugins: Vec<ListedPlugin>,
    #[serde(default)]
    pub problems: Vec<ListedProblem>,
}

impl Details {
    /// From an answered request: all plugins of its status, with the details from the annotation.
    pub fn read(request: &Value) -> Self {
        let text = request["metadata"]["annotations"][DETAILS_ANNOTATION].as_str().unwrap_or_default();
        let known: Self = serde_json::from_str(text).unwrap_or_default();
        let listed = request.pointer("/status/plugins").and_then(Value::as_array).into_iter().flatten();
        let plugins = listed.filter_map(|plugin| {
            let listed: ListedPlugin = serde_json::from_value(plugin.clone()).ok()?;
            let same = |other: &&ListedPlugin| (&other.kind, &other.name) == (&listed.kind, &listed.name);
            Some(known.plugins.iter().find(same).cloned().unwrap_or(listed))
        });
        Self { plugins: plugins.collect(), problems: known.problems }
    }

    fn annotation(&self) -> String {
        let problems = self.problems.iter().take(MOST_PROBLEMS).map(|problem| ListedProblem {
            program: problem.program.clone(),
            message: problem.message.chars().take(LONGEST_PROBLEM).collect(),
        });
        let plugins = self.plugins.iter().filter(|plugin| plugin.program.is_some()).cloned();
        let bounded = Self { plugins: plugins.collect(), problems: problems.collect() };
        serde_json::to_string(&bounded).unwrap_or_default()
    }
}

/// Decides for one request. `own_version` is Lifeboat's, `plugins` all plugins of the server.
pub fn plan(request: &Value, own_version: &str, plugins: &Details, now: Timestamp) -> RequestPlan {
    let phase = request.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if phase != "Processed" {
        let listed: Vec<Value> =
            plugins.plugins.iter().map(|plugin| json!({"kind": plugin.kind, "name": plugin.name})).collect();
        let status = json!({
            "phase": "Processed",
            "processedTimestamp": seconds(now),
            "serverVersion": format!("{VELERO_VERSION}+lifeboat.{own_version}"),
            "plugins": listed,
        });
        let annotations = json!({DETAILS_ANNOTATION: plugins.annotation()});
        return RequestPlan::Answer(json!({"metadata": {"annotations": annotations}, "status": status}));
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
        let RequestPlan::Answer(patch) = plan(&request, "0.1.0", &Details::default(), at(0)) else {
            panic!("not answered")
        };
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
        assert_eq!(plan(&request, "0.1.0", &Details::default(), at(now)), expected);
    }

    #[test]
    fn an_answer_without_a_readable_time_does_not_stay_for_ever() {
        let request = json!({"status": {"phase": "Processed", "processedTimestamp": "yesterday"}});
        assert_eq!(plan(&request, "0.1.0", &Details::default(), at(0)), RequestPlan::Delete);
    }
    #[test]
    fn plugins_and_problems_read_back_from_an_answer() {
        let plugin = |name: &str, program: Option<&str>| ListedPlugin {
            kind: "ObjectStore".into(),
            name: name.into(),
            program: program.map(str::to_owned),
        };
        let problem = |message: String| ListedProblem { program: "/plugins/x".into(), message };
        let details = Details {
            plugins: vec![plugin("velero.io/built-in", None), plugin("velero.io/aws", Some("/plugins/aws"))],
            problems: vec![problem("no plugin".into())],
        };
        let RequestPlan::Answer(answer) = plan(&json!({}), "0.1.0", &details, at(0)) else {
            panic!("not answered")
        };
        let names = json!([{"kind": "ObjectStore", "name": "velero.io/built-in"}, {"kind": "ObjectStore", "name": "velero.io/aws"}]);
        assert_eq!(answer["status"]["plugins"], names);
        assert_eq!(Details::read(&answer), details);

        let endless = Details { problems: vec![problem("ü".repeat(100_000)); 1000], ..Details::default() };
        assert!(endless.annotation().len() < 200_000);
    }
}
