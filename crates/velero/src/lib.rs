//! Velero's API: the controllers of its kinds, and what they share. [`Velero`] is the part that the server runs;
//! [`preview_restore`] is called for a dry run. Each controller reads, validates, plans, applies and writes status,
//! in that order; the decisions are in crate `plan`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod applying;
mod backup;
mod context;
mod controllers;
mod credential_files;
mod csi;
mod data_movement;
mod deletion;
mod downloads;
mod expiry;
mod locations;
mod lookup;
mod metrics;
mod operations;
mod own;
mod own_deployment;
mod ownership;
pub mod password;
mod plugin_store;
mod plugins;
mod pod_volumes;
mod repositories;
mod restore;
mod schedules;
mod server_part;
mod server_status;
pub mod settings;
mod snapshot_locations;
mod storage_away;
mod storage_problem;
mod sync;
#[cfg(test)]
mod testing;
mod transfer_kinds;
mod transfers;
mod typed;
mod volume_plugin;
mod wiring;

use lifeboat_control::dynamic;

pub use lifeboat_items::preview::{Fight, NotPlanned, Planned, PlannedItem, Would};
pub use locations::{LocationError, store_config};
pub use restore::preview_restore;
pub use server_part::Velero;
pub use settings::{
    BackupSettings, DownloadSettings, PluginSettings, RestoreSettings, StorageSettings, VeleroSettings,
};
