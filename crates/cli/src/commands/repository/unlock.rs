//! `unlock`: removes locks that nobody renews; all of them only when asked to.

use lifeboat_repository::lock::{remove_all_locks, remove_stale_locks};

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
    let removed = session
        .interruptible(async {
            Ok(if args.remove_all {
                remove_all_locks(&repository).await?
            } else {
                remove_stale_locks(&repository, &session.settings.lock.dead_owners).await?
            })
        })
        .await?;
    session.say(match removed {
        0 => "no lock to remove".to_owned(),
        1 => "removed 1 lock".to_owned(),
        many => format!("removed {many} locks"),
    });
    Ok(())
}
