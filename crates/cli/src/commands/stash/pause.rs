//! `lifeboat stash pause backup` and `lifeboat stash resume backup`: set `spec.paused` of an invoker. Backups by hand run all the same.

use lifeboat_cluster::objects;
use serde_json::{Value, json};

use super::Tenant;
use super::invoker::InvokerArgs;
use super::result::{Done, ResultArg};
use crate::error::CliError;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Pause the schedule of a BackupConfiguration or BackupBatch; `trigger` starts backups all the same
    Backup(BackupArgs),
}

/// The arguments of `pause backup` and `resume backup`.
#[derive(clap::Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub(super) invoker: InvokerArgs,
    #[command(flatten)]
    pub(super) result: ResultArg,
}

pub(super) async fn run(tenant: &Tenant, command: &Command) -> Result<(), CliError> {
    let Command::Backup(args) = command;
    let done = set_paused(tenant, &args.invoker, true).await?;
    args.result.print(&done.object, &done.sentence)
}

pub(super) async fn set_paused(
    tenant: &Tenant,
    invoker: &InvokerArgs,
    paused: bool,
) -> Result<Done, CliError> {
    let invoker = invoker.name();
    let noun = invoker.kind.noun();
    let found = tenant.find(noun, &invoker.name).await?;
    let word = if paused { "paused" } else { "resumed" };
    let is_paused = found.data.pointer("/spec/paused") == Some(&Value::Bool(true));
    if is_paused == paused {
        let state = if paused { "is paused already" } else { "is not paused" };
        let sentence = format!("{} {:?} {state}.", noun.one, invoker.name);
        return Ok(Done { object: objects::to_json(&found), sentence });
    }
    let changed = objects::merge(&tenant.api(noun), &found, json!({"spec": {"paused": paused}})).await?;
    let sentence = format!("{} {:?} {word}.", noun.one, invoker.name);
    Ok(Done { object: objects::to_json(&changed), sentence })
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
        assert_eq!(set(false).await.sentence, "BackupBatch \"apps\" is not paused.");
        let done = set(true).await;
        assert_eq!(done.sentence, "BackupBatch \"apps\" paused.");
        assert_eq!(
            (&done.object["kind"], &done.object["spec"]["paused"]),
            (&"BackupBatch".into(), &true.into())
        );
        assert_eq!(world.server.get(&path("backupbatches", "apps")).unwrap()["spec"]["paused"], true);
        let again = set(true).await;
        assert_eq!(again.sentence, "BackupBatch \"apps\" is paused already.");
        assert_eq!(again.object["spec"]["paused"], true, "the object as it is");
        assert_eq!(set(false).await.sentence, "BackupBatch \"apps\" resumed.");
        assert_eq!(world.server.get(&path("backupbatches", "apps")).unwrap()["spec"]["paused"], false);
    }

    #[tokio::test]
    async fn a_name_that_does_not_exist_is_answered_with_those_that_do() {
        let world = World::new().await;
        world.put("backupconfigurations", "app", json!({"spec": {}}));
        let wrong = InvokerArgs::of(&names::invoker("ap").unwrap());
        let error = set_paused(&world.tenant, &wrong, true).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no BackupConfiguration \"ap\" in namespace \"shop\"");
        assert_eq!(
            miette::Diagnostic::help(&error).unwrap().to_string(),
            "there are: app; -n names another namespace"
        );
    }
}
