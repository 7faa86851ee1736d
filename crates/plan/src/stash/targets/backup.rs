//! Plans what a backup reads of a target. One pod, the oldest Ready one, represents a Deployment or a similar
//! workload; each ordinal of a StatefulSet and each node of a DaemonSet is read separately. With zero replicas the
//! claims are read without a pod.

use std::collections::BTreeSet;

use lifeboat_api::stash::BackupTarget;
use serde_json::{Value, json};

use super::claims::{ordinal_of, stateful_name, templates, volumes};
use super::mounts::{MountPlan, MountedPath};
use super::paths::PathError;
use super::pods::{
    by_node, has_ended, is_terminating, named, pod_template, pods_of, standing, standing_for_sent,
};
use super::volumes::{Purpose, Volume, VolumeError, is_made_from_objects, is_one_for_each_pod, kind_of};
use super::{
    Host, HostPart, HostPod, HostSource, HostVolume, MOST_HOSTS, Note, PodsError, SentFor, SentHosts,
    TargetError, TargetFacts, TargetPlan,
};
use crate::json::text;
use crate::stash::hosts::{HostName, HostOf, TargetKind, ordinals, replicas};

/// Decides which hosts a target has, and which volumes of each host are read.
pub fn backup_plan(facts: &TargetFacts, target: &BackupTarget) -> Result<TargetPlan, TargetError> {
    continued_plan(facts, target, &SentHosts::new())
}

/// Decides for a server that continues the work of an earlier one. A host whose mover was started needs no Ready pod, because
/// the hook before the host may have made its pod unready.
pub fn continued_plan(
    facts: &TargetFacts,
    target: &BackupTarget,
    sent: &SentHosts,
) -> Result<TargetPlan, TargetError> {
    if facts.kind == TargetKind::AppBinding {
        return Err(TargetError::NeedsTask { kind: facts.kind, name: facts.name.clone() });
    }
    let mounts = MountPlan::of_backup(facts.kind, target)?;
    planned(facts, target.alias.as_deref(), &mounts, sent)
}

/// Decides for mounts and paths that were checked before.
pub fn planned(
    facts: &TargetFacts,
    alias: Option<&str>,
    mounts: &MountPlan,
    sent: &SentHosts,
) -> Result<TargetPlan, TargetError> {
    let TargetFacts { kind, name, namespace, .. } = facts;
    let Some(object) = &facts.object else {
        let (namespace, name) = (namespace.clone(), name.clone());
        return Err(TargetError::NoTarget { kind: *kind, namespace, name });
    };
    let backup =
        Backup { facts, object, alias, mounts, sent, pods: pods_of(object, &facts.between, &facts.pods) };
    let mut plan = TargetPlan { hosts: Vec::new(), notes: mounts.hidden() };
    match kind {
        TargetKind::StatefulSet => plan.hosts = backup.ordinals()?,
        TargetKind::DaemonSet => backup.nodes(&mut plan)?,
        TargetKind::Claim => plan.hosts.push(backup.claim()),
        _ => backup.one_for_all(&mut plan),
    }
    plan.notes.extend(backup.read_live());
    Ok(plan)
}

struct Backup<'a> {
    facts: &'a TargetFacts,
    object: &'a Value,
    alias: Option<&'a str>,
    mounts: &'a MountPlan,
    sent: &'a SentHosts,
    /// The target's own.
    pods: Vec<&'a Value>,
}

impl<'a> Backup<'a> {
    fn title(&self) -> String {
        self.facts.title()
    }

    fn host(&self, of: HostOf, source: Result<HostSource, TargetError>) -> Host {
        Host { name: HostName::of(self.alias, &of), of, source }
    }

    /// A Deployment and its like.
    fn one_for_all(&self, plan: &mut TargetPlan) {
        if replicas(self.object) == 0 {
            plan.hosts.push(self.host(HostOf::Whole, self.at_rest(&HostOf::Whole, Purpose::Read)));
            return;
        }
        let source = self.of_pods(&HostOf::Whole, &self.pods);
        if let Ok(HostSource { pod: Some(pod), .. }) = &source {
            plan.notes.extend(self.other_replicas(&pod.object));
        }
        plan.hosts.push(self.host(HostOf::Whole, source));
    }

    /// A StatefulSet.
    fn ordinals(&self) -> Result<Vec<Host>, TargetError> {
        let running = replicas(self.object);
        if running == 0 {
            let found = stored_ordinals(self.facts, self.object, self.mounts);
            if found.is_empty() {
                return Err(PodsError::NoOrdinals { name: self.facts.name.clone() }.into());
            }
            self.bounded(found.len())?;
            let hosts = found.into_iter().map(HostOf::Ordinal).map(|of| {
                let source = self.at_rest(&of, Purpose::Read);
                self.host(of, source)
            });
            return Ok(hosts.collect());
        }
        let ordinals = ordinals(self.object, running);
        self.bounded(ordinals.len())?;
        let hosts = ordinals.map(|ordinal| {
            let name = format!("{}-{ordinal}", self.facts.name);
            let of = HostOf::Ordinal(ordinal);
            let source = match named(&self.pods, &name) {
                None if self.sent(&of).is_none() => {
                    Err(PodsError::NoPod { target: self.title(), pod: name }.into())
                }
                pod => self.of_pods(&of, pod.as_slice()),
            };
            self.host(of, source)
        });
        Ok(hosts.collect())
    }

    /// Refuses more hosts than a session can have, before a list of them is made.
    fn bounded(&self, found: usize) -> Result<(), PodsError> {
        if found > MOST_HOSTS { Err(PodsError::TooMany { target: self.title(), found }) } else { Ok(()) }
    }

    /// A DaemonSet.
    fn nodes(&self, plan: &mut TargetPlan) -> Result<(), TargetError> {
        let nodes = by_node(&self.pods);
        if nodes.is_empty() {
            return Err(PodsError::NoNodes { target: self.title() }.into());
        }
        self.bounded(nodes.len())?;
        let wanted =
            self.object.pointer("/status/desiredNumberScheduled").and_then(Value::as_u64).unwrap_or_default();
        let found = nodes.len() as u64;
        if wanted > found {
            plan.notes.push(Note::PodsMissing { target: self.title(), wanted, found });
        }
        for (node, pods) in nodes {
            let of = HostOf::Node(node);
            let source = self.of_pods(&of, &pods);
            plan.hosts.push(self.host(of, source));
        }
        Ok(())
    }

    /// A claim as target. A Ready pod that uses the claim represents it.
    fn claim(&self) -> Host {
        let claim = self.facts.name.as_str();
        let mounts_it = |pod: &&Value| {
            volumes(pod).iter().any(|volume| text(volume, "/persistentVolumeClaim/claimName") == claim)
        };
        let users: Vec<&Value> =
            self.facts.pods.iter().filter(|pod| mounts_it(pod) && !has_ended(pod)).collect();
        let pod = match self.sent(&HostOf::Whole) {
            None => standing(&self.title(), &users).ok(),
            Some(SentFor::NoPod) => None,
            Some(SentFor::Pod(uid)) => standing_for_sent(&self.title(), &users, uid).ok(),
        };
        let is_sent = self.sent(&HostOf::Whole).is_some();
        let purpose = if is_sent && pod.is_some() { Purpose::ReadOn } else { Purpose::Read };
        let entry = [json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})];
        let source = self.source(pod, &self.title(), &entry, purpose).map(|source| HostSource {
            like: users.first().filter(|_| source.pod.is_none()).map(|user| (*user).clone()),
            ..source
        });
        self.host(HostOf::Whole, source)
    }

    /// The volumes that the mover of a host was started for; None if none was started.
    fn sent(&self, of: &HostOf) -> Option<&SentFor> {
        self.sent.get(&HostName::of(self.alias, of))
    }

    /// What is read of a host with pods.
    fn of_pods(&self, of: &HostOf, pods: &[&'a Value]) -> Result<HostSource, TargetError> {
        match self.sent(of) {
            None => self.of_pod(standing(&self.title(), pods)?, Purpose::Read),
            Some(SentFor::NoPod) => self.at_rest(of, Purpose::Read),
            Some(SentFor::Pod(uid)) => {
                let pod = standing_for_sent(&self.title(), pods, uid).map_err(TargetError::from);
                let read = pod.and_then(|pod| self.of_pod(pod, Purpose::ReadOn));
                // If there is no pod at all, the template has the volumes that the mover mounts.
                read.or_else(|error| self.at_rest(of, Purpose::ReadOn).map_err(|_| error))
            }
        }
    }

    fn of_pod(&self, pod: &'a Value, purpose: Purpose) -> Result<HostSource, TargetError> {
        self.source(Some(pod), &format!("pod {}", text(pod, "/metadata/name")), volumes(pod), purpose)
    }

    /// What is read without a pod.
    fn at_rest(&self, of: &HostOf, purpose: Purpose) -> Result<HostSource, TargetError> {
        let ordinal = if let HostOf::Ordinal(ordinal) = of { Some(*ordinal) } else { None };
        let volumes = template_volumes(self.object, ordinal);
        let source = self.source(None, &self.title(), &volumes, purpose)?;
        let like = pod_template(self.object).map(|template| {
            let mut like = template.clone();
            like["spec"]["volumes"] = Value::from(volumes);
            like
        });
        Ok(HostSource { like, ..source })
    }

    /// The volumes and parts. `of`: what has the volumes, in messages.
    fn source(
        &self,
        pod: Option<&Value>,
        of: &str,
        entries: &[Value],
        purpose: Purpose,
    ) -> Result<HostSource, TargetError> {
        let mut source = HostSource { pod: pod.map(HostPod::of), ..HostSource::default() };
        for path in &self.mounts.paths {
            let known = source.volumes.iter().position(|volume| volume.name == path.volume);
            let place = if let Some(place) = known {
                place
            } else {
                let entry = entry(entries, &path.volume, of)?;
                let access = Volume { facts: self.facts, pod, entry, purpose }.access()?;
                source.volumes.push(HostVolume { name: path.volume.clone(), access });
                source.volumes.len() - 1
            };
            let (volume, sub_path) = (path.volume.clone(), path.sub_path.clone());
            if source.volumes[place].access.is_block() {
                must_be_a_device(path)?;
            }
            source.parts.push(HostPart { path: path.path.clone(), volume, sub_path });
        }
        Ok(source)
    }

    /// The replicas other than the pod that is read, if they have files of their own.
    fn other_replicas(&self, pod: &Value) -> Option<Note> {
        let paths = self.mounts.paths.iter();
        let own = paths.filter(|path| {
            volumes(pod).iter().any(|volume| volume["name"] == *path.volume && is_one_for_each_pod(volume))
        });
        let own: BTreeSet<String> = own.map(|path| path.volume.clone()).collect();
        let others = self.pods.iter().filter(|other| {
            !is_terminating(other) && !has_ended(other) && other["metadata"]["uid"] != pod["metadata"]["uid"]
        });
        let others: Vec<String> = others.map(|other| text(other, "/metadata/name").to_owned()).collect();
        (!own.is_empty() && !others.is_empty()).then(|| Note::OtherReplicas {
            target: self.title(),
            pod: text(pod, "/metadata/name").to_owned(),
            others,
            volumes: own.into_iter().collect(),
        })
    }

    /// The volumes to which `snapshotClassName` cannot apply.
    fn read_live(&self) -> Vec<Note> {
        if self.facts.site.snapshot_class.is_none() {
            return Vec::new();
        }
        let template = template_volumes(self.object, Some(0));
        let wanted: BTreeSet<&str> = self.mounts.paths.iter().map(|path| path.volume.as_str()).collect();
        let live = template.iter().filter(|volume| {
            wanted.contains(text(volume, "/name"))
                && !matches!(kind_of(volume).as_str(), "persistentVolumeClaim" | "ephemeral")
        });
        live.map(|volume| Note::ReadLive { volume: text(volume, "/name").to_owned(), kind: kind_of(volume) })
            .collect()
    }
}

/// A block volume is stored as a whole, as the file at its path.
fn must_be_a_device(path: &MountedPath) -> Result<(), PathError> {
    let volume = path.volume.clone();
    match &path.sub_path {
        Some(_) => Err(PathError::InDevice { path: path.path.clone(), volume }),
        None if path.path.as_str() == "/" => Err(PathError::DeviceRoot { volume }),
        None => Ok(()),
    }
}

/// The volume of a name.
pub(super) fn entry<'v>(entries: &'v [Value], volume: &str, of: &str) -> Result<&'v Value, VolumeError> {
    entries.iter().find(|entry| entry["name"] == *volume).ok_or_else(|| {
        // Volumes such as that of the service account's token cannot be backed up.
        let stored = entries.iter().filter(|entry| !is_made_from_objects(entry));
        let mut available: Vec<&str> = stored.map(|entry| text(entry, "/name")).collect();
        available.sort_unstable();
        let available = if available.is_empty() { "none".to_owned() } else { available.join(", ") };
        VolumeError::NoVolume { volume: volume.to_owned(), of: of.to_owned(), available }
    })
}

/// The volumes that mounts of a workload name and its pod template does not have, as one message; None if it has them all, or
/// the target has no pod template.
pub fn unknown_volumes<'m>(
    kind: TargetKind,
    workload: &Value,
    named: impl IntoIterator<Item = &'m str>,
) -> Option<String> {
    pod_template(workload)?;
    let (volumes, of) =
        (template_volumes(workload, None), format!("{kind} {}", text(workload, "/metadata/name")));
    let errors: BTreeSet<String> = named
        .into_iter()
        .filter_map(|volume| entry(&volumes, volume, &of).err().map(|error| error.to_string()))
        .collect();
    (!errors.is_empty()).then(|| errors.into_iter().collect::<Vec<_>>().join("; "))
}

/// The volumes of a workload's pods, from its template; those of a StatefulSet's claim templates replace others of the same
/// name, as its controller does it.
pub(super) fn template_volumes(workload: &Value, ordinal: Option<u32>) -> Vec<Value> {
    let claims: Vec<Value> = templates(workload)
        .map(|template| text(template, "/metadata/name"))
        .map(|name| {
            let claim = stateful_name(workload, name, ordinal.unwrap_or_default());
            json!({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect();
    let template = pod_template(workload).map(volumes).unwrap_or_default();
    let others = template.iter().filter(|volume| !claims.iter().any(|claim| claim["name"] == volume["name"]));
    others.cloned().chain(claims.iter().cloned()).collect()
}

/// The claims that the pods of a workload use once it has this number of replicas.
pub fn claims_of_replicas(workload: &Value, replicas: u32) -> BTreeSet<String> {
    let each: Vec<Option<u32>> = if templates(workload).next().is_some() {
        ordinals(workload, replicas).take(MOST_HOSTS).map(Some).collect()
    } else {
        vec![None]
    };
    let volumes = each.into_iter().flat_map(|ordinal| template_volumes(workload, ordinal));
    let claims = volumes.map(|volume| text(&volume, "/persistentVolumeClaim/claimName").to_owned());
    claims.filter(|claim| !claim.is_empty()).collect()
}

/// The ordinals for which a StatefulSet without replicas has claims of the mounts' volumes. If the mounts have none of its claim
/// templates, all replicas share the volumes, and the first ordinal stands for them.
pub(super) fn stored_ordinals(
    facts: &TargetFacts,
    stateful_set: &Value,
    mounts: &MountPlan,
) -> BTreeSet<u32> {
    let mounted = |template: &&str| mounts.mounts.iter().any(|mount| mount.volume == **template);
    let own: Vec<&str> =
        templates(stateful_set).map(|template| text(template, "/metadata/name")).filter(mounted).collect();
    if own.is_empty() {
        return ordinals(stateful_set, 1).collect();
    }
    let claims = facts.claims.keys();
    claims
        .filter_map(|claim| own.iter().find_map(|template| ordinal_of(stateful_set, template, claim)))
        .collect()
}
