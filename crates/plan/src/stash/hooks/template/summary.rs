//! [`Summary`]: the values that a hook's template can use, with upstream's names of the fields.

use serde::Serialize;
use serde_json::Value;

/// A session, as hooks see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Name of the BackupSession, RestoreSession or RestoreBatch.
    pub name: String,
    pub namespace: String,
    pub invoker: InvokerSummary,
    /// Empty for the hooks of a batch.
    pub target: TargetSummary,
    pub status: StatusSummary,
    pub retry_left: i32,
}

/// The invoker of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvokerSummary {
    pub api_group: String,
    pub kind: String,
    pub name: String,
}

/// The target of the member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSummary {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// The result so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusSummary {
    /// Running before, Succeeded or Failed after.
    pub phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub duration: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A field of the summary, or a group of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    All,
    Name,
    Namespace,
    Invoker,
    InvokerApiGroup,
    InvokerKind,
    InvokerName,
    Target,
    TargetApiVersion,
    TargetKind,
    TargetName,
    TargetNamespace,
    Status,
    StatusPhase,
    StatusDuration,
    StatusError,
    RetryLeft,
}

/// The fields and how templates name them.
const FIELDS: [(Field, &str); 17] = [
    (Field::All, "."),
    (Field::Name, ".Name"),
    (Field::Namespace, ".Namespace"),
    (Field::Invoker, ".Invoker"),
    (Field::InvokerApiGroup, ".Invoker.APIGroup"),
    (Field::InvokerKind, ".Invoker.Kind"),
    (Field::InvokerName, ".Invoker.Name"),
    (Field::Target, ".Target"),
    (Field::TargetApiVersion, ".Target.APIVersion"),
    (Field::TargetKind, ".Target.Kind"),
    (Field::TargetName, ".Target.Name"),
    (Field::TargetNamespace, ".Target.Namespace"),
    (Field::Status, ".Status"),
    (Field::StatusPhase, ".Status.Phase"),
    (Field::StatusDuration, ".Status.Duration"),
    (Field::StatusError, ".Status.Error"),
    (Field::RetryLeft, ".RetryLeft"),
];

impl Field {
    pub(super) fn named(name: &str) -> Option<Self> {
        FIELDS.iter().find(|(_, known)| *known == name).map(|(field, _)| *field)
    }

    pub(super) fn name(self) -> &'static str {
        FIELDS.iter().find(|(field, _)| *field == self).map_or(".", |(_, name)| name)
    }

    pub(super) fn names() -> String {
        FIELDS
            .iter()
            .filter(|(field, _)| !field.is_group())
            .map(|(_, name)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Whether it has fields of its own.
    pub(super) fn is_group(self) -> bool {
        matches!(self, Self::All | Self::Invoker | Self::Target | Self::Status)
    }

    /// Its value in a summary.
    pub(super) fn of(self, summary: &Summary) -> Value {
        let text = |text: &String| Value::String(text.clone());
        match self {
            Self::All => json(summary),
            Self::Name => text(&summary.name),
            Self::Namespace => text(&summary.namespace),
            Self::Invoker => json(&summary.invoker),
            Self::InvokerApiGroup => text(&summary.invoker.api_group),
            Self::InvokerKind => text(&summary.invoker.kind),
            Self::InvokerName => text(&summary.invoker.name),
            Self::Target => json(&summary.target),
            Self::TargetApiVersion => text(&summary.target.api_version),
            Self::TargetKind => text(&summary.target.kind),
            Self::TargetName => text(&summary.target.name),
            Self::TargetNamespace => text(&summary.target.namespace),
            Self::Status => json(&summary.status),
            Self::StatusPhase => text(&summary.status.phase),
            Self::StatusDuration => text(&summary.status.duration),
            Self::StatusError => text(&summary.status.error),
            Self::RetryLeft => Value::from(summary.retry_left),
        }
    }
}

/// A struct of texts and numbers as JSON.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}
