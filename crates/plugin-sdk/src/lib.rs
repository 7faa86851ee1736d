//! Plugins for Lifeboat, in Rust. A plugin is a program that serves any number of actions, object stores and volume
//! snapshotters; Velero runs it too.
//!
//! ```no_run
//! use lifeboat_plugin_sdk::{Object, Plugin, RestoreInput, RestoreItemAction, RestoreOutput, Result, Selector, async_trait};
//!
//! /// Says of every restored ConfigMap who restored it.
//! struct Sign;
//!
//! #[async_trait]
//! impl RestoreItemAction for Sign {
//!     fn applies_to(&self) -> Selector {
//!         Selector::resources(["configmaps"])
//!     }
//!
//!     async fn execute(&self, input: RestoreInput) -> Result<RestoreOutput> {
//!         let mut item = input.item;
//!         item.set_annotation("example.io/restored-by", input.restore.name());
//!         Ok(RestoreOutput::new(item))
//!     }
//! }
//!
//! fn main() -> lifeboat_plugin_sdk::Served {
//!     Plugin::new().restore_item_action("example.io/sign", Sign).serve()
//! }
//! ```
//!
//! Log with `tracing`; the lines appear in the log of the backup or restore. What an action does can be tested without a
//! cluster: make an [`Object`] from JSON and call the trait's methods.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod actions;
mod error;
mod install;
mod logging;
mod object;
mod plugin;
mod progress;
mod serve;
mod snapshotter;
mod store;

pub use actions::{
    BackupItemAction, BackupOutput, DeleteItemAction, ItemBlockAction, RestoreInput, RestoreItemAction,
    RestoreOutput, Selector,
};
pub use async_trait::async_trait;
pub use bytes::Bytes;
pub use error::{Error, Result, ServeError, Served};
pub use object::{Object, ResourceId};
pub use plugin::Plugin;
pub use progress::{OperationProgress, VolumeProgress};
pub use serde_json;
pub use snapshotter::{SnapshotRequest, VolumeInfo, VolumeRequest, VolumeSnapshotter};
pub use store::{Body, ObjectStore};

/// The settings of a location, as its owner wrote them.
pub type Config = std::collections::BTreeMap<String, String>;
