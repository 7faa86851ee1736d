//! Sessions: their names, whether one starts, waits or is skipped, which of its members may start, when its time
//! limit has passed, whether it is retried, and which old sessions are deleted. Takes gathered facts and the time;
//! gives decisions. Called by the controllers of the invokers and by the session engine.

mod args;
mod history;
mod name;
mod order;
mod retry;
mod start;
mod target;

pub use args::{ArgError, BackupArgs, Limits, RestoreArgs, backup_args, restore_args};
pub use history::{OldSession, to_delete};
pub use name::{
    Creation, DUE, ExistingSession, InvokerId, creation, due_annotation, labels, session, session_name, spec,
};
pub use order::{Order, deadline, is_over, members_to_start, wait_until};
pub use retry::{FailedSession, Retry, retry};
pub use start::{
    BackupFacts, BackupTargetFacts, InvokerFacts, MemberStart, OtherBackup, OtherRestore, OtherTarget,
    RESUMED, RestoreProgress, SessionKey, SessionStart, SkipReason, WaitReason, backup_member, is_resumed,
    restore_member, start_backup,
};
pub use target::{TargetKey, TargetVolumes};
