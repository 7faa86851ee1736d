//! `lifeboat stash key add|list|update|remove REPOSITORY`: manages the keys of a repository and their passwords.

use super::Tenant;
use super::repository::{self, RepositoryArgs, RepositoryToOpen};
use crate::commands::repository::{Command as RepositoryCommand, dispatch, key, run_in};
use crate::error::CliError;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Add a key with another password
    Add(NewKeyArgs),
    /// List the keys; "*" is the one in use
    List(ListArgs),
    /// Change the password; the Secret of the Repository then needs the new one
    Update(NewKeyArgs),
    /// Remove a key, and with it its password
    Remove(RemoveArgs),
}

// The flattened arguments have a group of this name already.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct NewKeyArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    key: key::NewKeyArgs,
}

#[derive(clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
}

#[derive(clap::Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Id of the key, or a prefix of it, as `key list` shows it
    #[arg(long, value_name = "ID")]
    id: String,
}

pub(super) async fn run(tenant: &Tenant, command: Command) -> Result<(), CliError> {
    let (args, verb, command) = match command {
        Command::Add(args) => (args.repository, "key add", key::Command::Add(args.key)),
        Command::List(args) => (args.repository, "key list", key::Command::List),
        Command::Update(args) => return update(tenant, args).await,
        Command::Remove(args) => {
            (args.repository, "key remove", key::Command::Remove(key::RemoveArgs { id: args.id }))
        }
    };
    repository::run(tenant, &args, verb, RepositoryCommand::Key(command)).await
}

/// Changes the password, then says where the new one belongs: without it no backup opens the repository any more.
async fn update(tenant: &Tenant, args: NewKeyArgs) -> Result<(), CliError> {
    let NewKeyArgs { repository: named, key } = args;
    let RepositoryToOpen { session, secret } =
        repository::find(tenant, &named.repository, &named.access, "key passwd").await?;
    let command = RepositoryCommand::Key(key::Command::Passwd(key));
    run_in(&session, Box::pin(dispatch(&session, command))).await?;
    eprintln!(
        "Put the new password into key RESTIC_PASSWORD of Secret {secret:?} in namespace {:?} now: until then no backup or restore \
         can open the repository.",
        tenant.namespace
    );
    Ok(())
}
