//! The workload that a restore stops: its scale, the pods that use its volumes, and the record in its
//! annotation. The annotation is written together with the scale, so that a stopped workload always shows
//! why.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
use lifeboat_control::Core;
use lifeboat_plan::json::text;
use lifeboat_plan::stash::hosts::replicas;
use lifeboat_plan::stash::in_place::{
    InPlaceError, STANDSTILL, Standstill, Step, VolumeUser, deletes_claims_when_scaled, users,
};
use serde_json::{Value, json};

use crate::target::{self, TargetName};

/// A workload and the volumes that are restored.
pub(crate) struct Workload<'a> {
    pub(crate) core: &'a Core,
    pub(crate) target: TargetName<'a>,
    /// The claims that are written.
    pub(crate) claims: BTreeSet<String>,
    /// UID of the restore, whose own movers do not count as users of the volumes.
    pub(crate) session: &'a str,
    /// The grace period of its pods.
    pub(crate) grace: Duration,
    /// How long changes of the workload are repeated while a webhook does not answer.
    pub(crate) webhooks: Duration,
}

/// The API server's answer to a change of the scale.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scaled {
    /// The scale was changed, or the object was replaced in the meantime; the next read of the state shows
    /// which.
    Yes,
    /// The API server refused the change, and a repeated request would be refused, too.
    Refused(String),
}

/// The standstill that an earlier restore left a workload in, from its annotation.
pub(crate) fn earlier(workload: &Value) -> Option<Standstill> {
    let text = workload["metadata"]["annotations"][STANDSTILL].as_str()?;
    serde_json::from_str(text).ok()
}

impl Workload<'_> {
    /// UID and scale; None if the workload does not exist.
    pub(super) async fn scale_now(&self) -> Result<Option<(String, u32)>, ApiError> {
        let found = target::workload(self.core, self.target).await?;
        Ok(found.map(|found| (text(&found, "/metadata/uid").to_owned(), replicas(&found))))
    }

    /// Whether the workload with this UID still exists.
    pub(crate) async fn is_there(&self, uid: &str) -> Result<bool, ApiError> {
        Ok(self.scale_now().await?.is_some_and(|(found, _)| found == uid))
    }

    /// The pods that use the volumes.
    pub(super) async fn users(&self) -> Result<Vec<VolumeUser>, ApiError> {
        let pods = target::list(self.core, self.target.namespace, "", "v1", "Pod", "pods").await?;
        Ok(users(&self.claims, &pods, Some(self.session)))
    }

    /// Sets the scale. With scale zero the record is added to the workload, otherwise it is removed.
    pub(super) async fn scale(&self, record: &Standstill, replicas: u32) -> Result<Scaled, ApiError> {
        let mut patch = started(record, replicas);
        if replicas == 0 {
            patch["metadata"]["annotations"][STANDSTILL] = written(record);
            // The workload is stopped only if it was not changed since it was read: in the meantime its settings may
            // have changed so that its claims are deleted with its pods.
            let Some(found) = target::workload(self.core, self.target).await? else { return Ok(Scaled::Yes) };
            if deletes_claims_when_scaled(&found) {
                let name = self.target.name.to_owned();
                return Ok(Scaled::Refused(InPlaceError::ClaimsDeletedWithScale { name }.to_string()));
            }
            patch["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        }
        match self.patch(&patch, &format!("scale {} {} to {replicas}", record.kind, record.name)).await {
            Err(error) if matches!(error.code(), Some(403 | 422)) => Ok(Scaled::Refused(error.chain())),
            other => other.map(|()| Scaled::Yes),
        }
    }

    /// Restores the scale of the workload if it is stopped. Does nothing if the workload was deleted or
    /// started by a user.
    pub(crate) async fn start(&self, record: &Standstill) -> Result<(), ApiError> {
        let is_stopped = self.scale_now().await?.is_some_and(|(uid, now)| uid == record.uid && now == 0);
        if !is_stopped || record.replicas == 0 {
            return Ok(());
        }
        let attempt = format!("scale {} {} to {}", record.kind, record.name, record.replicas);
        self.patch(&started(record, record.replicas), &attempt).await
    }

    /// Updates the annotation to a record that is about to be written. The restore after a failed one reads from it
    /// which scale the workload had and which safety copy exists.
    pub(crate) async fn mark(&self, next: &Standstill) -> Result<(), ApiError> {
        let annotation = match next.step {
            // From this step on its data may be half restored, even if the restore is removed. The record of an
            // earlier restore already shows that, except for a safety copy that this one made.
            Step::Restoring if next.held_by.is_none() || next.has_own_copy() => written(next),
            Step::HeldDown => written(next),
            Step::Started => Value::Null,
            _ => return Ok(()),
        };
        let found = target::workload(self.core, self.target).await?;
        let found = found.filter(|found| text(found, "/metadata/uid") == next.uid);
        let Some(found) = found else { return Ok(()) };
        if found["metadata"]["annotations"][STANDSTILL] == annotation {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": next.uid, "annotations": {STANDSTILL: annotation}}});
        self.patch(&patch, &format!("annotate {} {}", next.kind, next.name)).await
    }

    /// Changes the workload, unless it no longer exists or was replaced by one with another UID.
    async fn patch(&self, patch: &Value, attempt: &str) -> Result<(), ApiError> {
        let api: Api<DynamicObject> = objects::namespaced(
            &self.core.client,
            self.target.namespace,
            &target::resource(self.target.kind),
        );
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        match api.patch(self.target.name, &params, &Patch::Merge(patch)).await.attempt(attempt) {
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            patched => patched.map(drop),
        }
    }
}

/// The patch that sets the scale of a workload and removes the record.
fn started(record: &Standstill, replicas: u32) -> Value {
    json!({
        "metadata": {"uid": record.uid, "annotations": {STANDSTILL: Value::Null}},
        "spec": {"replicas": replicas},
    })
}

fn written(record: &Standstill) -> Value {
    // A record is plain data, which always has a JSON form.
    Value::String(serde_json::to_string(record).unwrap_or_default())
}
