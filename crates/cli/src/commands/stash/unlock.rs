//! `lifeboat stash unlock REPOSITORY`: removes stale locks.

use super::Tenant;
use super::repository::{self, RepositoryArgs};
use crate::commands::repository::{Command, unlock};
use crate::error::CliError;

// The flattened arguments have a group of this name already.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    unlock: unlock::Args,
}

pub(super) async fn run(tenant: &Tenant, args: Args) -> Result<(), CliError> {
    repository::run(tenant, &args.repository, "unlock", Command::Unlock(args.unlock)).await
}
