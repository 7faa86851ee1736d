//! Programs of others and images that parts will need, made ahead: takes the parts of a run, makes what they need in their
//! order in a thread of its own, with what the compile leaves of the machine. A compile does not keep two cores busy all the
//! time, and downloads keep none busy. What fails here fails again where it is needed, and is reported there.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::Result;

use super::Part;
use crate::cluster_box::programs;
use crate::{cluster_box, image, tools};

/// How much the compile goes before: the usual number for work that can wait.
const NICENESS: i32 = 10;

/// A variable with which people name a program that they have, and how it is made otherwise.
type Made = (&'static str, fn() -> Result<PathBuf>);

const REPOSITORY: [Made; 4] = [
    ("LIFEBOAT_RESTIC", tools::restic),
    ("LIFEBOAT_RESTIC_014", tools::debian_restic),
    ("LIFEBOAT_REST_SERVER", tools::rest_server),
    ("", programs::s3_server),
];
const PLUGINS: [Made; 3] = [
    ("LIFEBOAT_GO_PLUGIN", tools::recorder_plugin),
    ("LIFEBOAT_AWS_PLUGIN", tools::velero_plugins),
    ("", programs::s3_server),
];
const BOX: [Made; 1] = [("", cluster_box::make_programs)];
const IMAGES: [Made; 1] = [("", image::debian)];
const E2E: [Made; 3] =
    [("VELERO_BIN", tools::velero), ("HELM_BIN", || cluster_box::tool("helm")), ("", image::databases)];

/// The thread. It is waited for when this is dropped.
pub(super) struct Ahead {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Begins with what the first part needs.
    pub(super) fn start(parts: &[Part]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (needed, told) = (needed(parts), stop.clone());
        let thread = thread::spawn(move || {
            // Of this thread and the programs that it starts. Without it the work is done all the same.
            let _ = rustix::process::nice(NICENESS);
            for (variable, make) in needed {
                if !told.load(Ordering::Relaxed) && std::env::var_os(variable).is_none() {
                    let _ = make();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Waits until everything is made.
    pub(super) fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.finish();
    }
}

/// What the parts need, in their order. A part alone makes what it needs when it needs it.
fn needed(parts: &[Part]) -> Vec<Made> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Repository => all.extend(REPOSITORY),
            Part::Plugins => all.extend(PLUGINS),
            Part::Box => all.extend(BOX),
            Part::Storage | Part::Api => all.extend(BOX.into_iter().chain(IMAGES)),
            Part::E2e => all.extend(BOX.into_iter().chain(IMAGES).chain(E2E)),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_early_part_needs_is_made_first_and_lint_needs_nothing() {
        assert!(needed(&[Part::Lint, Part::Unit]).is_empty());
        let names: Vec<&str> =
            needed(&[Part::Lint, Part::Repository, Part::E2e]).iter().map(|one| one.0).collect();
        assert_eq!((names[0], names[names.len() - 3]), ("LIFEBOAT_RESTIC", "VELERO_BIN"));
    }
}
