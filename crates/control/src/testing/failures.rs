//! Failures of requests that tests inject.

use lifeboat_cluster::testing::{Asked, failure};
use serde_json::Value;

use super::Verb;

/// Selects requests by verb, path and body.
#[derive(Clone, Debug)]
pub struct Requests {
    verb: Option<Verb>,
    path: String,
    field: Option<String>,
    writes_only: bool,
}

impl Requests {
    /// Requests of one verb. A `*` at the beginning or the end of `path` stands for any text.
    pub fn new(verb: Verb, path: &str) -> Self {
        Self { verb: Some(verb), ..Self::any(path) }
    }

    /// Requests of every verb. A `*` at the beginning or the end of `path` stands for any text.
    pub fn any(path: &str) -> Self {
        Self { verb: None, path: path.to_owned(), field: None, writes_only: false }
    }

    /// Every request that may change an object. Events and dry runs do not count.
    pub fn writes() -> Self {
        Self { writes_only: true, ..Self::any("*") }
    }

    /// Only requests whose body has this top-level field.
    #[must_use]
    pub fn writing(self, field: &str) -> Self {
        Self { field: Some(field.to_owned()), ..self }
    }

    /// Whether a request is selected.
    pub fn includes(&self, asked: &Asked) -> bool {
        let path = asked.path.as_str();
        let is_here = match (self.path.strip_prefix('*'), self.path.strip_suffix('*')) {
            (Some(_), Some(_)) => path.contains(self.path.trim_matches('*')),
            (Some(end), None) => path.ends_with(end),
            (None, Some(begin)) => path.starts_with(begin),
            (None, None) => path == self.path,
        };
        is_here
            && (!self.writes_only || is_write(asked))
            && self.verb.is_none_or(|verb| Verb::of(asked) == Some(verb))
            && self.field.as_ref().is_none_or(|field| asked.body.get(field).is_some())
    }
}

fn is_write(asked: &Asked) -> bool {
    asked.method != "GET" && !asked.query.contains("dryRun") && !asked.path.contains("/events")
}

/// Which of the selected requests fail, counted from the call that adds the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The next one.
    Next,
    /// This one, counted from 1.
    Nth(usize),
    /// This one, counted from 1, and all that follow, as for a server that was killed.
    From(usize),
    Always,
}

struct Rule {
    requests: Requests,
    when: When,
    code: u16,
    seen: usize,
}

#[derive(Default)]
pub(super) struct Failures(Vec<Rule>);

impl Failures {
    pub(super) fn add(&mut self, requests: Requests, when: When, code: u16) {
        self.0.push(Rule { requests, when, code, seen: 0 });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The response to a request that fails; None if it does not. Every rule that selects the request counts it.
    pub(super) fn of(&mut self, asked: &Asked) -> Option<(u16, Value)> {
        let mut code = None;
        for rule in self.0.iter_mut().filter(|rule| rule.requests.includes(asked)) {
            rule.seen += 1;
            let fails = match rule.when {
                When::Next => rule.seen == 1,
                When::Nth(number) => rule.seen == number,
                When::From(number) => rule.seen >= number,
                When::Always => true,
            };
            code = code.or(fails.then_some(rule.code));
        }
        code.map(|code| failure(code, reason(code)))
    }
}

/// The reason that the API server gives with a code.
fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn patch(path: &str) -> Asked {
        Asked { method: "PATCH".into(), path: path.into(), body: json!({"status": {}}), ..Asked::default() }
    }

    #[rstest]
    #[case::exact("/api/v1/nodes/a", true)]
    #[case::end("*/nodes/a", true)]
    #[case::beginning("/api/v1/*", true)]
    #[case::middle("*v1/nodes*", true)]
    #[case::everything("*", true)]
    #[case::another("/api/v1/nodes/b", false)]
    #[case::part("/api/v1/nodes", false)]
    fn requests_are_selected_by_path(#[case] path: &str, #[case] expected: bool) {
        assert_eq!(Requests::any(path).includes(&patch("/api/v1/nodes/a")), expected);
    }

    #[test]
    fn requests_are_selected_by_verb_and_field() {
        let asked = patch("/api/v1/nodes/a");
        assert!(Requests::new(Verb::Patch, "*").writing("status").includes(&asked));
        assert!(!Requests::new(Verb::Patch, "*").writing("spec").includes(&asked));
        assert!(!Requests::new(Verb::Replace, "*").includes(&asked));
    }

    #[test]
    fn writes_are_requests_that_change_objects() {
        let made = |method: &str, query: &str| Asked {
            method: method.into(),
            query: query.into(),
            ..patch("/api/v1/namespaces/shop/pods")
        };
        assert!(Requests::writes().includes(&made("POST", "fieldManager=x")));
        assert!(Requests::writes().includes(&made("DELETE", "")));
        assert!(!Requests::writes().includes(&made("GET", "")));
        assert!(!Requests::writes().includes(&made("POST", "dryRun=All")));
    }

    #[rstest]
    #[case::next(&[When::Next], &[1])]
    #[case::some(&[When::Nth(1), When::Nth(3), When::Nth(4)], &[1, 3, 4])]
    #[case::from(&[When::From(3)], &[3, 4, 5])]
    #[case::always(&[When::Always], &[1, 2, 3, 4, 5])]
    fn the_requests_that_a_test_names_fail(#[case] rules: &[When], #[case] expected: &[usize]) {
        let mut failures = Failures::default();
        for when in rules {
            failures.add(Requests::any("*"), *when, 503);
        }
        let failed: Vec<usize> =
            (1..=5).filter(|_| failures.of(&patch("/api/v1/nodes/a")).is_some()).collect();
        assert_eq!(failed, expected);
    }
}
