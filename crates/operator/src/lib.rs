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
mod items;
mod journals;
mod locations;
mod lookup;
mod operations;
pub mod password;
mod plugin_store;
mod plugins;
mod pod_volumes;
mod repositories;
mod restore;
pub mod runtime;
pub mod settings;
mod snapshot_locations;
mod storage_problem;
#[cfg(test)]
mod testing;
mod volume_plugin;
mod wiring;

use lifeboat_control::dynamic;

pub use items::plan::{Fight, NotPlanned, Planned, PlannedItem, Would};
pub use locations::{LocationError, store_config};
pub use runtime::{ServerError, preview_restore, run};
pub use settings::{
    BackupSettings, DownloadSettings, MoverSettings, PluginSettings, RestoreSettings, ServerSettings,
    StorageSettings,
};
