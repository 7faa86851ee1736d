//! `lifeboat stash debug backup|restore|operator`: prints what helps to find out why something does not work: objects with their conditions,
//! events, hosts, movers with their logs. Values of Secrets are never printed, only the names of their keys.

mod backup;
mod movers;
mod operator;
mod report;
mod restore;

use super::Tenant;
use super::invoker::InvokerArgs;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Show a BackupConfiguration or BackupBatch, its Repository, its newest session and the session's movers
    Backup(InvokerArgs),
    /// Show a RestoreSession or RestoreBatch, its Repository and its movers
    Restore(restore::RestoreArgs),
    /// Show the server: its pods, their logs, and whether the kinds are installed
    Operator(operator::OperatorArgs),
}

pub(super) async fn run(tenant: &Tenant, command: &Command) -> Result<(), CliError> {
    let report = match command {
        Command::Backup(invoker) => backup::report(tenant, &invoker.name()).await?,
        Command::Restore(args) => restore::report(tenant, &args.name()).await?,
        Command::Operator(args) => operator::report(tenant, args).await,
    };
    printer::text(&report);
    Ok(())
}
