//! What happened, collected from all tasks: results, resource list, log, operations, counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifeboat_archive::RunLog;
use lifeboat_archive::documents::{ResourceList, RestoreAction, RestoreOperation, Results};
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::restore::waits::{Wait, Waits};

use crate::items::run::locked;

use super::native::Volumes;
use super::pod_volumes::VolumeKey;

/// How far a restore has come; read by the controller while it runs.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) total: AtomicUsize,
    pub(crate) restored: AtomicUsize,
    /// Items that wait for something, for people.
    pub(crate) waiting: AtomicUsize,
    /// Those that say what they wait for, by their work.
    waits: Mutex<BTreeMap<usize, Wait>>,
    /// What waited when an earlier server was interrupted.
    earlier: Waits,
}

/// An item that waits, until this is dropped.
pub(crate) struct Waiting {
    progress: Arc<Progress>,
    work: usize,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        locked(&self.progress.waits).remove(&self.work);
    }
}

impl Progress {
    /// Of a restore that shows `annotation`.
    pub(crate) fn going_on(annotation: Option<&str>) -> Self {
        Self { earlier: Waits::read(annotation), ..Self::default() }
    }

    /// What is waited for, in short.
    pub(crate) fn waits(&self) -> Waits {
        Waits::new(locked(&self.waits).values().cloned().collect())
    }

    /// An item begins to wait. One that an earlier server saw waiting has waited since then.
    pub(crate) fn wait(self: &Arc<Self>, work: usize, mut wait: Wait) -> Waiting {
        let same = |one: &&Wait| one.item == wait.item && one.action == wait.action;
        if let Some(earlier) = self.earlier.waits.iter().find(same) {
            wait.since = wait.since.min(earlier.since);
        }
        locked(&self.waits).insert(work, wait);
        Waiting { progress: Arc::clone(self), work }
    }

    /// Total and restored.
    pub(crate) fn now(&self) -> (usize, usize) {
        (self.total.load(Ordering::Relaxed), self.restored.load(Ordering::Relaxed))
    }
}

/// Hooks that ran and that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookCounts {
    pub(crate) attempted: usize,
    pub(crate) failed: usize,
}

/// What a restore ended with.
pub(crate) struct Ended {
    pub(crate) results: Results,
    pub(crate) list: ResourceList,
    pub(crate) operations: Vec<RestoreOperation>,
    pub(crate) hooks: HookCounts,
    /// Those that were made from snapshots.
    pub(crate) volumes: Volumes,
    /// Copied volumes that were restored, or have an error of their own.
    pub(crate) told: BTreeSet<VolumeKey>,
}

/// Collects.
pub(crate) struct Report {
    inner: Mutex<Inner>,
    pub(crate) log: RunLog,
    pub(crate) progress: Arc<Progress>,
}

#[derive(Default)]
struct Inner {
    results: Results,
    list: ResourceList,
    operations: Vec<RestoreOperation>,
}

/// What came up while one item was worked on.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) warnings: Vec<String>,
    pub(crate) errors: Vec<String>,
    /// What became of it, where something did.
    pub(crate) action: Option<RestoreAction>,
    /// Leave it out of the resource list: it never was part of the restore.
    pub(crate) unlisted: bool,
}

impl Notes {
    pub(crate) fn warn(&mut self, words: impl Into<String>) {
        self.warnings.push(words.into());
    }

    pub(crate) fn error(&mut self, words: impl Into<String>) {
        self.errors.push(words.into());
    }

    fn action(&self) -> RestoreAction {
        let troubled = !self.warnings.is_empty() || !self.errors.is_empty();
        self.action.unwrap_or(if troubled { RestoreAction::Failed } else { RestoreAction::Skipped })
    }
}

/// How the resource list names an item.
pub(crate) struct Listed<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

impl Report {
    pub(crate) fn new(log: RunLog, progress: Arc<Progress>) -> Self {
        Self { inner: Mutex::default(), log, progress }
    }

    /// An item has ended.
    pub(crate) fn item(&self, listed: &Listed<'_>, notes: Notes) {
        let action = notes.action();
        let what = listed.kind;
        let fields = [("namespace", listed.namespace.unwrap_or_default()), ("name", listed.name)];
        for words in &notes.warnings {
            self.log.warning(words, &fields);
        }
        for words in &notes.errors {
            self.log.error(words, &fields);
        }
        // Upstream's list calls all of them failed; without an error nothing failed.
        let became = match action {
            RestoreAction::Failed if notes.errors.is_empty() => "not restored, see the warning".to_owned(),
            action => action.to_string(),
        };
        self.log.info(&format!("{what} {became}"), &fields);
        let mut inner = self.locked();
        for words in notes.warnings {
            inner.results.warnings.add(listed.namespace, words);
        }
        for words in notes.errors {
            inner.results.errors.add(listed.namespace, words);
        }
        if !notes.unlisted {
            inner.list.add_restored(listed.api_version, listed.kind, listed.namespace, listed.name, action);
        }
    }

    /// Trouble that belongs to no item.
    pub(crate) fn general_error(&self, words: impl Into<String>) {
        let words = words.into();
        self.log.error(&words, &[]);
        self.locked().results.errors.velero.push(words);
    }

    pub(crate) fn general_warning(&self, words: String) {
        self.log.warning(&words, &[]);
        self.locked().results.warnings.velero.push(words);
    }

    pub(crate) fn error(&self, namespace: Option<&str>, words: impl Into<String>) {
        let words = words.into();
        self.log.error(&words, &[("namespace", namespace.unwrap_or_default())]);
        self.locked().results.errors.add(namespace, words);
    }

    pub(crate) fn operation(&self, operation: RestoreOperation) {
        self.locked().operations.push(operation);
    }

    pub(crate) fn info(&self, words: &str, item: &ItemId) {
        let fields = [
            ("resource", item.resource.to_string()),
            ("namespace", item.namespace.clone().unwrap_or_default()),
            ("name", item.name.clone()),
        ];
        let fields: Vec<(&str, &str)> = fields.iter().map(|(key, value)| (*key, value.as_str())).collect();
        self.log.info(words, &fields);
    }

    pub(crate) fn end(&self, hooks: HookCounts) -> Ended {
        let mut inner = std::mem::take(&mut *self.locked());
        inner.list.sort();
        let volumes = Volumes::default();
        let told = BTreeSet::new();
        Ended { results: inner.results, list: inner.list, operations: inner.operations, hooks, volumes, told }
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
