//! Backups of workloads by Stash's API, on the box: every kind of target, read without a change of its pods, and compared byte for byte with
//! what genuine restic restores.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod admission;
mod backends;
mod backups;
mod bad_input;
mod bad_tasks;
mod batches;
mod choices;
mod cluster_restores;
mod commands;
mod database_certificates;
mod databases;
mod disasters;
mod faults;
mod gateway;
mod hook_certificates;
mod hooks;
mod isolation;
mod kills;
mod kinds;
mod loads;
mod meanwhile;
mod memory;
mod openshift;
mod order;
mod pod_security;
mod races;
mod replicas;
mod repositories;
mod restic;
mod restore_faults;
mod restores;
mod rights;
mod running;
mod samples;
mod schedules;
mod settings;
mod snapshotter;
pub(crate) mod workloads;
