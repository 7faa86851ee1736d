//! `lifeboat stash rollback RESTORE`: creates a restore that puts back what another restore overwrote, from its safety copies. The server
//! chooses the copies by annotation `lifeboat.io/rollback-of`.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::stash::in_place::rollbacks;
use serde_json::Value;

use super::Tenant;
use super::follow::follow;
use super::names::{self, ObjectName};
use super::result::ResultArg;
use crate::args::Format;
use crate::error::CliError;
use crate::printer;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The restore that is undone: a RestoreSession, or restorebatch/NAME
    #[arg(value_name = "[KIND/]NAME", value_parser = names::restore)]
    restore: ObjectName,
    /// Wait until the data is back; fails unless it is
    #[arg(short, long)]
    wait: bool,
    /// Print the objects instead of creating them
    #[arg(short, long, value_enum)]
    output: Option<Format>,
}

pub(super) async fn run(tenant: &Tenant, args: &Args) -> Result<(), CliError> {
    let objects = wanted(tenant, &args.restore, Timestamp::now()).await?;
    if let Some(format) = args.output {
        return match objects.as_slice() {
            [one] => printer::object(one, format),
            many => printer::object(&printer::list(many), format),
        };
    }
    let created = create(tenant, &args.restore, objects).await?;
    for rollback in &created {
        let (title, argument) = (rollback.kind.noun().one, rollback.argument());
        printer::line(&format!("{title} {:?} created.", rollback.name));
        if !args.wait {
            let namespace = &tenant.namespace;
            printer::line(&format!("Follow it with `lifeboat stash watch {argument} -n {namespace}`."));
        }
    }
    if args.wait {
        for rollback in &created {
            follow(tenant, rollback, ResultArg::default()).await?;
        }
    }
    Ok(())
}

/// The restores that undo this one.
async fn wanted(tenant: &Tenant, restore: &ObjectName, now: Timestamp) -> Result<Vec<Value>, CliError> {
    let found = tenant.find(restore.kind.noun(), &restore.name).await?;
    rollbacks(&objects::to_json(&found), now).map_err(|error| CliError::refused(error.to_string()))
}

async fn create(
    tenant: &Tenant,
    restore: &ObjectName,
    wanted: Vec<Value>,
) -> Result<Vec<ObjectName>, CliError> {
    let noun = restore.kind.noun();
    let mut created = Vec::new();
    for object in wanted {
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|error| CliError::failed(format!("cannot make the {}", noun.one), error))?;
        let name = object.name_any();
        let made = tenant.api(noun).create(&PostParams::default(), &object).await;
        made.attempt(format!("create {} {name}", noun.one))?;
        created.push(ObjectName::new(restore.kind, &name));
    }
    Ok(created)
}

#[cfg(test)]
mod tests {
    use lifeboat_plan::stash::in_place::ROLLBACK_OF;
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::{World, path};

    #[tokio::test]
    async fn a_rollback_is_a_new_restore_that_names_the_one_it_undoes() {
        let world = World::new().await;
        let status =
            json!({"phase": "Failed", "stats": [{"hostname": "web", "safetyCopies": [{"name": "abc"}]}]});
        let spec =
            json!({"repository": {"name": "repo"}, "target": {"ref": {"kind": "Deployment", "name": "web"}}});
        world.put("restoresessions", "r", json!({"spec": spec, "status": status}));
        let restore = names::restore("r").unwrap();
        let objects =
            wanted(&world.tenant, &restore, Timestamp::from_second(1_700_000_100).unwrap()).await.unwrap();
        let created = create(&world.tenant, &restore, objects).await.unwrap();
        assert_eq!(created, [names::restore("r-rollback-1700000100").unwrap()]);
        let made = world.server.get(&path("restoresessions", "r-rollback-1700000100")).unwrap();
        assert_eq!(made["metadata"]["annotations"], json!({ROLLBACK_OF: "uid-r"}));
        assert_eq!(made["spec"], spec);
    }

    #[tokio::test]
    async fn nothing_is_created_where_there_is_no_copy() {
        let world = World::new().await;
        world.put("restorebatches", "r", json!({"status": {"phase": "Failed", "members": [{}]}}));
        let restore = names::restore("restorebatch/r").unwrap();
        let error = wanted(&world.tenant, &restore, Timestamp::now()).await.unwrap_err();
        assert_eq!(error.code(), 4);
        assert!(error.to_string().contains("RestoreBatch r has no safety copy"), "{error}");
    }
}
