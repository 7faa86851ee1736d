//! Volumes of restored pods whose files the backup holds as copies. A pod gets an init container that waits for them before
//! it is created; once it is there as ours, a PodVolumeRestore is made for each volume, and the restore waits for their
//! ends. Pods that share a claim all wait for it, and it is filled once. Objects have names that a second attempt finds
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lifeboat_api::velero::{DataMovePhase, PodVolumeRestore, names};
use lifeboat_archive::documents::{PodVolumeInfo, RestoreVolumeInfo};
use lifeboat_cluster::write::Target;
use lifeboat_cluster::{Attempt, MANAGER, objects};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::pod_volumes::{
    CONTAINER, Copied, CopyFor, PodOf, Wait, claim_of, copies_for, mark, restore_object, unusable,
};
use lifeboat_plan::restore::existing::is_ours;
use lifeboat_plugin::actions::Lookup;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::report::Notes;
use crate::carrying::{api, limit};
use crate::context::Context;
use crate::items::existing::is_new;
use crate::items::item::Subject;
use crate::items::run::{Run, locked};

/// How often the objects are looked at.
const PACE: Duration = Duration::from_secs(1);
/// How much longer than an object's own time one waits for its end: who brings it there may have been restarted.
const GRACE: Duration = Duration::from_mins(10);

/// A volume in the backup: namespace, pod, its name there.
pub(crate) type VolumeKey = (String, String, String);

/// Brings copies back.
pub(crate) struct Filler {
    api: Api<DynamicObject>,
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
    pub(crate) pace: Duration,
}

#[derive(Default)]
struct State {
    /// What a pod waits for, by the pod's place in the cluster.
    wanted: BTreeMap<(String, String), Vec<Copied>>,
    /// Volumes that have an object, or an error of their own.
    told: BTreeSet<VolumeKey>,
    /// By the object's name: what it brings back, and the namespace that it goes into.
    begun: BTreeMap<String, (Copied, String)>,
}

/// What came of them.
#[derive(Default)]
pub(crate) struct Filled {
    pub(crate) infos: Vec<RestoreVolumeInfo>,
    /// Volumes that nobody needs to tell of any more.
    pub(crate) told: BTreeSet<VolumeKey>,
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
            api: api::<PodVolumeRestore>(context),
            namespace: context.settings.namespace.clone(),
            image: context.settings.movers.image.clone(),
            restore: (restore.name_any(), restore.uid().unwrap_or_default()),
            location: location.to_owned(),
            limit: limit(timeout.as_deref(), context.settings.movers.copy_timeout),
            timeout,
            copies,
            state: Mutex::default(),
            pace: PACE,
        }
    }

    /// Before the actions of a pod: what it has to wait for. Containers of earlier restores go in any case.
    pub(crate) async fn prepare(&self, run: &Run, subject: &Subject, pod: &mut Value, notes: &mut Notes) {
        let mut wanted = Vec::new();
        let namespace = subject.id.namespace.as_deref().unwrap_or_default();
        for CopyFor { of, copy } in copies_for(&self.copies, namespace, &subject.id.name, pod) {
            let what = format!("volume {} of pod {}/{}", copy.volume, target_of(subject), subject.id.name);
            match self.may_fill(run, subject, pod, &copy).await {
                Ok(true) => {
                    if let Some(words) = &copy.incomplete {
                        notes.warn(format!("{what} is restored from an incomplete copy: {words}"));
                    }
                    wanted.push(copy);
                }
                Ok(false) => continue,
                Err(words) => notes.error(format!("{what} is not restored: {words}")),
            }
            locked(&self.state).told.insert(key(of));
        }
        let volumes = wanted.iter().map(|copy| copy.volume.clone()).collect();
        let wait = Wait { image: self.image.clone(), restore: self.restore.1.clone(), volumes };
        mark(pod, (!wanted.is_empty()).then_some(&wait));
        locked(&self.state).wanted.insert((target_of(subject), subject.id.name.clone()), wanted);
    }

    /// Whether a copy can be written into the pod's volume. False: the pod has no such volume any more.
    async fn may_fill(
        &self,
        run: &Run,
        subject: &Subject,
        pod: &Value,
        copy: &Copied,
    ) -> Result<bool, String> {
        let volumes = pod["spec"]["volumes"].as_array();
        let Some(volume) = volumes.and_then(|all| all.iter().find(|one| one["name"] == copy.volume.as_str()))
        else {
            return Ok(false);
        };
        if let Some(words) = unusable(copy) {
            return Err(words);
        }
        if self.image.is_empty() {
            return Err("the server knows no image for the container that waits in the pod; set it with --mover-image".to_owned());
        }
        let named = volume.get("persistentVolumeClaim").is_some();
        if let Some(claim) = claim_of(&subject.id.name, volume).filter(|_| named) {
            let id = ItemId::namespaced(
                GroupResource::new("", "persistentvolumeclaims"),
                target_of(subject),
                &claim,
            );
            let found = run.lookup.get(&id).await.map_err(|error| error.to_string())?;
            if found.is_some_and(|found| !(is_ours(&found, run.name()) && is_new(run, &found))) {
                return Err(format!(
                    "its claim {claim} was there before: only new volumes are written into; delete the claim, or restore into another namespace"
                ));
            }
        }
        Ok(true)
    }

    /// The pod is there as ours.
    pub(crate) async fn begin(&self, target: &Target, pod: &Value, notes: &mut Notes) {
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
            if let Err(words) = self.make(&namespace, target, pod, &copy).await {
                notes.error(format!("{what} is not restored: {words}"));
            }
        }
    }

    async fn make(&self, namespace: &str, target: &Target, pod: &Value, copy: &Copied) -> Result<(), String> {
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
        let object: DynamicObject = serde_json::from_value(object).map_err(|error| error.to_string())?;
        let made = self.api.create(&PostParams::default(), &object).await;
        match made.attempt(format!("create PodVolumeRestore {name}")) {
            Ok(_) => {}
            // An earlier attempt of this restore made it, or it is that of a claim which another pod shares.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.chain()),
        }
        // The first pod of those that share a claim is the one that the object names.
        let (copy, namespace) = (copy.clone(), namespace.to_owned());
        locked(&self.state).begun.entry(name).or_insert((copy, namespace));
        Ok(())
    }

    /// The pod is there and not ours: nobody may write into its volumes.
    pub(crate) fn refuse(&self, target: &Target, notes: &mut Notes) {
        let namespace = target.namespace.clone().unwrap_or_default();
        for copy in self.wanted(&namespace, &target.name) {
            notes.error(format!(
                "volume {} of pod {namespace}/{} is not restored: a pod of this name is there that this restore did not make",
                copy.volume, target.name
            ));
        }
    }

    /// Waits for all ends.
    pub(crate) async fn finish(&self, run: &Arc<Run>, cancel: &CancellationToken) -> Filled {
        let until = tokio::time::Instant::now() + self.limit + GRACE;
        let (begun, told) = {
            let state = locked(&self.state);
            (state.begun.clone(), state.told.clone())
        };
        let mut filled = Filled { infos: Vec::new(), told };
        let mut open: BTreeSet<String> = begun.keys().cloned().collect();
        let params = ListParams::default().labels(&format!("{}={}", names::RESTORE_UID, self.restore.1));
        while !open.is_empty() && !cancel.is_cancelled() {
            if let Ok(listed) = self.api.list(&params).await {
                let found: BTreeMap<String, Value> =
                    listed.items.iter().map(|one| (one.name_any(), objects::to_json(one))).collect();
                for name in open.clone() {
                    let Some((copy, namespace)) = begun.get(&name) else { continue };
                    let gone =
                        json!({"status": {"phase": "Failed", "message": "its PodVolumeRestore was deleted"}});
                    let object = found.get(&name).unwrap_or(&gone);
                    let phase = object["status"]["phase"].as_str().unwrap_or_default();
                    if DataMovePhase::from(phase).is_terminal() {
                        open.remove(&name);
                        filled.infos.push(Self::tell(run, copy, namespace, object));
                    }
                }
            }
            if open.is_empty() {
                break;
            }
            if tokio::time::Instant::now() >= until {
                for name in &open {
                    self.end(name).await;
                    if let Some((copy, namespace)) = begun.get(name) {
                        let late =
                            json!({"status": {"phase": "Failed", "message": "it did not end in time"}});
                        filled.infos.push(Self::tell(run, copy, namespace, &late));
                    }
                }
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(self.pace) => {}
                () = cancel.cancelled() => {}
            }
        }
        filled
    }

    /// One has ended.
    fn tell(run: &Arc<Run>, copy: &Copied, namespace: &str, object: &Value) -> RestoreVolumeInfo {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (phase, pod) = (text("/status/phase"), format!("{namespace}/{}", copy.pod));
        if phase == "Completed" {
            run.report.log.info(&format!("Restored volume {} of pod {pod}", copy.volume), &[]);
        } else {
            let words = format!(
                "volume {} of pod {pod} was not restored: {}; the pod waits in its init container {CONTAINER}: delete it, or restore again",
                copy.volume,
                text("/status/message")
            );
            run.report.error(Some(namespace), words);
        }
        RestoreVolumeInfo {
            pvc_name: copy.claim.clone().unwrap_or_default(),
            pvc_namespace: copy.claim.as_ref().map(|_| namespace.to_owned()).unwrap_or_default(),
            restore_method: "PodVolumeRestore".to_owned(),
            pvr_info: Some(PodVolumeInfo {
                snapshot_handle: copy.snapshot.clone(),
                size: object
                    .pointer("/status/progress/bytesDone")
                    .and_then(Value::as_i64)
                    .unwrap_or_default(),
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

    async fn end(&self, name: &str) {
        end(&self.api, name).await;
    }

    fn wanted(&self, namespace: &str, name: &str) -> Vec<Copied> {
        let key = (namespace.to_owned(), name.to_owned());
        locked(&self.state).wanted.get(&key).cloned().unwrap_or_default()
    }
}

/// The namespace that an item goes into.
fn target_of(subject: &Subject) -> String {
    subject.target.clone().unwrap_or_default()
}

fn key(copy: &Copied) -> VolumeKey {
    (copy.namespace.clone(), copy.pod.clone(), copy.volume.clone())
}

async fn end(api: &Api<DynamicObject>, name: &str) {
    let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
    if let Err(error) = api.patch(name, &params, &Patch::Merge(json!({"spec": {"cancel": true}}))).await {
        tracing::warn!(%error, object = name, "cannot end a PodVolumeRestore");
    }
}

/// Tells all that is open of a Restore, by its UID, to end: nobody waits for it any more.
pub(crate) async fn end_open(context: &Context, uid: &str) {
    let api = api::<PodVolumeRestore>(context);
    let params = ListParams::default().labels(&format!("{}={uid}", names::RESTORE_UID));
    let listed = match api.list(&params).await.attempt("list PodVolumeRestores") {
        Ok(listed) => listed.items,
        Err(error) => {
            tracing::warn!(uid, error = error.chain(), "cannot end the PodVolumeRestores of a restore");
            return;
        }
    };
    for object in listed {
        let own = object.labels().get(names::RESTORE_UID).is_some_and(|own| own == uid);
        let phase = object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        if own && !DataMovePhase::from(phase).is_terminal() {
            end(&api, &object.name_any()).await;
        }
    }
}
