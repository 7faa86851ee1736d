//! Creates the namespaces that items are restored into: from the backup if it has them, once each, after a namespace
//! that is being deleted is gone. Called for every namespace, and by every item before it is read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lifeboat_cluster::write::{Answer, Target, is_forbidden, is_terminating};
use lifeboat_cluster::{ApiError, Cause};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::items::{sanitise, trust};
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::run::Run;
use crate::effects::Awaited;
use crate::pace::Pace;
use lifeboat_control::locked;

/// How a namespace came into the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    Created,
    WasThere,
}

/// Why items cannot be restored into a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    #[error("error creating namespace {name}: {cause}")]
    Create { name: String, cause: String },
    #[error("error getting namespace {name}: {cause}")]
    Read { name: String, cause: String },
    #[error(
        "timed out waiting for terminating namespace {0} to disappear before restoring (the server's --terminating-resource-timeout); see what holds it with `kubectl get namespace {0} -o yaml`"
    )]
    Terminating(String),
}

/// A namespace that items can be restored into, or why they cannot.
type State = Result<NamespaceState, NamespaceError>;

/// The namespaces that were requested so far, by their names in the cluster.
#[derive(Default)]
pub struct Namespaces {
    known: Mutex<BTreeMap<String, Arc<OnceCell<State>>>>,
}

impl Namespaces {
    /// The state of a namespace, by its name in the cluster; None if it was not requested.
    pub fn state(&self, name: &str) -> Option<State> {
        locked(&self.known).get(name)?.get().cloned()
    }
}

/// Creates the namespace that `original` is restored into, if it does not exist. An error is reported only the first
/// time.
pub(super) async fn ensure(run: &Run, original: &str, work: usize) -> State {
    let target = run.rules.target(original).to_owned();
    let cell = locked(&run.namespaces.known).entry(target.clone()).or_default().clone();
    cell.get_or_init(|| async {
        let made = make(run, original, &target, work).await;
        if let Err(error) = &made {
            run.recorder.general_error(error.to_string());
        }
        made
    })
    .await
    .clone()
}

async fn make(run: &Run, original: &str, name: &str, work: usize) -> State {
    if run.untrusted.as_ref().is_some_and(|untrusted| untrusted.protects(name)) {
        return Ok(NamespaceState::WasThere);
    }
    let target = target(name);
    let object = wanted(run, original, name).await;
    let (start, mut pace) = (Instant::now(), Pace::default());
    loop {
        match run.effects.create(&target, &object, Answer::Nothing).await {
            Ok(_) => {
                run.recorder.namespace_created(name);
                return Ok(NamespaceState::Created);
            }
            Err(error) if already_exists(&error) => {}
            // A server that may not create namespaces restores into those that exist.
            Err(error) if is_forbidden(&error) && exists(run, &target).await => {}
            Err(error) => {
                return Err(NamespaceError::Create { name: name.to_owned(), cause: error.chain() });
            }
        }
        match run.effects.get(&target).await {
            Ok(Some(found)) if is_terminating(&found) => {}
            // An earlier attempt of this restore created it.
            Ok(Some(found)) if run.handler.is_ours(&found) => return Ok(NamespaceState::Created),
            Ok(Some(_)) => return Ok(NamespaceState::WasThere),
            Ok(None) => continue,
            Err(error) => {
                return Err(NamespaceError::Read { name: name.to_owned(), cause: error.chain() });
            }
        }
        run.wait(work);
        if start.elapsed() >= run.limits.terminating {
            return Err(NamespaceError::Terminating(name.to_owned()));
        }
        run.effects.wait(Awaited::Gone(&target), pace.pause()).await;
    }
}

/// Whether the namespace exists; the answer to a request that was refused does not say so. If it cannot be read, it
/// counts as missing: the refusal is reported.
async fn exists(run: &Run, target: &Target) -> bool {
    matches!(run.effects.get(target).await, Ok(Some(_)))
}

/// The namespace as it is created. One from an untrusted location does not choose its Pod Security level, and it is
/// labelled, so that a later attempt recognises it.
async fn wanted(run: &Run, original: &str, name: &str) -> Value {
    let mut object = sanitise::namespace(from_backup(run, original).await.as_ref(), name);
    if run.untrusted.is_some() {
        trust::without_pod_security(&mut object);
        run.handler.mark(&mut object, None);
    }
    object
}

fn target(name: &str) -> Target {
    Target {
        api_version: "v1".into(),
        plural: "namespaces".into(),
        kind: "Namespace".into(),
        namespace: None,
        name: name.to_owned(),
    }
}

async fn from_backup(run: &Run, name: &str) -> Option<Value> {
    let position = run.source.find(&ItemId::cluster(GroupResource::new("", "namespaces"), name))?;
    serde_json::from_slice(&run.source.read(position).await.ok()?.json).ok()
}

/// Whether the name is taken, also by an object that is being deleted.
pub(super) fn already_exists(error: &ApiError) -> bool {
    matches!(&error.source, Cause::Api(status) if status.code == 409 && status.reason != "Conflict")
}
