//! Why a session is skipped or waits, as text for its conditions.

use crate::stash::in_place::RestoreName;
use crate::stash::session::TargetKey;

/// Why a backup does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    #[error("its invoker does not exist")]
    NoInvoker,
    #[error("its invoker is {phase}{}", because(message))]
    NotReady { phase: String, message: String },
    #[error("its invoker is paused; create a BackupSession by hand, or set spec.paused to false")]
    Paused,
    #[error("session {session} of the same invoker has not ended")]
    SameInvoker { session: String },
    #[error("{restore} is restoring {target}")]
    Restore { restore: String, target: TargetKey },
    #[error(
        "the last restore of {target}, {restore}, failed, and good snapshots must not make room for half-restored data; \
         restore again, or allow backups with \"lifeboat stash resume {} -n {}\"", restore.argument(), restore.namespace
    )]
    RestoreFailed { restore: RestoreName, target: TargetKey },
}

/// What a session or a member waits for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitReason {
    #[error("waiting for backup {session}, which has {target}")]
    Backup { session: String, target: TargetKey },
    #[error("waiting for {restore}, which has {target}")]
    Restore { restore: String, target: TargetKey },
}

fn because(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
