//! `lifeboat stash trigger`: creates a BackupSession of an invoker, as a person asks for it, and with --wait follows it to its end. It
//! runs although the invoker is paused.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use lifeboat_api::stash::{BackupBatch, BackupConfiguration, BackupSession, InvokerKind, RetryConfig};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::stash::session::{
    self, Creation, ExistingSession, InvokerId, TargetKey, creation, session_name,
};
use serde_json::Value;

use super::Tenant;
use super::follow::follow;
use super::names::{self, Kind, ObjectName};
use super::result::ResultArg;
use super::view::notices;
use crate::error::CliError;
use crate::nouns::{BACKUP_SESSION, dynamic, text, typed};
use crate::printer;

/// How often another name is tried, if a session of the name is created meanwhile.
const TRIES: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A BackupConfiguration, or backupbatch/NAME
    #[arg(value_name = "[KIND/]NAME", value_parser = names::invoker)]
    invoker: ObjectName,
    /// Wait until the session has ended; fails unless it has succeeded
    #[arg(short, long)]
    wait: bool,
    #[command(flatten)]
    result: ResultArg,
}

pub(super) async fn run(tenant: &Tenant, args: &Args) -> Result<(), CliError> {
    let name = start(tenant, &args.invoker, Timestamp::now()).await?;
    let created = format!("BackupSession {name:?} created.");
    if !args.wait {
        let session = if args.result.is_object() { read(tenant, &name).await? } else { Value::Null };
        let way = format!("Follow it with `lifeboat stash watch {name} -n {}`.", tenant.namespace);
        return args.result.print(&session, &format!("{created}\n{way}"));
    }
    if args.result.is_object() {
        eprintln!("{created}");
    } else {
        printer::line(&created);
    }
    eprintln!("Waiting for it to end; the backup continues if you stop waiting (Ctrl-C).");
    follow(tenant, &ObjectName::new(Kind::BackupSession, &name), args.result).await
}

async fn read(tenant: &Tenant, name: &str) -> Result<Value, CliError> {
    Ok(objects::to_json(&tenant.find(BACKUP_SESSION, name).await?))
}

/// Creates the session and gives its name. A session of the same second is the one that is asked for.
async fn start(tenant: &Tenant, invoker: &ObjectName, now: Timestamp) -> Result<String, CliError> {
    let found = tenant.find(invoker.kind.noun(), &invoker.name).await?;
    if let Some(warning) = warning(invoker, &found) {
        eprintln!("{warning}");
    }
    let (kind, target, retries) = settings(tenant, invoker, &found)?;
    let id = InvokerId { kind, namespace: tenant.namespace.clone(), name: invoker.name.clone() };
    let uid = found.uid().unwrap_or_default();
    let api = tenant.api(BACKUP_SESSION);
    let mut tries = 0;
    loop {
        let name = match creation(&id, now, &existing(tenant, &id, now).await?) {
            Creation::Create(name) => name,
            Creation::Exists(name) => return Ok(name),
        };
        let session = session::session(&id, &uid, &name, target.as_ref(), retries.as_ref());
        tries += 1;
        let created = api.create(&PostParams::default(), &dynamic(&session)?).await;
        match created.attempt(format!("create BackupSession {name}")) {
            Err(error) if error.is_conflict() && tries < TRIES => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(name),
        }
    }
}

/// The sessions that have one of the names.
async fn existing(tenant: &Tenant, id: &InvokerId, now: Timestamp) -> Result<Vec<ExistingSession>, CliError> {
    let mut existing = Vec::new();
    for with_kind in [false, true] {
        let name = session_name(id, now, with_kind);
        let found = tenant.api(BACKUP_SESSION).get_opt(&name).await;
        if let Some(found) = found.attempt(format!("read BackupSession {name}"))? {
            let session: BackupSession = typed(&found)?;
            existing.push(ExistingSession { name, invoker: session.spec.invoker });
        }
    }
    Ok(existing)
}

/// The kind of the invoker, the target of its only member, and its retries.
fn settings(
    tenant: &Tenant,
    invoker: &ObjectName,
    found: &DynamicObject,
) -> Result<(InvokerKind, Option<TargetKey>, Option<RetryConfig>), CliError> {
    if invoker.kind == Kind::BackupBatch {
        let batch: BackupBatch = typed(found)?;
        return Ok((InvokerKind::BackupBatch, None, batch.spec.retry_config));
    }
    let configuration: BackupConfiguration = typed(found)?;
    let target = configuration.spec.member.target;
    let target = target.map(|target| TargetKey::of(&target.reference, &tenant.namespace));
    Ok((InvokerKind::BackupConfiguration, target, configuration.spec.retry_config))
}

/// The warning that the session will be skipped.
fn warning(invoker: &ObjectName, found: &DynamicObject) -> Option<String> {
    let phase = text(found, "/status/phase");
    if phase == "Ready" {
        return None;
    }
    let phase = if phase.is_empty() { "not validated yet" } else { &phase };
    let why = notices(&objects::to_json(found)["status"]["conditions"]).join("; ");
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    Some(format!(
        "{} {:?} is {phase}{why}. Its sessions are skipped until it is Ready.",
        invoker.kind.noun().one,
        invoker.name
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::stash::testing::{World, path};

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_100).unwrap()
    }

    async fn world() -> World {
        let world = World::new().await;
        let spec = json!({"schedule": "@daily", "retentionPolicy": {"name": "k", "prune": false}, "retryConfig": {"maxRetry": 2},
            "target": {"ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        world.put("backupconfigurations", "app", json!({"spec": spec, "status": {"phase": "Ready"}}));
        let spec =
            json!({"schedule": "@daily", "retentionPolicy": {"name": "k", "prune": false}, "members": []});
        world.put("backupbatches", "app", json!({"spec": spec, "status": {"phase": "Ready"}}));
        world
    }

    #[tokio::test]
    async fn a_session_by_hand_has_the_names_and_labels_of_a_scheduled_one_and_no_due_time() {
        let world = world().await;
        let name = start(&world.tenant, &names::invoker("app").unwrap(), now()).await.unwrap();
        assert_eq!(name, "app-1700000100");
        let made = world.server.get(&path("backupsessions", &name)).unwrap();
        let labels = &made["metadata"]["labels"];
        assert_eq!(labels["stash.appscode.com/invoker-type"], "BackupConfiguration");
        assert_eq!(labels["stash.appscode.com/target-name"], "web");
        assert_eq!(made["metadata"]["annotations"], json!(null), "it runs although the invoker is paused");
        assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "uid-app");
        assert_eq!(made["spec"]["retryLeft"], 2);
    }

    #[tokio::test]
    async fn a_batch_of_the_same_name_gets_a_session_of_its_own() {
        let world = world().await;
        let batch = names::invoker("backupbatch/app").unwrap();
        start(&world.tenant, &names::invoker("app").unwrap(), now()).await.unwrap();
        let name = start(&world.tenant, &batch, now()).await.unwrap();
        assert_eq!(name, "app-1700000100-backupbatch");
        assert_eq!(start(&world.tenant, &batch, now()).await.unwrap(), name, "twice in a second is once");
        assert_eq!(world.server.created().len(), 2);
    }

    #[tokio::test]
    async fn a_session_that_will_be_skipped_is_announced() {
        let invoker = names::invoker("app").unwrap();
        let object = |status: serde_json::Value| {
            let object = json!({"apiVersion": "stash.appscode.com/v1beta1", "kind": "BackupConfiguration",
                "metadata": {"name": "app"}, "status": status});
            serde_json::from_value(object).unwrap()
        };
        let conditions =
            json!([{"type": "RepositoryFound", "status": "False", "message": "no Repository \"r\""}]);
        let message =
            warning(&invoker, &object(json!({"phase": "NotReady", "conditions": conditions}))).unwrap();
        assert!(
            message.starts_with("BackupConfiguration \"app\" is NotReady: no Repository \"r\"."),
            "{message}"
        );
        assert_eq!(warning(&invoker, &object(json!({"phase": "Ready"}))), None);
    }
}
