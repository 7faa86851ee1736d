//! VolumeSnapshots and VolumeSnapshotContents in the cluster: read, create, wait for, delete. Every step can be
//! repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ApiResource;
use kube::{Api, Client};
use lifeboat_cluster::{ApiError, Attempt, MANAGER, objects};
pub use lifeboat_plan::json::text;
use lifeboat_plan::transfer::snapshots::{self as csi, Fixed, GROUP, VERSION};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";

/// Access to the cluster's VolumeSnapshots and their contents.
#[derive(Clone)]
pub struct Snapshots {
    client: Client,
}

/// A VolumeSnapshot that its driver has taken, with its content.
#[derive(Clone, Debug)]
pub struct Taken {
    pub snapshot: Value,
    pub content: Value,
}

impl Snapshots {
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    fn resource(kind: &str) -> ApiResource {
        objects::resource(GROUP, VERSION, kind, &format!("{}s", kind.to_lowercase()))
    }

    fn of(&self, namespace: &str) -> Api<DynamicObject> {
        objects::namespaced(&self.client, namespace, &Self::resource("VolumeSnapshot"))
    }

    fn contents(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &Self::resource("VolumeSnapshotContent"))
    }

    /// Whether the cluster serves the snapshot kinds and the server may use them.
    pub async fn usable(&self) -> Result<(), Unusable> {
        match self.contents().list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(Unusable::NotServed),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(Unusable::Forbidden),
            Err(error) => Err(Unusable::Api(ApiError {
                attempt: "list volumesnapshotcontents".to_owned(),
                source: error.into(),
            })),
        }
    }

    pub async fn snapshot(&self, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let found = self.of(namespace).get_opt(name).await;
        let found = found.attempt(format!("read VolumeSnapshot {namespace}/{name}"))?;
        Ok(found.as_ref().map(objects::to_json))
    }

    pub async fn content(&self, name: &str) -> Result<Option<Value>, ApiError> {
        let found = self.contents().get_opt(name).await;
        let found = found.attempt(format!("read VolumeSnapshotContent {name}"))?;
        Ok(found.as_ref().map(objects::to_json))
    }

    /// The content of a VolumeSnapshot; None if it has none, or names one that belongs to another.
    pub async fn content_of(&self, snapshot: &Value) -> Result<Option<Value>, ApiError> {
        let Some(name) = csi::bound_content(snapshot) else { return Ok(None) };
        Ok(self.content(name).await?.filter(|content| csi::is_content_of(content, snapshot)))
    }

    /// The VolumeSnapshots with a label: with this value, or with any. Empty if the kind is not served.
    pub async fn labelled(&self, label: &str, value: Option<&str>) -> Result<Vec<Value>, ApiError> {
        let all = Api::all_with(self.client.clone(), &Self::resource("VolumeSnapshot"));
        labelled(&all, label, value).await
    }

    /// The contents with a label: a content may be all that is left of a snapshot.
    pub async fn labelled_contents(&self, label: &str, uid: Option<&str>) -> Result<Vec<Value>, ApiError> {
        labelled(&self.contents(), label, uid).await
    }

    /// The VolumeSnapshots of a namespace, and all contents, that have a label. Empty if the kinds are not served.
    pub async fn made_for(&self, namespace: &str, label: &str) -> Result<Vec<Value>, ApiError> {
        let mut found = labelled(&self.of(namespace), label, None).await?;
        found.extend(labelled(&self.contents(), label, None).await?);
        Ok(found)
    }

    /// The VolumeSnapshots of a namespace that have all of these labels.
    pub async fn selected(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Value>, ApiError> {
        let selector: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let found = self.of(namespace).list(&ListParams::default().labels(&selector.join(","))).await;
        let found = found.attempt(format!("list VolumeSnapshots of namespace {namespace}"))?;
        Ok(found.items.iter().map(objects::to_json).collect())
    }

    /// Deletes this VolumeSnapshot, unless it was changed since it was read; another VolumeSnapshot with the same
    /// name stays. The deletion policy of its content, which comes from its class, determines whether the driver's
    /// snapshot is deleted too.
    pub async fn delete(&self, snapshot: &Value) -> Result<(), ApiError> {
        let (namespace, name) = (text(snapshot, "/metadata/namespace"), text(snapshot, "/metadata/name"));
        let given = |at: &str| Some(text(snapshot, at).to_owned()).filter(|text| !text.is_empty());
        let (uid, resource_version) = (given("/metadata/uid"), given("/metadata/resourceVersion"));
        let params = DeleteParams::default().preconditions(Preconditions { uid, resource_version });
        let deleted = self.of(namespace).delete(name, &params).await;
        fine_if_gone(deleted.attempt(format!("delete VolumeSnapshot {namespace}/{name}")).map(drop))
    }

    /// All VolumeSnapshots of a namespace.
    pub async fn in_namespace(&self, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let found = self.of(namespace).list(&ListParams::default()).await;
        let found = found.attempt(format!("list VolumeSnapshots of namespace {namespace}"))?;
        Ok(found.items.iter().map(objects::to_json).collect())
    }

    /// Creates the VolumeSnapshot; one with this name that exists is adopted, because names are unique to a backup.
    pub async fn make(&self, wanted: &Value) -> Result<(), ApiError> {
        let (namespace, name) = (text(wanted, "/metadata/namespace"), text(wanted, "/metadata/name"));
        let attempt = format!("create VolumeSnapshot {namespace}/{name}");
        create(&self.of(namespace), wanted, attempt).await
    }

    pub async fn make_content(&self, wanted: &Value) -> Result<(), ApiError> {
        let attempt = format!("create VolumeSnapshotContent {}", text(wanted, "/metadata/name"));
        create(&self.contents(), wanted, attempt).await
    }

    pub async fn change(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), ApiError> {
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let changed = self.of(namespace).patch(name, &params, &Patch::Merge(patch)).await;
        changed.attempt(format!("change VolumeSnapshot {namespace}/{name}")).map(drop)
    }

    pub async fn change_content(&self, name: &str, patch: &Value) -> Result<(), ApiError> {
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let changed = self.contents().patch(name, &params, &Patch::Merge(patch)).await;
        changed.attempt(format!("change VolumeSnapshotContent {name}")).map(drop)
    }

    /// Takes a snapshot, or adopts the one with this name, and waits until its driver has taken it. If that fails,
    /// the caller removes what is left of it.
    pub async fn take(&self, wanted: &Value, limit: TimeLimit) -> Result<Taken, NotTaken> {
        let (namespace, name) = (text(wanted, "/metadata/namespace"), text(wanted, "/metadata/name"));
        self.settled(namespace, name, limit).await?;
        self.make(wanted).await.map_err(NotTaken::Api)?;
        self.fixed(namespace, name, limit).await
    }

    /// Waits until a snapshot with this name that is being deleted is gone.
    pub async fn settled(&self, namespace: &str, name: &str, limit: TimeLimit) -> Result<(), NotTaken> {
        let timer = PollTimer::new(limit.time);
        loop {
            match self.snapshot(namespace, name).await {
                Ok(Some(found)) if csi::is_going(&found) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(NotTaken::Api(error)),
            }
            if !timer.pause().await {
                return Err(NotTaken::EarlierStays(format!("{namespace}/{name}")));
            }
        }
    }

    /// Waits until the driver has taken the snapshot.
    pub async fn fixed(&self, namespace: &str, name: &str, limit: TimeLimit) -> Result<Taken, NotTaken> {
        let timer = PollTimer::new(limit.time);
        loop {
            let last = match self.read_state(namespace, name).await {
                Ok(SnapshotState::Fixed(taken)) => return Ok(taken),
                Ok(SnapshotState::Waiting(reason)) => reason,
                Ok(SnapshotState::Gone) => return Err(NotTaken::Deleted(format!("{namespace}/{name}"))),
                Err(error) if error.is_transient() => error.chain(),
                Err(error) => return Err(NotTaken::Api(error)),
            };
            if !timer.pause().await {
                return Err(NotTaken::TooLate { limit, last });
            }
        }
    }

    async fn read_state(&self, namespace: &str, name: &str) -> Result<SnapshotState, ApiError> {
        let Some(snapshot) = self.snapshot(namespace, name).await? else { return Ok(SnapshotState::Gone) };
        let content = self.content_of(&snapshot).await?;
        Ok(match (csi::fixed(&snapshot, content.as_ref()), content) {
            (Fixed::Yes, Some(content)) => SnapshotState::Fixed(Taken { snapshot, content }),
            (Fixed::Waiting(message), _) => SnapshotState::Waiting(message),
            (Fixed::Yes, None) => SnapshotState::Waiting(String::new()),
        })
    }

    /// Deletes the VolumeSnapshot and its content; with `everything` also the driver's snapshot. Objects that are
    /// gone are no error.
    pub async fn remove(
        &self,
        namespace: &str,
        name: &str,
        content: Option<&str>,
        everything: bool,
    ) -> Result<(), ApiError> {
        let snapshot = self.snapshot(namespace, name).await?;
        let bound = match &snapshot {
            Some(snapshot) => self.content_of(snapshot).await?,
            None => None,
        };
        let bound = bound.map(|content| text(&content, "/metadata/name").to_owned());
        // The snapshot controller gives the content this name before it binds the two.
        let coming = snapshot.as_ref().map(|snapshot| text(snapshot, "/metadata/uid"));
        let coming = coming.filter(|uid| !uid.is_empty()).map(|uid| format!("snapcontent-{uid}"));
        let content = content.map(str::to_owned).or(bound).or(coming);
        let policy = if everything { "Delete" } else { "Retain" };
        // A content that is being deleted keeps its policy: its driver's snapshot was to be deleted too.
        let is_going = match &content {
            Some(content) if !everything => self.content(content).await?.as_ref().is_some_and(csi::is_going),
            _ => false,
        };
        if let Some(content) = content.as_ref().filter(|_| !is_going) {
            let mut patch = json!({"spec": {"deletionPolicy": policy}});
            if everything && snapshot.is_none() {
                // The snapshot controller sets this annotation when a VolumeSnapshot is deleted; without it no driver
                // deletes its snapshot.
                patch["metadata"]["annotations"][BEING_DELETED] = json!("yes");
            }
            fine_if_gone(self.change_content(content, &patch).await)?;
        }
        // If the driver's snapshot is to be kept, the content is deleted first, so that the snapshot controller finds
        // nothing to delete when the VolumeSnapshot goes.
        if let Some(content) = content.as_ref().filter(|_| !everything) {
            self.delete_content(content).await?;
        }
        let deleted = self.of(namespace).delete(name, &DeleteParams::default()).await;
        fine_if_gone(deleted.attempt(format!("delete VolumeSnapshot {namespace}/{name}")).map(drop))?;
        // With the policy Delete, the controller deletes the content with its VolumeSnapshot; if that was gone
        // before, the content has to be deleted here.
        match content.filter(|_| everything) {
            Some(content) => self.delete_content(&content).await,
            None => Ok(()),
        }
    }

    pub async fn delete_content(&self, name: &str) -> Result<(), ApiError> {
        let deleted = self.contents().delete(name, &DeleteParams::default()).await;
        fine_if_gone(deleted.attempt(format!("delete VolumeSnapshotContent {name}")).map(drop))
    }
}

/// How long a driver may take for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimit {
    pub time: Duration,
    /// The field or flag that sets it, for people, as in `spec.csiSnapshotTimeout`.
    pub setting: &'static str,
}

/// Why a snapshot was not taken.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    #[error("an earlier VolumeSnapshot {0} is still being deleted")]
    EarlierStays(String),
    #[error("VolumeSnapshot {0} was deleted while it was waited for")]
    Deleted(String),
    #[error("the snapshot was not taken within {} s ({}): {last}", .limit.time.as_secs(), .limit.setting)]
    TooLate { limit: TimeLimit, last: String },
    #[error("{}", .0.message())]
    Api(ApiError),
}

/// The state of a VolumeSnapshot, read once.
enum SnapshotState {
    Fixed(Taken),
    Waiting(String),
    Gone,
}

/// The pauses between polls, with a limit: a quarter of a second at first, later one second.
pub struct PollTimer {
    start: Instant,
    limit: Duration,
}

impl PollTimer {
    pub fn new(limit: Duration) -> Self {
        Self { start: Instant::now(), limit }
    }

    /// Waits for one pause; false if the limit has passed.
    pub async fn pause(&self) -> bool {
        let elapsed = self.start.elapsed();
        let pause = Duration::from_millis(if elapsed < Duration::from_secs(5) { 250 } else { 1000 });
        sleep(pause.min(self.limit.saturating_sub(elapsed))).await;
        elapsed < self.limit
    }
}

/// Why the cluster's snapshots cannot be used.
#[derive(Debug)]
pub enum Unusable {
    NotServed,
    Forbidden,
    Api(ApiError),
}

/// The objects that have a label, with this value or with any; empty if the kind is not served.
pub async fn labelled(
    api: &Api<DynamicObject>,
    key: &str,
    value: Option<&str>,
) -> Result<Vec<Value>, ApiError> {
    let selector = value.map_or_else(|| key.to_owned(), |value| format!("{key}={value}"));
    let fits = |object: &Value| {
        let label = &object["metadata"]["labels"][key];
        value.map_or(label.is_string(), |value| *label == *value)
    };
    match api.list(&ListParams::default().labels(&selector)).await {
        Ok(found) => Ok(found.items.iter().map(objects::to_json).filter(fits).collect()),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(Vec::new()),
        Err(error) => Err(error).attempt("list the snapshots of a backup"),
    }
}

pub async fn create(api: &Api<DynamicObject>, wanted: &Value, attempt: String) -> Result<(), ApiError> {
    let object = serde_json::from_value(wanted.clone()).map_err(kube::Error::SerdeError);
    let object: DynamicObject = object.attempt(attempt.clone())?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        made => made.attempt(attempt).map(drop),
    }
}

pub fn fine_if_gone(done: Result<(), ApiError>) -> Result<(), ApiError> {
    match done {
        Err(error) if error.is_not_found() => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests;
