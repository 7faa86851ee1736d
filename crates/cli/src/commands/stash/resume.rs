//! `lifeboat stash resume backup`: ends the pause of a schedule. `lifeboat stash resume RESTORE`: allows backups of the targets of a restore
//! that failed, which are skipped until then, because half-restored data must not displace good snapshots. A restore that exists is
//! annotated, and the server does the rest; of one that was deleted, the records on the data are removed here.

use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::in_place::{UNFINISHED, backups_resumed, unfinished};
use serde_json::{Value, json};

use super::Tenant;
use super::names::{self, ObjectName};
use super::pause::{BackupArgs, set_paused};
use super::result::{Done, ResultArg};
use super::resume_workload::api;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
#[command(subcommand_negates_reqs = true, arg_required_else_help = true)]
pub(crate) struct Args {
    /// A restore that failed, after which backups of its targets are skipped: a RestoreSession, or restorebatch/NAME
    #[arg(value_name = "[KIND/]NAME", value_parser = names::restore, required = true)]
    restore: Option<ObjectName>,
    #[command(flatten)]
    result: ResultArg,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Resume the schedule of a BackupConfiguration or BackupBatch
    Backup(BackupArgs),
}

pub(super) async fn run(tenant: &Tenant, args: &Args) -> Result<(), CliError> {
    let (done, result) = match (&args.command, &args.restore) {
        (Some(Command::Backup(backup)), _) => {
            (set_paused(tenant, &backup.invoker, false).await?, backup.result.or(args.result))
        }
        (None, Some(restore)) => (allow(tenant, restore).await?, args.result),
        // clap insists on one of the two.
        (None, None) => return Ok(()),
    };
    result.print(&done.object, &done.sentence)
}

async fn allow(tenant: &Tenant, restore: &ObjectName) -> Result<Done, CliError> {
    let noun = restore.kind.noun();
    let title = format!("{} {:?}", noun.one, restore.name);
    let found = tenant.api(noun).get_opt(&restore.name).await.attempt(format!("read {title}"))?;
    let Some(found) = found else { return allow_without(tenant, restore, &title).await };
    let patch = backups_resumed(&objects::to_json(&found));
    match patch.map_err(|error| CliError::refused(error.to_string()))? {
        None => {
            let sentence = format!("Backups are allowed already after {title}.");
            Ok(Done { object: objects::to_json(&found), sentence })
        }
        Some(patch) => {
            let changed = objects::merge(&tenant.api(noun), &found, patch).await?;
            let sentence = format!("Backups of the targets of {title} run again, with the data as it is.");
            Ok(Done { object: objects::to_json(&changed), sentence })
        }
    }
}

/// The restore was deleted: removes its records from claims, workloads and AppBindings.
async fn allow_without(tenant: &Tenant, restore: &ObjectName, title: &str) -> Result<Done, CliError> {
    let (mut freed, mut changed) = (Vec::new(), Vec::new());
    for kind in TargetKind::ALL {
        let api: Api<DynamicObject> = api(tenant, kind);
        let listed = api.list(&ListParams::default()).await;
        let objects = match listed.attempt(format!("list objects of kind {kind}")) {
            // The cluster does not have this kind.
            Err(error) if error.is_not_found() => continue,
            listed => listed?.items,
        };
        for object in objects.iter().filter(|object| is_of(object, restore, &tenant.namespace)) {
            let patch = json!({"metadata": {"annotations": {UNFINISHED: Value::Null}}});
            changed.push(objects::to_json(&objects::merge(&api, object, patch).await?));
            freed.push(format!("{kind} {}", object.name_any()));
        }
    }
    if freed.is_empty() {
        return Err(CliError::not_found(format!(
            "there is no {title}, and no data in namespace {} that it left half restored",
            tenant.namespace
        )));
    }
    let sentence =
        format!("{title} was deleted. Backups of {} run again, with the data as it is.", freed.join(", "));
    Ok(Done { object: printer::list(&changed), sentence })
}

/// Whether an object carries the record of this restore.
fn is_of(object: &DynamicObject, restore: &ObjectName, namespace: &str) -> bool {
    let record = unfinished(object.annotations().get(UNFINISHED).map(String::as_str), namespace);
    record.is_some_and(|record| record.kind == restore.kind.noun().one && record.name == restore.name)
}

#[cfg(test)]
mod tests {
    use lifeboat_plan::stash::in_place::{RestoreName, unfinished_annotation};
    use lifeboat_plan::stash::session::RESUMED;
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::{SHOP, World, path};

    const CLAIMS: &str = "/api/v1/namespaces/shop/persistentvolumeclaims";

    fn put_claim(world: &World, name: &str, by: &str) {
        let record = RestoreName {
            kind: "RestoreSession".into(),
            namespace: SHOP.into(),
            name: by.into(),
            uid: format!("uid-{by}"),
        };
        let annotations = json!({UNFINISHED: unfinished_annotation(&record), "team": "shop"});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"annotations": annotations}});
        world.server.put(&format!("{CLAIMS}/{name}"), claim);
    }

    #[tokio::test]
    async fn the_records_of_a_restore_that_was_deleted_are_removed_from_the_data() {
        let world = World::new().await;
        for (claim, by) in [("data", "r"), ("logs", "r"), ("rows", "other")] {
            put_claim(&world, claim, by);
        }
        let restore = names::restore("r").unwrap();
        let done = allow(&world.tenant, &restore).await.unwrap();
        assert!(done.sentence.contains("PersistentVolumeClaim data, PersistentVolumeClaim logs"), "{done:?}");
        assert_eq!(done.object["items"].as_array().map(Vec::len), Some(2), "{done:?}");
        let annotations = |name: &str| {
            world.server.get(&format!("{CLAIMS}/{name}")).unwrap()["metadata"]["annotations"].clone()
        };
        assert_eq!(
            (annotations("data"), annotations("logs")),
            (json!({"team": "shop"}), json!({"team": "shop"}))
        );
        assert!(annotations("rows")[UNFINISHED].is_string(), "another restore's");
        let error = allow(&world.tenant, &restore).await.unwrap_err();
        assert_eq!(error.code(), 3, "nothing is left to do: {error}");
    }

    #[tokio::test]
    async fn backups_are_allowed_after_a_restore_that_failed() {
        let world = World::new().await;
        world.put("restoresessions", "r", json!({"status": {"phase": "Failed"}}));
        let restore = names::restore("r").unwrap();
        let done = allow(&world.tenant, &restore).await.unwrap();
        assert!(done.sentence.contains("run again"), "{done:?}");
        assert_eq!(done.object["metadata"]["annotations"][RESUMED], "uid-r");
        let object = world.server.get(&path("restoresessions", "r")).unwrap();
        assert_eq!(object["metadata"]["annotations"][RESUMED], "uid-r");
        assert!(allow(&world.tenant, &restore).await.unwrap().sentence.contains("already"));
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
