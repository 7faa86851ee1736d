//! VolumePluginBackup and VolumePluginRestore: the object of one operation of a volume snapshotter, and its patches.
//! Takes the subject of the operation, the state that the plugin reports and the time; gives objects and patches.
//! Called by module `volume_plugin` of crate `velero`; [`hung`] by the command line too.
//!
//! Objects that the server created carry the label [`OURS`]. A plugin's own object gets the other labels and an
//! owner, nothing else.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lifeboat_api::common::time::seconds;
use lifeboat_api::velero::names;
use lifeboat_api::velero::volume_plugin::phase;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::label;

mod late;
mod name;
mod single;
mod state;

pub use late::is_over;
pub use name::{can_be_name, snapshot_label};
pub use single::one_per_operation;
pub use state::{
    HUNG_AFTER, OperationState, does_not_end, given_up, hung, is_bad, last_change, operation_state, waits,
};

/// Label of objects that the server created: it writes their status.
pub const OURS: &str = "lifeboat.io/volume-plugin";

/// Label: the VolumeSnapshotLocation of the snapshotter.
pub const SNAPSHOT_LOCATION: &str = "lifeboat.io/snapshot-location";

/// Label of the objects of both kinds: the snapshot's ID as [`snapshot_label`] writes it, once it is known.
pub const SNAPSHOT_ID: &str = "velero.io/snapshot-id";

/// Annotation of the server's objects: when their progress last changed.
pub const PROGRESS_CHANGED: &str = "lifeboat.io/progress-changed";

/// Annotation of the server's VolumePluginRestores: the provider's ID of the volume.
pub const PROVIDER_VOLUME: &str = "lifeboat.io/provider-volume";

/// Annotation of plugins' own VolumePluginRestores: the PersistentVolume.
pub const PERSISTENT_VOLUME: &str = "lifeboat.io/persistent-volume";

/// One of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Backup,
    Restore,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Backup => "VolumePluginBackup",
            Self::Restore => "VolumePluginRestore",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::Backup => "volumepluginbackups",
            Self::Restore => "volumepluginrestores",
        }
    }

    /// The kind of the owner, and the labels with its name and UID.
    fn owner(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Backup => ("Backup", names::BACKUP_NAME, names::BACKUP_UID),
            Self::Restore => ("Restore", names::RESTORE_NAME, names::RESTORE_UID),
        }
    }

    /// Selects the objects of the owner with this UID.
    pub fn uid_selector(self, uid: &str) -> String {
        format!("{}={}", self.owner().2, label::value(uid))
    }

    /// Selects the objects of the owner of this name.
    pub fn name_selector(self, name: &str) -> String {
        format!("{}={}", self.owner().1, label::value(name))
    }

    /// The status field with the ID of the created snapshot or volume.
    fn made(self) -> &'static str {
        match self {
            Self::Backup => "snapshotID",
            Self::Restore => "volumeID",
        }
    }
}

/// The subject of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub kind: Kind,
    /// Lifeboat's namespace.
    pub namespace: String,
    /// Name and UID of the Backup or Restore.
    pub owner: (String, String),
    /// Name of the Backup.
    pub backup: String,
    /// Name of the snapshotter.
    pub plugin: String,
    /// Name of the VolumeSnapshotLocation.
    pub location: String,
    /// Name of the PersistentVolume.
    pub volume: String,
    /// For a restore: the snapshot's ID. Empty for a backup, which creates the snapshot.
    pub snapshot_id: String,
}

impl Subject {
    /// The name of the server's object: the same for the same volume in every attempt.
    pub fn name(&self) -> String {
        let mut hash = Sha256::new();
        for part in [&self.owner.1, &self.snapshot_id, &self.volume] {
            hash.update(part.len().to_be_bytes());
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        let short = digest.iter().take(12).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        match self.kind {
            Kind::Backup => format!("vpb-{short}"),
            Kind::Restore => format!("vpr-{short}"),
        }
    }

    /// Labels of the server's objects and of plugins' own.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let (_, name, uid) = self.kind.owner();
        let text = |value: &str| label::value(value);
        let mut labels: BTreeMap<String, String> = [
            (names::BACKUP_NAME.to_owned(), text(&self.backup)),
            (name.to_owned(), text(&self.owner.0)),
            (uid.to_owned(), text(&self.owner.1)),
            (SNAPSHOT_LOCATION.to_owned(), text(&self.location)),
        ]
        .into();
        labels.extend(id_label(Some(&self.snapshot_id)));
        labels
    }

    pub fn owner_reference(&self) -> Value {
        let (kind, _, _) = self.kind.owner();
        json!({"apiVersion": "velero.io/v1", "kind": kind, "name": self.owner.0, "uid": self.owner.1})
    }

    /// The server's object to create.
    pub fn object(&self, shown: &ObjectState, now: Timestamp) -> Value {
        let mut labels = self.labels();
        labels.insert(OURS.to_owned(), "server".to_owned());
        let mut spec = json!({"backup": self.backup, "plugin": self.plugin});
        match self.kind {
            Kind::Backup => spec["volume"] = self.volume.clone().into(),
            Kind::Restore => spec["snapshotID"] = self.snapshot_id.clone().into(),
        }
        let mut object = json!({
            "apiVersion": "velero.io/v1",
            "kind": self.kind.name(),
            "metadata": {
                "name": self.name(),
                "namespace": self.namespace,
                "labels": labels,
                "ownerReferences": [self.owner_reference()],
            },
            "spec": spec,
        });
        let patch = self.patch(shown, now);
        object["metadata"]["annotations"] = without_nulls(&patch["metadata"]["annotations"]);
        for (label, value) in without_nulls(&patch["metadata"]["labels"]).as_object().into_iter().flatten() {
            object["metadata"]["labels"][label] = value.clone();
        }
        object["status"] = without_nulls(&patch["status"]);
        if !shown.plugin_specific.is_empty() {
            object["spec"]["pluginSpecific"] = json!(shown.plugin_specific);
        }
        object
    }

    /// The patch for the server's object.
    pub fn patch(&self, shown: &ObjectState, now: Timestamp) -> Value {
        patch(self.kind, &self.volume, shown, now)
    }

    /// The patch for a plugin's own object: Lifeboat's labels and owner reference. `made`: the ID that the call returned.
    pub fn adoption(&self, object: &Value, made: Option<&str>) -> Value {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut owners: Vec<Value> = owners.cloned().unwrap_or_default();
        if owners.iter().all(|owner| owner["uid"] != self.owner.1.as_str()) {
            owners.push(self.owner_reference());
        }
        let mut labels = self.labels();
        if self.kind == Kind::Backup {
            let shown = object.pointer("/status/snapshotID").and_then(Value::as_str);
            labels.extend(id_label(made.or(shown)));
        }
        json!({"metadata": {"labels": labels, "ownerReferences": owners}})
    }

    /// Selects the objects that may be a plugin's own for this operation: not created by the server and not adopted
    /// yet.
    pub fn own_selector(&self) -> String {
        let (_, _, uid) = self.kind.owner();
        format!("!{OURS},!{uid}")
    }

    /// Whether an object is the plugin's own for this operation. `made`: the ID that the call returned; `before`:
    /// UIDs of the objects that existed before the call.
    pub fn is_plugins_own(&self, object: &Value, made: Option<&str>, before: &[String]) -> bool {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (_, _, uid) = self.kind.owner();
        let adopted = object["metadata"]["labels"][uid].as_str();
        if is_ours(object) || adopted.is_some_and(|uid| uid != label::value(&self.owner.1)) {
            return false;
        }
        let new = !before.iter().any(|uid| uid == text("/metadata/uid"));
        match self.kind {
            Kind::Backup => {
                // By design it has the snapshot's ID as its name, but not every ID is a valid name.
                let named = made == Some(text("/metadata/name"))
                    && ["", self.backup.as_str()].contains(&text("/spec/backup"));
                let about = text("/spec/backup") == self.backup && text("/spec/volume") == self.volume;
                named || (new && about && same_plugin(text("/spec/plugin"), &self.plugin))
            }
            Kind::Restore => {
                // CreateVolumeFromSnapshot does not pass the name of the backup.
                let backup = ["", self.backup.as_str()].contains(&text("/spec/backup"));
                let about = text("/spec/snapshotID") == self.snapshot_id && backup;
                new && about && same_plugin(text("/spec/plugin"), &self.plugin)
            }
        }
    }
}

/// The patch for the server's object of a kind; `volume`: the PersistentVolume.
pub fn patch(kind: Kind, volume: &str, shown: &ObjectState, now: Timestamp) -> Value {
    let made = match kind {
        Kind::Backup => shown.made.clone(),
        Kind::Restore => Some(volume.to_owned()),
    };
    let time = |time: Option<Timestamp>| time.map(seconds);
    let mut annotations = json!({PROGRESS_CHANGED: seconds(now)});
    if kind == Kind::Restore {
        annotations[PROVIDER_VOLUME] = json!(shown.made);
    }
    let mut patch = json!({
        "metadata": {"annotations": annotations},
        "status": {
            "phase": shown.phase,
            "message": (!shown.message.is_empty()).then_some(&shown.message),
            "startTimestamp": time(shown.started),
            "completionTimestamp": time(shown.completed),
            // Both spellings, because the design's Go struct has no JSON names.
            "progress": shown.progress.map(|(done, total)| {
                json!({"bytesDone": done, "totalBytes": total, "BytesDone": done, "TotalBytes": total})
            }),
        },
    });
    if kind == Kind::Backup {
        // None removes the label of an earlier attempt.
        let value = id_label(made.as_deref()).map(|(_, value)| value);
        patch["metadata"]["labels"] = json!({SNAPSHOT_ID: value});
    }
    patch["status"][kind.made()] = json!(made);
    if !shown.plugin_specific.is_empty() {
        patch["spec"] = json!({"pluginSpecific": shown.plugin_specific});
    }
    patch
}

/// The label with a snapshot's ID, if there is one.
pub(crate) fn id_label(snapshot_id: Option<&str>) -> Option<(String, String)> {
    let id = snapshot_id.filter(|id| !id.is_empty())?;
    Some((SNAPSHOT_ID.to_owned(), snapshot_label(id)))
}

/// Whether two plugin names are equal: `aws` means `velero.io/aws`.
fn same_plugin(one: &str, other: &str) -> bool {
    let bare = |name: &str| name.strip_prefix("velero.io/").unwrap_or(name).to_owned();
    bare(one) == bare(other)
}

/// The state that an object of the server shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectState {
    pub phase: String,
    pub message: String,
    pub started: Option<Timestamp>,
    pub completed: Option<Timestamp>,
    /// Bytes done and bytes in total.
    pub progress: Option<(i64, i64)>,
    pub plugin_specific: BTreeMap<String, String>,
    /// The ID that the call returned.
    pub made: Option<String>,
}

impl ObjectState {
    /// The call starts.
    pub fn begun(now: Timestamp) -> Self {
        Self { phase: phase::IN_PROGRESS.to_owned(), started: Some(now), ..Self::default() }
    }

    /// The state after the operation ended; with a message if it failed.
    #[must_use]
    pub fn ended(mut self, message: Option<&str>, now: Timestamp) -> Self {
        let word = if message.is_some() { phase::FAILED } else { phase::COMPLETED };
        word.clone_into(&mut self.phase);
        if let Some(message) = message {
            message.clone_into(&mut self.message);
        } else if let Some((done, total)) = &mut self.progress {
            // A plugin that succeeded has done all of it, whatever its last progress report was.
            *total = (*done).max(*total);
            *done = *total;
        }
        self.completed = self.completed.or(Some(now));
        self
    }

    /// The state that an object of the server shows now.
    pub fn of(kind: Kind, object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let time = |path: &str| text(path).and_then(|text| text.parse().ok());
        let specific = object.pointer("/spec/pluginSpecific").and_then(Value::as_object);
        let made = match kind {
            Kind::Backup => text("/status/snapshotID"),
            Kind::Restore => text(&format!("/metadata/annotations/{}", PROVIDER_VOLUME.replace('/', "~1"))),
        };
        Self {
            phase: text("/status/phase").unwrap_or_default(),
            message: text("/status/message").unwrap_or_default(),
            started: time("/status/startTimestamp"),
            completed: time("/status/completionTimestamp"),
            progress: progress(object),
            plugin_specific: specific
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            made,
        }
    }
}

/// Whether the server created the object.
pub fn is_ours(object: &Value) -> bool {
    object["metadata"]["labels"].get(OURS).is_some()
}

/// Bytes done and bytes in total, in either spelling; if both are present, the larger one.
pub fn progress(object: &Value) -> Option<(i64, i64)> {
    let shown = object.pointer("/status/progress")?;
    let number = |one: &str, other: &str| shown[one].as_i64().max(shown[other].as_i64());
    let (done, total) = (number("bytesDone", "BytesDone"), number("totalBytes", "TotalBytes"));
    (done.is_some() || total.is_some()).then(|| (done.unwrap_or_default(), total.unwrap_or_default()))
}

/// An object without the fields that are only valid in one cluster, as it is stored and created again.
pub fn stored(object: &Value) -> Value {
    let mut stored = object.clone();
    if let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in
            ["uid", "resourceVersion", "managedFields", "generation", "selfLink", "creationTimestamp"]
        {
            metadata.remove(field);
        }
    }
    stored
}

fn without_nulls(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

#[cfg(test)]
#[path = "volume_plugin/tests.rs"]
mod tests;
