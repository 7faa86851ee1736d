//! The plugins of a program: `Plugin::new().….serve()`; module `serve` runs the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use lifeboat_plugin_protocol::generated::PluginIdentifier;
use lifeboat_plugin_protocol::kinds;

use crate::actions::{BackupItemAction, DeleteItemAction, ItemBlockAction, RestoreItemAction};
use crate::error::{ServeError, Served};
use crate::snapshotter::VolumeSnapshotter;
use crate::store::ObjectStore;

const CALLS: u32 = 16;

pub(crate) type Named<T> = BTreeMap<String, Arc<T>>;

/// The plugins of one program. Each has a name of the form `example.io/thing`.
pub struct Plugin {
    pub(crate) backup: Named<dyn BackupItemAction>,
    pub(crate) restore: Named<dyn RestoreItemAction>,
    pub(crate) delete: Named<dyn DeleteItemAction>,
    pub(crate) blocks: Named<dyn ItemBlockAction>,
    pub(crate) stores: Named<dyn ObjectStore>,
    pub(crate) snapshotters: Named<dyn VolumeSnapshotter>,
    pub(crate) concurrent_calls: u32,
    wrong: Option<String>,
}

impl Default for Plugin {
    fn default() -> Self {
        Self::new()
    }
}

impl Plugin {
    pub fn new() -> Self {
        Self {
            backup: BTreeMap::new(),
            restore: BTreeMap::new(),
            delete: BTreeMap::new(),
            blocks: BTreeMap::new(),
            stores: BTreeMap::new(),
            snapshotters: BTreeMap::new(),
            concurrent_calls: CALLS,
            wrong: None,
        }
    }

    /// The maximum number of concurrent calls; 16 by default. With 1, calls run one at a time and report no progress.
    #[must_use]
    pub fn concurrent_calls(mut self, calls: u32) -> Self {
        self.concurrent_calls = calls.max(1);
        self
    }

    #[must_use]
    pub fn backup_item_action(mut self, name: &str, action: impl BackupItemAction) -> Self {
        self.check(name, self.backup.contains_key(name));
        self.backup.insert(name.to_owned(), Arc::new(action));
        self
    }

    #[must_use]
    pub fn restore_item_action(mut self, name: &str, action: impl RestoreItemAction) -> Self {
        self.check(name, self.restore.contains_key(name));
        self.restore.insert(name.to_owned(), Arc::new(action));
        self
    }

    #[must_use]
    pub fn delete_item_action(mut self, name: &str, action: impl DeleteItemAction) -> Self {
        self.check(name, self.delete.contains_key(name));
        self.delete.insert(name.to_owned(), Arc::new(action));
        self
    }

    #[must_use]
    pub fn item_block_action(mut self, name: &str, action: impl ItemBlockAction) -> Self {
        self.check(name, self.blocks.contains_key(name));
        self.blocks.insert(name.to_owned(), Arc::new(action));
        self
    }

    #[must_use]
    pub fn object_store(mut self, name: &str, store: impl ObjectStore) -> Self {
        self.check(name, self.stores.contains_key(name));
        self.stores.insert(name.to_owned(), Arc::new(store));
        self
    }

    #[must_use]
    pub fn volume_snapshotter(mut self, name: &str, snapshotter: impl VolumeSnapshotter) -> Self {
        self.check(name, self.snapshotters.contains_key(name));
        self.snapshotters.insert(name.to_owned(), Arc::new(snapshotter));
        self
    }

    /// Checks that there is at least one plugin and that all names are valid.
    pub(crate) fn check_all(&self) -> Served {
        match &self.wrong {
            Some(wrong) => Err(ServeError::Name(wrong.clone())),
            None if self.listed().is_empty() => {
                Err(ServeError::Name("this program serves no plugin: add one before serve()".to_owned()))
            }
            None => Ok(()),
        }
    }

    fn check(&mut self, name: &str, taken: bool) {
        let parts: Vec<&str> = name.split('/').collect();
        let good = matches!(parts[..], [domain, rest] if domain.contains('.') && !rest.is_empty());
        if taken {
            self.wrong = Some(format!("two plugins of one kind are named {name:?}"));
        } else if !good {
            self.wrong = Some(format!("the plugin name {name:?} must look like example.io/thing"));
        }
    }

    pub(crate) fn listed(&self) -> Vec<PluginIdentifier> {
        let command = std::env::args().next().unwrap_or_default();
        let one = |kind: &str, name: &String| PluginIdentifier {
            command: command.clone(),
            kind: kind.to_owned(),
            name: name.clone(),
        };
        let backup = self.backup.keys().map(|name| one(kinds::BACKUP_ITEM_ACTION_V2, name));
        let restore = self.restore.keys().map(|name| one(kinds::RESTORE_ITEM_ACTION_V2, name));
        let delete = self.delete.keys().map(|name| one(kinds::DELETE_ITEM_ACTION, name));
        let blocks = self.blocks.keys().map(|name| one(kinds::ITEM_BLOCK_ACTION, name));
        let stores = self.stores.keys().map(|name| one(kinds::OBJECT_STORE, name));
        let snapshotters = self.snapshotters.keys().map(|name| one(kinds::VOLUME_SNAPSHOTTER, name));
        backup.chain(restore).chain(delete).chain(blocks).chain(stores).chain(snapshotters).collect()
    }
}
