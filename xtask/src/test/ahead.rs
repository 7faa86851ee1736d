//! Builds other projects' programs and images before the parts need them: takes the parts of a run and builds what they
//! need, in their order, in a thread with low priority. A compile does not keep two cores busy all the time, and
//! downloads need no core. What fails here fails again where it is needed, and is reported there.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::Result;

use super::Part;
use crate::cluster_box::programs;
use crate::{cluster_box, image, tools};

/// The priority below the compile's: the usual value for background work.
const NICENESS: i32 = 10;

/// A variable with which users name a program that they have, and the function that builds it otherwise.
type ProgramBuild = (&'static str, fn() -> Result<PathBuf>);

const REPOSITORY: [ProgramBuild; 5] = [
    ("LIFEBOAT_RESTIC", tools::restic),
    ("LIFEBOAT_RESTIC_014", tools::debian_restic),
    ("LIFEBOAT_REST_SERVER", tools::rest_server),
    ("LIFEBOAT_KOPIA", tools::kopia),
    ("", programs::s3_server),
];
const PLUGINS: [ProgramBuild; 3] = [
    ("LIFEBOAT_GO_PLUGIN", tools::recorder_plugin),
    ("LIFEBOAT_AWS_PLUGIN", tools::velero_plugins),
    ("", programs::s3_server),
];
const BOX: [ProgramBuild; 1] = [("", cluster_box::make_programs)];
const IMAGES: [ProgramBuild; 1] = [("", image::debian)];
const E2E: [ProgramBuild; 3] =
    [("VELERO_BIN", tools::velero), ("HELM_BIN", || cluster_box::tool("helm")), ("", image::databases)];

/// The thread. Dropping this waits for it.
pub(super) struct Ahead {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Starts with what the first part needs.
    pub(super) fn start(parts: &[Part]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (needed, stopped) = (needed(parts), stop.clone());
        let thread = thread::spawn(move || {
            // Applies to this thread and the programs that it starts. A failure is ignored.
            let _ = rustix::process::nice(NICENESS);
            for (variable, make) in needed {
                if !stopped.load(Ordering::Relaxed) && std::env::var_os(variable).is_none() {
                    let _ = make();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Waits until everything is built.
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

/// What the parts need, in their order.
fn needed(parts: &[Part]) -> Vec<ProgramBuild> {
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
