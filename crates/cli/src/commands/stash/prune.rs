//! `lifeboat stash prune REPOSITORY`: frees the space of data that no snapshot uses.

use super::Tenant;
use super::repository::{self, RepositoryArgs};
use crate::commands::repository::{Command, prune};
use crate::error::CliError;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Change nothing, show the plan
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pruning: prune::PruneArgs,
}

pub(super) async fn run(tenant: &Tenant, args: Args) -> Result<(), CliError> {
    let prune = prune::Args {
        dry_run: args.dry_run,
        pruning: args.pruning,
        allow_no_snapshots: false,
        unsafe_recover_no_free_space: None,
    };
    repository::run(tenant, &args.repository, "prune", Command::Prune(prune)).await
}
