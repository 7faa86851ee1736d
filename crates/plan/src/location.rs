//! Backup storage locations: is the spec complete, when is the next look at the bucket due, which of several
//! defaults stays. Takes the object and the time, gives values. Called by the controller of BackupStorageLocation.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use lifeboat_api::velero::BackupStorageLocationSpec;

/// A reference to one value of a Secret in Lifeboat's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    pub secret: String,
    pub key: String,
}

/// Where the certificate authority of the endpoint comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaSource {
    System,
    Inline(Vec<u8>),
    Secret(SecretKey),
}

/// A spec that says all that is needed to open the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidLocation {
    pub provider: String,
    pub bucket: String,
    pub prefix: String,
    pub config: BTreeMap<String, String>,
    pub ca: CaSource,
    /// `None`: the installation's credentials, else the server's own identity.
    pub credential: Option<SecretKey>,
}

/// A field that keeps a location from being used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldProblem {
    pub field: &'static str,
    pub problem: String,
}

/// Reads the spec; all problems are named at once.
pub fn validate(spec: &BackupStorageLocationSpec) -> Result<ValidLocation, Vec<FieldProblem>> {
    let mut problems = Vec::new();
    let storage = spec.object_storage.clone();
    if spec.provider.trim().is_empty() {
        problems.push(problem("spec.provider", "is empty; name the storage: aws, gcp, azure or local"));
    }
    if storage.bucket.trim().is_empty() {
        problems
            .push(problem("spec.objectStorage.bucket", "is empty; name the bucket that holds the backups"));
    }
    let ca = match (&storage.ca_cert, &storage.ca_cert_ref) {
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

fn problem(field: &'static str, words: &str) -> FieldProblem {
    FieldProblem { field, problem: words.to_owned() }
}

/// When the bucket is looked at next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Now,
    In(Duration),
    /// Periodic validation is off for this location.
    WhenItChanges,
}

/// `changed`: spec or credentials are not those of the last look. `frequency` is the location's own where it has one,
/// else the server's; zero switches periodic looks off, as upstream.
pub fn due(frequency: Duration, changed: bool, last_look: Option<Timestamp>, now: Timestamp) -> Due {
    let Some(last_look) = last_look else { return Due::Now };
    if changed {
        return Due::Now;
    }
    if frequency.is_zero() {
        return Due::WhenItChanges;
    }
    // A clock that went back must not postpone the next look beyond one period.
    let age = Duration::try_from(now.duration_since(last_look)).unwrap_or_default();
    match frequency.checked_sub(age) {
        Some(rest) if !rest.is_zero() => Due::In(rest),
        _ => Due::Now,
    }
}

/// What matters of a location for the choice of the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultCandidate {
    pub name: String,
    pub created: Option<Timestamp>,
}

/// Of several locations marked as default the most recently created stays; gives it and those to unset. Locations
/// made in the same second are told apart by name, so that every server decides alike.
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
