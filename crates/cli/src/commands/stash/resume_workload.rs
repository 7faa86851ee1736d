//! `lifeboat stash resume-workload`: gives a workload that a failed restore left stopped its scale back, with the data as it is. The user's
//! own right to change the workload counts; the server has no part in it.

use kube::api::DynamicObject;
use kube::{Api, ResourceExt};
use lifeboat_api::stash::{RestoreRef, StoppedWorkload};
use lifeboat_cluster::{Attempt, objects};
use lifeboat_plan::stash::hosts::TargetKind;
use lifeboat_plan::stash::in_place::{STANDSTILL, held_down, is_at_work_on};
use serde_json::{Value, json};

use super::Tenant;
use super::names::{self, NameError, ObjectName};
use super::rollback::find_restore;
use crate::args::object_name;
use crate::error::CliError;
use crate::nouns::{RESTORE_BATCH, RESTORE_SESSION};
use crate::printer;

/// The step of a workload that stays stopped after its restore failed.
const HELD_DOWN: &str = "HeldDown";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The restore that failed: a RestoreSession, or restorebatch/NAME; or the workload itself, such as deployment/NAME
    #[arg(value_name = "[KIND/]NAME", value_parser = subject)]
    subject: Subject,
}

/// What the user names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Restore(ObjectName),
    Workload { kind: TargetKind, name: String },
}

fn subject(text: &str) -> Result<Subject, NameError> {
    let workload = text.split_once('/').and_then(|(word, name)| {
        let word = word.to_lowercase();
        let is_called = |kind: &TargetKind| {
            let short = match kind {
                TargetKind::Deployment => "deploy",
                TargetKind::StatefulSet => "sts",
                TargetKind::ReplicaSet => "rs",
                TargetKind::ReplicationController => "rc",
                _ => "",
            };
            let one = kind.as_str().to_lowercase();
            word == one || word == format!("{one}s") || (word == short && !short.is_empty())
        };
        let kind = TargetKind::ALL.into_iter().find(|kind| kind.has_scale() && is_called(kind))?;
        Some((kind, name))
    });
    match workload {
        Some((kind, name)) => Ok(Subject::Workload { kind, name: object_name(name)? }),
        None => names::restore(text).map(Subject::Restore),
    }
}

pub(super) async fn run(tenant: &Tenant, args: &Args) -> Result<(), CliError> {
    for record in records(tenant, &args.subject).await? {
        printer::line(&start(tenant, &record).await?);
        let restore = format!("{}/{}", record.restore.kind.to_lowercase(), record.restore.name);
        eprintln!(
            "Backups of it are skipped, because its last restore failed; allow them with `lifeboat stash resume {restore} -n {}`.",
            tenant.namespace
        );
    }
    Ok(())
}

/// The workloads that stay stopped.
async fn records(tenant: &Tenant, subject: &Subject) -> Result<Vec<StoppedWorkload>, CliError> {
    let (records, none) = match subject {
        Subject::Restore(restore) => {
            let noun = restore.kind.noun();
            let found = find_restore(tenant, restore).await?;
            let held = held_down(&objects::to_json(&found));
            let held = held.map_err(|error| CliError::refused(error.to_string()))?;
            (held, format!("{} {:?} left no workload stopped", noun.one, restore.name))
        }
        Subject::Workload { kind, name } => {
            let found = read(tenant, *kind, name).await?;
            let title = format!("{} {name:?}", kind.as_str());
            let Some(found) = found else {
                return Err(CliError::not_found(format!("there is no {title}")));
            };
            let none =
                format!("{title} has no record (annotation {STANDSTILL}) of a restore that stopped it");
            (on_record(&found).into_iter().collect::<Vec<_>>(), none)
        }
    };
    if records.is_empty() {
        return Err(CliError::refused(none).help("set the scale with `kubectl scale`"));
    }
    Ok(records)
}

/// The record that a workload carries.
fn on_record(workload: &DynamicObject) -> Option<StoppedWorkload> {
    serde_json::from_str(workload.annotations().get(STANDSTILL)?).ok()
}

pub(super) fn api(tenant: &Tenant, kind: TargetKind) -> Api<DynamicObject> {
    let (group, version) = kind.api_version().rsplit_once('/').unwrap_or(("", kind.api_version()));
    let plural = format!("{}s", kind.as_str().to_lowercase());
    let resource = objects::resource(group, version, kind.as_str(), &plural);
    objects::namespaced(&tenant.client, &tenant.namespace, &resource)
}

async fn read(tenant: &Tenant, kind: TargetKind, name: &str) -> Result<Option<DynamicObject>, CliError> {
    let attempt = format!("read {} {name}", kind.as_str());
    Ok(api(tenant, kind).get_opt(name).await.attempt(attempt)?)
}

/// Whether a restore still exists. One that is gone works on no workload any more.
async fn exists(tenant: &Tenant, restore: &RestoreRef) -> Result<bool, CliError> {
    let named = format!("{}/{}", restore.kind.to_lowercase(), restore.name);
    let Ok(named) = names::restore(&named) else { return Ok(false) };
    let found = tenant.api(named.kind.noun()).get_opt(&named.name).await;
    let found = found.attempt(format!("read {} {}", restore.kind, restore.name))?;
    Ok(found.is_some_and(|found| found.uid().as_deref() == Some(restore.uid.as_str())))
}

/// The restore that works on a workload now, as messages name it. The record on the workload may still be that of an earlier restore, which
/// left it down.
async fn at_work(tenant: &Tenant, uid: &str) -> Result<Option<String>, CliError> {
    for noun in [RESTORE_SESSION, RESTORE_BATCH] {
        for restore in noun.listed(&tenant.api(noun), None).await? {
            if is_at_work_on(&objects::to_json(&restore), uid) {
                return Ok(Some(format!("{} {}", noun.one, restore.name_any())));
            }
        }
    }
    Ok(None)
}

/// Gives the workload its scale back, and gives the sentence that says what was done.
async fn start(tenant: &Tenant, record: &StoppedWorkload) -> Result<String, CliError> {
    let StoppedWorkload { kind, name, replicas, .. } = record;
    let title = format!("{kind} {name:?}");
    let known = TargetKind::ALL.into_iter().find(|known| known.as_str() == kind);
    let Some(target) = known else {
        return Err(CliError::refused(format!("{title} has a kind that has no scale")));
    };
    let Some(found) = read(tenant, target, name).await? else {
        return Err(CliError::not_found(format!("{title} does not exist any more")));
    };
    if found.uid().as_deref() != Some(record.uid.as_str()) {
        return Err(CliError::refused(format!("{title} was deleted and created again since the restore"))
            .help(format!("it had {replicas} replicas; set its scale with `kubectl scale`")));
    }
    if let Some(other) = on_record(&found).filter(|other| other.step != HELD_DOWN)
        && exists(tenant, &other.restore).await?
    {
        let restore = &other.restore;
        return Err(CliError::refused(format!("{} {} is restoring {title}", restore.kind, restore.name))
            .help("wait until it has ended"));
    }
    if let Some(restore) = at_work(tenant, &record.uid).await? {
        return Err(
            CliError::refused(format!("{restore} is restoring {title}")).help("wait until it has ended")
        );
    }
    let mut patch = json!({"metadata": {"annotations": {STANDSTILL: Value::Null}}});
    let now = found.data.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    if now == 0 {
        patch["spec"] = json!({"replicas": replicas});
    }
    objects::merge(&api(tenant, target), &found, patch).await?;
    Ok(match now {
        0 => format!("{title} started with {replicas} replicas."),
        now => format!("{title} runs with {now} replicas already."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stash::testing::{SHOP, World};

    const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

    fn record(step: &str) -> Value {
        let restore = json!({"kind": "RestoreSession", "namespace": SHOP, "name": "r", "uid": "uid-r"});
        json!({"kind": "Deployment", "name": "web", "uid": "uid-web", "replicas": 3, "step": step, "safetyCopy": true,
            "restore": restore})
    }

    async fn world(replicas: i64, on_record: &str) -> World {
        let world = World::new().await;
        let status = json!({"phase": "Failed", "standstill": record("HeldDown")});
        world.put("restoresessions", "r", json!({"status": status}));
        let annotations = json!({STANDSTILL: record(on_record).to_string(), "team": "shop"});
        world.server.put(
            WEB,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": annotations},
                "spec": {"replicas": replicas}}),
        );
        world
    }

    async fn started(world: &World, text: &str) -> Result<String, CliError> {
        let records = records(&world.tenant, &subject(text).unwrap()).await?;
        start(&world.tenant, &records[0]).await
    }

    #[tokio::test]
    async fn a_workload_gets_its_scale_back_and_loses_the_record() {
        for named in ["r", "restoresession/r", "deployment/web", "deploy/web"] {
            let world = world(0, "HeldDown").await;
            assert_eq!(started(&world, named).await.unwrap(), "Deployment \"web\" started with 3 replicas.");
            let web = world.server.get(WEB).unwrap();
            assert_eq!(web["spec"]["replicas"], 3);
            assert_eq!(web["metadata"]["annotations"], json!({"team": "shop"}));
        }
    }

    #[tokio::test]
    async fn a_workload_that_runs_keeps_its_scale() {
        let world = world(1, "HeldDown").await;
        assert!(started(&world, "r").await.unwrap().contains("runs with 1 replicas already"));
        assert_eq!(world.server.get(WEB).unwrap()["spec"]["replicas"], 1);
    }

    #[tokio::test]
    async fn a_workload_that_another_restore_has_or_that_is_new_is_left_alone() {
        let world = world(0, "Stopping").await;
        assert!(started(&world, "r").await.unwrap_err().to_string().contains("is restoring"));
        world.server.edit(WEB, |web| web["metadata"]["uid"] = json!("another"));
        assert!(started(&world, "r").await.unwrap_err().to_string().contains("created again"));
        world.server.remove(WEB);
        assert_eq!(started(&world, "r").await.unwrap_err().code(), 3);
        assert!(world.server.writes().is_empty());
    }

    /// Trying again after a restore that failed: until it succeeds, the workload carries the record of the first.
    #[tokio::test]
    async fn a_workload_that_the_next_restore_works_on_is_left_alone() {
        let world = world(0, "HeldDown").await;
        let status = json!({"phase": "Running", "standstill": record("Restoring")});
        world.put("restoresessions", "again", json!({"status": status}));
        for named in ["r", "deployment/web"] {
            let error = started(&world, named).await.unwrap_err();
            assert_eq!(error.to_string(), "RestoreSession again is restoring Deployment \"web\"");
        }
        assert!(world.server.writes().is_empty());
    }

    #[tokio::test]
    async fn a_workload_whose_restore_vanished_while_it_wrote_can_be_started() {
        let world = world(0, "Restoring").await;
        world.server.remove("/apis/stash.appscode.com/v1beta1/namespaces/shop/restoresessions/r");
        let done = started(&world, "deployment/web").await.unwrap();
        assert_eq!(done, "Deployment \"web\" started with 3 replicas.");
    }

    #[tokio::test]
    async fn a_restore_that_left_nothing_stopped_is_named() {
        let world = World::new().await;
        world.put("restorebatches", "b", json!({"status": {"phase": "Succeeded", "members": [{}]}}));
        let error = started(&world, "restorebatch/b").await.unwrap_err();
        assert_eq!(error.to_string(), "RestoreBatch \"b\" left no workload stopped");
    }

    #[test]
    fn a_daemonset_has_no_scale() {
        assert!(subject("daemonset/x").is_err());
        assert!(matches!(subject("sts/db"), Ok(Subject::Workload { kind: TargetKind::StatefulSet, .. })));
    }
}
