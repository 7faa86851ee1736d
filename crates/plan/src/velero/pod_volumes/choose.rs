//! Which volumes of a pod are copied. Policies are evaluated first, then the pod's annotations and the spec, as
//! upstream does.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::velero::names;
use serde_json::Value;

use super::text;
use crate::policy::VolumeFacts;
use crate::transfer::directory::{ClaimOf, claim_of};
use crate::velero::volume_settings::{VolumeSettings, copy_reason, is_never_copied};

/// The decision about one requested volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is copied; the reason.
    Copy(String),
    /// Its claim is copied with another pod.
    Elsewhere,
    /// It is not copied, which upstream does not treat as an error.
    Left(String),
    /// It cannot be copied; an error.
    Missed(String),
}

/// One requested volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name in the pod.
    pub volume: String,
    pub claim: Option<String>,
    pub verdict: Verdict,
}

/// The decisions about a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    pub volumes: Vec<Choice>,
    /// Warnings about names in annotations that have no effect.
    pub warnings: Vec<String>,
}

/// Chooses the volumes of a pod whose files are copied. `claims`: the existing ones, by name. `taken`: whether a claim is copied with another pod of the backup.
pub fn choose(
    pod: &Value,
    claims: &BTreeMap<String, ClaimOf>,
    settings: &VolumeSettings<'_>,
    taken: impl Fn(&str) -> bool,
) -> Choices {
    let (mut chosen, left_out) =
        (listed(pod, names::BACKUP_VOLUMES), listed(pod, names::BACKUP_VOLUMES_EXCLUDES));
    let mut choices = Choices::default();
    let (mounted, devices) = (used(pod, "volumeMounts"), used(pod, "volumeDevices"));
    for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
        let name = text(volume, "/name").to_owned();
        let opted_in = chosen.remove(&name);
        if let Some(kind) = is_never_copied(volume) {
            if opted_in && !settings.copy_files {
                choices.warnings.push(format!(
                    "the annotation {} names volume {name}, which is a {kind} volume: those are never copied",
                    names::BACKUP_VOLUMES
                ));
            }
            continue;
        }
        let claim = claim_of(text(pod, "/metadata/name"), volume);
        let known = claim.as_ref().and_then(|claim| claims.get(claim));
        let facts = facts(volume, known);
        let Some(reason) = copy_reason(&facts, opted_in, left_out.contains(&name), settings) else {
            continue;
        };
        let verdict = if claim.as_deref().is_some_and(&taken) {
            Verdict::Elsewhere
        } else {
            let subject = Subject { pod, name: &name, claim: claim.as_deref(), known };
            subject.verdict(reason, mounted.contains(name.as_str()), devices.contains(name.as_str()))
        };
        choices.volumes.push(Choice { volume: name, claim, verdict });
    }
    if !settings.copy_files {
        let unknown = chosen.iter().filter(|name| !name.is_empty());
        choices.warnings.extend(unknown.map(|name| {
            format!(
                "the annotation {} names volume {name}, which the pod does not have",
                names::BACKUP_VOLUMES
            )
        }));
    }
    choices
}

struct Subject<'a> {
    pod: &'a Value,
    name: &'a str,
    claim: Option<&'a str>,
    known: Option<&'a ClaimOf>,
}

impl Subject<'_> {
    fn verdict(&self, reason: String, mounted: bool, device: bool) -> Verdict {
        let phase = text(self.pod, "/status/phase");
        if phase != "Running" {
            let phase = if phase.is_empty() { "unknown" } else { phase };
            return Verdict::Left(format!(
                "its pod is not running (phase {phase}), so no node has its files"
            ));
        }
        if device || self.known.is_some_and(is_block) {
            return Verdict::Missed(
                "it is a block volume, which has no files to copy; back it up by CSI snapshot, with snapshotMoveData to move its data"
                    .to_owned(),
            );
        }
        if !mounted {
            return Verdict::Left(format!(
                "no container of the pod mounts {}, so no node has its files",
                self.name
            ));
        }
        match (self.claim, self.known) {
            (Some(claim), None) => Verdict::Missed(format!("its claim {claim} does not exist")),
            (Some(claim), Some(known)) if known.volume.is_none() => {
                Verdict::Missed(format!("its claim {claim} is not bound to a volume"))
            }
            _ => Verdict::Copy(reason),
        }
    }
}

fn is_block(known: &ClaimOf) -> bool {
    let of = |object: &Value| text(object, "/spec/volumeMode") == "Block";
    of(&known.claim) || known.volume.as_ref().is_some_and(of)
}

fn facts(volume: &Value, known: Option<&ClaimOf>) -> VolumeFacts {
    let Some(known) = known else { return VolumeFacts::of_pod_volume(volume) };
    let facts = known.volume.as_ref().map_or_else(VolumeFacts::default, VolumeFacts::of_volume);
    facts.with_claim(&known.claim)
}

/// The names in an annotation.
fn listed(pod: &Value, annotation: &str) -> BTreeSet<String> {
    let names = pod["metadata"]["annotations"][annotation].as_str().unwrap_or_default();
    names.split(',').map(|name| name.trim().to_owned()).collect()
}

/// The volumes that containers use as a mount or as a device.
pub(crate) fn used<'a>(pod: &'a Value, how: &str) -> BTreeSet<&'a str> {
    let lists = ["containers", "initContainers"].into_iter();
    let containers = lists.filter_map(|list| pod["spec"][list].as_array()).flatten();
    containers
        .filter_map(|one| one[how].as_array())
        .flatten()
        .filter_map(|use_| use_["name"].as_str())
        .collect()
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
