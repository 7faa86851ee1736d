//! Every test on a real cluster or beside genuine restic, in one program. `cargo xtask test` runs the modules that each
//! of its parts needs and passes cluster, storage and programs in the environment.

mod backup;
mod chart;
mod cluster;
mod faults;
mod image;
mod interop;
mod machine;
mod nodes;
mod plugins;
mod plugins_installed;
mod policies;
mod repository;
mod restore;
mod schemas;
mod server;
mod soak;
mod stash;
mod stash_nodes;
#[cfg(feature = "torture")]
mod torture;
mod upgrade;
mod velero_cli;
mod volume_faults;
mod volumes;
