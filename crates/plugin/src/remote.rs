//! Implements the traits of this crate and of crate `archive` with plugin processes: requests and answers are converted
//! and checked here, so that users of the traits need not know about processes.

mod backup;
mod blocks;
mod convert;
mod delete;
mod object_store;
mod restore;
mod snapshotter;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lifeboat_plugin_protocol::generated::ResourceSelector;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::actions::{ActionError, AppliesTo, Registry};
use crate::host::{Call, Kind, Plugin, PluginError, Session, Slot};

use backup::BackupAction;
use restore::RestoreAction;

pub use object_store::ObjectStoreLocation;

/// The maximum size of an action's answer.
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

/// The version of the action protocol that a plugin speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// What every adapter of an action has: the plugin's name and the process that serves it.
struct Remote {
    name: String,
    slot: Arc<Slot>,
}

impl Remote {
    fn new(session: &Session, plugin: &Plugin) -> Self {
        Self { name: plugin.name.clone(), slot: session.actions(plugin) }
    }

    /// Sends a request that does the action's work.
    async fn call<T, F, R>(&self, what: &'static str, send: F) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: FnOnce(Channel) -> R + Send + 'static,
        R: Future<Output = Result<Response<T>, Status>> + Send,
    {
        self.send(what, self.slot.timeouts().call, send).await
    }

    /// Sends a request that is repeated for the same item or operation; its timeout is the short one.
    async fn poll<T, F, R>(&self, what: &'static str, send: F) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: FnOnce(Channel) -> R + Send + 'static,
        R: Future<Output = Result<Response<T>, Status>> + Send,
    {
        self.send(what, self.slot.timeouts().poll, send).await
    }

    /// Asks which items the action is for. `send` gets the channel and the plugin's name.
    async fn applies_to<F, R>(&self, send: F) -> Result<AppliesTo, ActionError>
    where
        F: FnOnce(Channel, String) -> R + Send + 'static,
        R: Future<Output = Result<Response<Option<ResourceSelector>>, Status>> + Send,
    {
        let plugin = self.name.clone();
        Ok(convert::applies_to(self.poll("AppliesTo", |channel| send(channel, plugin)).await?))
    }

    async fn send<T, F, R>(&self, what: &'static str, limit: Duration, send: F) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: FnOnce(Channel) -> R + Send + 'static,
        R: Future<Output = Result<Response<T>, Status>> + Send,
    {
        self.slot.call(Call { plugin: self.name.clone(), what, limit, init: None }, send).await
    }
}

impl Registry {
    /// These actions, followed by those of the installed plugins in the host's order. If a plugin has the name of an
    /// existing action it is left out; of two versions with the same name the newer one runs.
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
            Kind::BackupItemAction => self.backup.push(Arc::new(BackupAction::new(remote, Version::V1))),
            Kind::BackupItemActionV2 => self.backup.push(Arc::new(BackupAction::new(remote, Version::V2))),
            Kind::RestoreItemAction => self.restore.push(Arc::new(RestoreAction::new(remote, Version::V1))),
            Kind::RestoreItemActionV2 => self.restore.push(Arc::new(RestoreAction::new(remote, Version::V2))),
            Kind::DeleteItemAction => self.delete.push(Arc::new(delete::Delete(remote))),
            Kind::ItemBlockAction => self.blocks.push(Arc::new(blocks::Blocks(remote))),
            Kind::ObjectStore | Kind::VolumeSnapshotter => {}
        }
    }
}
