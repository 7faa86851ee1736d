//! Sets owner, mode and times, in the order that preserves them: a new owner clears set-uid, and everything changes times.

use std::fmt;

use lifeboat_repository::node::{Node, NodeKind};
use lifeboat_repository::restore::writing::{MetadataTarget, Stat};
use rustix::io::{Errno, Result as SystemResult};

use super::shared::Shared;

/// The operations that failed, with their errors.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<String>);

impl Failures {
    fn note(&mut self, action: &str, result: SystemResult<()>) {
        if let Err(error) = result {
            self.0.push(format!("cannot {action}: {}", std::io::Error::from(error)));
        }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

/// Sets the metadata of `node` on `target`, whose current state is `stat`. Tries everything and reports all failures.
/// Only root may change owners: for other users that is not a failure.
pub(super) fn apply(
    shared: &Shared,
    target: &MetadataTarget<'_>,
    node: &Node,
    stat: &Stat,
    path: impl FnOnce() -> Vec<u8>,
) -> Result<(), Failures> {
    let mut failures = Failures::default();
    let given_away = (node.uid, node.gid) != (stat.uid, stat.gid);
    if given_away {
        match target.chown(node.uid, node.gid) {
            Err(Errno::PERM | Errno::ACCESS) if !shared.is_root => shared.kept_owner(&path()),
            result => failures.note("set the owner", result),
        }
    }
    if node.kind != NodeKind::Symlink {
        failures.note("set the mode", target.chmod(node.mode.permissions()));
    }
    failures.note("set the times", target.set_times(node));
    if failures.0.is_empty() { Ok(()) } else { Err(failures) }
}
