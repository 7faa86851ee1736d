//! `lifeboat stash rollback RESTORE`: creates a restore that puts back what another restore overwrote, from its safety copies. The server
//! chooses the copies by annotation `lifeboat.io/rollback-of`.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::stash::in_place::{ROLLBACK_OF, rollbacks, without_copies};
use serde_json::Value;

use super::Tenant;
use super::follow::follow;
use super::names::{self, ObjectName};
use super::result::ResultArg;
use crate::args::Format;
use crate::error::CliError;
use crate::printer;

/// The exit code for an object that does not exist.
const NOT_FOUND: u8 = 3;

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
    let Wanted { objects, lacking } = wanted(tenant, &args.restore, Timestamp::now()).await?;
    if let Some(format) = args.output {
        if let Some(error) = incomplete(&lacking) {
            eprintln!("{}", error.full_text());
        }
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
    incomplete(&lacking).map_or(Ok(()), Err)
}

/// The end of a command that brings back some members of a batch, and not these.
fn incomplete(lacking: &[String]) -> Option<CliError> {
    let names = lacking.join(", ");
    (!lacking.is_empty()).then(|| {
        CliError::ended(format!("the rollback leaves out what has no safety copy: {names}"))
            .help("copies are made only of workloads that a restore stops; restore an older snapshot of the others by its id")
    })
}

/// The restores that undo another, and the members that they leave out.
#[derive(Debug)]
struct Wanted {
    objects: Vec<Value>,
    lacking: Vec<String>,
}

/// The restores that undo this one.
async fn wanted(tenant: &Tenant, restore: &ObjectName, now: Timestamp) -> Result<Wanted, CliError> {
    let found = objects::to_json(&find_restore(tenant, restore).await?);
    let objects = rollbacks(&found, now).map_err(|error| CliError::refused(error.to_string()))?;
    Ok(Wanted { objects, lacking: without_copies(&found) })
}

/// Reads a restore. The error of one that was deleted says how to go on without it.
pub(super) async fn find_restore(tenant: &Tenant, restore: &ObjectName) -> Result<DynamicObject, CliError> {
    let found = tenant.find(restore.kind.noun(), &restore.name).await;
    found.map_err(|error| {
        let known = miette::Diagnostic::help(&error).map(|help| format!("{help}; ")).unwrap_or_default();
        if error.code() != NOT_FOUND {
            return error;
        }
        let namespace = &tenant.namespace;
        error.help(format!(
            "{known}if it was deleted, `lifeboat stash resume-workload deployment/NAME -n {namespace}` starts a workload that it left \
             stopped, and a new restore with annotation {ROLLBACK_OF} brings back its safety copies (docs/stash-cli.md, After a restore that \
             failed)"
        ))
    })
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
        let wanted =
            wanted(&world.tenant, &restore, Timestamp::from_second(1_700_000_100).unwrap()).await.unwrap();
        assert!(incomplete(&wanted.lacking).is_none());
        let created = create(&world.tenant, &restore, wanted.objects).await.unwrap();
        assert_eq!(created, [names::restore("r-rollback-1700000100").unwrap()]);
        let made = world.server.get(&path("restoresessions", "r-rollback-1700000100")).unwrap();
        assert_eq!(made["metadata"]["annotations"], json!({ROLLBACK_OF: "uid-r"}));
        assert_eq!(made["spec"], spec);
    }

    #[tokio::test]
    async fn members_that_cannot_be_rolled_back_are_named_and_fail_the_command() {
        let world = World::new().await;
        let member = |kind: &str, name: &str| json!({"target": {"ref": {"kind": kind, "name": name}}});
        let copied = json!({"stats": [{"hostname": "web", "safetyCopies": [{"name": "abc"}]}]});
        let spec = json!({"members": [member("Deployment", "web"), member("AppBinding", "db")]});
        let status = json!({"phase": "Succeeded", "members": [copied, {}]});
        world.put("restorebatches", "all", json!({"spec": spec, "status": status}));
        let restore = names::restore("restorebatch/all").unwrap();
        let wanted = wanted(&world.tenant, &restore, Timestamp::now()).await.unwrap();
        let error = incomplete(&wanted.lacking).unwrap();
        assert!(error.to_string().ends_with("no safety copy: AppBinding db"), "{error}");
        assert_eq!((wanted.objects.len(), error.code()), (1, 1));
    }

    #[tokio::test]
    async fn a_restore_that_was_deleted_is_answered_with_the_way_on() {
        let world = World::new().await;
        let error = wanted(&world.tenant, &names::restore("r").unwrap(), Timestamp::now()).await.unwrap_err();
        let help = miette::Diagnostic::help(&error).unwrap().to_string();
        assert!(
            help.contains("resume-workload deployment/NAME -n shop") && help.contains(ROLLBACK_OF),
            "{help}"
        );
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
