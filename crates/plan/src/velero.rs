//! Decisions about Velero's kinds: backups, restores, schedules, locations, deletion, sync, and the objects that
//! describe the data of volumes. Called by the controllers of those kinds and by the command line.

pub mod backup;
pub mod backup_repository;
pub mod csi;
pub mod data_movement;
pub mod deletion;
pub mod download;
pub mod filter;
pub mod garbage;
pub mod hooks;
pub mod location;
pub mod order;
pub mod ownership;
mod pod_hooks;
pub mod pod_volumes;
pub mod restore;
pub mod schedule;
pub mod server_status;
pub mod sync;
pub mod typed;
pub mod uploader;
pub mod volume_plugin;
pub mod volume_settings;
