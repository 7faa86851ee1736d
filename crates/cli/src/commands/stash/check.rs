//! `lifeboat stash check REPOSITORY`: verifies that a repository is complete and consistent.

use super::Tenant;
use super::repository::{self, RepositoryArgs};
use crate::commands::repository::{Command, check};
use crate::error::CliError;

// The flattened arguments have a group of this name already.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    check: check::Args,
}

pub(super) async fn run(tenant: &Tenant, args: Args) -> Result<(), CliError> {
    repository::run(tenant, &args.repository, "check", Command::Check(args.check)).await
}
