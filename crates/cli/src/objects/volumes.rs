//! Progress of volumes: snapshots and volumes made by plugins (VolumePluginBackup, VolumePluginRestore), copied pod
//! volumes (PodVolumeBackup, PodVolumeRestore) and moved snapshot data (DataUpload, DataDownload), as text and JSON.
//! Shown by `describe` and, while they run, by `watch`.

mod running;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use lifeboat_api::velero::names;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::transfer::attempts::CONSISTENCY;
use lifeboat_plan::velero::pod_volumes::CHANGED_FILES;
use lifeboat_plan::velero::volume_plugin::{
    Kind, OURS, OperationState, PROVIDER_VOLUME, SNAPSHOT_LOCATION, does_not_end, hung, one_per_operation,
    operation_state, progress,
};
use serde_json::{Value, json};

use super::results::{Fetched, NotFetched};
use super::show::{Page, span};
use crate::units::bytes;
pub(crate) use running::Running;

/// How many keys of a plugin are shown, and how much of each key and value.
const MOST_SPECIFIC: usize = 20;
const LONGEST_SPECIFIC: usize = 200;

/// One volume that is backed up or restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// The PersistentVolume; or namespace, pod and the volume's name in the pod.
    name: String,
    /// Set for copied and moved volumes only.
    copy: Option<Copied>,
    plugin: String,
    location: String,
    snapshot: String,
    /// For a restore: the volume's ID at the provider.
    at_provider: String,
    phase: String,
    message: String,
    /// What the plugin says about it, as its own keys and values.
    plugin_specific: BTreeMap<String, String>,
    /// What it waits for, if that is unusual.
    waits_for: Option<String>,
    started: Option<Timestamp>,
    completed: Option<Timestamp>,
    /// Bytes done, and the total if it is known.
    bytes: Option<(u64, u64)>,
    standing: OperationState,
    /// Since when nothing has changed, where that is long ago.
    quiet_since: Option<Timestamp>,
    now: Timestamp,
}

/// Details of a copied or moved volume beside its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Copied {
    way: Method,
    claim: String,
    node: String,
    /// `Live` or `Quiesced`.
    consistency: String,
    /// Files that changed while they were read.
    changed: String,
    /// Bytes added to the repository.
    added: Option<u64>,
}

/// The method by which a volume is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Method {
    /// A file copy of a pod's volume.
    #[default]
    Files,
    /// Data movement from or into a CSI snapshot.
    Moved,
}

impl Copied {
    fn of(object: &Value) -> Option<Self> {
        let of_pod = object.pointer("/spec/pod/name").map(|_| Method::Files);
        let way = of_pod.or_else(|| moved_claim(object).map(|_| Method::Moved))?;
        let annotation =
            |key: &str| object["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned();
        let node = object.pointer("/spec/node").or_else(|| object.pointer("/status/node"));
        Some(Self {
            way,
            claim: annotation(names::PVC_NAME),
            node: node.and_then(Value::as_str).unwrap_or_default().to_owned(),
            consistency: annotation(CONSISTENCY),
            changed: annotation(CHANGED_FILES),
            added: object.pointer("/status/incrementalBytes").and_then(Value::as_u64),
        })
    }
}

/// `shop/db-0/data`.
fn pod_volume(object: &Value) -> Option<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (namespace, pod) = (text("/spec/pod/namespace")?, text("/spec/pod/name")?);
    Some(format!("{namespace}/{pod}/{}", text("/spec/volume")?))
}

/// `shop/data-db-0`: the claim that a DataUpload reads or a DataDownload fills.
fn moved_claim(object: &Value) -> Option<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let source = text("/spec/sourcePVC").and_then(|claim| Some((text("/spec/sourceNamespace")?, claim)));
    let target = || text("/spec/targetVolume/namespace").zip(text("/spec/targetVolume/pvc"));
    source.or_else(target).map(|(namespace, claim)| format!("{namespace}/{claim}"))
}

impl Volume {
    /// Reads an object of any of these kinds.
    pub(crate) fn of(object: &Value, now: Timestamp) -> Self {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let time = |pointer: &str| text(pointer).parse::<Timestamp>().ok();
        let first = |one: String, other: String| if one.is_empty() { other } else { one };
        let counted = |number: i64| u64::try_from(number).unwrap_or_default();
        Self {
            name: pod_volume(object).or_else(|| moved_claim(object)).unwrap_or_else(|| {
                first(first(text("/spec/volume"), text("/status/volumeID")), text("/metadata/name"))
            }),
            copy: Copied::of(object),
            plugin: text("/spec/plugin"),
            location: object["metadata"]["labels"][SNAPSHOT_LOCATION].as_str().unwrap_or_default().to_owned(),
            snapshot: first(text("/status/snapshotID"), text("/spec/snapshotID")),
            at_provider: object["metadata"]["annotations"][PROVIDER_VOLUME]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            phase: first(text("/status/phase"), "New".to_owned()),
            message: text("/status/message"),
            plugin_specific: plugin_specific(object),
            waits_for: does_not_end(object).filter(|_| Copied::of(object).is_none()),
            started: time("/status/startTimestamp"),
            completed: time("/status/completionTimestamp"),
            bytes: progress(object).map(|(done, total)| (counted(done), counted(total))),
            standing: operation_state(object),
            quiet_since: hung(object, now),
            now,
        }
    }

    fn is_moved(&self) -> bool {
        self.copy.as_ref().is_some_and(|copy| copy.way == Method::Moved)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.standing == OperationState::Open
    }

    fn percent(&self) -> Option<u64> {
        let (done, total) = self.bytes.filter(|(_, total)| *total > 0)?;
        Some(u64::try_from(u128::from(done) * 100 / u128::from(total)).unwrap_or(100).min(100))
    }

    /// Bytes per second, from the start until now or the end.
    fn rate(&self) -> Option<u64> {
        let (done, _) = self.bytes?;
        let took = self.completed.unwrap_or(self.now).duration_since(self.started?).as_secs();
        let took = u64::try_from(took).ok().filter(|seconds| *seconds > 0)?;
        Some(done / took).filter(|rate| *rate > 0)
    }

    /// The remaining time at this rate.
    fn rest(&self) -> Option<SignedDuration> {
        let (done, total) = self.bytes.filter(|_| self.is_running())?;
        let seconds = total.checked_sub(done).filter(|rest| *rest > 0)? / self.rate()?;
        Some(SignedDuration::from_secs(i64::try_from(seconds).ok()?))
    }

    /// `40%, 4 GiB of 10 GiB, 12 MiB/s, about 8m left; no change for 12m`.
    pub(crate) fn state(&self) -> String {
        let mut parts = vec![self.phase.clone()];
        parts.extend(self.percent().filter(|_| self.is_running()).map(|percent| format!("{percent}%")));
        parts.extend(self.bytes.map(|(done, total)| match total {
            total if total > done => format!("{} of {}", bytes(done), bytes(total)),
            _ => bytes(done),
        }));
        parts.extend(self.rate().map(|rate| format!("{}/s", bytes(rate))));
        parts.extend(self.rest().map(|rest| format!("about {} left", span(rest))));
        if let Some((from, to)) = self.started.zip(self.completed) {
            parts.push(format!("took {}", span(to.duration_since(from))));
        }
        let mut text = parts.join(", ");
        if let Some(since) = self.quiet_since {
            text = format!("{text}; no change for {}", span(self.now.duration_since(since)));
        }
        if !self.message.is_empty() {
            text = format!("{text}: {}", self.message);
        }
        if let Some(waits_for) = &self.waits_for {
            text = format!("{text}; waits for {waits_for}");
        }
        text
    }

    /// The volume's line in a description.
    fn line(&self) -> String {
        let named = |what: &str, name: &str| (!name.is_empty()).then(|| format!("{what} {name}"));
        let about = [
            named("plugin", &self.plugin),
            named("location", &self.location),
            named("snapshot", &self.snapshot),
            named("volume", &self.at_provider),
        ];
        let mut about: Vec<String> = about.into_iter().flatten().collect();
        about.extend(self.plugin_specific.iter().map(|(key, value)| format!("{key}: {value}")));
        if let Some(copy) = &self.copy {
            let way = match copy.way {
                Method::Files => "copied files",
                Method::Moved => "data of a snapshot",
            };
            about.insert(0, way.to_owned());
            about.extend(named("claim", &copy.claim));
            about.extend(named("node", &copy.node));
            about.extend(named("consistency", &copy.consistency));
            about.extend(copy.added.map(|added| format!("{} new", bytes(added))));
            about.extend(match copy.changed.as_str() {
                "" | "0" => None,
                "1" => Some("1 file changed while it was read".to_owned()),
                count => Some(format!("{count} files changed while they were read")),
            });
        }
        format!("{}: {}\n{}", self.name, self.state(), about.join(", "))
    }

    fn to_json(&self) -> Value {
        let (done, total) = self.bytes.unzip();
        let time = |time: Option<Timestamp>| time.map(lifeboat_api::common::time::seconds);
        json!({
            "volume": self.name,
            "way": match self.copy.as_ref().map(|copy| copy.way) {
                Some(Method::Files) => "PodVolume",
                Some(Method::Moved) => "DataMovement",
                None => "Plugin",
            },
            "claim": self.copy.as_ref().map(|copy| &copy.claim), "node": self.copy.as_ref().map(|copy| &copy.node),
            "consistency": self.copy.as_ref().map(|copy| &copy.consistency),
            "changedFiles": self.copy.as_ref().map(|copy| copy.changed.parse::<u64>().unwrap_or_default()),
            "bytesAdded": self.copy.as_ref().and_then(|copy| copy.added), "plugin": self.plugin, "location": self.location, "snapshot": self.snapshot,
            "providerVolume": self.at_provider, "phase": self.phase, "message": self.message,
            "pluginSpecific": self.plugin_specific, "waitsFor": self.waits_for,
            "started": time(self.started), "completed": time(self.completed), "bytesDone": done,
            "totalBytes": total, "percent": self.percent(), "bytesPerSecond": self.rate(),
            "secondsLeft": self.rest().map(|rest| rest.as_secs()), "noChangeSince": time(self.quiet_since),
        })
    }
}

/// All objects that belong to a Backup or Restore with this name.
pub(crate) async fn list(
    client: &Client,
    namespace: &str,
    kind: Kind,
    owner: &str,
) -> Result<Vec<Value>, ApiError> {
    let (of_pods, moved) = match kind {
        Kind::Backup => (("PodVolumeBackup", "podvolumebackups"), ("DataUpload", "datauploads")),
        Kind::Restore => (("PodVolumeRestore", "podvolumerestores"), ("DataDownload", "datadownloads")),
    };
    let kinds = [("v1", (kind.name(), kind.plural())), ("v1", of_pods), ("v2alpha1", moved)];
    let mut found = Vec::new();
    for (version, (kind_name, plural)) in kinds {
        let resource = objects::resource("velero.io", version, kind_name, plural);
        let api = objects::namespaced(client, namespace, &resource);
        if kind_name == "VolumePluginBackup" {
            found.extend(not_adopted(&api, owner).await);
        }
        let of_owner = ListParams::default().labels(&kind.name_selector(owner));
        match api.list(&of_owner).await.attempt(format!("list {plural}")) {
            Ok(listed) => found.extend(listed.items.iter().map(objects::to_json)),
            // An older server has not installed this custom resource definition.
            Err(error) if version != "v1" && error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(one_per_operation(found))
}

/// The objects that plugins made for snapshots of a Backup and that the server has not labelled yet, because their calls
/// still run. A server that cannot list them shows its own objects for these calls.
async fn not_adopted(api: &Api<DynamicObject>, backup: &str) -> Vec<Value> {
    let own = ListParams::default().labels(&format!("!{OURS},!{}", names::BACKUP_UID));
    let Ok(listed) = api.list(&own).await else { return Vec::new() };
    let objects = listed.items.iter().map(objects::to_json);
    objects.filter(|object| object["spec"]["backup"] == backup).collect()
}

/// The keys and values that a plugin wrote. Their number and lengths are bounded, because the plugin chooses them.
fn plugin_specific(object: &Value) -> BTreeMap<String, String> {
    let short = |text: &str| text.chars().filter(|one| !one.is_control()).take(LONGEST_SPECIFIC).collect();
    let all = object.pointer("/spec/pluginSpecific").and_then(Value::as_object).into_iter().flatten();
    let texts = all.filter_map(|(key, value)| Some((short(key), short(value.as_str()?))));
    texts.take(MOST_SPECIFIC).collect()
}

/// Running and failed volumes are always listed, the others with details.
pub(crate) fn put(
    page: &mut Page,
    objects: Option<&Result<Vec<Value>, NotFetched>>,
    now: Timestamp,
    details: bool,
) {
    let objects = match objects {
        None => return,
        Some(Err(reason)) => return page.text("Volumes of plugins", format!("cannot be shown: {reason}")),
        Some(Ok(objects)) => objects,
    };
    let mut volumes: Vec<Volume> = objects.iter().map(|object| Volume::of(object, now)).collect();
    volumes.sort_by(|one, other| one.name.cmp(&other.name));
    // The list of volumes, which comes after them, has those whose data was moved.
    let is_done = |volume: &Volume| volume.standing == OperationState::Completed;
    volumes.retain(|volume| !is_done(volume) || (details && !volume.is_moved()));
    let (copied, of_plugins): (Vec<_>, Vec<_>) = volumes.iter().partition(|volume| volume.copy.is_some());
    let lines = |of: Vec<&Volume>| of.iter().map(|volume| (volume.line(), volume.to_json())).collect();
    page.block("Copied volumes", "copiedVolumes", lines(copied));
    page.block("Volumes of plugins", "volumesOfPlugins", lines(of_plugins));
}

/// Lists the objects for a description.
pub(crate) async fn fetch(client: &Client, namespace: &str, kind: Kind, owner: &str) -> Fetched<Vec<Value>> {
    Some(list(client, namespace, kind, owner).await.map_err(NotFetched::Objects))
}
