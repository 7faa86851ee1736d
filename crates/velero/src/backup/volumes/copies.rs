//! Pod volumes in a pass: when a pod is backed up, it is decided which of its volumes are copied; a PodVolumeBackup
//! is created for each, and followed until its end. An object of an earlier attempt is found by its name and adopted,
//! so nothing is copied twice. A failure here does not stop the pass: it is an error of that volume.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client, ResourceExt};
use lifeboat_api::common::{BackupUid, LocationName, NamespaceName};
use lifeboat_api::velero::{DataMovePhase, PodVolumeBackup, names};
use lifeboat_cluster::list::get_raw;
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::catalogue::{GroupResource, ItemId};
use lifeboat_plan::transfer::attempts::{CONSISTENCY, LIVE};
use lifeboat_plan::transfer::directory::{ClaimOf, claim_of};
use lifeboat_plan::transfer::limits::longest;
use lifeboat_plan::velero::backup::volumes::{Copy, VolumeSettings};
use lifeboat_plan::velero::pod_volumes::{Choices, CopySettings, PodVolume, Verdict, backup_object, choose};
use lifeboat_plan::velero::uploader;
use lifeboat_transfer::movers::{Movers, late_in_queue};
use serde_json::{Value, json};

use crate::backup::journal::{NotStarted, RepositoryEntry};
use crate::backup::pass::{About, Pass};
use crate::backup::problem::ReadError;
use crate::transfers::{self, FollowedTransfers, limit};
use crate::typed::readable;

/// Why the copy of a volume was not started.
#[derive(Debug, thiserror::Error)]
enum NotCopied {
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
    /// No place in the queue of movers could be reserved for a pod that hooks quiesce.
    #[error("{0}")]
    NoPlace(String),
    #[error("{}", .0.message())]
    Api(#[from] ApiError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The PodVolumeBackups of a pass; shared with the task that follows them.
pub(crate) struct Copying {
    pub(in crate::backup) followed: FollowedTransfers,
    /// Lifeboat's namespace.
    namespace: NamespaceName,
    /// How long one copy may take if the Backup sets no limit.
    limit: Duration,
    /// Where a place is reserved before a pod is quiesced.
    pub(in crate::backup) movers: Movers,
}

impl Copying {
    pub(crate) fn new(client: &Client, namespace: &str, movers: &Movers) -> Self {
        let resource = objects::resource_of::<PodVolumeBackup>();
        let api = objects::namespaced(client, namespace, &resource);
        Self {
            followed: FollowedTransfers::new(api, "the PodVolumeBackup was deleted before its end"),
            namespace: NamespaceName::new(namespace),
            limit: movers.settings().copy_timeout,
            movers: movers.clone(),
        }
    }

    /// Takes the time limit from the Backup's annotation, if it is set.
    pub(crate) fn within(mut self, annotation: Option<&str>) -> Self {
        self.limit = limit(annotation, self.limit);
        self
    }

    /// Follows the PodVolumeBackups of a Backup until it is dropped.
    pub(in crate::backup) async fn watch(&self, uid: &BackupUid) -> std::convert::Infallible {
        self.followed.run(&format!("{}={uid}", names::BACKUP_UID)).await
    }

    /// Waits until all of these have ended, or their time is over. `queue`: how long they may wait for their turn.
    async fn ended(&self, names: &[String], queue: Duration) {
        let until = tokio::time::Instant::now() + longest(self.limit, queue);
        self.followed.ended(names, until, |_, _| {}).await;
    }

    /// All PodVolumeBackups, as they were last seen.
    pub(crate) fn objects(&self) -> BTreeMap<String, Value> {
        self.followed.objects()
    }
}

impl Pass {
    /// Creates PodVolumeBackups for those volumes of a pod that are to be copied.
    pub(in crate::backup) async fn copy_volumes(&self, id: &ItemId, pod: &Value) {
        let (choices, claims) = match self.choices(id, pod).await {
            Ok(chosen) => chosen,
            Err(error) => {
                let message = "Cannot decide about the pod's volumes";
                self.report.error(&About::Item(id), message, Some(&error.to_string()));
                return;
            }
        };
        let namespace = id.namespace.clone().unwrap_or_default();
        let key = |volume: &str| (namespace.clone(), id.name.clone(), volume.to_owned());
        for warning in &choices.warnings {
            self.report.warning(&About::Item(id), warning, None);
        }
        for choice in choices.volumes {
            let volume = choice.volume;
            let copy = match choice.verdict {
                Verdict::Elsewhere => {
                    self.report.info_about(id, &format!("Volume {volume} is copied with another pod"));
                    continue;
                }
                Verdict::Left(reason) => {
                    let message = format!("Volume {volume} is not copied: {reason}");
                    self.report.warning(&About::Item(id), &message, None);
                    Copy::Left(reason)
                }
                Verdict::Missed(reason) => Copy::Missed(reason),
                Verdict::Copy(reason) => {
                    let claim = choice.claim.as_ref();
                    if let Some(claim) = claim
                        && !self.made().copied_claims.insert((namespace.clone(), claim.clone()))
                    {
                        continue;
                    }
                    let known = claim.and_then(|claim| claims.get(claim));
                    match self.begin_copy(pod, &volume, known).await {
                        Ok(name) => {
                            self.report.info_about(
                                id,
                                &format!("Copying volume {volume} because {reason} ({name})"),
                            );
                            Copy::Made(name)
                        }
                        Err(error) => Copy::Missed(error.to_string()),
                    }
                }
            };
            self.made().copies.insert(key(&volume), copy);
        }
    }

    /// What becomes of the volumes of a pod, and its claims.
    async fn choices(
        &self,
        id: &ItemId,
        pod: &Value,
    ) -> Result<(Choices, BTreeMap<String, ClaimOf>), ReadError> {
        let wishes = VolumeSettings::new(&self.backup.spec, self.valid.policies.as_ref());
        let claims = self.claims_of(pod).await?;
        let namespace = id.namespace.clone().unwrap_or_default();
        let made = self.made();
        let is_copied = |claim: &str| made.copied_claims.contains(&(namespace.clone(), claim.to_owned()));
        let choices = choose(pod, &claims, &wishes, is_copied);
        drop(made);
        Ok((choices, claims))
    }

    /// Whether volumes of a pod will be copied, as far as can be seen before it is backed up.
    pub(super) async fn will_copy(&self, id: &ItemId, pod: &Value) -> bool {
        let chosen = self.choices(id, pod).await;
        // An error is reported when the pod is backed up.
        chosen.is_ok_and(|(choices, _)| {
            choices.volumes.iter().any(|choice| matches!(choice.verdict, Verdict::Copy(_)))
        })
    }

    /// The claims of a pod's volumes, each with its PersistentVolume.
    async fn claims_of(&self, pod: &Value) -> Result<BTreeMap<String, ClaimOf>, ReadError> {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let mut found = BTreeMap::new();
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let Some(name) = claim_of(text("name"), volume) else { continue };
            let id = ItemId::namespaced(
                GroupResource::new("", "persistentvolumeclaims"),
                text("namespace"),
                &name,
            );
            let Some(claim) = self.object(&id).await? else { continue };
            let bound = claim["spec"]["volumeName"].as_str().filter(|bound| !bound.is_empty());
            let volume = match bound {
                Some(bound) => {
                    self.object(&ItemId::cluster(GroupResource::new("", "persistentvolumes"), bound)).await?
                }
                None => None,
            };
            found.insert(name, ClaimOf { claim, volume });
        }
        Ok(found)
    }

    async fn object(&self, id: &ItemId) -> Result<Option<Value>, ReadError> {
        let Some(kind) = self.catalogue.get(&id.resource) else { return Ok(None) };
        let found = get_raw(&self.client, kind, id.namespace.as_deref(), &id.name).await?;
        Ok(found.map(|item| serde_json::from_slice(&item.json)).transpose()?)
    }

    /// Creates the PodVolumeBackup of a volume, or adopts the one that exists. Returns its name.
    async fn begin_copy(
        &self,
        pod: &Value,
        volume: &str,
        claim: Option<&ClaimOf>,
    ) -> Result<String, NotCopied> {
        let text = |object: &Value, path: &str| {
            object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let of = PodVolume {
            namespace: text(pod, "/metadata/namespace"),
            pod: text(pod, "/metadata/name"),
            pod_uid: text(pod, "/metadata/uid"),
            node: text(pod, "/spec/nodeName"),
            volume: volume.to_owned(),
            claim: claim.map(|of| (text(&of.claim, "/metadata/name"), text(&of.claim, "/metadata/uid"))),
        };
        let quiet = self.made().quiesced.clone();
        let quiesced = match &of.claim {
            Some((claim, _)) => self.is_quiesced(&(of.namespace.clone(), claim.clone()), &quiet).await,
            None => quiet.contains(&of.pod_uid),
        };
        let (backup, uid) = (self.backup.name_any(), self.backup.backup_uid());
        let location = self.location();
        let annotations = self.backup.annotations();
        let settings = uploader::for_backup(self.backup.spec.uploader_config.as_ref());
        let wanted = CopySettings {
            namespace: &self.copying.namespace,
            backup: &backup,
            backup_uid: &uid,
            location: &location,
            quiesced,
            timeout: annotations.get(names::POD_VOLUME_TIMEOUT).map(String::as_str),
            settings: &settings,
        };
        if self.made().without_place.contains(&of.pod_uid) {
            return Err(NotCopied::NoPlace(late_in_queue(self.copying.movers.settings().queue_timeout)));
        }
        self.note_repository(&of.namespace).await?;
        let object = backup_object(&of, &wanted);
        let name = text(&object, "/metadata/name");
        let api = &self.copying.followed.api;
        let made: DynamicObject = serde_json::from_value(object)?;
        let made = match api
            .create(&PostParams::default(), &made)
            .await
            .attempt(format!("create PodVolumeBackup {name}"))
        {
            Ok(made) => made,
            Err(error) if error.is_conflict() => {
                api.get(&name).await.attempt(format!("read PodVolumeBackup {name}"))?
            }
            Err(error) => return Err(error.into()),
        };
        self.copying.followed.add(&name, objects::to_json(&made));
        Ok(name)
    }

    /// The storage location of the Backup.
    pub(super) fn location(&self) -> LocationName {
        LocationName::new(self.backup.spec.storage_location.as_deref().unwrap_or_default())
    }

    /// Records the repository of a namespace in the journal before the first mover writes into it.
    pub(in crate::backup) async fn note_repository(&self, namespace: &str) -> Result<(), NotStarted> {
        if self.made().repositories.contains(namespace) {
            return Ok(());
        }
        let entry = RepositoryEntry {
            backup: self.backup.name_any(),
            location: self.location(),
            namespace: NamespaceName::new(namespace),
        };
        self.journal.note_repository(&entry).await.map_err(NotStarted)?;
        self.made().repositories.insert(namespace.to_owned());
        Ok(())
    }

    /// The names of the copies of these pods that were started.
    pub(in crate::backup) fn copies_of(&self, pods: &BTreeSet<(String, String)>) -> Vec<String> {
        let of = |object: &Value| {
            readable::<PodVolumeBackup>(object).is_some_and(|copy| {
                let pod = copy.spec.pod;
                pods.contains(&(pod.namespace.unwrap_or_default(), pod.name.unwrap_or_default()))
            })
        };
        self.copying.followed.names(of)
    }

    /// Waits for copies, unless the pass is stopped. Those of quiesced pods, for which a place is reserved, do not wait in the
    /// queue.
    pub(in crate::backup) async fn await_copies(&self, names: &[String], are_quiesced: bool) {
        if names.is_empty() {
            return;
        }
        let queue = self.copying.movers.settings().queue_timeout;
        let queue = if are_quiesced { Duration::ZERO } else { queue };
        self.unless_stopped(self.copying.ended(names, queue)).await;
    }

    /// Removes the `Quiesced` consistency of copies that still run when the post hooks of their pod run.
    pub(in crate::backup) async fn let_go(&self, names: &[String]) {
        let open = self.copying.followed.open();
        for name in names.iter().filter(|name| open.contains(name)) {
            unquiet(&self.copying.followed.api, name).await;
        }
    }

    /// Waits for all copies of the pass. Copies whose time is over are cancelled.
    pub(in crate::backup) async fn finish_copies(&self) {
        let open = self.copying.followed.open();
        self.await_copies(&open, false).await;
        if self.stop.is_cancelled() {
            return;
        }
        for name in self.copying.followed.open() {
            if let Err(error) = transfers::cancel(&self.copying.followed.api, &name).await {
                tracing::warn!(error = error.chain(), object = name, "cannot cancel a PodVolumeBackup");
            }
            let message = "it did not end in time and was cancelled";
            let ended = lifeboat_plan::time::seconds(self.clock.now());
            self.copying.followed.update(&name, |one| {
                one["status"]["phase"] = json!(DataMovePhase::Failed);
                one["status"]["message"] = json!(message);
                one["status"]["completionTimestamp"] = json!(ended);
            });
        }
    }
}

pub(crate) async fn unquiet(api: &Api<DynamicObject>, name: &str) {
    let patch = json!({"metadata": {"annotations": {CONSISTENCY: LIVE}}});
    let params = kube::api::PatchParams {
        field_manager: Some(lifeboat_cluster::MANAGER.into()),
        ..Default::default()
    };
    if let Err(error) = api.patch(name, &params, &kube::api::Patch::Merge(patch)).await {
        tracing::warn!(%error, object = name, "cannot change a PodVolumeBackup");
    }
}
