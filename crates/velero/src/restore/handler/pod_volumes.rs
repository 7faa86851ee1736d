//! Volumes of restored pods whose files the backup has as copies. A pod gets an init container that waits for the
//! data before it is created; once the pod exists and is ours, a PodVolumeRestore is created for each volume, and the
//! restore waits for them to end. Pods that share a claim all wait for it, and it is filled once. Objects have names
//! that a second attempt finds again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use lifeboat_api::common::{LocationName, NamespaceName};
use lifeboat_api::velero::names;
use lifeboat_archive::documents::{PodVolumeInfo, RestoreVolumeInfo};
use lifeboat_cluster::write::Target;
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::transfer::directory::claim_of;
use lifeboat_plan::transfer::limits::longest;
use lifeboat_plan::velero::pod_volumes::{
    CONTAINER, Copied, CopyFor, PodOf, Wait, copies_for, mark, restore_object, unusable,
};
use lifeboat_plan::velero::uploader::{self, UploaderSettings};
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

/// A volume in the backup: namespace, pod, and the volume's name in the pod.
pub(crate) type VolumeKey = (String, String, String);

/// Restores the volumes of pods from the copies of the backup.
pub(crate) struct Filler {
    objects: Arc<dyn PodVolumeRestores>,
    /// Lifeboat's namespace.
    namespace: NamespaceName,
    image: String,
    /// Name and UID of the Restore.
    restore: (String, String),
    location: LocationName,
    /// How long one volume may take, from the Restore's annotation.
    timeout: Option<String>,
    /// The Restore's settings for movers.
    settings: UploaderSettings,
    /// How long the end of the objects is waited for.
    longest: Duration,
    copies: Vec<Copied>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The copies that a pod waits for, by the pod's namespace and name in the cluster.
    wanted: BTreeMap<(String, String), Vec<Copied>>,
    /// Volumes that have an object, or an error of their own.
    reported: BTreeSet<VolumeKey>,
    /// The copy that each object restores, and the target namespace, by the object's name.
    begun: BTreeMap<String, (Copied, String)>,
}

/// Why a volume is not restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotFilled {
    #[error(
        "the server has no image for the init container that waits in the pod; set it with --mover-image"
    )]
    NoImage,
    #[error(
        "its claim {0} existed before: data is restored only into new volumes; delete the claim, or restore into another namespace"
    )]
    OldClaim(String),
    /// The copy cannot be used, or the API server refused a request.
    #[error("{0}")]
    Refused(String),
}

/// The results of the volumes.
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
        location: LocationName,
        copies: Vec<Copied>,
    ) -> Self {
        let timeout = restore.annotations().get(names::POD_VOLUME_TIMEOUT).cloned();
        let settings = context.movers.settings();
        Self {
            objects: Arc::new(PodVolumeApi::new(context)),
            namespace: NamespaceName::new(&context.namespace),
            image: settings.image.clone(),
            restore: (restore.name_any(), restore.uid().unwrap_or_default()),
            location,
            longest: longest(limit(timeout.as_deref(), settings.copy_timeout), settings.queue_timeout),
            timeout,
            settings: uploader::for_restore(restore.spec.uploader_config.as_ref()),
            copies,
            state: Mutex::default(),
        }
    }

    /// The filler of a dry run: it prepares pods, and creates no objects.
    pub(crate) fn previewed(mut self) -> Self {
        self.objects = Arc::new(NoPodVolumeRestores);
        // The image is a setting of the server, which a dry run does not have.
        if self.image.is_empty() {
            "lifeboat".clone_into(&mut self.image);
        }
        self
    }

    /// A filler without a cluster, for tests.
    #[cfg(test)]
    pub(super) fn of_test(copies: Vec<Copied>) -> Self {
        Self {
            objects: Arc::new(NoPodVolumeRestores),
            namespace: NamespaceName::new("lifeboat"),
            image: "lifeboat".to_owned(),
            restore: ("r".to_owned(), "ru".to_owned()),
            location: LocationName::new("default"),
            timeout: None,
            settings: UploaderSettings::new(),
            longest: Duration::ZERO,
            copies,
            state: Mutex::default(),
        }
    }

    /// The volumes that are restored, or that have an error of their own.
    pub(super) fn reported(&self) -> BTreeSet<VolumeKey> {
        locked(&self.state).reported.clone()
    }

    /// Called before the actions of a pod: adds the init container if the pod has to wait for data. Init containers
    /// of earlier restores are always removed.
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

    /// Whether a copy can be written into the pod's volume. False: the pod does not have this volume any more.
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

    /// Called when the pod exists and was created by this restore: creates its PodVolumeRestores.
    pub(super) async fn begin(&self, target: &Target, pod: &Value, notes: &mut Notes) {
        let namespace = target.namespace.clone().unwrap_or_default();
        let wanted = self.wanted(&namespace, &target.name);
        let containers = pod.pointer("/spec/initContainers").and_then(Value::as_array).into_iter().flatten();
        let waits = containers.into_iter().any(|one| one["name"] == CONTAINER);
        for copy in wanted {
            let what = format!("volume {} of pod {namespace}/{}", copy.volume, target.name);
            if !waits {
                notes.error(format!(
                    "{what} is not restored: an action or a resource modifier removed the init container {CONTAINER}, without which the pod does not wait for its data"
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
            namespace: &NamespaceName::new(namespace),
            name: &target.name,
            uid: pod["metadata"]["uid"].as_str().unwrap_or_default(),
            timeout: self.timeout.as_deref(),
            settings: &self.settings,
        };
        let object = restore_object(&of, copy);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match self.objects.create(&name, object).await {
            Ok(()) => {}
            // An earlier attempt of this restore created it, or it belongs to a claim that another pod shares.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(NotFilled::Refused(error.chain())),
        }
        // Of the pods that share a claim, the object names the first.
        let (copy, namespace) = (copy.clone(), namespace.to_owned());
        locked(&self.state).begun.entry(name).or_insert((copy, namespace));
        Ok(())
    }

    /// Called when a foreign pod with this name exists: its volumes are not written to.
    pub(super) fn refuse(&self, target: &Target, notes: &mut Notes) {
        let namespace = target.namespace.clone().unwrap_or_default();
        for copy in self.wanted(&namespace, &target.name) {
            notes.error(format!(
                "volume {} of pod {namespace}/{} is not restored: a pod with this name exists that this restore did not create",
                copy.volume, target.name
            ));
        }
    }

    /// Waits until all objects have ended.
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
        let until = tokio::time::Instant::now() + self.longest;
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

/// The entry of a volume in the restore's volume info.
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

/// The namespace that an item is restored into.
fn target_of(item: &WorkItem) -> String {
    item.target.clone().unwrap_or_default()
}

fn key(copy: &Copied) -> VolumeKey {
    (copy.namespace.clone(), copy.pod.clone(), copy.volume.clone())
}
