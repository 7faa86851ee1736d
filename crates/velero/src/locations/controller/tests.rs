//! The steps on minimal objects, and the writes against the API server of `lifeboat_control::testing`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::controller::Action;
use lifeboat_cluster::objects;
use lifeboat_control::locked;
use lifeboat_control::testing::{ApiServer, Requests, Verb, When};
use lifeboat_plan::velero::location::{Due, PastChecks, PastLook};
use lifeboat_plugin::host::PluginHost;
use rstest::rstest;
use serde_json::{Value, json};

use super::apply::{Outcome, Verdict, apply};
use super::gather::Gathered;
use super::plan::{Look, Plan, plan};
use super::validate::{Opening, Problem, validate};
use super::{State, status};
use crate::context::Context;
use crate::locations::SecretValues;
use crate::testing;

const MINUTE: Duration = Duration::from_mins(1);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn location(name: &str, created: i64, spec: &Value) -> DynamicObject {
    let metadata = json!({"name": name, "namespace": "lifeboat", "uid": name, "resourceVersion": "1",
        "creationTimestamp": at(created).to_string()});
    serde_json::from_value(json!({"apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
        "metadata": metadata, "spec": spec}))
    .unwrap()
}

fn spec() -> Value {
    json!({"provider": "aws", "objectStorage": {"bucket": "b"}, "config": {"region": "r"}})
}

fn gathered(object: DynamicObject) -> Gathered {
    Gathered {
        location: objects::typed(&object),
        shown: PastChecks::read(&object.data),
        inputs: state().inputs(&object),
        object: Arc::new(object),
        secrets: BTreeMap::new(),
        password: None,
        defaults: Vec::new(),
    }
}

fn planned(gathered: &Gathered, past: Option<&PastLook>) -> Plan {
    plan(gathered, validate(gathered, &PluginHost::empty()), past, MINUTE, at(100))
}

fn category(gathered: &Gathered) -> &'static str {
    validate(gathered, &PluginHost::empty()).err().map_or("none", |problem| problem.category)
}

#[test]
fn a_complete_location_is_opened_with_the_credentials_of_the_installation() {
    let mut gathered = gathered(location("l", 1, &spec()));
    let secret = SecretValues { version: "1".into(), values: [("cloud".to_owned(), b"x".to_vec())].into() };
    gathered.secrets.insert("cloud-credentials".into(), Some(secret));
    let Look::Now(opening) = planned(&gathered, None).look else { panic!("not looked at") };
    let Opening::BuiltIn(config) = *opening else { panic!("through a plugin") };
    assert_eq!(config.bucket, "b");
    assert!(config.credentials.is_some());
}

#[rstest]
#[case::complete(spec(), "none")]
#[case::no_bucket(json!({"provider": "aws", "objectStorage": {"bucket": ""}}), "config")]
#[case::written_before_the_schema(
    json!({"provider": "aws", "objectStorage": {"bucket": "b"}, "config": {"region": ["x"]}}), "unreadable")]
#[case::neither_built_in_nor_a_plugin(json!({"provider": "example.io/tape", "objectStorage": {"bucket": "b"}}), "config")]
#[case::secret_that_is_not_there(
    json!({"provider": "aws", "objectStorage": {"bucket": "b"}, "credential": {"name": "s", "key": "k"}}),
    "secret_not_found")]
fn what_keeps_a_location_from_being_opened_has_a_category(#[case] spec: Value, #[case] expected: &str) {
    assert_eq!(category(&gathered(location("l", 1, &spec))), expected);
}

/// The object after `problem` was written into it, and what the server remembers.
fn after_verdict(spec: &Value, problem: Option<Problem>) -> (Gathered, PastLook) {
    let before = gathered(location("l", 1, spec));
    let plan = planned(&before, None);
    let verdict = Verdict {
        problem,
        warnings: vec!["verification is off".into()],
        used: Some("the built-in store".into()),
        this_look: plan.this_look.clone(),
        first_look: true,
        next_look: plan.frequency,
    };
    let patch = status::patch(&before, &verdict, &status::facts(&before, &verdict));
    let mut object = before.object.as_ref().clone();
    object.data["status"] = patch["status"].clone();
    (gathered(object), plan.this_look)
}

#[rstest]
#[case::usable(spec())]
#[case::unreadable(json!({"provider": "aws", "objectStorage": {"bucket": "b"}, "config": {"region": ["x"]}}))]
fn a_written_verdict_does_not_ask_for_the_next_look(#[case] spec: Value) {
    let problem = validate(&gathered(location("l", 1, &spec)), &PluginHost::empty()).err();
    let (after, past) = after_verdict(&spec, problem);
    assert!(matches!(planned(&after, Some(&past)).look, Look::Later(Due::In(rest)) if rest == MINUTE));
}

#[test]
fn a_verdict_shows_its_category_the_insecure_settings_and_the_password() {
    let problem = Problem { category: "bucket_not_found", message: "no bucket".into() };
    let (after, _) = after_verdict(&spec(), Some(problem));
    let shown: Vec<_> = after
        .shown
        .conditions
        .iter()
        .map(|condition| (condition.type_.as_str(), condition.status.as_str(), condition.reason.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            ("Available", "False", "BucketNotFound"),
            ("StorageSecure", "False", "InsecureSettings"),
            ("RepositoryPasswordExported", "False", "NeverExported"),
        ]
    );
    assert_eq!(after.object.data["status"]["message"], "no bucket");
}

#[test]
fn another_version_of_a_secret_asks_for_a_look() {
    let (mut after, past) = after_verdict(&spec(), None);
    let secret = SecretValues { version: "2".into(), values: BTreeMap::new() };
    after.secrets.insert("cloud-credentials".into(), Some(secret));
    assert!(matches!(planned(&after, Some(&past)).look, Look::Now(_)));
}

#[test]
fn a_deleted_location_is_forgotten() {
    let state = state();
    let look = PastLook { inputs: String::new(), at: at(0) };
    for name in ["stays", "goes"] {
        state.remember(&location(name, 1, &spec()), look.clone());
    }
    state.retain(&["stays".to_owned()].into());
    assert!(state.past(&location("stays", 1, &spec())).is_some());
    assert!(state.past(&location("goes", 1, &spec())).is_none());
}

fn state() -> State {
    let resource = objects::resource("velero.io", "v1", "BackupStorageLocation", "backupstoragelocations");
    State::new(resource)
}

async fn context(server: &ApiServer) -> Context {
    testing::context(server.client().await)
}

/// An API server with these locations that answers every write of one with `code`. The first one has version 1.
fn writes(code: u16, locations: &[DynamicObject]) -> ApiServer {
    let server = ApiServer::default();
    for location in locations {
        let name = location.metadata.name.as_deref().unwrap_or_default();
        server.put(
            &format!("/apis/velero.io/v1/namespaces/lifeboat/backupstoragelocations/{name}"),
            objects::to_json(location),
        );
    }
    if code != 200 {
        server.fail(Requests::new(Verb::Patch, "*"), When::Always, code);
    }
    server
}

fn names(server: &ApiServer) -> Vec<String> {
    let patches = server.requests(&Requests::new(Verb::Patch, "*/backupstoragelocations/*"));
    patches.iter().map(|asked| asked.path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

/// Reconciles `name` (not due) where `older` and `newer` are marked as default.
async fn with_two_defaults(name: &str, code: u16) -> (Result<Outcome, String>, ApiServer) {
    let defaults = vec![location("older", 1, &spec()), location("newer", 2, &spec())];
    let server = writes(code, &defaults);
    let (mut after, past) = after_verdict(&spec(), None);
    let mut this = after.object.as_ref().clone();
    this.metadata.name = Some(name.to_owned());
    this.metadata.uid = Some(name.to_owned());
    after.object = Arc::new(this);
    after.defaults = defaults;
    let plan = planned(&after, Some(&past));
    let outcome = apply(&context(&server).await, &state(), &after, plan).await;
    (outcome.map_err(|error| error.chain()), server)
}

#[rstest]
#[case::the_newest("newer")]
#[case::one_that_is_no_default("other")]
#[tokio::test]
async fn whoever_sees_a_surplus_default_unsets_it(#[case] name: &str) {
    let (outcome, server) = with_two_defaults(name, 200).await;
    assert!(matches!(outcome, Ok(Outcome::NotDue(_))));
    assert_eq!(names(&server), ["older"]);
    assert_eq!(server.events(), ["DefaultUnset"]);
    let patch = &server.requests(&Requests::new(Verb::Patch, "*"))[0].body;
    assert_eq!(*patch, json!({"metadata": {"resourceVersion": "1"}, "spec": {"default": false}}));
}

#[tokio::test]
async fn an_older_location_that_was_marked_later_unsets_itself_and_waits_for_that_change() {
    let (outcome, server) = with_two_defaults("older", 200).await;
    assert!(matches!(outcome, Ok(Outcome::Unset)));
    assert_eq!(names(&server), ["older"]);
}

#[rstest]
#[case::gone_already(404, &[])]
#[case::older_than_its_schema(422, &["ObjectNotValid"])]
#[tokio::test]
async fn a_surplus_default_that_cannot_be_unset_does_not_keep_others_from_being_looked_at(
    #[case] code: u16,
    #[case] told: &[&str],
) {
    let (outcome, server) = with_two_defaults("newer", code).await;
    assert!(matches!(outcome, Ok(Outcome::NotDue(_))));
    assert_eq!(server.events(), told);
}

#[tokio::test]
async fn a_surplus_default_that_changed_meanwhile_is_decided_on_again() {
    let (outcome, _) = with_two_defaults("newer", 409).await;
    assert!(outcome.is_err());
}

/// Writes the result of a check for a location that is only checked when it changes.
async fn write_verdict(code: u16) -> (Result<Action, String>, State, Gathered, ApiServer) {
    let mut spec = spec();
    spec["validationFrequency"] = json!("0s");
    let server = writes(code, &[location("l", 1, &spec)]);
    let (state, gathered) = (state(), gathered(location("l", 1, &spec)));
    let plan = planned(&gathered, None);
    let verdict = Verdict {
        problem: Some(Problem { category: "dns", message: "no such host".into() }),
        warnings: Vec::new(),
        used: None,
        this_look: plan.this_look,
        first_look: true,
        next_look: plan.frequency,
    };
    let action = status::write(&context(&server).await, &state, &gathered, Outcome::Looked(verdict)).await;
    (action.map_err(|error| error.chain()), state, gathered, server)
}

#[tokio::test]
async fn a_written_verdict_is_remembered_and_waits_for_a_change() {
    let (action, state, gathered, server) = write_verdict(200).await;
    assert_eq!(action, Ok(Action::await_change()));
    assert!(state.past(&gathered.object).is_some());
    assert_eq!(server.events(), ["Unavailable", "NeverExported"]);
}

/// The server's own writes trigger reconciles of the location.
#[test]
fn a_location_is_at_rest_until_its_check_is_due_or_something_that_it_needs_changes() {
    let state = state();
    let mut object = location("l", 1, &spec());
    object.data["status"] = json!({"phase": "Available"});
    let gathered = gathered(object.clone());
    assert_eq!(state.rest(&object, at(100)), None, "it was never checked");
    state.settle(&gathered, "Available", Some(at(160)));
    object.data["status"]["lastSyncedTime"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(state.rest(&object, at(100)), Some(MINUTE));
    assert_eq!(state.rest(&object, at(160)), None, "the check is due");
    let read_before = |object| state.read_before(object, &state.inputs(object)).is_some();
    assert!(read_before(&object), "Secrets that have not changed are not read again");
    let mut changed = object.clone();
    changed.data["spec"]["objectStorage"]["bucket"] = json!("other");
    assert!(state.rest(&changed, at(100)).is_none() && !read_before(&changed));
    let mut shown = object.clone();
    shown.data["status"]["phase"] = json!("Unavailable");
    assert_eq!(state.rest(&shown, at(100)), None, "someone else wrote the phase");
    state.secret_changes.fetch_add(1, Ordering::Relaxed);
    assert!(state.rest(&object, at(100)).is_none() && !read_before(&object));
    state.retain(&BTreeSet::new());
    assert!(locked(&state.settled).is_empty());
}

#[tokio::test]
async fn a_verdict_that_is_refused_is_told_once_remembered_and_does_not_spin() {
    let (action, state, gathered, server) = write_verdict(422).await;
    assert_ne!(action, Ok(Action::requeue(Duration::ZERO)));
    assert!(action.is_ok(), "{action:?}");
    assert!(state.past(&gathered.object).is_some());
    assert_eq!(server.events(), ["ObjectNotValid"]);
    let events = server.requests(&Requests::new(Verb::Create, "*/events"));
    let note = events.iter().find_map(|asked| asked.body["note"].as_str()).unwrap_or_default();
    assert!(note.contains("no such host"), "{note}");
}

#[tokio::test]
async fn a_verdict_on_an_older_version_of_the_object_is_not_remembered() {
    let (action, state, gathered, _) = write_verdict(409).await;
    assert!(action.is_err());
    assert!(state.past(&gathered.object).is_none());
}
