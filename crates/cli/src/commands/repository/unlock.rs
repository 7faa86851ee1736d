//! `unlock`: removes locks that nobody renews; all of them only when asked to.

use lifeboat_repository::lock::{Removed, remove_all_locks, remove_stale_locks};

use super::session::Session;
use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Remove every lock, also of commands that may be at work: only when nothing uses the repository
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
        0 => "no lock to remove".to_owned(),
        1 => "removed 1 lock".to_owned(),
        many => format!("removed {many} locks"),
    });
    if removed.unreadable.is_empty() {
        return Ok(());
    }
    for (id, error) in &removed.unreadable {
        tell!("lock {} cannot be read: {}", id.short(), CliError::text_of(error));
    }
    let text = format!("{} locks cannot be read, and stay", removed.unreadable.len());
    Err(CliError::restic(1, text)
        .help("when you know that nothing uses the repository, remove them with `unlock --remove-all`"))
}
