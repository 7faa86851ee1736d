//! `lifeboat stash resume backup`: ends the pause of a schedule. `lifeboat stash resume RESTORE`: allows backups of the targets of a restore
//! that failed, which are skipped until then, because half-restored data must not displace good snapshots.

use lifeboat_cluster::objects;
use lifeboat_plan::stash::in_place::backups_resumed;

use super::Tenant;
use super::invoker::InvokerArgs;
use super::names::{self, ObjectName};
use super::pause::set_paused;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
#[command(subcommand_negates_reqs = true, arg_required_else_help = true)]
pub(crate) struct Args {
    /// A restore that failed, after which backups of its targets are skipped: a RestoreSession, or restorebatch/NAME
    #[arg(value_name = "[KIND/]NAME", value_parser = names::restore, required = true)]
    restore: Option<ObjectName>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Resume the schedule of a BackupConfiguration or BackupBatch
    Backup(InvokerArgs),
}

pub(super) async fn run(tenant: &Tenant, args: &Args) -> Result<(), CliError> {
    let done = match (&args.command, &args.restore) {
        (Some(Command::Backup(invoker)), _) => set_paused(tenant, invoker, false).await?,
        (None, Some(restore)) => allow(tenant, restore).await?,
        (None, None) => String::new(),
    };
    printer::line(&done);
    Ok(())
}

/// Gives the sentence that says what was done.
async fn allow(tenant: &Tenant, restore: &ObjectName) -> Result<String, CliError> {
    let noun = restore.kind.noun();
    let found = tenant.find(noun, &restore.name).await?;
    let patch = backups_resumed(&objects::to_json(&found));
    let title = format!("{} {:?}", noun.one, restore.name);
    match patch.map_err(|error| CliError::refused(error.to_string()))? {
        None => Ok(format!("Backups are allowed already after {title}.")),
        Some(patch) => {
            objects::merge(&tenant.api(noun), &found, patch).await?;
            Ok(format!("Backups of the targets of {title} run again, with the data as it is."))
        }
    }
}

#[cfg(test)]
mod tests {
    use lifeboat_plan::stash::session::RESUMED;
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::{World, path};

    #[tokio::test]
    async fn backups_are_allowed_after_a_restore_that_failed() {
        let world = World::new().await;
        world.put("restoresessions", "r", json!({"status": {"phase": "Failed"}}));
        let restore = names::restore("r").unwrap();
        assert!(allow(&world.tenant, &restore).await.unwrap().contains("run again"));
        let object = world.server.get(&path("restoresessions", "r")).unwrap();
        assert_eq!(object["metadata"]["annotations"][RESUMED], "true");
        assert!(allow(&world.tenant, &restore).await.unwrap().contains("already"));
    }

    #[tokio::test]
    async fn a_restore_that_blocks_nothing_is_refused() {
        let world = World::new().await;
        world.put("restorebatches", "r", json!({"status": {"phase": "Succeeded"}}));
        let error = allow(&world.tenant, &names::restore("restorebatch/r").unwrap()).await.unwrap_err();
        assert_eq!(error.code(), 4);
        assert!(error.to_string().starts_with("RestoreBatch r is Succeeded"), "{error}");
        assert!(world.server.writes().is_empty());
    }
}
