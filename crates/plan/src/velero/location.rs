//! Backup storage locations: whether the spec is complete, when the next check of the bucket is due, which of several
//! defaults stays. Takes the object and the time, gives values. Called by the controller of BackupStorageLocation.

#[cfg(test)]
mod tests;

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
