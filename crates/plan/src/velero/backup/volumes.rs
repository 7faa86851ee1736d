//! How the data of each volume is backed up. Takes the pods, claims and volumes of a backup, as the pipeline
//! processed them, and the settings of the spec, the policies and the pods' annotations; gives one record per volume.
//!
//! Volume snapshotters take native snapshots (see [`super::snapshots`]); files are copied with their pods
//! (see [`crate::velero::pod_volumes`]). If data was requested and is not backed up, the record is an error
//! that names the volume; if it was neither requested nor declined, a warning; if it was declined, the volume
//! is recorded as skipped, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::velero::names;
use serde_json::Value;

use crate::policy::{VolumeAction, VolumeFacts};
use crate::transfer::directory::claim_of;
use crate::velero::pod_volumes::used;
use crate::velero::volume_settings::{copy_reason, is_never_copied};

pub use crate::velero::volume_settings::VolumeSettings;

/// How the data was to be backed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    FileCopy,
    Snapshot,
}

/// The result for the data of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A snapshotter was called; the result is in its snapshot.
    Snapshotted,
    /// Its files are copied; the result is in the PodVolumeBackup of this name.
    Copied(String),
    /// A CSI snapshot was requested; the action that requested it has the result.
    CsiSnapshotted,
    /// Declined; the reason.
    Skipped(String),
    /// Neither requested nor declined; why it is not in the backup.
    Unasked(String),
    /// Requested and not backed up.
    Missed(Method, String),
}

/// The result for a pod volume whose files were to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copy {
    /// Copied by the PodVolumeBackup of this name.
    Made(String),
    /// Not copied, which is not an error; the reason.
    Left(String),
    /// Not copied, which is an error; the reason.
    Missed(String),
}

/// By namespace, pod and the volume's name in the pod.
pub type Copies = BTreeMap<(String, String, String), Copy>;

/// One volume of the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Namespace and name.
    pub claim: Option<(String, String)>,
    pub volume: Option<String>,
    /// Namespace, name and the volume's name in the pod.
    pub pod: Option<(String, String, String)>,
    pub reclaim_policy: String,
    pub labels: BTreeMap<String, String>,
    pub fate: Fate,
}

impl VolumeRecord {
    /// The volume's name in messages.
    pub fn title(&self) -> String {
        match (&self.claim, &self.volume, &self.pod) {
            (Some((namespace, name)), Some(volume), _) => format!("{volume} of claim {namespace}/{name}"),
            (Some((namespace, name)), None, _) => format!("of claim {namespace}/{name}"),
            (None, _, Some((namespace, pod, volume))) => format!("{volume} of pod {namespace}/{pod}"),
            (None, volume, None) => volume.clone().unwrap_or_default(),
        }
    }
}

/// Collects facts about the processed objects; never whole objects.
#[derive(Clone, Debug, Default)]
pub struct VolumeBook {
    mounts: Vec<Mount>,
    /// By namespace and name.
    claims: BTreeMap<(String, String), Claim>,
    volumes: BTreeMap<String, Volume>,
    /// Claims for which a CSI snapshot was requested.
    csi: BTreeSet<(String, String)>,
}

#[derive(Clone, Debug)]
struct Mount {
    pod: (String, String, String),
    pod_uid: String,
    claim: Option<String>,
    facts: VolumeFacts,
    /// Listed in the pod's annotation of volumes to copy.
    opted_in: bool,
    opted_out: bool,
    /// Used as a block device, without files.
    device: bool,
    /// Its pod has ended and does not write any more.
    ended: bool,
}

#[derive(Clone, Debug)]
struct Claim {
    volume: String,
    /// As an object, for the conditions of policies.
    object: Value,
}

#[derive(Clone, Debug)]
struct Volume {
    facts: VolumeFacts,
    claim: Option<(String, String)>,
    reclaim_policy: String,
    labels: BTreeMap<String, String>,
}

impl VolumeBook {
    pub fn add_pod(&mut self, pod: &Value) {
        let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let listed = |annotation: &str| {
            let names = pod["metadata"]["annotations"][annotation].as_str().unwrap_or_default();
            names.split(',').map(|name| name.trim().to_owned()).collect::<BTreeSet<_>>()
        };
        let (chosen, left_out) = (listed(names::BACKUP_VOLUMES), listed(names::BACKUP_VOLUMES_EXCLUDES));
        let devices = used(pod, "volumeDevices");
        let ended = matches!(text(pod, "/status/phase").as_str(), "Succeeded" | "Failed");
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            if is_never_copied(volume).is_some() {
                continue;
            }
            let volume_name = text(volume, "/name");
            let claim = claim_of(&name, volume);
            self.mounts.push(Mount {
                opted_in: chosen.contains(&volume_name),
                opted_out: left_out.contains(&volume_name),
                device: devices.contains(volume_name.as_str()),
                ended,
                pod: (namespace.clone(), name.clone(), volume_name),
                pod_uid: text(pod, "/metadata/uid"),
                claim,
                facts: VolumeFacts::of_pod_volume(volume),
            });
        }
    }

    pub fn add_claim(&mut self, claim: &Value) {
        let key = (text(claim, "/metadata/namespace"), text(claim, "/metadata/name"));
        let object = serde_json::json!({
            "metadata": {"labels": claim["metadata"]["labels"]},
            "status": {"phase": claim["status"]["phase"]},
            "spec": {"volumeMode": claim["spec"]["volumeMode"], "accessModes": claim["spec"]["accessModes"]},
        });
        self.claims.insert(key, Claim { volume: text(claim, "/spec/volumeName"), object });
    }

    pub fn add_volume(&mut self, volume: &Value) {
        let claim = (text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
        let labels = volume["metadata"]["labels"].as_object().into_iter().flatten();
        let known = Volume {
            facts: VolumeFacts::of_volume(volume),
            claim: (!claim.1.is_empty()).then_some(claim),
            reclaim_policy: text(volume, "/spec/persistentVolumeReclaimPolicy"),
            labels: labels.map(|(key, value)| (key.clone(), text(value, ""))).collect(),
        };
        self.volumes.insert(text(volume, "/metadata/name"), known);
    }

    /// Records that a CSI snapshot of a claim was requested.
    pub fn add_csi(&mut self, claim: (String, String)) {
        self.csi.insert(claim);
    }

    /// Whether all of these pods that mount a claim, and have not ended, are among the quiesced ones.
    pub fn is_quiesced(&self, claim: &(String, String), quiesced: &BTreeSet<String>) -> bool {
        let of_claim =
            |mount: &&Mount| mount.pod.0 == claim.0 && mount.claim.as_ref() == Some(&claim.1) && !mount.ended;
        let mut mounts = self.mounts.iter().filter(of_claim).peekable();
        mounts.peek().is_some() && mounts.all(|mount| quiesced.contains(&mount.pod_uid))
    }

    /// The pod with which the files of a claim are copied, if the spec or an annotation requests it; policies are
    /// evaluated before.
    pub(super) fn copier(&self, claim: &(String, String), settings: &VolumeSettings<'_>) -> Option<String> {
        let mounts = self.mounts.iter().filter(|mount| {
            mount.pod.0 == claim.0 && mount.claim.as_ref() == Some(&claim.1) && !mount.device
        });
        let copied = |mount: &&Mount| if settings.copy_files { !mount.opted_out } else { mount.opted_in };
        mounts.filter(copied).map(|mount| format!("{}/{}", mount.pod.0, mount.pod.1)).next()
    }

    /// One record per volume, pod volumes first. `snapshotted`: the volumes for which a snapshotter was called;
    /// `copies`: the results of file copies.
    pub fn records(
        &self,
        settings: &VolumeSettings<'_>,
        snapshotted: &BTreeSet<String>,
        copies: &Copies,
    ) -> Vec<VolumeRecord> {
        let mut records = Vec::new();
        let mut done: BTreeSet<(String, String)> = BTreeSet::new();
        // If several pods mount one claim, a copied one has the more relevant result.
        let is_made = |mount: &&Mount| matches!(copies.get(&mount.pod), Some(Copy::Made(_)));
        let (made, others): (Vec<_>, Vec<_>) = self.mounts.iter().partition(is_made);
        for mount in made.into_iter().chain(others) {
            let claim = mount.claim.as_ref().map(|name| (mount.pod.0.clone(), name.clone()));
            let Some(reason) = self.copy_asked(mount, claim.as_ref(), settings) else { continue };
            let fate = match copies.get(&mount.pod) {
                Some(Copy::Made(name)) => Fate::Copied(name.clone()),
                _ if claim.as_ref().is_some_and(|claim| self.is_snapshotted(claim, snapshotted)) => continue,
                // The files of a pod that ended went with it; those of a claim are still there.
                Some(Copy::Left(why)) if claim.is_some() => {
                    Fate::Missed(Method::FileCopy, format!("{reason}, and {why}"))
                }
                Some(Copy::Left(reason)) => Fate::Skipped(reason.clone()),
                Some(Copy::Missed(why)) => Fate::Missed(Method::FileCopy, format!("{reason}, and {why}")),
                None => Fate::Missed(Method::FileCopy, format!("{reason}, and its pod was not backed up")),
            };
            if claim.as_ref().is_none_or(|claim| done.insert(claim.clone())) {
                records.push(self.copied(mount, claim, fate));
            }
        }
        for (name, volume) in &self.volumes {
            if volume.claim.as_ref().is_some_and(|claim| done.contains(claim)) {
                continue;
            }
            records.push(VolumeRecord {
                claim: volume.claim.clone(),
                volume: Some(name.clone()),
                pod: None,
                reclaim_policy: volume.reclaim_policy.clone(),
                labels: volume.labels.clone(),
                fate: if volume.claim.as_ref().is_some_and(|claim| self.csi.contains(claim)) {
                    Fate::CsiSnapshotted
                } else if snapshotted.contains(name) {
                    Fate::Snapshotted
                } else {
                    self.snapshot_fate(volume, settings)
                },
            });
        }
        records.extend(self.claims_alone(settings, &done));
        records
    }

    /// Records of claims whose volumes were not processed, because the backup excludes volumes: their data may be
    /// requested all the same.
    fn claims_alone(
        &self,
        settings: &VolumeSettings<'_>,
        done: &BTreeSet<(String, String)>,
    ) -> impl Iterator<Item = VolumeRecord> {
        let alone = self.claims.iter().filter(|(key, claim)| {
            !claim.volume.is_empty() && !self.volumes.contains_key(&claim.volume) && !done.contains(*key)
        });
        alone.map(|(key, claim)| {
            let facts = VolumeFacts::default().with_claim(&claim.object);
            VolumeRecord {
                claim: Some(key.clone()),
                volume: Some(claim.volume.clone()),
                pod: None,
                reclaim_policy: String::new(),
                labels: BTreeMap::new(),
                fate: if self.csi.contains(key) {
                    Fate::CsiSnapshotted
                } else {
                    fate(&facts, self.leaver(key), settings)
                },
            }
        })
    }

    /// Why a pod's volume was to be copied.
    fn copy_asked(
        &self,
        mount: &Mount,
        claim: Option<&(String, String)>,
        settings: &VolumeSettings<'_>,
    ) -> Option<String> {
        let known = claim.and_then(|claim| self.claims.get(claim));
        let volume = known.and_then(|claim| self.volumes.get(&claim.volume));
        let mut facts = volume.map_or(&mount.facts, |volume| &volume.facts).clone();
        if let Some(claim) = known {
            facts = facts.with_claim(&claim.object);
        }
        copy_reason(&facts, mount.opted_in, mount.opted_out, settings)
    }

    fn is_snapshotted(&self, claim: &(String, String), snapshotted: &BTreeSet<String>) -> bool {
        self.csi.contains(claim)
            || self.claims.get(claim).is_some_and(|claim| snapshotted.contains(&claim.volume))
    }

    fn copied(&self, mount: &Mount, claim: Option<(String, String)>, fate: Fate) -> VolumeRecord {
        let name = claim.as_ref().and_then(|claim| self.claims.get(claim)).map(|claim| claim.volume.clone());
        let volume = name.as_ref().and_then(|name| self.volumes.get(name));
        VolumeRecord {
            claim,
            pod: Some(mount.pod.clone()),
            reclaim_policy: volume.map(|volume| volume.reclaim_policy.clone()).unwrap_or_default(),
            labels: volume.map(|volume| volume.labels.clone()).unwrap_or_default(),
            volume: name.filter(|name| !name.is_empty()),
            fate,
        }
    }

    fn snapshot_fate(&self, volume: &Volume, settings: &VolumeSettings<'_>) -> Fate {
        let mut facts = volume.facts.clone();
        if let Some(claim) = volume.claim.as_ref().and_then(|claim| self.claims.get(claim)) {
            facts = facts.with_claim(&claim.object);
        }
        fate(&facts, volume.claim.as_ref().and_then(|claim| self.leaver(claim)), settings)
    }

    /// A pod whose annotation leaves the files of a claim out.
    fn leaver(&self, claim: &(String, String)) -> Option<&Mount> {
        let of_claim = |mount: &&Mount| mount.pod.0 == claim.0 && mount.claim.as_ref() == Some(&claim.1);
        self.mounts.iter().filter(of_claim).find(|mount| mount.opted_out)
    }
}

/// The result for a volume whose files are not copied with a pod. `leaver`: the pod whose annotation leaves it out.
fn fate(facts: &VolumeFacts, leaver: Option<&Mount>, settings: &VolumeSettings<'_>) -> Fate {
    let skipped = |reason: &str| Fate::Skipped(reason.to_owned());
    let missed = |method, reason: &str| Fate::Missed(method, reason.to_owned());
    match settings.policies.and_then(|policies| policies.action(facts)) {
        Some(VolumeAction::Skip) => return skipped("a volume policy says skip"),
        Some(VolumeAction::Custom) => return skipped("a volume policy leaves it to a plugin"),
        Some(VolumeAction::FsBackup) => {
            let reason = "a volume policy asks for fs-backup, and no pod of the backup mounts it";
            return missed(Method::FileCopy, reason);
        }
        Some(VolumeAction::Snapshot) => {
            return missed(Method::Snapshot, "a volume policy asks for a snapshot");
        }
        None => {}
    }
    let leaver = leaver.filter(|_| settings.copy_files);
    match (settings.snapshot, leaver) {
        _ if settings.copy_files && leaver.is_none() => {
            let reason = "defaultVolumesToFsBackup is true, and no pod of the backup mounts it";
            missed(Method::FileCopy, reason)
        }
        (Some(false), _) => skipped("snapshotVolumes is false"),
        (Some(true), _) => missed(Method::Snapshot, "snapshotVolumes is true"),
        (None, _) if settings.move_data => missed(Method::Snapshot, "snapshotMoveData is true"),
        (None, Some(Mount { pod: (namespace, pod, _), .. })) => Fate::Skipped(format!(
            "the annotation {} of pod {namespace}/{pod} leaves it out",
            names::BACKUP_VOLUMES_EXCLUDES
        )),
        (None, None) => Fate::Unasked(
            "nothing asks for its data, and neither a snapshot location nor a CSI driver can take a snapshot of it".to_owned(),
        ),
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
