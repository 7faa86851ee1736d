//! `lifeboat stash pause backup` and `lifeboat stash resume backup`: set `spec.paused` of an invoker. Backups by hand run all the same.

use lifeboat_cluster::objects;
use serde_json::{Value, json};

use super::Tenant;
use super::invoker::InvokerArgs;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Pause the schedule of a BackupConfiguration or BackupBatch; `trigger` starts backups all the same
    Backup(InvokerArgs),
}

pub(super) async fn run(tenant: &Tenant, command: &Command) -> Result<(), CliError> {
    let Command::Backup(invoker) = command;
    printer::line(&set_paused(tenant, invoker, true).await?);
    Ok(())
}

/// Gives the sentence that says what was done.
pub(super) async fn set_paused(
    tenant: &Tenant,
    invoker: &InvokerArgs,
    paused: bool,
) -> Result<String, CliError> {
    let invoker = invoker.name();
    let noun = invoker.kind.noun();
    let found = tenant.find(noun, &invoker.name).await?;
    let word = if paused { "paused" } else { "resumed" };
    let is_paused = found.data.pointer("/spec/paused") == Some(&Value::Bool(true));
    if is_paused == paused {
        let state = if paused { "is paused already" } else { "is not paused" };
        return Ok(format!("{} {:?} {state}.", noun.one, invoker.name));
    }
    objects::merge(&tenant.api(noun), &found, json!({"spec": {"paused": paused}})).await?;
    Ok(format!("{} {:?} {word}.", noun.one, invoker.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stash::names;
    use crate::commands::stash::testing::{World, path};

    #[tokio::test]
    async fn a_schedule_is_paused_and_resumed_once() {
        let world = World::new().await;
        world.put("backupbatches", "apps", json!({"spec": {"schedule": "@daily", "members": []}}));
        let apps = InvokerArgs::of(&names::invoker("backupbatch/apps").unwrap());
        let set = async |paused| set_paused(&world.tenant, &apps, paused).await.unwrap();
        assert_eq!(set(false).await, "BackupBatch \"apps\" is not paused.");
        assert_eq!(set(true).await, "BackupBatch \"apps\" paused.");
        assert_eq!(world.server.get(&path("backupbatches", "apps")).unwrap()["spec"]["paused"], true);
        assert_eq!(set(true).await, "BackupBatch \"apps\" is paused already.");
        assert_eq!(set(false).await, "BackupBatch \"apps\" resumed.");
        assert_eq!(world.server.get(&path("backupbatches", "apps")).unwrap()["spec"]["paused"], false);
    }

    #[tokio::test]
    async fn a_name_that_does_not_exist_is_answered_with_those_that_do() {
        let world = World::new().await;
        world.put("backupconfigurations", "app", json!({"spec": {}}));
        let wrong = InvokerArgs::of(&names::invoker("ap").unwrap());
        let error = set_paused(&world.tenant, &wrong, true).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no BackupConfiguration \"ap\"");
        assert_eq!(miette::Diagnostic::help(&error).unwrap().to_string(), "there are: app");
    }
}
