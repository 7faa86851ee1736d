//! What becomes of volume data. Takes the pods, claims and volumes of a backup, as the pipeline saw them pass by, and what
//! the spec, the policies and the pods' annotations ask for; gives one record for each volume.
//!
//! Volume snapshotters take snapshots (see [`super::snapshots`]); files and CSI volumes are not copied by this version. A
//! volume whose data somebody asked for and that nobody took is an error that names it; one that nobody asked for is
//! recorded as skipped, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::velero::{BackupSpec, names};
use serde_json::Value;

use crate::policy::{Policies, VolumeAction, VolumeFacts};

/// Sources that are part of the pod or of the node and never copied.
const NEVER_COPIED: [&str; 5] = ["hostPath", "secret", "configMap", "projected", "downwardAPI"];

/// How the data was to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    FileCopy,
    Snapshot,
}

/// What became of the data of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A snapshotter was called for it; how that went is in its snapshot.
    Snapshotted,
    /// Nobody asked for it.
    Skipped(String),
    /// Asked for and not backed up.
    Missed(Method, String),
}

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
    /// What it is called in messages.
    pub fn title(&self) -> String {
        match (&self.claim, &self.volume, &self.pod) {
            (Some((namespace, name)), Some(volume), _) => format!("{volume} of claim {namespace}/{name}"),
            (Some((namespace, name)), None, _) => format!("of claim {namespace}/{name}"),
            (None, _, Some((namespace, pod, volume))) => format!("{volume} of pod {namespace}/{pod}"),
            (None, volume, None) => volume.clone().unwrap_or_default(),
        }
    }
}

/// What the spec says about all volumes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes<'a> {
    pub copy_files: bool,
    pub snapshot: Option<bool>,
    pub move_data: bool,
    pub policies: Option<&'a Policies>,
}

impl<'a> Wishes<'a> {
    pub fn new(spec: &BackupSpec, policies: Option<&'a Policies>) -> Self {
        Self {
            copy_files: spec.default_volumes_to_fs_backup == Some(true),
            snapshot: spec.snapshot_volumes,
            move_data: spec.snapshot_move_data == Some(true),
            policies,
        }
    }
}

/// Collects what passes by; small facts only, never whole objects.
#[derive(Clone, Debug, Default)]
pub struct VolumeBook {
    mounts: Vec<Mount>,
    /// By namespace and name.
    claims: BTreeMap<(String, String), Claim>,
    volumes: BTreeMap<String, Volume>,
}

#[derive(Clone, Debug)]
struct Mount {
    pod: (String, String, String),
    claim: Option<String>,
    facts: VolumeFacts,
    /// Named in the pod's annotation of volumes to copy.
    opted_in: bool,
    opted_out: bool,
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
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            if NEVER_COPIED.iter().any(|source| volume.get(source).is_some()) {
                continue;
            }
            let volume_name = text(volume, "/name");
            let claim = text(volume, "/persistentVolumeClaim/claimName");
            self.mounts.push(Mount {
                opted_in: chosen.contains(&volume_name),
                opted_out: left_out.contains(&volume_name),
                pod: (namespace.clone(), name.clone(), volume_name),
                claim: (!claim.is_empty()).then_some(claim),
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

    /// The pod that takes the files of a claim with it, where the spec or an annotation asks for it; policies decide
    /// before.
    pub(super) fn copier(&self, claim: &(String, String), wishes: &Wishes<'_>) -> Option<String> {
        let mounts = self
            .mounts
            .iter()
            .filter(|mount| mount.pod.0 == claim.0 && mount.claim.as_ref() == Some(&claim.1));
        let copied = |mount: &&Mount| if wishes.copy_files { !mount.opted_out } else { mount.opted_in };
        mounts.filter(copied).map(|mount| format!("{}/{}", mount.pod.0, mount.pod.1)).next()
    }

    /// One record for each volume, files of pods first. `snapshotted`: the volumes for which a snapshotter was called.
    pub fn records(&self, wishes: &Wishes<'_>, snapshotted: &BTreeSet<String>) -> Vec<VolumeRecord> {
        let mut records = Vec::new();
        let mut done: BTreeSet<(String, String)> = BTreeSet::new();
        for mount in &self.mounts {
            let claim = mount.claim.as_ref().map(|name| (mount.pod.0.clone(), name.clone()));
            if let Some(reason) = self.copy_asked(mount, claim.as_ref(), wishes)
                && claim.as_ref().is_none_or(|claim| done.insert(claim.clone()))
            {
                records.push(self.copied(mount, claim, reason));
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
                fate: if snapshotted.contains(name) {
                    Fate::Snapshotted
                } else {
                    self.snapshot_fate(volume, wishes)
                },
            });
        }
        for ((namespace, name), claim) in &self.claims {
            let key = (namespace.clone(), name.clone());
            if claim.volume.is_empty() || self.volumes.contains_key(&claim.volume) || done.contains(&key) {
                continue;
            }
            // The volume did not pass by, because the backup leaves volumes out; its data is asked for all the same.
            let facts = VolumeFacts::default().with_claim(&claim.object);
            records.push(VolumeRecord {
                claim: Some(key),
                volume: Some(claim.volume.clone()),
                pod: None,
                reclaim_policy: String::new(),
                labels: BTreeMap::new(),
                fate: fate(&facts, wishes),
            });
        }
        records
    }

    /// Why a pod's volume was to be copied.
    fn copy_asked(
        &self,
        mount: &Mount,
        claim: Option<&(String, String)>,
        wishes: &Wishes<'_>,
    ) -> Option<String> {
        let known = claim.and_then(|claim| self.claims.get(claim));
        let volume = known.and_then(|claim| self.volumes.get(&claim.volume));
        let mut facts = volume.map_or(&mount.facts, |volume| &volume.facts).clone();
        if let Some(claim) = known {
            facts = facts.with_claim(&claim.object);
        }
        match wishes.policies.and_then(|policies| policies.action(&facts)) {
            Some(VolumeAction::FsBackup) => return Some("a volume policy asks for fs-backup".to_owned()),
            Some(_) => return None,
            None => {}
        }
        if wishes.copy_files {
            return (!mount.opted_out).then(|| "defaultVolumesToFsBackup is true".to_owned());
        }
        mount.opted_in.then(|| format!("the pod's annotation {} names it", names::BACKUP_VOLUMES))
    }

    fn copied(&self, mount: &Mount, claim: Option<(String, String)>, reason: String) -> VolumeRecord {
        let name = claim.as_ref().and_then(|claim| self.claims.get(claim)).map(|claim| claim.volume.clone());
        let volume = name.as_ref().and_then(|name| self.volumes.get(name));
        VolumeRecord {
            claim,
            pod: Some(mount.pod.clone()),
            reclaim_policy: volume.map(|volume| volume.reclaim_policy.clone()).unwrap_or_default(),
            labels: volume.map(|volume| volume.labels.clone()).unwrap_or_default(),
            volume: name.filter(|name| !name.is_empty()),
            fate: Fate::Missed(Method::FileCopy, reason),
        }
    }

    fn snapshot_fate(&self, volume: &Volume, wishes: &Wishes<'_>) -> Fate {
        let mut facts = volume.facts.clone();
        if let Some(claim) = volume.claim.as_ref().and_then(|claim| self.claims.get(claim)) {
            facts = facts.with_claim(&claim.object);
        }
        fate(&facts, wishes)
    }
}

/// What becomes of a volume whose files no pod's copy takes.
fn fate(facts: &VolumeFacts, wishes: &Wishes<'_>) -> Fate {
    let skipped = |reason: &str| Fate::Skipped(reason.to_owned());
    match wishes.policies.and_then(|policies| policies.action(facts)) {
        Some(VolumeAction::Skip) => skipped("a volume policy says skip"),
        Some(VolumeAction::Custom) => skipped("a volume policy leaves it to a plugin"),
        Some(VolumeAction::FsBackup) => Fate::Missed(
            Method::FileCopy,
            "a volume policy asks for fs-backup, and no pod of the backup mounts it".to_owned(),
        ),
        Some(VolumeAction::Snapshot) => {
            Fate::Missed(Method::Snapshot, "a volume policy asks for a snapshot".to_owned())
        }
        None if wishes.snapshot == Some(false) => skipped("snapshotVolumes is false"),
        None if wishes.snapshot == Some(true) => {
            Fate::Missed(Method::Snapshot, "snapshotVolumes is true".to_owned())
        }
        None if wishes.move_data => Fate::Missed(Method::Snapshot, "snapshotMoveData is true".to_owned()),
        None => skipped("neither the spec nor a policy nor an annotation asks for its data"),
    }
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
