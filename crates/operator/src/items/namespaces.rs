//! Makes sure of the namespaces that things are restored into: from the backup where it has them, once for each, after one
//! that is on its way out has gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lifeboat_archive::documents::RestoreAction;
use lifeboat_cluster::write::{Answer, Target, is_terminating};
use lifeboat_cluster::{ApiError, Cause};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::restore::sanitise;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use super::pace::Pace;
use super::run::{Run, locked};
use crate::restore::handler::report::{Listed, Notes};

/// Whether a namespace is there; why not.
type Outcome = OnceCell<Result<(), String>>;

/// Which ones are there, or why not.
#[derive(Default)]
pub(crate) struct Namespaces {
    known: Mutex<BTreeMap<String, Arc<Outcome>>>,
}

/// Makes sure of the namespace that `original` is restored into. The error was told when it was met first.
pub(crate) async fn ensure(run: &Run, original: &str, work: usize) -> Result<(), String> {
    let target = run.valid.target(original).to_owned();
    let cell = locked(&run.namespaces.known).entry(target.clone()).or_default().clone();
    cell.get_or_init(|| async {
        let made = make(run, original, &target, work).await;
        if let Err(words) = &made {
            run.report.general_error(words.clone());
        }
        made
    })
    .await
    .clone()
}

async fn make(run: &Run, original: &str, name: &str, work: usize) -> Result<(), String> {
    let target = Target {
        api_version: "v1".into(),
        plural: "namespaces".into(),
        kind: "Namespace".into(),
        namespace: None,
        name: name.to_owned(),
    };
    let object =
        sanitise::namespace(from_backup(run, original).await.as_ref(), name).to_string().into_bytes();
    let (start, mut pace) = (Instant::now(), Pace::default());
    loop {
        match run.writer.create(&target, object.clone(), Answer::Nothing).await {
            Ok(_) => {
                let notes = Notes { action: Some(RestoreAction::Created), ..Notes::default() };
                run.report
                    .item(&Listed { api_version: "v1", kind: "Namespace", namespace: None, name }, notes);
                return Ok(());
            }
            Err(error) if exists(&error) => {}
            Err(error) => return Err(format!("error creating namespace {name}: {}", error.chain())),
        }
        match run.writer.get(&target).await {
            Ok(Some(found)) if is_terminating(&found) => {}
            Ok(Some(_)) => return Ok(()),
            Ok(None) => continue,
            Err(error) => return Err(format!("error getting namespace {name}: {}", error.chain())),
        }
        run.wait(work);
        if start.elapsed() >= run.times.terminating {
            return Err(format!(
                "timed out waiting for terminating namespace {name} to disappear before restoring (the server's --terminating-resource-timeout); see what holds it with `kubectl get namespace {name} -o yaml`"
            ));
        }
        sleep(pace.next()).await;
    }
}

async fn from_backup(run: &Run, name: &str) -> Option<Value> {
    let place = run.spool.find(&ItemId::cluster(GroupResource::new("", "namespaces"), name))?;
    serde_json::from_slice(&run.spool.get(place).await.ok()?).ok()
}

/// The name is taken, also by an object that is being deleted.
pub(crate) fn exists(error: &ApiError) -> bool {
    matches!(&error.source, Cause::Api(status) if status.code == 409 && status.reason != "Conflict")
}
