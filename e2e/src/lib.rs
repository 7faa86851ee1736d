//! Code that the tests on a real cluster or beside genuine restic share: running programs, reading objects, waiting
//! with a deadline, temporary namespaces, repositories, file trees. `cargo xtask test` passes cluster, storage and
//! programs in the environment.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, clippy::print_stderr)] // tests end by panicking

mod api;
mod balancer;
mod bucket;
mod certificates;
mod command;
mod data;
mod databases;
mod engine;
mod gate;
#[cfg(feature = "torture")]
mod gateway;
mod host_server;
mod kills;
mod leadership;
mod lifeboat;
mod namespace;
mod objects;
mod one_volume;
mod recorder;
mod release;
mod rest_server;
mod restorable;
mod sample;
mod stash;
#[cfg(feature = "torture")]
pub mod torture;
pub mod tree;
mod volume;
mod volume_kills;
mod wait;

pub use balancer::Balancer;
pub use bucket::Bucket;
pub use certificates::ServerCertificate;
pub use command::{Output, Program};
pub use data::{DataApp, VOLUMES, VolumeName, contents, volume_directory};
pub use databases::Databases;
pub use engine::{Engine, Repository};
pub use gate::{Fault, Gate};
#[cfg(feature = "torture")]
pub use gateway::GatewayServer;
pub use host_server::HostServer;
pub use kills::{BACKUP_POINTS, KillTest, Point, RESTORE_POINTS};
pub use leadership::{
    everything_works, process_of, restart_api_server, signal, wait_for_another, wait_for_every_replica,
    wait_for_one_leader,
};
pub use lifeboat::{Installation, S3, s3};
pub use namespace::{Namespace, delete_namespace};
pub use objects::{assert_same_objects, objects_of};
pub use one_volume::{OneVolume, Way, anew, mover_process, no_snapshot_is_left, random};
pub use recorder::recorded_item;
pub use release::Release;
pub use rest_server::RestServer;
pub use restorable::assert_restores;
pub use sample::{sample_app, wait_until_running};
pub use stash::{PASSWORD, RESTORE_BATCHES, RESTORE_SESSIONS, StashTest, Undisturbed, User, condition};
pub use volume::{BrokenSnapshotClass, bound, directory_volume};
pub use volume_kills::{Moment, VOLUME_BACKUP_MOMENTS, VOLUME_RESTORE_MOMENTS, VolumeKillTest};
pub use wait::wait_for;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

/// How long a `kubectl` may take: longer than every time limit that tests give it.
const LONGEST: Duration = Duration::from_mins(10);

/// A variable that `cargo xtask test` sets.
pub fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; run these tests with `cargo xtask test`"))
}

/// A name that no other test of this cluster uses.
pub fn unique(prefix: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// `kubectl` on the cluster under test.
pub fn kubectl() -> Program {
    let program = Program::new("kubectl").within(LONGEST);
    match std::env::var("LIFEBOAT_CONTEXT") {
        Ok(context) => program.args(["--context", &context]),
        Err(_) => program,
    }
}

/// Our program, the same as in the image.
pub fn lifeboat() -> Program {
    Release::New.command()
}

/// Stock Velero's command line, pointed at Lifeboat.
pub fn velero() -> Program {
    let program =
        Program::new(&variable("VELERO_BIN")).args(["--namespace", "lifeboat", "--colorized=false"]);
    match std::env::var("LIFEBOAT_CONTEXT") {
        Ok(context) => program.args(["--kubecontext", &context]),
        Err(_) => program,
    }
}

/// The project's own `cargo xtask`.
pub fn xtask() -> Program {
    Program::new(&variable("LIFEBOAT_XTASK"))
}

/// An object of the cluster; `Null` if it does not exist.
pub fn get(arguments: &[&str]) -> Value {
    if let Some(found) = api::get(arguments) {
        return found;
    }
    let text = kubectl().arg("get").args(arguments).args(["-o", "json", "--ignore-not-found"]).ok();
    if text.trim().is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
}

/// Applies manifests given as text.
pub fn apply(manifests: &str) {
    kubectl().args(["apply", "-f", "-"]).input(manifests).ok();
}
