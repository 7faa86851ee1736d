//! Names, labels and spec of a BackupSession. A session is identified by its due time: every server that starts the
//! session of a due time creates an object with the same name, so that no due time is run twice or lost.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use lifeboat_api::common::time::seconds;
use lifeboat_api::stash::{BackupSession, BackupSessionSpec, GROUP, InvokerKind, InvokerRef, RetryConfig};

use super::target::TargetKey;
use crate::label;

/// The longest name of an object.
const LONGEST: usize = 253;
/// What is appended to an invoker's name at most: the second and the kind.
const APPENDED: usize = "-9223372036854775807-backupconfiguration".len();
/// The annotation of a session that was created by a schedule or as a retry: its due time.
pub const DUE: &str = "lifeboat.io/due-time";

/// The invoker of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvokerId {
    pub kind: InvokerKind,
    pub namespace: String,
    pub name: String,
}

/// An existing session with the name of the session to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingSession {
    pub name: String,
    pub invoker: InvokerRef,
}

/// What to do about the run of a due time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// Create the session with this name. If it already exists, read it and decide again.
    Create(String),
    /// The session of this name is the run.
    Exists(String),
}

/// Decides which session is the run of a due time. `existing`: the sessions of the namespace that have one of the two names of
/// [`session_name`], as far as they are known.
pub fn creation(invoker: &InvokerId, due: Timestamp, existing: &[ExistingSession]) -> Creation {
    let find = |name: &str| existing.iter().find(|session| session.name == name);
    let is_own = |session: &ExistingSession| {
        session.invoker.kind == invoker.kind && session.invoker.name == invoker.name
    };
    let with_kind = session_name(invoker, due, true);
    if find(&with_kind).is_some() {
        return Creation::Exists(with_kind);
    }
    let plain = session_name(invoker, due, false);
    match find(&plain) {
        None => Creation::Create(plain),
        Some(session) if is_own(session) => Creation::Exists(plain),
        Some(_) => Creation::Create(with_kind),
    }
}

/// The name of the session of a due time: `<invoker>-<second>`, and the kind after it if an invoker of another kind has that name. The
/// kind is last so that no such name is the plain name of another invoker.
pub fn session_name(invoker: &InvokerId, due: Timestamp, with_kind: bool) -> String {
    let base = format!("{}-{}", label::shortened(&invoker.name, LONGEST - APPENDED), due.as_second());
    if with_kind { format!("{base}-{}", invoker.kind.as_str().to_lowercase()) } else { base }
}

/// Upstream's labels of a session. `target`: that of a BackupConfiguration; a BackupBatch has several and gets no such labels.
pub fn labels(invoker: &InvokerId, target: Option<&TargetKey>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("app.kubernetes.io/component".to_owned(), "stash-backup".to_owned()),
        ("app.kubernetes.io/managed-by".to_owned(), GROUP.to_owned()),
        ("stash.appscode.com/invoker-type".to_owned(), invoker.kind.to_string()),
        ("stash.appscode.com/invoker-name".to_owned(), label::value(&invoker.name)),
    ]);
    if let Some(target) = target {
        labels.extend([
            ("stash.appscode.com/target-kind".to_owned(), label::value(&target.kind)),
            ("stash.appscode.com/target-namespace".to_owned(), label::value(&target.namespace)),
            ("stash.appscode.com/target-name".to_owned(), label::value(&target.name)),
        ]);
    }
    labels
}

/// The annotation that marks a session as created by a schedule or as a retry.
pub fn due_annotation(due: Timestamp) -> (String, String) {
    (DUE.to_owned(), seconds(due))
}

/// The spec of a scheduled session.
pub fn spec(invoker: &InvokerId, retries: Option<&RetryConfig>) -> BackupSessionSpec {
    BackupSessionSpec {
        invoker: InvokerRef {
            api_group: Some(GROUP.to_owned()),
            kind: invoker.kind.clone(),
            name: invoker.name.clone(),
        },
        retry_left: retries.map(|retries| retries.max_retry.max(0)),
    }
}

/// A session as a user creates it; the schedule adds [`due_annotation`]. `uid`: that of the invoker, which owns the
/// session. `target`: as [`labels`] takes it.
pub fn session(
    invoker: &InvokerId,
    uid: &str,
    name: &str,
    target: Option<&TargetKey>,
    retries: Option<&RetryConfig>,
) -> BackupSession {
    let mut session = BackupSession::new(name, spec(invoker, retries));
    session.metadata.namespace = Some(invoker.namespace.clone());
    session.metadata.labels = Some(labels(invoker, target));
    session.metadata.owner_references = Some(vec![OwnerReference {
        api_version: format!("{GROUP}/v1beta1"),
        kind: invoker.kind.to_string(),
        name: invoker.name.clone(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }]);
    session
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn invoker(kind: InvokerKind, name: &str) -> InvokerId {
        InvokerId { kind, namespace: "demo".into(), name: name.into() }
    }

    fn existing(name: &str, kind: InvokerKind, of: &str) -> ExistingSession {
        let invoker = InvokerRef { api_group: None, kind, name: of.into() };
        ExistingSession { name: name.into(), invoker }
    }

    fn due() -> Timestamp {
        Timestamp::from_second(1_700_000_100).unwrap()
    }

    use InvokerKind::{BackupBatch, BackupConfiguration};

    #[rstest]
    #[case::first(&[], Creation::Create("app-1700000100".into()), "no session has the name")]
    #[case::made_before(
        &[existing("app-1700000100", BackupBatch, "app")],
        Creation::Exists("app-1700000100".into()),
        "the server died after it made the session"
    )]
    #[case::other_kind(
        &[existing("app-1700000100", BackupConfiguration, "app")],
        Creation::Create("app-1700000100-backupbatch".into()),
        "the BackupConfiguration of that name was first"
    )]
    #[case::other_kind_and_made_before(
        &[existing("app-1700000100", BackupConfiguration, "app"), existing("app-1700000100-backupbatch", BackupBatch, "app")],
        Creation::Exists("app-1700000100-backupbatch".into()),
        "the name with the kind is this run"
    )]
    #[case::other_kind_is_gone(
        &[existing("app-1700000100-backupbatch", BackupBatch, "app")],
        Creation::Exists("app-1700000100-backupbatch".into()),
        "the other session was deleted meanwhile; this run is not made twice"
    )]
    fn the_run_of_a_due_time_is_made_once(
        #[case] existing: &[ExistingSession],
        #[case] expected: Creation,
        #[case] reason: &str,
    ) {
        assert_eq!(creation(&invoker(BackupBatch, "app"), due(), existing), expected, "{reason}");
    }

    #[test]
    fn a_session_has_upstreams_labels_and_those_of_its_target() {
        let target = TargetKey { kind: "Deployment".into(), namespace: "demo".into(), name: "a".repeat(70) };
        let labels = labels(&invoker(BackupConfiguration, "app"), Some(&target));
        assert_eq!(labels["stash.appscode.com/invoker-type"], "BackupConfiguration");
        assert_eq!(labels["stash.appscode.com/invoker-name"], "app");
        assert_eq!(labels["stash.appscode.com/target-kind"], "Deployment");
        assert_eq!(labels["app.kubernetes.io/managed-by"], "stash.appscode.com");
        assert!(labels.values().all(|value| value.len() <= 63), "{labels:?}");
        assert_eq!(super::labels(&invoker(BackupBatch, "app"), None).len(), 4, "a batch has many targets");
    }

    #[test]
    fn a_session_gets_the_retries_of_its_invoker() {
        let id = invoker(BackupBatch, "app");
        assert_eq!(spec(&id, None).retry_left, None);
        let retries = RetryConfig { max_retry: 3, delay: None };
        assert_eq!(spec(&id, Some(&retries)).retry_left, Some(3));
        assert_eq!(spec(&id, None).invoker.kind, BackupBatch);
    }

    #[test]
    fn a_session_belongs_to_its_invoker_and_is_by_hand_without_a_due_time() {
        let made = session(&invoker(BackupBatch, "app"), "u1", "app-1", None, None);
        let owners = made.metadata.owner_references.unwrap();
        assert_eq!((owners[0].kind.as_str(), owners[0].uid.as_str()), ("BackupBatch", "u1"));
        assert_eq!(made.metadata.namespace.as_deref(), Some("demo"));
        assert!(made.metadata.annotations.is_none());
    }

    fn a_kind() -> impl Strategy<Value = InvokerKind> {
        prop_oneof![Just(BackupBatch), Just(BackupConfiguration)]
    }

    /// Names with the marks that could make two session names equal.
    fn a_name() -> impl Strategy<Value = String> {
        "[a-c0-1]{1,2}(-(1700000100|1700000101|backupbatch|backupconfiguration|a)){0,3}"
    }

    proptest! {
        #[test]
        fn two_names_are_equal_only_for_one_run_or_for_two_kinds(
            (one, other) in ((a_kind(), a_name()), (a_kind(), a_name())),
            (second, second_other) in (1_700_000_100..1_700_000_102i64, 1_700_000_100..1_700_000_102i64),
            (with_kind, with_kind_other) in (any::<bool>(), any::<bool>()),
        ) {
            let due = |second| Timestamp::from_second(second).unwrap();
            let name = session_name(&invoker(one.0.clone(), &one.1), due(second), with_kind);
            let name_other = session_name(&invoker(other.0.clone(), &other.1), due(second_other), with_kind_other);
            let same_run = one.1 == other.1 && second == second_other && with_kind == with_kind_other
                && (one.0 == other.0 || !with_kind);
            prop_assert_eq!(name == name_other, same_run);
        }

        #[test]
        fn a_name_fits_into_an_object_and_stays_distinct(length in 150..254usize, last in "[a-z]") {
            let long = format!("{}{last}", "a.".repeat(length / 2));
            let other = format!("{}{}", "a.".repeat(length / 2), if last == "a" { "b" } else { "a" });
            let name = session_name(&invoker(BackupConfiguration, &long), due(), true);
            prop_assert!(name.len() <= LONGEST, "{}", name.len());
            prop_assert!(!name.contains(".-") && !name.contains("--"), "{name}");
            prop_assert_ne!(&name, &session_name(&invoker(BackupConfiguration, &other), due(), true));
        }
    }
}
