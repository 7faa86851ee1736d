//! Creates volumes from plugin snapshots. Takes a PersistentVolume and its snapshot, returns the object with the new
//! volume in it. Called by [`super::native`]; each call has a plugin session of its own, because a snapshotter of
//! upstream's SDK handles one call at a time. Before a call its VolumePluginRestore is created, which a restarted
//! server reads, so that no volume is created twice.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use lifeboat_archive::RunLog;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::velero::restore::native::{self, Snapshot};
use lifeboat_plan::velero::volume_plugin::{self as plan, ObjectState, PERSISTENT_VOLUME, PROVIDER_VOLUME};
use lifeboat_plugin::host::Session;
use lifeboat_plugin::volume::{ProgressOf, VolumeInfo, VolumeRequest};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::native::{MadeVolume, NativeError, NativeVolumes};
use crate::context::Context;
use crate::plugins::PluginLines;
use crate::snapshot_locations::{self, OpenSnapshotter};
use crate::volume_plugin::{self, DatedClient, Kind, Operation, OperationState, PACE, Subject};

/// How many calls run at once: each is a process, and providers limit how many volumes are created at a time.
const AT_ONCE: usize = 8;
/// How often a write that must succeed before a call is tried.
const TRIES: u32 = 5;

/// The Restore whose volumes are created.
pub(crate) struct Owner {
    /// Name and UID of the Restore.
    pub(crate) restore: (String, String),
    pub(crate) backup: String,
}

pub(crate) struct VolumeMaker {
    context: Context,
    owner: Owner,
    /// The snapshots, or why their list cannot be read.
    snapshots: Result<Vec<Snapshot>, NativeError>,
    log: RunLog,
    limit: Duration,
    places: Semaphore,
}

/// A volume that its plugin has not finished when the call returns.
pub(crate) struct OpenVolume {
    /// Its VolumePluginRestore, as it was seen last.
    pub(crate) object: Value,
    pub(crate) snapshotter: Option<OpenSnapshotter>,
    /// The plugin processes that may still work on it.
    pub(crate) processes: Option<Processes>,
}

/// A session whose processes end when this is dropped, whatever they do.
pub(crate) struct Processes(pub(crate) Session);

impl Drop for Processes {
    fn drop(&mut self) {
        let session = self.0.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { session.close().await });
        }
    }
}

/// What an earlier attempt left.
enum Before {
    Nothing,
    /// A call whose end is unknown.
    Begun,
    /// The volume's ID, and its VolumePluginRestore.
    Made(String, Value),
}

impl VolumeMaker {
    /// `limit`: how long one call may take.
    pub(crate) fn new(
        context: &Context,
        owner: Owner,
        snapshots: Result<Vec<Snapshot>, NativeError>,
        log: RunLog,
        limit: Duration,
    ) -> Self {
        let places = Semaphore::new(AT_ONCE);
        Self { context: context.clone(), owner, snapshots, log, limit, places }
    }

    async fn make_in_turn(
        &self,
        volume: &Value,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<MadeVolume, NativeError> {
        let _place = self.places.acquire().await.map_err(|error| error.to_string())?;
        let session =
            self.context.plugins.session_within(Arc::new(PluginLines(self.log.clone())), self.limit);
        let processes = Processes(session);
        let mut made = self.make_with(&processes.0, volume, snapshot, name).await?;
        if let Some(open) = &mut made.open {
            open.processes = Some(processes);
        } else {
            processes.0.close().await;
        }
        Ok(made)
    }

    async fn make_with(
        &self,
        session: &Session,
        volume: &Value,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<MadeVolume, NativeError> {
        let opened = snapshot_locations::open(&self.context, session, &snapshot.location).await;
        let opened = opened.map_err(|error| error.chain())?;
        let subject = Subject {
            kind: Kind::Restore,
            namespace: self.context.namespace.clone(),
            owner: self.owner.restore.clone(),
            backup: self.owner.backup.clone(),
            plugin: opened.snapshotter.name().to_owned(),
            location: opened.location.clone(),
            volume: name.to_owned(),
            snapshot_id: snapshot.id.clone(),
        };
        let _turn = self.context.turns.take(format!("{} {}", subject.plugin, snapshot.id)).await;
        let before = self.before(&subject).await?;
        let doubt = matches!(before, Before::Begun).then(|| doubt(&subject));
        let (id, standing, object) = match before {
            Before::Made(id, object) => (id, plan::operation_state(&object), Some(object)),
            Before::Nothing | Before::Begun => self.call(&subject, &opened, snapshot).await?,
        };
        if let OperationState::Failed(message) = standing {
            return Err(message.into());
        }
        let unused = |error: &str| {
            format!("volume '{id}' was created from snapshot '{}', but is not used: {error}", snapshot.id)
        };
        let volume = opened.snapshotter.with_volume_id(volume, &id).await;
        let volume = volume.map_err(|error| unused(&error.to_string()))?;
        native::check(&volume).map_err(|error| unused(&error.to_string()))?;
        let open = object.filter(|_| standing == OperationState::Open);
        let open = open.map(|object| OpenVolume { object, snapshotter: Some(opened), processes: None });
        Ok(MadeVolume { volume, open, doubt })
    }

    async fn call(
        &self,
        subject: &Subject,
        opened: &OpenSnapshotter,
        snapshot: &Snapshot,
    ) -> Result<(String, OperationState, Option<Value>), NativeError> {
        let request = VolumeRequest {
            snapshot_id: snapshot.id.clone(),
            zone: snapshot.zone.clone(),
            info: VolumeInfo { volume_type: snapshot.volume_type.clone(), iops: snapshot.iops },
        };
        let operation = Operation {
            client: DatedClient::of(&self.context),
            subject,
            snapshotter: opened.snapshotter.as_ref(),
            of: ProgressOf::Restore { snapshot_id: snapshot.id.clone(), volume_id: None },
            limit: self.limit,
            log: &self.log,
            pace: PACE,
        };
        let called = volume_plugin::run(&operation, opened.snapshotter.create_volume(&request)).await;
        let id = called.made?;
        if let Some(object) = called.object.as_ref().filter(|object| !plan::is_ours(object)) {
            self.note(object, &id, &subject.volume).await;
        }
        Ok((id, called.standing, called.object))
    }

    fn api(&self) -> Api<DynamicObject> {
        volume_plugin::api(&self.context.client, Kind::Restore, &self.context.namespace)
    }

    /// Finds what an earlier attempt left, and creates the object of this one. Without the object no call is made,
    /// because after a restart nothing would name the volume.
    async fn before(&self, subject: &Subject) -> Result<Before, NativeError> {
        let mut pause = Duration::from_millis(200);
        for attempt in 1.. {
            match self.begin(subject).await {
                Ok(before) => return Ok(before),
                Err(error) if attempt >= TRIES || !error.is_transient() => {
                    let message = format!("its VolumePluginRestore cannot be written: {}", error.chain());
                    return Err(message.into());
                }
                Err(_) => {}
            }
            sleep(pause).await;
            pause *= 2;
        }
        Ok(Before::Nothing)
    }

    async fn begin(&self, subject: &Subject) -> Result<Before, ApiError> {
        let api = self.api();
        let of_restore = ListParams::default().labels(&Kind::Restore.uid_selector(&subject.owner.1));
        let listed = api.list(&of_restore).await.attempt("list volumepluginrestores")?;
        let earlier = listed.items.iter().map(objects::to_json).filter(|object| is_of(subject, object));
        let mut before = Before::Nothing;
        let mut ours = false;
        for object in earlier {
            ours |= plan::is_ours(&object);
            if let Some(id) = made(&object) {
                return Ok(Before::Made(id, object));
            }
            // A plugin's own object that has ended does not name the volume either.
            if !matches!(plan::operation_state(&object), OperationState::Failed(_)) {
                before = Before::Begun;
            }
        }
        if !ours {
            let now = self.context.now();
            let attempt = format!("create VolumePluginRestore {}", subject.name());
            let object = serde_json::from_value(subject.object(&ObjectState::begun(now), now));
            let object: DynamicObject = object.map_err(kube::Error::SerdeError).attempt(attempt.clone())?;
            match api.create(&PostParams::default(), &object).await.attempt(attempt) {
                Err(error) if !error.is_conflict() => return Err(error),
                _ => {}
            }
        }
        Ok(before)
    }

    /// Writes the volume's ID into a plugin's own object, which may lack it.
    async fn note(&self, object: &Value, id: &str, volume: &str) {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let patch = kube::api::Patch::Merge(json!({"metadata": {"annotations":
            {PROVIDER_VOLUME: id, PERSISTENT_VOLUME: volume}}}));
        let noted = self.api().patch(name, &kube::api::PatchParams::default(), &patch).await;
        if let Err(error) = noted {
            self.log.info(
                &format!("VolumePluginRestore {name} could not be updated with its volume: {error}"),
                &[],
            );
        }
    }
}

#[async_trait]
impl NativeVolumes for VolumeMaker {
    fn snapshot_of(&self, volume: &str) -> Result<&Snapshot, NativeError> {
        Ok(native::snapshot_of(self.snapshots.as_ref().map_err(Clone::clone)?, volume)?)
    }

    async fn make(&self, volume: &Value, snapshot: &Snapshot, name: &str) -> Result<MadeVolume, NativeError> {
        self.make_in_turn(volume, snapshot, name).await
    }
}

/// Whether an object is about this volume, in any attempt.
fn is_of(subject: &Subject, object: &Value) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    // A plugin may name the volume differently in its own object.
    let same_volume = if plan::is_ours(object) {
        text("/status/volumeID") == subject.volume
    } else {
        let noted = object["metadata"]["annotations"][PERSISTENT_VOLUME].as_str();
        noted.is_none_or(|noted| noted == subject.volume)
    };
    text("/spec/snapshotID") == subject.snapshot_id && same_volume
}

/// The volume that an object's call returned.
fn made(object: &Value) -> Option<String> {
    if matches!(plan::operation_state(object), OperationState::Failed(_)) {
        return None;
    }
    let id = object["metadata"]["annotations"][PROVIDER_VOLUME].as_str()?;
    (!id.is_empty()).then(|| id.to_owned())
}

fn doubt(subject: &Subject) -> String {
    format!(
        "the server ended while plugin {} created a volume from snapshot '{}' for {}; the volume was created again, and the first one may exist too: look for it at the provider",
        subject.plugin, subject.snapshot_id, subject.volume
    )
}
