//! The operations that actions of a restore began, in a ConfigMap of Lifeboat's namespace, so that a server that goes on after
//! a crash does not begin them again. It is made with its first entry, belongs to its Restore, and goes at the restore's end.
//!
//! Whether an action begins an operation is known only when it answers. An operation is noted as soon as its ID is known, before
//! anything else happens to its item. The first call of an action for a type is noted before it is made, and made alone; where
//! it begins an operation, or a later one does, each further call for that type is noted before it is made. Many tasks note at once; whatever comes together while one write is under way goes into the next.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use kube::api::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use lifeboat_api::velero::Restore;
use lifeboat_archive::documents::RestoreOperation;
use lifeboat_cluster::ApiError;
use lifeboat_plan::catalogue::ItemId;
use lifeboat_plan::label::digest;
use lifeboat_plan::velero::backup::JOURNAL;
use serde_json::{Value, json};

use crate::journals::{ConfigMapJournal, JournalError};
use lifeboat_control::locked;

/// An operation that is not in the journal.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotNoted {
    #[error(transparent)]
    Write(#[from] JournalError),
    #[error(
        "no more fits into the journal of this restore, nor will any later operation of it be noted: {0}"
    )]
    Full(JournalError),
}

/// The journal of one restore.
pub(crate) struct Journal {
    map: ConfigMapJournal,
    /// By action and type.
    habits: Mutex<BTreeMap<(String, String), SharedHabit>>,
    open: Mutex<Open>,
    /// The number of the last entry that is written; held while one writes.
    written: tokio::sync::Mutex<u64>,
    /// No more fits into it; that was reported.
    full: AtomicBool,
}

/// Held while the first call shows what an action does.
pub(super) type SharedHabit = Arc<tokio::sync::Mutex<Habit>>;

/// What is known of an action and a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Habit {
    /// It was never called for the type.
    #[default]
    Unknown,
    /// It has not begun operations yet.
    Quiet,
    Operating,
}

/// Entries that are not written yet, by key; None removes one.
#[derive(Default)]
struct Open {
    last: u64,
    entries: BTreeMap<String, (u64, Option<String>)>,
}

/// What earlier attempts of a restore noted, by item as it is called in the cluster.
#[derive(Debug, Default)]
pub(crate) struct Begun(BTreeMap<ItemId, Vec<RestoreOperation>>);

impl Begun {
    /// What was noted for an item. One without an operation ID was about to be called.
    pub(super) fn of(&self, item: &ItemId) -> &[RestoreOperation] {
        self.0.get(item).map_or(&[], Vec::as_slice)
    }

    /// All that have an ID.
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

    /// What earlier attempts noted.
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

    /// What is known of the action and the type of an operation.
    pub(super) fn habit(&self, operation: &RestoreOperation) -> SharedHabit {
        let RestoreOperation { spec, .. } = operation;
        let resource = format!("{}.{}", spec.resource_identifier.resource, spec.resource_identifier.group);
        locked(&self.habits).entry((spec.restore_item_action.clone(), resource)).or_default().clone()
    }

    /// Notes an operation, or a call that may begin one; durable when this ends well. That nothing more fits is an error once:
    /// an object holds a megabyte, some thousands of operations.
    pub(super) async fn note(&self, operation: &RestoreOperation) -> Result<(), NotNoted> {
        if self.full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let text = serde_json::to_string(operation).map_err(JournalError::Entry)?;
        let number = self.put(operation, Some(text));
        self.settle(number).await
    }

    /// The call began nothing; durable when this ends, as far as it can be: an entry that stays is named after a restart.
    pub(super) async fn forget(&self, operation: &RestoreOperation) {
        let number = self.put(operation, None);
        let _ = self.settle(number).await;
    }

    /// The restore has ended.
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

    /// Waits until an entry is written, by this task or by another one. Dropped at any await, the entry is still open.
    async fn settle(&self, number: u64) -> Result<(), NotNoted> {
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
                return Err(NotNoted::Full(error));
            }
            Err(error) => return Err(error.into()),
        }
        locked(&self.open).entries.retain(|_, (number, _)| *number > last);
        *written = last;
        Ok(())
    }
}
