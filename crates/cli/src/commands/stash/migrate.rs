//! `lifeboat stash migrate REPOSITORY`: upgrades a repository to version 2 of the format.

use lifeboat_repository::migrate::UPGRADE_TO_V2;

use super::Tenant;
use super::repository::{self, RepositoryArgs};
use crate::commands::repository::{Command, migrate};
use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
}

pub(super) async fn run(tenant: &Tenant, args: &Args) -> Result<(), CliError> {
    let name = UPGRADE_TO_V2.name.to_owned();
    let command = Command::Migrate(migrate::Args { names: vec![name.clone()], force: false });
    repository::run(tenant, &args.repository, &format!("migrate {name}"), command).await
}
