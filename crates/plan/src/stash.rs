//! Decisions about Stash's kinds: which pods and volumes a target has and which hosts they make ([`targets`], [`hosts`]),
//! which snapshots a restore takes ([`rules`]), whether an invoker may run ([`invoker`], [`reservation`]), which namespaces a server serves ([`served`]),
//! what a Restic backs up and into which directories ([`restic`], [`repo_dirs`]), and what a
//! session does next ([`state`], [`session`]); what driver VolumeSnapshotter takes, keeps and restores ([`snapshotter`]); how the
//! commands of a BackupAgent are run ([`agents`]). Crate `stash` carries them out.

pub mod agents;
pub mod backend;
pub mod databases;
pub mod hook_trust;
pub mod hooks;
pub mod hosts;
pub mod in_place;
pub mod invoker;
pub mod mover_pod;
pub mod repo_dirs;
pub mod repository;
pub mod reservation;
pub mod restic;
pub mod retention;
pub mod rules;
pub mod served;
pub mod session;
pub mod snapshotter;
pub mod state;
pub mod targets;
pub mod tasks;
pub mod variables;
