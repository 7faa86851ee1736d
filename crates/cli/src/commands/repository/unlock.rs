//! `unlock`: removes stale locks, and with --remove-all all locks.

use jiff::{Timestamp, tz::TimeZone};
use lifeboat_repository::lock::{Kept, Removed, remove_all_locks, remove_stale_locks};

use super::session::Session;
use crate::error::CliError;
use crate::units;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Remove all locks, including those of running commands: only if nothing uses the repository
    #[arg(long)]
    remove_all: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let removing = async {
        Ok(if args.remove_all {
            Removed { locks: remove_all_locks(&repository).await?, ..Removed::default() }
        } else {
            remove_stale_locks(&repository, &session.settings.lock.dead_owners).await?
        })
    };
    let removed = session.interruptible(removing).await?;
    session.say(match removed.locks {
        0 if removed.kept.is_empty() => "no lock to remove".to_owned(),
        0 => "no lock removed".to_owned(),
        1 => "removed 1 lock".to_owned(),
        many => format!("removed {many} locks"),
    });
    removed.kept.iter().for_each(|kept| session.say(describe(kept)));
    if !removed.kept.is_empty() {
        session.say(
            "whether a holder is alive cannot be checked from here: if you know that none is, `unlock --remove-all` \
             removes all locks",
        );
    }
    if removed.unreadable.is_empty() {
        return Ok(());
    }
    for (id, error) in &removed.unreadable {
        message!("lock {} cannot be read: {}", id.short(), CliError::text_of(error));
    }
    let text = format!("{} locks cannot be read and were kept", removed.unreadable.len());
    Err(CliError::restic(1, text)
        .help("if you know that nothing uses the repository, remove them with `unlock --remove-all`"))
}

/// The holder of a lock. A lock file records only the time of its last renewal, not since when the lock is held.
fn describe(Kept { holder, stale_from }: &Kept) -> String {
    let moment = |time: Timestamp| units::moment(&time.to_zoned(TimeZone::system()));
    format!(
        "{} lock {} stays: process {} of {} on '{}', taken or last renewed {}, stale from {} on unless \
         renewed",
        if holder.exclusive { "exclusive" } else { "shared" },
        holder.id.short(),
        holder.process,
        holder.user,
        holder.host,
        moment(holder.since),
        moment(*stale_from),
    )
}
