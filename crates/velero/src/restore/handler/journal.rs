//! The operations that actions of a restore started, in a ConfigMap of Lifeboat's namespace, so that a server that
//! continues after a crash does not start them again. It is created with its first entry, is owned by its Restore,
//! and is deleted at the restore's end.
//!
//! Whether an action starts an operation is known only when it answers. An operation is recorded as soon as its ID is
//! known, before anything else happens to its item. The first call of an action for a type is recorded before it is
//! made, and made alone; if it or a later call starts an operation, each further call for that type is recorded
//! before it is made. Many tasks record at once; entries that arrive during a write are combined into the next one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use kube::api::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use lifeboat_api::velero::Restore;
use lifeboat_archive::documents::RestoreOperation;
use lifeboat_cluster::ApiError;
use lifeboat_control::{ConfigMapJournal, JournalError, locked};
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::label::digest;
use lifeboat_plan::velero::backup::JOURNAL;
use serde_json::{Value, json};

/// Why an operation is not recorded in the journal.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotRecorded {
    #[error(transparent)]
    Write(#[from] JournalError),
    #[error("the journal of this restore is full, and none of its later operations will be recorded: {0}")]
    Full(JournalError),
}

/// The journal of one restore.
pub(crate) struct Journal {
    map: ConfigMapJournal,
    /// By action and type.
    habits: Mutex<BTreeMap<(String, String), SharedHabit>>,
    open: Mutex<PendingEntries>,
    /// The number of the last entry that is written; locked during a write.
    written: tokio::sync::Mutex<u64>,
    /// The journal is full, and that was reported.
    full: AtomicBool,
}

/// Locked while the first call shows whether an action starts operations.
pub(super) type SharedHabit = Arc<tokio::sync::Mutex<Habit>>;

/// What is known about an action and a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Habit {
    /// The action was never called for the type.
    #[default]
    Unknown,
    /// The action has not started operations yet.
    Quiet,
    Operating,
}

/// Entries that are not written yet, by key; None removes one.
#[derive(Default)]
struct PendingEntries {
    last: u64,
    entries: BTreeMap<String, (u64, Option<String>)>,
}

/// What earlier attempts of a restore recorded, by item as it is named in the cluster.
#[derive(Debug, Default)]
pub(crate) struct Begun(BTreeMap<ItemId, Vec<RestoreOperation>>);

impl Begun {
    /// The entries of an item. An entry without an operation ID was written before a call.
    pub(super) fn of(&self, item: &ItemId) -> &[RestoreOperation] {
        self.0.get(item).map_or(&[], Vec::as_slice)
    }

    /// All operations that have an ID.
    pub(crate) fn operations(self) -> impl Iterator<Item = RestoreOperation> {
        self.0.into_values().flatten().filter(|one| !one.spec.operation_id.is_empty())
    }
}

impl Journal {
    pub(crate) fn new(client: Client, namespace: &str, restore: &Restore) -> Self {
        let metadata = ObjectMeta {
            name: Some(format!("lifeboat-restore-journal-{}", restore.uid().unwrap_or_default())),
            labels: Some([(JOURNAL.to_owned(), "restore".to_owned())].into()),
            owner_references: restore.owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        Self {
            map: ConfigMapJournal::new(Api::namespaced(client, namespace), metadata),
            habits: Mutex::default(),
            open: Mutex::default(),
            written: tokio::sync::Mutex::new(0),
            full: AtomicBool::new(false),
        }
    }

    /// Reads what earlier attempts recorded.
    pub(crate) async fn read(&self) -> Result<Begun, ApiError> {
        let mut begun = Begun::default();
        for (key, text) in self.map.read().await? {
            match serde_json::from_str::<RestoreOperation>(&text) {
                Ok(operation) => {
                    *self.habit(&operation).lock().await = Habit::Operating;
                    let item = ItemId::from(operation.spec.resource_identifier.clone());
                    begun.0.entry(item).or_default().push(operation);
                }
                Err(error) => {
                    tracing::warn!(journal = self.map.name(), key, %error, "an entry cannot be read");
                }
            }
        }
        Ok(begun)
    }

    /// What is known about the action and the type of an operation.
    pub(super) fn habit(&self, operation: &RestoreOperation) -> SharedHabit {
        let RestoreOperation { spec, .. } = operation;
        let resource = format!("{}.{}", spec.resource_identifier.resource, spec.resource_identifier.group);
        locked(&self.habits).entry((spec.restore_item_action.clone(), resource)).or_default().clone()
    }

    /// Records an operation, or a call that may start one; durable when this returns Ok. A full journal is reported
    /// as an error once: an object holds a megabyte, some thousands of operations.
    pub(super) async fn note(&self, operation: &RestoreOperation) -> Result<(), NotRecorded> {
        if self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = serde_json::to_string(operation).map_err(JournalError::Entry)?;
        let number = self.put(operation, Some(text));
        self.settle(number).await
    }

    /// Removes the entry of a call that started nothing. If that fails, the entry is reported after a restart.
    pub(super) async fn forget(&self, operation: &RestoreOperation) {
        let number = self.put(operation, None);
        let _ = self.settle(number).await;
    }

    /// Deletes the journal of a restore that has ended.
    pub(crate) async fn remove(&self) {
        self.map.remove().await;
    }

    fn put(&self, operation: &RestoreOperation, text: Option<String>) -> u64 {
        let spec = &operation.spec;
        let item = ItemId::from(spec.resource_identifier.clone());
        let key = format!("operation.{}", digest(&format!("{item}\n{}", spec.restore_item_action)));
        let mut open = locked(&self.open);
        open.last += 1;
        let number = open.last;
        open.entries.insert(key, (number, text));
        number
    }

    /// Waits until an entry is written, by this task or by another one. If this is dropped, the entry stays pending.
    async fn settle(&self, number: u64) -> Result<(), NotRecorded> {
        let mut written = self.written.lock().await;
        if *written >= number {
            return Ok(());
        }
        let (last, batch) = {
            let open = locked(&self.open);
            let texts = open.entries.iter().map(|(key, (_, text))| (key.clone(), json!(text)));
            (open.last, Value::Object(texts.collect()))
        };
        match self.map.write(&batch).await {
            Ok(()) => {}
            Err(error @ JournalError::Full(_)) => {
                locked(&self.open).entries.clear();
                if self.full.swap(true, Ordering::Relaxed) {
                    return Ok(());
                }
                return Err(NotRecorded::Full(error));
            }
            Err(error) => return Err(error.into()),
        }
        locked(&self.open).entries.retain(|_, (number, _)| *number > last);
        *written = last;
        Ok(())
    }
}
