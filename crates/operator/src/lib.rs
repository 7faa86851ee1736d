//! The server: controllers over the custom resources, the leader election, metrics and probes. `runtime::run` is what
//! `lifeboat server` calls. Each controller reads, validates, plans, applies and writes status, in that order; what is
//! decided is decided in crate `plan`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod applying;
mod backup;
mod carrying;
mod context;
mod controllers;
mod credential_files;
mod csi;
mod data_movement;
mod downloads;
mod locations;
mod lookup;
mod operations;
pub mod password;
mod plugins;
mod pod_volumes;
mod repositories;
mod restore;
pub mod runtime;
pub mod settings;
mod snapshot_locations;
#[cfg(test)]
mod testing;
mod volume_plugin;

use lifeboat_control::dynamic;

pub use locations::{LocationError, store_config};
pub use restore::{Fight, NotPlanned, Planned, PlannedItem, Would};
pub use runtime::{ServerError, preview_restore, run};
pub use settings::{
    BackupSettings, DownloadSettings, MoverSettings, PluginSettings, RestoreSettings, ServerSettings,
    StorageSettings,
};
