//! `lifeboat stash rebuild-index REPOSITORY`: rebuilds wrong or missing parts of the index from the packs.

use super::Tenant;
use super::repository::{self, RepositoryArgs};
use crate::commands::repository::{Command, repair};
use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    index: repair::IndexArgs,
}

pub(super) async fn run(tenant: &Tenant, args: Args) -> Result<(), CliError> {
    let command = Command::Repair(repair::Command::Index(args.index));
    repository::run(tenant, &args.repository, "repair index", command).await
}
