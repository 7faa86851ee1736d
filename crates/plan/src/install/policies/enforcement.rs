//! Whether the cluster has the policies as they are installed: takes the policies and bindings of the cluster, gives for each kind
//! since when its objects are checked, or why they are not.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{CHECKED, Checked, KINDS, RESTIC, objects_of};
use crate::json::text;

/// For each kind, whether the API server checks who creates and changes its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enforcement(BTreeMap<&'static str, Result<Timestamp, Unenforced>>);

/// Why the objects of a kind are not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unenforced {
    namespace: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    Missing {
        kind: &'static str,
        name: String,
    },
    /// The field that differs first.
    Altered {
        kind: &'static str,
        name: String,
        field: String,
    },
}

impl Enforcement {
    /// `live`: the policies and bindings of the cluster; others than those of the server in `namespace` may be among them.
    pub fn of(namespace: &str, live: &[Value]) -> Self {
        let of_kind = |checked: &Checked| {
            let mut since = Timestamp::UNIX_EPOCH;
            for wanted in objects_of(checked, namespace) {
                since = since.max(in_force_since(&wanted, live)?);
            }
            Ok(since)
        };
        let unenforced = |problem| Unenforced { namespace: namespace.to_owned(), problem };
        let kinds = CHECKED.iter().chain([&RESTIC]);
        Self(kinds.map(|checked| (checked.kind, of_kind(checked).map_err(unenforced))).collect())
    }

    /// Since when objects of a kind are checked. An older object was created while nothing checked it.
    pub fn since(&self, kind: &str) -> Option<Result<Timestamp, &Unenforced>> {
        self.0.get(kind).map(|found| found.as_ref().copied())
    }
}

/// When a wanted object was created, if the cluster has it unaltered.
fn in_force_since(wanted: &Value, live: &[Value]) -> Result<Timestamp, Problem> {
    let kind = KINDS.iter().map(|(kind, _)| *kind).find(|kind| *kind == text(wanted, "/kind"));
    let kind = kind.unwrap_or_default();
    let name = text(wanted, "/metadata/name");
    let is_same = |one: &&Value| text(one, "/kind") == kind && text(one, "/metadata/name") == name;
    let found = live.iter().find(is_same).filter(|found| found["metadata"]["deletionTimestamp"].is_null());
    let Some(found) = found else { return Err(Problem::Missing { kind, name: name.to_owned() }) };
    match difference(&wanted["spec"], &found["spec"], "spec") {
        None => Ok(text(found, "/metadata/creationTimestamp").parse().unwrap_or(Timestamp::UNIX_EPOCH)),
        Some(field) => Err(Problem::Altered { kind, name: name.to_owned(), field }),
    }
}

/// Whether an object of the cluster is what was installed, with nothing added and nothing taken away.
pub fn is_as_installed(wanted: &Value, found: &Value) -> bool {
    difference(&wanted["spec"], &found["spec"], "spec").is_none()
}

/// The first field in which two values differ. An empty list or map, and null, are as good as no field: the API server fills
/// some of them in.
fn difference(wanted: &Value, found: &Value, field: &str) -> Option<String> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            let mut fields = wanted.keys().chain(found.keys().filter(|key| !wanted.contains_key(*key)));
            fields.find_map(|key| {
                let of = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                difference(&of(wanted), &of(found), &format!("{field}.{key}"))
            })
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let mut pairs = wanted.iter().zip(found).enumerate();
            pairs.find_map(|(n, (wanted, found))| difference(wanted, found, &format!("{field}[{n}]")))
        }
        (wanted, found) => {
            (wanted != found && !(is_empty(wanted) && is_empty(found))).then(|| field.to_owned())
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        _ => false,
    }
}

impl fmt::Display for Unenforced {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "the server does not act on it, because nothing checks who may create and change it: ",
        )?;
        let namespace = &self.namespace;
        let again =
            format!("`lifeboat -n {namespace} install --stash` with the other options of this installation");
        match &self.problem {
            Problem::Missing { kind, name } => write!(formatter, "{kind} {name} is missing; run {again}"),
            Problem::Altered { kind, name, field } => write!(
                formatter,
                "{kind} {name} is not as this version installs it ({field} differs); run `kubectl delete {} {name}`, then {again}",
                kind.to_lowercase()
            ),
        }
    }
}

impl std::error::Error for Unenforced {}
