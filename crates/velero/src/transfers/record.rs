//! The record of a transfer in one of Velero's objects: reads and writes exactly this object, by UID. Group velero.io
//! has no status subresource, so one patch has annotations and status.

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use lifeboat_api::common::NamespaceName;
use lifeboat_api::velero::names;
use lifeboat_cluster::{ApiError, Attempt, MANAGER};
use lifeboat_control::Core;
use lifeboat_plan::transfer::movers::Owner;
use lifeboat_plan::velero::pod_volumes::status;
use lifeboat_transfer::attempts::{Accepted, AttemptRecord, End};
use serde_json::{Value, json};

/// How often a patch with a conflict is tried.
const TRIES: u32 = 3;

/// The flag that sets the time limit of one volume.
const TIMEOUT_FLAG: &str = "--fs-backup-timeout";

/// Which fields a kind has in its spec and status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shows {
    /// Its spec names the repository, and its annotation sets its time limit: kinds of pod volumes.
    pub(crate) is_of_pod: bool,
    /// Its status names the node.
    pub(crate) node: bool,
}

/// An object, by name and UID.
#[derive(Clone)]
pub(crate) struct ObjectRecord {
    pub(crate) api: Api<DynamicObject>,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    core: Core,
    about: ObjectReference,
    /// When an earlier attempt started.
    started: Option<String>,
    shows: Shows,
}

impl ObjectRecord {
    pub(super) fn new<K: Resource<DynamicType = ()>>(
        core: &Core,
        object: &K,
        started: Option<Timestamp>,
        shows: Shows,
    ) -> Self {
        let meta = object.meta();
        Self {
            api: core.objects::<K>(),
            kind: K::kind(&()).into_owned(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            core: core.clone(),
            about: object.object_ref(&()),
            started: started.map(lifeboat_plan::time::seconds),
            shows,
        }
    }

    /// Merges a patch. False if the object is gone, or another object has its name.
    pub(crate) async fn write(&self, mut patch: Value) -> Result<bool, ApiError> {
        // The API server rejects a patch with another object's UID.
        patch["metadata"]["uid"] = Value::String(self.uid.clone());
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let mut tries = 0;
        loop {
            let written = self.api.patch(&self.name, &params, &Patch::Merge(&patch)).await;
            match written.attempt(format!("update {} {}", self.kind, self.name)) {
                Ok(_) => return Ok(true),
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) if error.is_conflict() => {
                    tries += 1;
                    if !self.is_there().await? {
                        return Ok(false);
                    }
                    // Other fields were changed in the meantime.
                    if tries >= TRIES {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the object with this name is still the same one.
    async fn is_there(&self) -> Result<bool, ApiError> {
        let found =
            self.api.get_opt(&self.name).await.attempt(format!("read {} {}", self.kind, self.name))?;
        Ok(found.is_some_and(|found| found.uid().as_deref() == Some(self.uid.as_str())))
    }

    /// The patch for an end.
    pub(crate) fn end_patch(&self, end: End<'_>) -> Value {
        match end {
            End::Failed(message) => status::failed(message, self.core.now()),
            End::Cancelled(message) => status::canceled(message, self.core.now()),
            End::Recorded(end) => end.clone(),
        }
    }
}

#[async_trait]
impl AttemptRecord for ObjectRecord {
    fn owner(&self) -> Owner {
        let namespace = self.core.namespace.clone();
        Owner {
            kind: self.kind.clone(),
            namespace: NamespaceName::new(namespace),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// Only pod volumes have the annotation of their Backup or Restore.
    fn limit_setting(&self) -> String {
        if self.shows.is_of_pod {
            return format!("{TIMEOUT_FLAG}, or annotation {}", names::POD_VOLUME_TIMEOUT);
        }
        format!("the server's {TIMEOUT_FLAG}, which holds for every volume")
    }

    async fn accept(&self, accepted: Accepted<'_>) -> Result<bool, ApiError> {
        let attempt = accepted.attempt;
        let mut patch = if accepted.begins {
            status::accepted(attempt, self.core.now())
        } else {
            status::adopted(attempt)
        };
        if self.shows.is_of_pod {
            patch["spec"] = json!({"repoIdentifier": accepted.repository});
        }
        for (field, value) in accepted.shown.as_object().into_iter().flatten() {
            patch["status"][field] = value.clone();
        }
        self.write(patch).await
    }

    async fn again(&self, attempt: u64, dead_owners: &[String], message: &str) -> Result<bool, ApiError> {
        self.write(status::again(attempt, dead_owners, message)).await
    }

    async fn waiting(&self, message: &str) -> Result<bool, ApiError> {
        self.write(status::waits(message)).await
    }

    async fn preparing(&self, message: &str) -> Result<bool, ApiError> {
        self.write(status::prepared(message)).await
    }

    async fn running(&self, node: &str) -> Result<bool, ApiError> {
        let mut patch = status::running(self.started.as_deref(), self.core.now());
        if self.shows.node {
            patch["status"]["node"] = json!(node);
        }
        self.write(patch).await
    }

    async fn progress(&self, done: u64, total: u64) -> Result<bool, ApiError> {
        self.write(status::progress(done, total)).await
    }

    async fn end(&self, end: End<'_>) -> Result<bool, ApiError> {
        self.write(self.end_patch(end)).await
    }

    async fn warn(&self, reason: &str, message: &str) {
        self.core.events.warning(&self.about, reason, message).await;
    }
}
