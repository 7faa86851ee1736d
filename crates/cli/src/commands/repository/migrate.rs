//! `migrate`: upgrades a repository from version 1 of the format to version 2.

use std::sync::Arc;

use lifeboat_repository::migrate::{UPGRADE_TO_V2, available, upgrade_to_v2};
use lifeboat_repository::progress::Progress;

use super::output;
use super::progress::Shown;
use super::session::Session;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of migrations; without any, lists those that can be applied
    #[arg(value_name = "MIGRATION")]
    pub(crate) names: Vec<String>,
    /// Accepted for scripts: a migration that was applied cannot be applied again
    #[arg(short, long, hide = true)]
    pub(crate) force: bool,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result<(), CliError> {
    let repository = session.open().await?;
    let possible = available(&repository);
    if args.names.is_empty() {
        return output::value(session, &possible, || {
            let rows = possible.iter().map(|one| vec![one.name.to_owned(), one.description.to_owned()]);
            printer::table(&["MIGRATION", "WHAT IT DOES"], rows)
        });
    }
    for name in &args.names {
        if name != UPGRADE_TO_V2.name {
            return Err(CliError::usage(format!("there is no migration '{name}'"))
                .help(format!("the only migration is {}", UPGRADE_TO_V2.name)));
        }
        let progress = Arc::new(Progress::default());
        let shown = Shown::start(session, &progress, None);
        let done =
            upgrade_to_v2(&repository, &session.settings.lock, progress, session.interrupted.clone()).await;
        shown.stop();
        done?;
        session.say(
            "the repository is at version 2 now; `prune --repack-uncompressed` compresses the existing data",
        );
    }
    Ok(())
}
