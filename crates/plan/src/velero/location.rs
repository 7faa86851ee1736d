//! Backup storage locations: whether the spec is complete, when the next check of the bucket is due, which of several
//! defaults stays. Takes the object and the time, gives values. Called by the controller of BackupStorageLocation.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lifeboat_api::common::GoDuration;
use lifeboat_api::velero::BackupStorageLocationSpec;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::conditions::{self, Fact};

/// Annotation of a VolumeSnapshotLocation: why it cannot be used. Its status has no field for it.
pub const UNAVAILABLE_BECAUSE: &str = "lifeboat.io/unavailable-because";
/// The annotation of a location that names the store to use for it.
pub const STORE_ANNOTATION: &str = "lifeboat.io/store";

/// A reference to one key of a Secret in Lifeboat's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    pub secret: String,
    pub key: String,
}

/// The source of the endpoint's certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaSource {
    System,
    Inline(Vec<u8>),
    Secret(SecretKey),
}

/// A validated spec, sufficient to open the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidLocation {
    pub provider: String,
    pub bucket: String,
    pub prefix: String,
    pub config: BTreeMap<String, String>,
    pub ca: CaSource,
    /// `None`: the installation's credentials, or the server's own identity.
    pub credential: Option<SecretKey>,
}

/// A field that prevents a location from being used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldProblem {
    pub field: &'static str,
    pub problem: String,
}

/// Validates the spec; all problems are returned at once.
pub fn validate(spec: &BackupStorageLocationSpec) -> Result<ValidLocation, Vec<FieldProblem>> {
    let mut problems = Vec::new();
    let storage = spec.object_storage.clone();
    if spec.provider.trim().is_empty() {
        problems.push(problem(
            "spec.provider",
            "is empty; name the storage: aws, gcp, azure, lifeboat.io/local, or that of a plugin",
        ));
    }
    if storage.bucket.trim().is_empty() {
        problems
            .push(problem("spec.objectStorage.bucket", "is empty; name the bucket that holds the backups"));
    }
    // Empty is unset, as upstream: a client may write `caCert: ""`.
    let inline = storage.ca_cert.as_ref().filter(|pem| !pem.0.is_empty());
    let ca = match (inline, &storage.ca_cert_ref) {
        (Some(_), Some(_)) => {
            problems.push(problem(
                "spec.objectStorage",
                "has both caCert and caCertRef; remove one, there can be only one certificate authority",
            ));
            CaSource::System
        }
        (Some(pem), None) => CaSource::Inline(pem.0.clone()),
        (None, Some(reference)) => CaSource::Secret(secret_key(
            "spec.objectStorage.caCertRef",
            &reference.name,
            &reference.key,
            &mut problems,
        )),
        (None, None) => CaSource::System,
    };
    let credential = spec
        .credential
        .as_ref()
        .map(|reference| secret_key("spec.credential", &reference.name, &reference.key, &mut problems));
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(ValidLocation {
        provider: spec.provider.trim().to_owned(),
        bucket: storage.bucket.trim().to_owned(),
        prefix: storage.prefix.unwrap_or_default(),
        config: spec.config.clone().unwrap_or_default(),
        ca,
        credential,
    })
}

fn secret_key(field: &'static str, secret: &str, key: &str, problems: &mut Vec<FieldProblem>) -> SecretKey {
    if secret.is_empty() || key.is_empty() {
        problems.push(problem(field, "needs both the Secret's name and a key in it"));
    }
    SecretKey { secret: secret.to_owned(), key: key.to_owned() }
}

fn problem(field: &'static str, problem: &str) -> FieldProblem {
    FieldProblem { field, problem: problem.to_owned() }
}

/// When the bucket is checked next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Now,
    In(Duration),
    /// Periodic validation is off for this location.
    WhenItChanges,
}

/// `changed`: spec or credentials have changed since the last check. `frequency` is the location's own, or the
/// server's; zero disables periodic checks, as upstream.
pub fn due(frequency: Duration, changed: bool, last_look: Option<Timestamp>, now: Timestamp) -> Due {
    let Some(last_look) = last_look else { return Due::Now };
    if changed {
        return Due::Now;
    }
    if frequency.is_zero() {
        return Due::WhenItChanges;
    }
    // A clock that was set back must not delay the next check beyond one period.
    let age = Duration::try_from(now.duration_since(last_look)).unwrap_or_default();
    match frequency.checked_sub(age) {
        Some(rest) if !rest.is_zero() => Due::In(rest),
        _ => Due::Now,
    }
}

/// The results of earlier checks in the object, and its check frequency. Read from the raw object, because an object
/// with an invalid spec still has a status.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PastChecks {
    pub last_look: Option<Timestamp>,
    pub phase: String,
    pub conditions: Vec<Condition>,
    /// `None`: the server's frequency. Zero or less: only when something changes.
    pub frequency: Option<Duration>,
}

impl PastChecks {
    pub fn read(object: &Value) -> Self {
        Self {
            last_look: value::<String>(object, "/status/lastValidationTime")
                .and_then(|text| text.parse().ok()),
            phase: value(object, "/status/phase").unwrap_or_default(),
            conditions: value(object, "/status/conditions").unwrap_or_default(),
            frequency: value::<GoDuration>(object, "/spec/validationFrequency").map(positive),
        }
    }
}

fn value<T: DeserializeOwned>(object: &Value, pointer: &str) -> Option<T> {
    serde_json::from_value(object.pointer(pointer)?.clone()).ok()
}

/// A negative frequency means zero: disabled.
fn positive(duration: GoDuration) -> Duration {
    u64::try_from(duration.as_nanos()).map(Duration::from_nanos).unwrap_or_default()
}

/// A check that this server remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastLook {
    /// Everything that the result depended on.
    pub inputs: String,
    pub at: Timestamp,
}

/// Whether the next check is due, from the object and from what this server remembers. Missing conditions are
/// restored by a new check: a stock client that wrote the object does not know them and dropped them. If the API
/// server rejected the status, the remembered check counts.
pub fn next_look(
    shown: &PastChecks,
    past: Option<&PastLook>,
    inputs: &str,
    frequency: Duration,
    now: Timestamp,
) -> Due {
    let changed = past.is_none_or(|past| past.inputs != inputs) || shown.conditions.is_empty();
    due(frequency, changed, shown.last_look.max(past.map(|past| past.at)), now)
}

/// The conditions after a check: `problem` is a category and a message, `used` the store that was used.
pub fn facts(problem: Option<(&str, &str)>, warnings: &[String], used: Option<&str>) -> Vec<Fact> {
    let mut facts = vec![match problem {
        None => Fact {
            kind: "Available",
            holds: true,
            reason: "BucketUsable".into(),
            message: used.map_or_else(
                || "the bucket can be used".to_owned(),
                |used| format!("the bucket can be used through {used}"),
            ),
        },
        Some((category, message)) => Fact {
            kind: "Available",
            holds: false,
            reason: conditions::reason(category).into(),
            message: message.to_owned(),
        },
    }];
    if !warnings.is_empty() {
        facts.push(Fact {
            kind: "StorageSecure",
            holds: false,
            reason: "InsecureSettings".into(),
            message: warnings.join("; "),
        });
    }
    facts
}

/// The facts about a location that decide which default stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultCandidate {
    pub name: String,
    pub created: Option<Timestamp>,
}

/// If several locations are marked as default, the most recently created stays; gives its name and those to unmark.
/// Locations created in the same second are ordered by name, so that every server decides alike.
pub fn surplus_defaults(mut marked: Vec<DefaultCandidate>) -> Option<(String, Vec<String>)> {
    marked.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let stays = marked.pop()?;
    if marked.is_empty() {
        return None;
    }
    Some((stays.name, marked.into_iter().map(|candidate| candidate.name).collect()))
}

#[cfg(test)]
mod tests {
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
        let valid =
            validate(&spec(json!({"provider": "aws", "objectStorage": {"bucket": "b", "caCert": ""}})));
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
    fn the_frequency_is_the_locations_own_where_it_has_one(
        #[case] spec: Value,
        #[case] expected: Option<u64>,
    ) {
        assert_eq!(PastChecks::read(&json!({"spec": spec})).frequency, expected.map(Duration::from_secs));
    }

    #[test]
    fn a_look_shows_its_category_and_what_is_insecure() {
        let found = facts(Some(("bucket_not_found", "no bucket")), &["verification is off".to_owned()], None);
        let shown: Vec<_> = found.iter().map(|fact| (fact.kind, fact.holds, fact.reason.as_ref())).collect();
        assert_eq!(
            shown,
            [("Available", false, "BucketNotFound"), ("StorageSecure", false, "InsecureSettings")]
        );
        let good = facts(None, &[], Some("plugin velero.io/aws (/plugins/aws)"));
        assert!(good.iter().all(|fact| fact.holds));
        assert!(
            good[0].message.ends_with("through plugin velero.io/aws (/plugins/aws)"),
            "{}",
            good[0].message
        );
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
}
