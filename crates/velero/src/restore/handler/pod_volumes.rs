//! Volumes of restored pods whose files the backup holds as copies. A pod gets an init container that waits for them before
//! it is created; once it is there as ours, a PodVolumeRestore is made for each volume, and the restore waits for their
//! ends. Pods that share a claim all wait for it, and it is filled once. Objects have names that a second attempt finds
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::velero::names;
use lifeboat_archive::documents::{PodVolumeInfo, RestoreVolumeInfo};
use lifeboat_cluster::write::Target;
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::transfer::directory::claim_of;
use lifeboat_plan::velero::pod_volumes::{
    CONTAINER, Copied, CopyFor, PodOf, Wait, copies_for, mark, restore_object, unusable,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::VeleroHandler;
use super::pod_volume_objects::{DELETED, NoPodVolumeRestores, PodVolumeApi, PodVolumeRestores};
use super::report::Report;
use crate::context::Context;
use crate::transfers::limit;
use lifeboat_control::locked;
use lifeboat_items::outcome::Notes;
use lifeboat_items::pipeline::item::WorkItem;
use lifeboat_items::pipeline::run::Run;

/// How much longer than an object's own time its end is waited for: the server that works on it may have been restarted.
const GRACE: Duration = Duration::from_mins(10);

/// A volume in the backup: namespace, pod, its name there.
pub(crate) type VolumeKey = (String, String, String);

/// Fills the volumes of restored pods from the copies of the backup.
pub(crate) struct Filler {
    objects: Arc<dyn PodVolumeRestores>,
    /// Lifeboat's.
    namespace: String,
    image: String,
    /// Name and UID of the Restore.
    restore: (String, String),
    location: String,
    /// How long one volume may take, as the Restore's annotation says it.
    timeout: Option<String>,
    limit: Duration,
    copies: Vec<Copied>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What a pod waits for, by the pod's place in the cluster.
    wanted: BTreeMap<(String, String), Vec<Copied>>,
    /// Volumes that have an object, or an error of their own.
    reported: BTreeSet<VolumeKey>,
    /// By the object's name: what it brings back, and the namespace that it goes into.
    begun: BTreeMap<String, (Copied, String)>,
}

/// Why a volume is not filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotFilled {
    #[error("the server knows no image for the container that waits in the pod; set it with --mover-image")]
    NoImage,
    #[error(
        "its claim {0} was there before: only new volumes are written into; delete the claim, or restore into another namespace"
    )]
    OldClaim(String),
    /// The copy cannot be used, or the API server refused a request.
    #[error("{0}")]
    Refused(String),
}

/// What came of the volumes.
#[derive(Default)]
pub(crate) struct Filled {
    pub(crate) infos: Vec<RestoreVolumeInfo>,
    /// Volumes that were restored, or that have an error of their own.
    pub(crate) reported: BTreeSet<VolumeKey>,
}

impl Filler {
    pub(crate) fn new(
        context: &Context,
        restore: &lifeboat_api::velero::Restore,
        location: &str,
        copies: Vec<Copied>,
    ) -> Self {
        let timeout = restore.annotations().get(names::POD_VOLUME_TIMEOUT).cloned();
        Self {
            objects: Arc::new(PodVolumeApi::new(context)),
            namespace: context.namespace.clone(),
            image: context.movers.settings().image.clone(),
            restore: (restore.name_any(), restore.uid().unwrap_or_default()),
            location: location.to_owned(),
            limit: limit(timeout.as_deref(), context.movers.settings().copy_timeout),
            timeout,
            copies,
            state: Mutex::default(),
        }
    }

    /// The filler of a preview: it prepares pods, and makes no objects.
    pub(crate) fn previewed(mut self) -> Self {
        self.objects = Arc::new(NoPodVolumeRestores);
        // The image is a setting of the server, which the user of a preview does not have.
        if self.image.is_empty() {
            "lifeboat".clone_into(&mut self.image);
        }
        self
    }

    /// A filler without a cluster.
    #[cfg(test)]
    pub(super) fn of_test(copies: Vec<Copied>) -> Self {
        Self {
            objects: Arc::new(NoPodVolumeRestores),
            namespace: "lifeboat".to_owned(),
            image: "lifeboat".to_owned(),
            restore: ("r".to_owned(), "ru".to_owned()),
            location: "default".to_owned(),
            timeout: None,
            limit: Duration::ZERO,
            copies,
            state: Mutex::default(),
        }
    }

    /// The volumes that are restored, or that have an error of their own.
    pub(super) fn reported(&self) -> BTreeSet<VolumeKey> {
        locked(&self.state).reported.clone()
    }

    /// Before the actions of a pod: what it has to wait for. Containers of earlier restores go in any case.
    pub(super) async fn prepare(
        &self,
        handler: &VeleroHandler,
        run: &Run,
        item: &WorkItem,
        pod: &mut Value,
        notes: &mut Notes,
    ) {
        let mut wanted = Vec::new();
        let namespace = item.id.namespace.as_deref().unwrap_or_default();
        for CopyFor { of, copy } in copies_for(&self.copies, namespace, &item.id.name, pod) {
            let what = format!("volume {} of pod {}/{}", copy.volume, target_of(item), item.id.name);
            match self.may_fill(handler, run, item, pod, &copy).await {
                Ok(true) => {
                    if let Some(reason) = &copy.incomplete {
                        notes.warn(format!("{what} is restored from an incomplete copy: {reason}"));
                    }
                    wanted.push(copy);
                }
                Ok(false) => continue,
                Err(error) => notes.error(format!("{what} is not restored: {error}")),
            }
            locked(&self.state).reported.insert(key(of));
        }
        let volumes = wanted.iter().map(|copy| copy.volume.clone()).collect();
        let wait = Wait { image: self.image.clone(), restore: self.restore.1.clone(), volumes };
        mark(pod, (!wanted.is_empty()).then_some(&wait));
        locked(&self.state).wanted.insert((target_of(item), item.id.name.clone()), wanted);
    }

    /// Whether a copy can be written into the pod's volume. False: the pod has no such volume any more.
    async fn may_fill(
        &self,
        handler: &VeleroHandler,
        run: &Run,
        item: &WorkItem,
        pod: &Value,
        copy: &Copied,
    ) -> Result<bool, NotFilled> {
        let volumes = pod["spec"]["volumes"].as_array();
        let Some(volume) = volumes.and_then(|all| all.iter().find(|one| one["name"] == copy.volume.as_str()))
        else {
            return Ok(false);
        };
        if let Some(reason) = unusable(copy) {
            return Err(NotFilled::Refused(reason));
        }
        if self.image.is_empty() {
            return Err(NotFilled::NoImage);
        }
        let named = volume.get("persistentVolumeClaim").is_some();
        if let Some(claim) = claim_of(&item.id.name, volume).filter(|_| named) {
            let claims = GroupResource::new("", "persistentvolumeclaims");
            let id = ItemId::namespaced(claims, target_of(item), &claim);
            let found = run.get(&id).await.map_err(|error| NotFilled::Refused(error.chain()))?;
            if found.is_some_and(|found| !handler.made(&found)) {
                return Err(NotFilled::OldClaim(claim));
            }
        }
        Ok(true)
    }

    /// The pod is there, and this restore made it.
    pub(super) async fn begin(&self, target: &Target, pod: &Value, notes: &mut Notes) {
        let namespace = target.namespace.clone().unwrap_or_default();
        let wanted = self.wanted(&namespace, &target.name);
        let containers = pod.pointer("/spec/initContainers").and_then(Value::as_array).into_iter().flatten();
        let waits = containers.into_iter().any(|one| one["name"] == CONTAINER);
        for copy in wanted {
            let what = format!("volume {} of pod {namespace}/{}", copy.volume, target.name);
            if !waits {
                notes.error(format!(
                    "{what} is not restored: an action or a resource modifier took the init container {CONTAINER} away, without which the pod does not wait for its data"
                ));
                continue;
            }
            if let Err(error) = self.make(&namespace, target, pod, &copy).await {
                notes.error(format!("{what} is not restored: {error}"));
            }
        }
    }

    async fn make(
        &self,
        namespace: &str,
        target: &Target,
        pod: &Value,
        copy: &Copied,
    ) -> Result<(), NotFilled> {
        let of = PodOf {
            lifeboat: &self.namespace,
            restore: (&self.restore.0, &self.restore.1),
            location: &self.location,
            namespace,
            name: &target.name,
            uid: pod["metadata"]["uid"].as_str().unwrap_or_default(),
            timeout: self.timeout.as_deref(),
        };
        let object = restore_object(&of, copy);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match self.objects.create(&name, object).await {
            Ok(()) => {}
            // An earlier attempt of this restore made it, or it is that of a claim which another pod shares.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(NotFilled::Refused(error.chain())),
        }
        // The first pod of those that share a claim is the one that the object names.
        let (copy, namespace) = (copy.clone(), namespace.to_owned());
        locked(&self.state).begun.entry(name).or_insert((copy, namespace));
        Ok(())
    }

    /// A pod of this name is there that this restore did not make: its volumes are not written into.
    pub(super) fn refuse(&self, target: &Target, notes: &mut Notes) {
        let namespace = target.namespace.clone().unwrap_or_default();
        for copy in self.wanted(&namespace, &target.name) {
            notes.error(format!(
                "volume {} of pod {namespace}/{} is not restored: a pod of this name is there that this restore did not make",
                copy.volume, target.name
            ));
        }
    }

    /// Waits for the ends of all objects.
    pub(super) async fn finish(&self, report: &Report, cancel: &CancellationToken) -> Filled {
        let begun = locked(&self.state).begun.clone();
        let mut filled = Filled { infos: Vec::new(), reported: self.reported() };
        if begun.is_empty() || cancel.is_cancelled() {
            return filled;
        }
        let mut end = |name: &str, object: &Value| {
            if let Some((copy, namespace)) = begun.get(name) {
                filled.infos.push(ended(report, copy, namespace, object));
            }
        };
        let all: Vec<String> = begun.keys().cloned().collect();
        let Some(followed) = self.objects.follow(&all) else {
            for name in &all {
                end(name, &failure(DELETED));
            }
            return filled;
        };
        let until = tokio::time::Instant::now() + self.limit + GRACE;
        let selector = format!("{}={}", names::RESTORE_UID, self.restore.1);
        tokio::select! {
            () = followed.ended(&all, until, &mut end) => {}
            never = followed.run(&selector) => match never {},
            () = cancel.cancelled() => return filled,
        }
        for name in followed.open() {
            self.objects.cancel(&name).await;
            end(&name, &failure("it did not end in time"));
        }
        filled
    }

    fn wanted(&self, namespace: &str, name: &str) -> Vec<Copied> {
        let key = (namespace.to_owned(), name.to_owned());
        locked(&self.state).wanted.get(&key).cloned().unwrap_or_default()
    }
}

fn failure(message: &str) -> Value {
    json!({"status": {"phase": "Failed", "message": message}})
}

/// Reports how one PodVolumeRestore ended.
fn ended(report: &Report, copy: &Copied, namespace: &str, object: &Value) -> RestoreVolumeInfo {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (phase, pod) = (text("/status/phase"), format!("{namespace}/{}", copy.pod));
    if phase == "Completed" {
        report.log.info(&format!("Restored volume {} of pod {pod}", copy.volume), &[]);
    } else {
        let message = format!(
            "volume {} of pod {pod} was not restored: {}; the pod waits in its init container {CONTAINER}: delete it, or restore again",
            copy.volume,
            text("/status/message")
        );
        report.error(Some(namespace), message);
    }
    info(copy, namespace, phase, object)
}

/// What the restore's volume information says of a volume.
fn info(copy: &Copied, namespace: &str, phase: String, object: &Value) -> RestoreVolumeInfo {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    RestoreVolumeInfo {
        pvc_name: copy.claim.clone().unwrap_or_default(),
        pvc_namespace: copy.claim.as_ref().map(|_| namespace.to_owned()).unwrap_or_default(),
        restore_method: "PodVolumeRestore".to_owned(),
        pvr_info: Some(PodVolumeInfo {
            snapshot_handle: copy.snapshot.clone(),
            size: number("/status/progress/bytesDone"),
            uploader_type: "restic".to_owned(),
            volume_name: copy.volume.clone(),
            pod_name: copy.pod.clone(),
            pod_namespace: namespace.to_owned(),
            node_name: text("/status/node"),
            phase,
            ..PodVolumeInfo::default()
        }),
        ..RestoreVolumeInfo::default()
    }
}

/// The namespace that an item goes into.
fn target_of(item: &WorkItem) -> String {
    item.target.clone().unwrap_or_default()
}

fn key(copy: &Copied) -> VolumeKey {
    (copy.namespace.clone(), copy.pod.clone(), copy.volume.clone())
}
