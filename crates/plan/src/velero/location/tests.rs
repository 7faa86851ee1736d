use super::*;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

fn spec(value: Value) -> BackupStorageLocationSpec {
    serde_json::from_value(value).unwrap()
}

#[rstest]
#[case::nothing_at_all(json!({"provider": "", "objectStorage": {"bucket": ""}}),
    &["spec.provider", "spec.objectStorage.bucket"])]
#[case::two_authorities(json!({"provider": "aws", "objectStorage": {"bucket": "b", "caCert": "eA==",
    "caCertRef": {"name": "s", "key": "k"}}}), &["spec.objectStorage"])]
#[case::credential_without_key(json!({"provider": "aws", "objectStorage": {"bucket": "b"},
    "credential": {"name": "s", "key": ""}}), &["spec.credential"])]
fn every_problem_is_named_with_its_field(#[case] value: Value, #[case] fields: &[&str]) {
    let problems = validate(&spec(value)).unwrap_err();
    assert_eq!(problems.iter().map(|p| p.field).collect::<Vec<_>>(), fields);
}

#[test]
fn a_complete_spec_is_read() {
    let valid = validate(&spec(json!({
        "provider": "aws",
        "objectStorage": {"bucket": "b", "prefix": "p", "caCert": "eA=="},
        "config": {"region": "r"},
        "credential": {"name": "s", "key": "k"},
    })));
    let valid = valid.unwrap();
    assert_eq!(valid.ca, CaSource::Inline(b"x".to_vec()));
    assert_eq!(valid.credential, Some(SecretKey { secret: "s".into(), key: "k".into() }));
    assert_eq!((valid.prefix.as_str(), valid.config["region"].as_str()), ("p", "r"));
}

#[test]
fn an_empty_authority_is_none() {
    let valid = validate(&spec(json!({"provider": "aws", "objectStorage": {"bucket": "b", "caCert": ""}})));
    assert_eq!(valid.unwrap().ca, CaSource::System);
    let storage = json!({"bucket": "b", "caCert": "", "caCertRef": {"name": "s", "key": "k"}});
    let valid = validate(&spec(json!({"provider": "aws", "objectStorage": storage})));
    assert_eq!(valid.unwrap().ca, CaSource::Secret(SecretKey { secret: "s".into(), key: "k".into() }));
}

/// Checked 40 s ago, in the object and in memory.
fn looked_at() -> (Value, PastLook) {
    let condition = json!({"type": "Available", "status": "True", "reason": "BucketUsable", "message": "",
        "lastTransitionTime": "1970-01-01T00:00:00Z"});
    let status = json!({"phase": "Available", "lastValidationTime": "1970-01-01T00:01:00Z", "conditions": [condition]});
    let past = PastLook { inputs: "inputs".into(), at: Timestamp::from_second(60).unwrap() };
    (json!({"spec": {"config": {"region": ["broken"]}}, "status": status}), past)
}

fn next(object: &Value, past: Option<&PastLook>, inputs: &str) -> Due {
    let now = Timestamp::from_second(100).unwrap();
    next_look(&PastChecks::read(object), past, inputs, Duration::from_mins(1), now)
}

#[test]
fn a_location_that_cannot_be_read_is_not_looked_at_again_because_of_its_own_verdict() {
    let (object, past) = looked_at();
    assert_eq!(next(&object, Some(&past), "inputs"), Due::In(Duration::from_secs(20)));
    assert_eq!(next(&object, Some(&past), "other inputs"), Due::Now);
    assert_eq!(next(&object, None, "inputs"), Due::Now);
}

#[test]
fn conditions_that_a_stock_client_dropped_come_back_even_without_periodic_looks() {
    let (mut object, past) = looked_at();
    let off = |object: &Value| {
        let now = Timestamp::from_second(100).unwrap();
        next_look(&PastChecks::read(object), Some(&past), "inputs", Duration::ZERO, now)
    };
    assert_eq!(off(&object), Due::WhenItChanges);
    object["status"]["conditions"] = Value::Null;
    assert_eq!(off(&object), Due::Now);
}

#[test]
fn a_verdict_that_could_not_be_written_is_remembered() {
    let (mut object, past) = looked_at();
    object["status"]["lastValidationTime"] = json!("1970-01-01T00:00:01Z");
    assert_eq!(next(&object, Some(&past), "inputs"), Due::In(Duration::from_secs(20)));
}

#[rstest]
#[case::unset(json!({}), None)]
#[case::its_own(json!({"validationFrequency": "90s"}), Some(90))]
#[case::off(json!({"validationFrequency": "0s"}), Some(0))]
#[case::negative_is_off(json!({"validationFrequency": "-1m"}), Some(0))]
fn the_frequency_is_the_locations_own_where_it_has_one(#[case] spec: Value, #[case] expected: Option<u64>) {
    assert_eq!(PastChecks::read(&json!({"spec": spec})).frequency, expected.map(Duration::from_secs));
}

#[test]
fn a_look_shows_its_category_and_what_is_insecure() {
    let found = facts(Some(("bucket_not_found", "no bucket")), &["verification is off".to_owned()], None);
    let shown: Vec<_> = found.iter().map(|fact| (fact.kind, fact.holds, fact.reason.as_ref())).collect();
    assert_eq!(shown, [("Available", false, "BucketNotFound"), ("StorageSecure", false, "InsecureSettings")]);
    let good = facts(None, &[], Some("plugin velero.io/aws (/plugins/aws)"));
    assert!(good.iter().all(|fact| fact.holds));
    assert!(good[0].message.ends_with("through plugin velero.io/aws (/plugins/aws)"), "{}", good[0].message);
}

#[rstest]
#[case::never_looked(60, false, None, 100, Due::Now)]
#[case::changed_since(60, true, Some(99), 100, Due::Now)]
#[case::not_yet(60, false, Some(70), 100, Due::In(Duration::from_secs(30)))]
#[case::exactly_due(60, false, Some(40), 100, Due::Now)]
#[case::periodic_is_off(0, false, Some(40), 100, Due::WhenItChanges)]
#[case::off_but_changed(0, true, Some(40), 100, Due::Now)]
#[case::the_clock_went_back(60, false, Some(500), 100, Due::In(Duration::from_mins(1)))]
fn the_bucket_is_looked_at_when_due(
    #[case] frequency: u64,
    #[case] changed: bool,
    #[case] last: Option<i64>,
    #[case] now: i64,
    #[case] expected: Due,
) {
    let at = |second| Timestamp::from_second(second).unwrap();
    assert_eq!(due(Duration::from_secs(frequency), changed, last.map(at), at(now)), expected);
}

fn candidates(created: &[i64]) -> Vec<DefaultCandidate> {
    let at = |second: i64| Timestamp::from_second(second).ok();
    let named = created.iter().enumerate();
    named
        .map(|(i, second)| DefaultCandidate { name: format!("location-{i}"), created: at(*second) })
        .collect()
}

#[rstest]
#[case::none(&[], None)]
#[case::one_default_is_left_alone(&[5], None)]
#[case::the_newest_stays(&[5, 9, 7], Some(("location-1", 2)))]
#[case::same_second_by_name(&[5, 5], Some(("location-1", 1)))]
fn one_default_stays(#[case] created: &[i64], #[case] expected: Option<(&str, usize)>) {
    let choice = surplus_defaults(candidates(created));
    assert_eq!(choice.as_ref().map(|(stays, unset)| (stays.as_str(), unset.len())), expected);
}

proptest! {
    #[test]
    fn the_choice_does_not_depend_on_the_order_of_a_listing(
        created in proptest::collection::vec(0i64..5, 2..6), rotate in 0usize..6,
    ) {
        let mut turned = candidates(&created);
        let rotate = rotate % turned.len();
        turned.rotate_left(rotate);
        prop_assert_eq!(surplus_defaults(candidates(&created)), surplus_defaults(turned));
    }
}
