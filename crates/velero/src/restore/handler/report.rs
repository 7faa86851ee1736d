//! The results of a restore, collected from all tasks: results, resource list, log, operations, counts.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};

use lifeboat_archive::RunLog;
use lifeboat_archive::documents::{ResourceList, RestoreAction, RestoreOperation, Results};
use lifeboat_plan::catalogue::ItemId;

use super::native::Volumes;
use super::pod_volumes::VolumeKey;
use lifeboat_control::locked;
use lifeboat_items::outcome::{ItemOutcome, Notes, SkipReason};
use lifeboat_items::pipeline::item::WorkItem;
use lifeboat_items::pipeline::recorder::Recorder;

/// Hooks that ran and that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookCounts {
    pub(crate) attempted: usize,
    pub(crate) failed: usize,
}

/// The results of a restore's items.
pub(crate) struct RestoredItems {
    pub(crate) results: Results,
    pub(crate) list: ResourceList,
    pub(crate) operations: Vec<RestoreOperation>,
    pub(crate) hooks: HookCounts,
    /// Volumes that were created from snapshots.
    pub(crate) volumes: Volumes,
    /// Copied volumes that were restored, or have an error of their own.
    pub(crate) reported: BTreeSet<VolumeKey>,
}

/// Collects the results.
pub(crate) struct Report {
    inner: Mutex<Inner>,
    pub(super) log: RunLog,
}

#[derive(Default)]
struct Inner {
    results: Results,
    list: ResourceList,
    operations: Vec<RestoreOperation>,
}

/// How the resource list names an item.
struct Listed<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
}

impl Report {
    pub(super) fn new(log: RunLog) -> Self {
        Self { inner: Mutex::default(), log }
    }

    /// Adds the warnings, the errors and the resource list's entry of an item.
    fn add(&self, listed: &Listed<'_>, action: RestoreAction, notes: Notes, is_listed: bool) {
        let fields = [("namespace", listed.namespace.unwrap_or_default()), ("name", listed.name)];
        for message in &notes.warnings {
            self.log.warning(message, &fields);
        }
        for message in &notes.errors {
            self.log.error(message, &fields);
        }
        // Upstream's list calls all of them failed; without an error nothing failed.
        let became = match action {
            RestoreAction::Failed if notes.errors.is_empty() => "not restored, see the warning".to_owned(),
            action => action.to_string(),
        };
        self.log.info(&format!("{} {became}", listed.kind), &fields);
        let mut inner = self.locked();
        for message in notes.warnings {
            inner.results.warnings.add(listed.namespace, message);
        }
        for message in notes.errors {
            inner.results.errors.add(listed.namespace, message);
        }
        if is_listed {
            inner.list.add_restored(listed.api_version, listed.kind, listed.namespace, listed.name, action);
        }
    }

    /// Adds an error of a namespace, after the items were recorded.
    pub(super) fn error(&self, namespace: Option<&str>, message: impl Into<String>) {
        let message = message.into();
        self.log.error(&message, &[("namespace", namespace.unwrap_or_default())]);
        self.locked().results.errors.add(namespace, message);
    }

    /// Adds an error that belongs to no item.
    pub(super) fn general(&self, message: impl Into<String>) {
        let message = message.into();
        self.log.error(&message, &[]);
        self.locked().results.errors.velero.push(message);
    }

    pub(super) fn operation(&self, operation: RestoreOperation) {
        self.locked().operations.push(operation);
    }

    /// Writes a log line about an item.
    pub(super) fn log_item(&self, message: &str, item: &ItemId) {
        let fields = [
            ("resource", item.resource.to_string()),
            ("namespace", item.namespace.clone().unwrap_or_default()),
            ("name", item.name.clone()),
        ];
        let fields: Vec<(&str, &str)> = fields.iter().map(|(key, value)| (*key, value.as_str())).collect();
        self.log.info(message, &fields);
    }

    pub(super) fn end(&self, hooks: HookCounts) -> RestoredItems {
        let mut inner = std::mem::take(&mut *self.locked());
        inner.list.sort();
        RestoredItems {
            results: inner.results,
            list: inner.list,
            operations: inner.operations,
            hooks,
            volumes: Volumes::default(),
            reported: BTreeSet::new(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }
}

impl Recorder for Report {
    fn item(&self, item: &WorkItem, outcome: ItemOutcome, mut notes: Notes) {
        match &outcome {
            ItemOutcome::Skipped(reason) => match reason.warning(&item.resource_id()) {
                Some(warning) => notes.warn(warning),
                None => self.log_item(&reason.log_line(), &item.id),
            },
            ItemOutcome::NotSelected(reason) => {
                self.log_item(&format!("not restored as an additional item: {reason}"), &item.id);
            }
            ItemOutcome::Different { warning } => notes.warn(warning),
            _ => {}
        }
        let listed = Listed {
            api_version: &item.api_version,
            kind: &item.kind,
            namespace: item.target.as_deref(),
            name: &item.id.name,
        };
        self.add(&listed, list_action(&outcome, &notes), notes, is_listed(&outcome));
    }

    fn namespace_created(&self, name: &str) {
        let listed = Listed { api_version: "v1", kind: "Namespace", namespace: None, name };
        self.add(&listed, RestoreAction::Created, Notes::default(), true);
    }

    fn general_error(&self, message: String) {
        self.general(message);
    }

    fn general_warning(&self, message: String) {
        self.log.warning(&message, &[]);
        self.locked().results.warnings.velero.push(message);
    }

    fn info(&self, message: &str, item: Option<&ItemId>) {
        match item {
            Some(item) => self.log_item(message, item),
            None => self.log.info(message, &[]),
        }
    }
}

/// The resource list's action for an item.
fn list_action(outcome: &ItemOutcome, notes: &Notes) -> RestoreAction {
    match outcome {
        ItemOutcome::Created => RestoreAction::Created,
        ItemOutcome::Updated => RestoreAction::Updated,
        ItemOutcome::NoNamespace(_) => RestoreAction::Failed,
        _ if notes.warnings.is_empty() && notes.errors.is_empty() => RestoreAction::Skipped,
        _ => RestoreAction::Failed,
    }
}

/// Items that were never part of the restore are not listed.
fn is_listed(outcome: &ItemOutcome) -> bool {
    !matches!(outcome, ItemOutcome::NotSelected(_) | ItemOutcome::Skipped(SkipReason::Completed))
}
