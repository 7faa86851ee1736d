//! The VolumePluginBackup or VolumePluginRestore of one operation of a volume snapshotter, from before its call to
//! its end. Called by the backup pass and by restores; `plan::velero::volume_plugin` decides what is written when.
//!
//! How to use it, for either kind:
//! 1. Fill a [`Subject`] (kind, owner, backup, plugin, location, volume, and for a restore the snapshot) and an
//!    [`Operation`], and pass [`run`] the future of the call:
//!    `run(&operation, snapshotter.create_snapshot(&request)).await`. The server's object is created before the call; the
//!    `Progress` service is polled while the call runs. A call that takes longer than `limit` is dropped and has failed.
//! 2. [`Called`]`::made` is what the call returned; `standing` is the state of the operation: after a successful call it
//!    may still be running (`Open`), or have failed (`Failed`). `object` is the one object that is left, ours or the
//!    plugin's own, as JSON; None if the API server rejected it (which is tolerated and logged).
//! 3. Poll `Open` operations with [`follow`], which returns the object as it is now and its state, creates the object
//!    again if it was deleted, and gives the operation up when its time is over or its plugin is gone.
//! 4. [`end_open`] ends all objects of a Backup or Restore that ended for another reason; [`delete_all`] deletes them.
//!
//! A failure to write objects never fails an operation; it is logged once.

mod keep;
mod shown;
#[cfg(test)]
pub(crate) mod tests;

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::common::GoDuration;
use lifeboat_archive::RunLog;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::{Clock, Core};
use lifeboat_plan::velero::volume_plugin as plan;
use lifeboat_plugin::ActionError;
use lifeboat_plugin::volume::{ProgressOf, VolumeSnapshotter};
use serde_json::Value;

pub(crate) use plan::{Kind, OperationState, Subject};

use keep::Kept;
use shown::Mirror;

/// How often progress is polled. It is not written more often than that.
pub(crate) const PACE: Duration = Duration::from_secs(1);

/// The client that reads and writes the objects, and the clock whose time is written into them.
#[derive(Clone, Copy)]
pub(crate) struct DatedClient<'a> {
    pub(crate) client: &'a Client,
    pub(crate) clock: &'a Clock,
}

impl<'a> DatedClient<'a> {
    pub(crate) fn of(core: &'a Core) -> Self {
        Self { client: &core.client, clock: &core.clock }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// One call of a snapshotter that may take long.
pub(crate) struct Operation<'a> {
    pub(crate) client: DatedClient<'a>,
    pub(crate) subject: &'a Subject,
    pub(crate) snapshotter: &'a dyn VolumeSnapshotter,
    /// How its progress is polled while the call runs.
    pub(crate) of: ProgressOf,
    /// How long the call may take.
    pub(crate) limit: Duration,
    /// The log for messages about the progress.
    pub(crate) log: &'a RunLog,
    pub(crate) pace: Duration,
}

/// Why a call made no snapshot or volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{0}")]
    Plugin(ActionError),
    #[error("the plugin returned an empty ID")]
    EmptyId,
    /// The call was dropped after its time limit.
    #[error("the plugin did not answer within {0}")]
    Late(GoDuration),
    #[error("the progress ended before the call")]
    ProgressEnded,
}

/// A call that has returned.
#[derive(Debug)]
pub(crate) struct Called {
    /// The provider's ID of the snapshot or the volume, or why there is none.
    pub(crate) made: Result<String, CallError>,
    pub(crate) standing: OperationState,
    /// The object that is left.
    pub(crate) object: Option<Value>,
}

/// Runs the call, with its object.
pub(crate) async fn run<F>(operation: &Operation<'_>, call: F) -> Called
where
    F: Future<Output = Result<String, ActionError>> + Send,
{
    let mut kept = Kept::begin(operation).await;
    let before = kept.plugins_own_uids().await;
    let made = watched(operation, &mut kept, call).await;
    match kept.adopt(made.as_deref().ok(), before.as_deref()).await {
        Some(own) => adopted(operation, own, made).await,
        None => ended(operation, kept, made).await,
    }
}

/// Runs the call, and mirrors its progress into the object meanwhile.
async fn watched<F>(operation: &Operation<'_>, kept: &mut Kept<'_>, call: F) -> Result<String, CallError>
where
    F: Future<Output = Result<String, ActionError>> + Send,
{
    let Operation { snapshotter, of, limit, pace, log, .. } = operation;
    let mut mirror = Mirror::default();
    let watching = async {
        if !matches!(snapshotter.reports_progress().await, Ok(true)) {
            return std::future::pending::<()>().await;
        }
        loop {
            match snapshotter.progress(of).await {
                Ok(Some(progress)) => {
                    let shown = mirror.during(progress, kept.shown(), log);
                    kept.show(shown).await;
                }
                Ok(None) => {}
                Err(error) => mirror.complain(log, &format!("its progress cannot be read: {error}")),
            }
            tokio::time::sleep(*pace).await;
        }
    };
    let returned = tokio::select! {
        biased;
        returned = tokio::time::timeout(*limit, call) => returned,
        () = watching => return Err(CallError::ProgressEnded),
    };
    match returned {
        Ok(Ok(made)) if made.is_empty() => Err(CallError::EmptyId),
        Ok(Ok(made)) => Ok(made),
        Ok(Err(error)) => Err(CallError::Plugin(error)),
        Err(_elapsed) => Err(CallError::Late(go_duration(*limit))),
    }
}

/// The plugin's own object represents the operation.
async fn adopted(operation: &Operation<'_>, own: DynamicObject, made: Result<String, CallError>) -> Called {
    let Operation { client, subject, log, .. } = operation;
    let own = objects::to_json(&own);
    let standing = plan::operation_state(&own);
    let Err(error) = &made else { return Called { made, standing, object: Some(own) } };
    let message = error.to_string();
    let mut object = Some(own);
    if standing == OperationState::Open {
        let name = object.as_ref().map(name_of).unwrap_or_default();
        match give_up(*client, subject.kind, &subject.namespace, &name, &message).await {
            Ok(given_up) => object = given_up.or(object),
            Err(error) => log.warning(&format!("{} {name}: {}", subject.kind.name(), error.chain()), &[]),
        }
    }
    Called { made, standing: OperationState::Failed(message), object }
}

/// The server's object represents the operation.
async fn ended(operation: &Operation<'_>, mut kept: Kept<'_>, made: Result<String, CallError>) -> Called {
    let (shown, now) = (kept.shown().clone(), operation.client.now());
    let (shown, standing) = match &made {
        Err(error) => {
            let message = error.to_string();
            (shown.ended(Some(&message), now), OperationState::Failed(message))
        }
        Ok(id) => {
            let shown = plan::ObjectState { made: Some(id.clone()), ..shown };
            shown::after_call(operation, shown, id).await
        }
    };
    kept.show(shown).await;
    let object = if standing == OperationState::Open { Some(kept.wanted()) } else { kept.object() };
    Called { made, standing, object }
}

/// Polls an operation that is not finished after its call, from its object as it was seen last. `snapshotter`: None
/// if its plugin cannot be called. `over`: why it is given up, if it is still open.
pub(crate) async fn follow(
    client: DatedClient<'_>,
    kind: Kind,
    namespace: &str,
    object: &Value,
    snapshotter: Option<&dyn VolumeSnapshotter>,
    over: Option<&str>,
) -> Result<(Value, OperationState), ApiError> {
    let mut now = object.clone();
    if let Some(snapshotter) = snapshotter {
        match poll(client, kind, namespace, object, snapshotter).await {
            Ok((seen, OperationState::Open)) => now = seen,
            Ok(ended) => return Ok(ended),
            // Another client wrote it in the meantime: the next poll sees that.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    let Some(message) = over else { return Ok((now, OperationState::Open)) };
    let given_up = give_up(client, kind, namespace, &name_of(&now), message).await?.unwrap_or_else(|| {
        let patch = plan::given_up(message, client.now());
        for (field, value) in patch["status"].as_object().into_iter().flatten() {
            now["status"][field] = value.clone();
        }
        now
    });
    let standing = plan::operation_state(&given_up);
    Ok((given_up, standing))
}

/// Polls an operation that was open when its call returned. `object`: as it was seen last.
async fn poll(
    client: DatedClient<'_>,
    kind: Kind,
    namespace: &str,
    object: &Value,
    snapshotter: &dyn VolumeSnapshotter,
) -> Result<(Value, OperationState), ApiError> {
    let api = api(client.client, kind, namespace);
    let name = name_of(object);
    let found = api.get_opt(&name).await.attempt(format!("read {} {name}", kind.name()))?;
    let found = match found {
        Some(found) => found,
        // The object was deleted; the operation continues.
        None => again(&api, kind, object).await?,
    };
    let now = objects::to_json(&found);
    if plan::operation_state(&now) != OperationState::Open || !plan::is_ours(&now) {
        let standing = plan::operation_state(&now);
        return Ok((now, standing));
    }
    let Ok(Some(progress)) = snapshotter.progress(&shown::of_object(kind, &now)).await else {
        return Ok((now, OperationState::Open));
    };
    let before = plan::ObjectState::of(kind, &now);
    let shown = shown::later(progress, &before, client.now());
    if shown == before {
        return Ok((now, OperationState::Open));
    }
    let volume = now.pointer("/status/volumeID").and_then(Value::as_str).unwrap_or_default();
    let patch = plan::patch(kind, volume, &shown, client.now());
    let written = objects::to_json(&objects::merge(&api, &found, patch).await?);
    let standing = plan::operation_state(&written);
    Ok((written, standing))
}

async fn again(api: &Api<DynamicObject>, kind: Kind, object: &Value) -> Result<DynamicObject, ApiError> {
    let name = name_of(object);
    let attempt = format!("make {} {name} again", kind.name());
    let made: DynamicObject = serde_json::from_value(plan::stored(object)).map_err(|error| ApiError {
        attempt: attempt.clone(),
        source: lifeboat_cluster::Cause::Other(kube::Error::SerdeError(error)),
    })?;
    api.create(&PostParams::default(), &made).await.attempt(attempt)
}

/// Ends an operation as failed because its plugin will not finish it; written to a plugin's own object too. One that
/// ended in the meantime is not changed. None if the object is gone.
async fn give_up(
    client: DatedClient<'_>,
    kind: Kind,
    namespace: &str,
    name: &str,
    message: &str,
) -> Result<Option<Value>, ApiError> {
    let api = api(client.client, kind, namespace);
    loop {
        let found = api.get_opt(name).await.attempt(format!("read {} {name}", kind.name()))?;
        let Some(found) = found else { return Ok(None) };
        let json = objects::to_json(&found);
        if plan::operation_state(&json) != OperationState::Open {
            return Ok(Some(json));
        }
        match objects::merge(&api, &found, plan::given_up(message, client.now())).await {
            Ok(written) => return Ok(Some(objects::to_json(&written))),
            Err(error) if error.is_conflict() => {}
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Finds the plugin's own object of a snapshot whose call was interrupted by the end of the server; if there is one, the
/// server's object, `ours`, is removed. Other objects of such calls are ended, and are deleted with the Backup. `since`:
/// when the Backup started.
pub(crate) async fn left_by_plugin(
    client: DatedClient<'_>,
    subject: &Subject,
    ours: &str,
    since: Timestamp,
) -> Option<Value> {
    let api = api(client.client, subject.kind, &subject.namespace);
    let params = ListParams::default().labels(&subject.own_selector());
    let listed = api.list(&params).await.ok()?;
    let is_later = |object: &Value| {
        let made = object.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
        made.and_then(|made| made.parse::<Timestamp>().ok()).is_some_and(|made| made >= since)
    };
    let mut found = None;
    for object in &listed.items {
        let json = objects::to_json(object);
        if !is_later(&json) || !subject.is_plugins_own(&json, None, &[]) {
            continue;
        }
        let name = object.name_any();
        let labelled = objects::merge(&api, object, subject.adoption(&json, None)).await;
        let Ok(labelled) = labelled else { continue };
        let made = json.pointer("/status/snapshotID").and_then(Value::as_str).unwrap_or_default();
        if plan::operation_state(&json) == OperationState::Completed && !made.is_empty() && found.is_none() {
            found = Some(objects::to_json(&labelled));
        } else {
            let message = "the server ended during the call";
            let _ = give_up(client, subject.kind, &subject.namespace, &name, message).await;
        }
    }
    found.as_ref()?;
    if let Ok(Some(ours)) = api.get_opt(ours).await
        && plan::is_ours(&objects::to_json(&ours))
    {
        let _ = objects::delete(&api, &ours).await;
    }
    found
}

/// Ends every unfinished object of a Backup or Restore, by its UID.
pub(crate) async fn end_open(client: DatedClient<'_>, kind: Kind, namespace: &str, uid: &str, message: &str) {
    let ended = async {
        for object in of_owner(client.client, kind, namespace, &kind.uid_selector(uid)).await? {
            if plan::operation_state(&objects::to_json(&object)) == OperationState::Open {
                give_up(client, kind, namespace, &object.name_any(), message).await?;
            }
        }
        Ok::<_, ApiError>(())
    };
    if let Err(error) = ended.await {
        tracing::warn!(uid, error = error.chain(), "cannot end the {} of an owner that ended", kind.plural());
    }
}

/// Deletes every object of a Backup or Restore, by its name.
pub(crate) async fn delete_all(
    client: &Client,
    kind: Kind,
    namespace: &str,
    owner: &str,
) -> Result<(), ApiError> {
    let api = api(client, kind, namespace);
    for object in of_owner(client, kind, namespace, &kind.name_selector(owner)).await? {
        objects::delete(&api, &object).await?;
    }
    Ok(())
}

async fn of_owner(
    client: &Client,
    kind: Kind,
    namespace: &str,
    selector: &str,
) -> Result<Vec<DynamicObject>, ApiError> {
    let params = ListParams::default().labels(selector);
    Ok(api(client, kind, namespace).list(&params).await.attempt(format!("list {}", kind.plural()))?.items)
}

pub(crate) fn api(client: &Client, kind: Kind, namespace: &str) -> Api<DynamicObject> {
    objects::namespaced(client, namespace, &objects::resource("velero.io", "v1", kind.name(), kind.plural()))
}

fn name_of(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn go_duration(time: Duration) -> GoDuration {
    GoDuration::from_secs(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}
