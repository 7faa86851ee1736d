//! Plugin processes behind the traits of this crate and of crate `archive`: what they are asked and what they answer is
//! translated and checked here, so that nobody behind the traits knows of processes.

mod backup;
mod blocks;
mod convert;
mod delete;
mod object_store;
mod restore;
mod snapshotter;

use std::sync::Arc;

use crate::actions::Registry;
use crate::host::{Call, Kind, Plugin, Session, Slot};

pub use object_store::ObjectStoreLocation;

/// The largest answer of an action.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// What every adapter of an action has.
struct Remote {
    name: String,
    slot: Arc<Slot>,
}

impl Remote {
    fn new(session: &Session, plugin: &Plugin) -> Self {
        Self { name: plugin.name.clone(), slot: session.actions(plugin) }
    }

    fn call(&self, what: &'static str) -> Call {
        Call { plugin: self.name.clone(), what, limit: self.slot.timeouts().call, init: None }
    }

    /// A question that is asked again and so must not take long.
    fn poll(&self, what: &'static str) -> Call {
        Call { limit: self.slot.timeouts().poll, ..self.call(what) }
    }
}

impl Registry {
    /// These actions, and after them those of the installed plugins, in the order of the host. An action that is there
    /// already keeps its name; of two versions under one name the newer one runs.
    #[must_use]
    pub fn with_plugins(&self, session: &Session) -> Self {
        let mut all = self.clone();
        let plugins = session.host().plugins();
        let has = |kind: Kind, name: &str| session.host().find(kind, name).is_some();
        for plugin in plugins {
            let name = plugin.name.as_str();
            let taken = match plugin.kind {
                Kind::BackupItemAction => has(Kind::BackupItemActionV2, name) || all.has_backup(name),
                Kind::BackupItemActionV2 => all.has_backup(name),
                Kind::RestoreItemAction => has(Kind::RestoreItemActionV2, name) || all.has_restore(name),
                Kind::RestoreItemActionV2 => all.has_restore(name),
                Kind::DeleteItemAction => all.delete.iter().any(|action| action.name() == name),
                Kind::ItemBlockAction => all.blocks.iter().any(|action| action.name() == name),
                Kind::ObjectStore | Kind::VolumeSnapshotter => continue,
            };
            if taken {
                tracing::warn!(kind = %plugin.kind, name, "another action has this plugin's name; it is left out");
                continue;
            }
            all.add(plugin, Remote::new(session, plugin));
        }
        all
    }

    fn has_backup(&self, name: &str) -> bool {
        self.backup.iter().any(|action| action.name() == name)
    }

    fn has_restore(&self, name: &str) -> bool {
        self.restore.iter().any(|action| action.name() == name)
    }

    fn add(&mut self, plugin: &Plugin, remote: Remote) {
        match plugin.kind {
            Kind::BackupItemAction => self.backup.push(Arc::new(backup::V1(remote))),
            Kind::BackupItemActionV2 => self.backup.push(Arc::new(backup::V2(remote))),
            Kind::RestoreItemAction => self.restore.push(Arc::new(restore::V1(remote))),
            Kind::RestoreItemActionV2 => self.restore.push(Arc::new(restore::V2(remote))),
            Kind::DeleteItemAction => self.delete.push(Arc::new(delete::Delete(remote))),
            Kind::ItemBlockAction => self.blocks.push(Arc::new(blocks::Blocks(remote))),
            Kind::ObjectStore | Kind::VolumeSnapshotter => {}
        }
    }
}
