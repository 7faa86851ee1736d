//! Restore targets: the volumes that each host's data is written into. An object that does not exist yet is not an
//! error: the restore waits for it ([`Missing`]). Claims of a StatefulSet and of `volumeClaimTemplates` are created
//! ([`NewClaim`]).
//!
//! The engine first calls this with `into_running: false` and passes `with_pods_only` of that plan to
//! `in_place::decide`. If the decision is to write into running pods, it calls this again with `into_running: true`,
//! otherwise again when the workload is stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lifeboat_api::stash::{RestoreRule, RestoreTarget};
use serde_json::{Value, json};

use super::backup::{entry, stored_ordinals, template_volumes};
use super::claims::{
    NewClaim, TemplateClaim, TemplateError, few_enough, of_stateful_set, of_templates, templates, volumes,
};
use super::existing_claims::{ClaimRemark, remarks};
use super::mounts::{Mount, MountPlan};
use super::pods::{PodsError, by_node, named, pods_of, standing};
use super::volumes::{Purpose, Volume, is_with_pods_only, kind_of};
use super::{HostPod, HostVolume, MOST_HOSTS, TargetError, TargetFacts, VolumeAccess};
use crate::json::text;
use crate::stash::hosts::{HostName, HostOf, TargetKind, ordinals, replicas, template_parts};
use crate::stash::rules::rule_of;
use crate::transfer::directory::claim_of;

/// What was read about the target of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreFacts {
    /// The target. For a restore into `volumeClaimTemplates` the kind is [`TargetKind::Claim`], and there is no object.
    pub target: TargetFacts,
    /// The scale that the workload had before it was stopped, by this restore or by one that left it stopped; None if the
    /// workload's own scale holds.
    pub replicas: Option<u32>,
    /// Whether the data is written into running pods (`lifeboat.io/restore-running`).
    pub into_running: bool,
}

/// The plan of a restore: the volumes into which its data is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestorePlan {
    /// In the order of ordinals or node names. Empty while the target is missing.
    pub hosts: Vec<RestoreHost>,
    /// The mounts of every host.
    pub mounts: Vec<Mount>,
    /// Claims to create before the first mover starts.
    pub new_claims: Vec<NewClaim>,
    /// What claims lack that exist already under the names of `volumeClaimTemplates`.
    pub remarks: Vec<ClaimRemark>,
    /// What the restore waits for; it may start once this is empty.
    pub missing: Vec<Missing>,
    /// Volumes to write that exist only with a pod, as in `emptyDir volume cache`.
    pub with_pods_only: Vec<String>,
}

impl RestorePlan {
    /// The claims of all hosts, to look for pods that use them.
    pub fn claims(&self) -> BTreeSet<String> {
        let destinations = self.hosts.iter().filter_map(|host| host.destination.as_ref().ok());
        let volumes = destinations.flat_map(|destination| &destination.volumes);
        let claims = volumes.filter_map(|volume| match &volume.access {
            VolumeAccess::Claim { claim, .. } => Some(claim.clone()),
            _ => None,
        });
        claims.collect()
    }

    /// What the restore waits for, in one message; None if nothing is missing.
    pub fn waits_for(&self) -> Option<String> {
        let missing: Vec<String> = self.missing.iter().map(Missing::to_string).collect();
        (!missing.is_empty()).then(|| format!("waits for {}", missing.join(", ")))
    }
}

/// One host of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreHost {
    pub name: HostName,
    pub of: HostOf,
    /// The volumes to write, or why the host cannot be restored.
    pub destination: Result<Destination, TargetError>,
}

/// The volumes that a host's data is written into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Destination {
    /// The running pod into whose volumes the data is written; None if the claims are written without a pod.
    pub pod: Option<HostPod>,
    /// The volumes of the mounts, each once. Claims that are still missing, or are made, are among them.
    pub volumes: Vec<HostVolume>,
}

/// Something that a restore waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    Target {
        kind: TargetKind,
        namespace: String,
        name: String,
    },
    /// A claim that the target names and that only its owner can create.
    Claim {
        name: String,
        of: String,
    },
    /// A pod to restore into while it runs.
    Pod {
        host: HostName,
        reason: String,
    },
    /// The nodes of a DaemonSet without pods.
    Nodes {
        name: String,
    },
    /// The ordinals of a StatefulSet without replicas and claims.
    Ordinals {
        name: String,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target { kind, namespace, name } => write!(formatter, "{kind} {namespace}/{name}"),
            Self::Claim { name, of } => write!(formatter, "PersistentVolumeClaim {name} of {of}"),
            Self::Pod { host, reason } => write!(formatter, "a Ready pod for host {host} ({reason})"),
            Self::Nodes { name } => write!(formatter, "pods of DaemonSet {name}, which runs on no node"),
            Self::Ordinals { name } => write!(
                formatter,
                "replicas of StatefulSet {name}, which has none and no claims (scale it up, or set target.replicas)"
            ),
        }
    }
}

/// Finds the hosts of a restore's target and the volumes that their data is written into. `rules`: the effective rules. Claims
/// are created, and missing objects waited for, only for hosts that have a rule. A StatefulSet without replicas has the hosts that
/// the rules list.
pub fn restore_plan(
    facts: &RestoreFacts,
    target: &RestoreTarget,
    rules: &[RestoreRule],
) -> Result<RestorePlan, TargetError> {
    let TargetFacts { kind, name, namespace, object, .. } = &facts.target;
    let is_templates = !target.volume_claim_templates.is_empty();
    if *kind == TargetKind::AppBinding && !is_templates {
        return Err(TargetError::NeedsTask { kind: *kind, name: name.clone() });
    }
    few_enough(target)?;
    if let (TargetKind::StatefulSet, Some(object)) = (kind, object) {
        let running = facts.replicas.unwrap_or_else(|| replicas(object));
        let found = usize::try_from(running).unwrap_or(usize::MAX);
        if found > MOST_HOSTS {
            return Err(PodsError::TooMany { target: facts.target.title(), found }.into());
        }
    }
    let mounts = if is_templates {
        MountPlan::of_templates(target)?
    } else {
        MountPlan::of_restore(*kind, name, target)?
    };
    let mut restore = Restore {
        facts,
        target,
        rules,
        mounts: &mounts,
        plan: RestorePlan { mounts: mounts.mounts.clone(), ..RestorePlan::default() },
    };
    if is_templates {
        restore.of_claim_templates()?;
        return Ok(restore.plan);
    }
    match object {
        None => {
            let (namespace, name) = (namespace.clone(), name.clone());
            restore.plan.missing.push(Missing::Target { kind: *kind, namespace, name });
        }
        Some(object) if *kind == TargetKind::Claim => {
            let entry = [json!({"name": name, "persistentVolumeClaim": {"claimName": name}})];
            restore.host(object, HostOf::Whole, None, &entry);
        }
        Some(object) => restore.of_workload(object),
    }
    let mut seen = BTreeSet::new();
    restore.plan.missing.retain(|missing| seen.insert(missing.clone()));
    Ok(restore.plan)
}

struct Restore<'a> {
    facts: &'a RestoreFacts,
    target: &'a RestoreTarget,
    rules: &'a [RestoreRule],
    mounts: &'a MountPlan,
    plan: RestorePlan,
}

impl Restore<'_> {
    fn alias(&self) -> Option<&str> {
        self.target.alias.as_deref()
    }

    fn has_rule(&self, host: &HostName) -> bool {
        self.rules.is_empty() || rule_of(self.rules, host).is_some()
    }

    fn of_workload(&mut self, object: &Value) {
        let facts = &self.facts.target;
        self.plan.with_pods_only = self.with_pods_only(object);
        let pods = pods_of(object, &facts.between, &facts.pods);
        let parts: BTreeMap<HostOf, Vec<&Value>> = match facts.kind {
            TargetKind::StatefulSet => {
                let of = |ordinal| named(&pods, &format!("{}-{ordinal}", facts.name)).into_iter().collect();
                self.ordinals(object)
                    .into_iter()
                    .map(|ordinal| (HostOf::Ordinal(ordinal), of(ordinal)))
                    .collect()
            }
            TargetKind::DaemonSet => {
                by_node(&pods).into_iter().map(|(node, pods)| (HostOf::Node(node), pods)).collect()
            }
            _ => BTreeMap::from([(HostOf::Whole, pods)]),
        };
        if parts.is_empty() {
            let name = facts.name.clone();
            let is_daemon_set = facts.kind == TargetKind::DaemonSet;
            let missing = if is_daemon_set { Missing::Nodes { name } } else { Missing::Ordinals { name } };
            self.plan.missing.push(missing);
        }
        for (of, pods) in parts {
            let ordinal = if let HostOf::Ordinal(ordinal) = &of { Some(*ordinal) } else { None };
            let template = template_volumes(object, ordinal);
            if !self.facts.into_running {
                self.host(object, of, None, &template);
                continue;
            }
            match standing(&self.facts.target.title(), &pods) {
                Ok(pod) => self.host(object, of, Some(pod), volumes(pod)),
                Err(error) => self.waiting(of, error),
            }
        }
    }

    /// A host that gets its data when a pod of it is Ready.
    fn waiting(&mut self, of: HostOf, error: PodsError) {
        let name = HostName::of(self.alias(), &of);
        if self.has_rule(&name) {
            let reason = match &error {
                PodsError::NoReadyPod { pods, .. } => pods.clone(),
                other => other.to_string(),
            };
            self.plan.missing.push(Missing::Pod { host: name.clone(), reason });
        }
        self.plan.hosts.push(RestoreHost { name, of, destination: Err(error.into()) });
    }

    /// The ordinals of a StatefulSet: those of its replicas. A StatefulSet without replicas has the ordinals that have claims,
    /// those that the rules list, and those below `target.replicas`.
    fn ordinals(&self, stateful_set: &Value) -> BTreeSet<u32> {
        let running = self.facts.replicas.unwrap_or_else(|| replicas(stateful_set));
        if running > 0 {
            return ordinals(stateful_set, running).collect();
        }
        let asked =
            self.target.replicas.and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or_default();
        let listed = self.rules.iter().filter_map(|rule| rule.target_hosts.as_ref()).flatten();
        let listed = listed.filter_map(|host| HostName::from(host.as_str()).ordinal(self.alias()));
        let mut found = stored_ordinals(&self.facts.target, stateful_set, self.mounts);
        found.extend(listed.chain(ordinals(stateful_set, asked)));
        found
    }

    fn with_pods_only(&self, workload: &Value) -> Vec<String> {
        let template = template_volumes(workload, None);
        let mounted =
            |volume: &&Value| self.mounts.mounts.iter().any(|mount| volume["name"] == *mount.volume);
        let found = template.iter().filter(mounted).filter(|volume| is_with_pods_only(volume));
        found.map(|volume| format!("{} volume {}", kind_of(volume), text(volume, "/name"))).collect()
    }

    /// Adds a host that has these volumes.
    fn host(&mut self, object: &Value, of: HostOf, pod: Option<&Value>, entries: &[Value]) {
        let name = HostName::of(self.alias(), &of);
        let mut needs = Needs::default();
        let destination = self.destination(object, &of, pod, entries, &mut needs);
        if self.has_rule(&name) {
            self.plan.new_claims.extend(needs.new_claims);
            self.plan.missing.extend(needs.missing);
        }
        self.plan.hosts.push(RestoreHost { name, of, destination });
    }

    fn destination(
        &self,
        object: &Value,
        of: &HostOf,
        pod: Option<&Value>,
        entries: &[Value],
        needs: &mut Needs,
    ) -> Result<Destination, TargetError> {
        let facts = &self.facts.target;
        let purpose = if pod.is_some() { Purpose::WriteWhileRunning } else { Purpose::WriteAtRest };
        let mut volumes: Vec<HostVolume> = Vec::new();
        for mount in &self.mounts.mounts {
            if volumes.iter().any(|volume| volume.name == mount.volume) {
                continue;
            }
            let entry = entry(entries, &mount.volume, &facts.title())?;
            let pod_name = pod.map(|pod| text(pod, "/metadata/name")).unwrap_or_default();
            let claim =
                claim_of(pod_name, entry).filter(|_| pod.is_some() || entry.get("ephemeral").is_none());
            let missing = claim.filter(|claim| !facts.claims.contains_key(claim));
            let access = match missing {
                None => Volume { facts, pod, entry, purpose }.access()?,
                Some(claim) => needs.claim(object, of, &mount.volume, claim, &facts.title()),
            };
            volumes.push(HostVolume { name: mount.volume.clone(), access });
        }
        Ok(Destination { pod: pod.map(HostPod::of), volumes })
    }

    /// Restores into claims that are created from templates, or that already exist with these names.
    fn of_claim_templates(&mut self) -> Result<(), TargetError> {
        let facts = &self.facts.target;
        for of in template_parts(self.target) {
            let name = HostName::of(self.alias(), &of);
            let claims = of_templates(self.target, &facts.namespace, &of)?;
            let mut volumes: Vec<HostVolume> = Vec::new();
            for mount in &self.mounts.mounts {
                if volumes.iter().any(|volume| volume.name == mount.volume) {
                    continue;
                }
                let found = claims.iter().find(|claim| claim.volume == mount.volume).ok_or_else(|| {
                    let available: Vec<&str> = claims.iter().map(|claim| claim.volume.as_str()).collect();
                    TemplateError::NoTemplate {
                        volume: mount.volume.clone(),
                        available: available.join(", "),
                    }
                })?;
                // The volume mode of an existing claim wins over that of the template.
                let known = facts.claims.get(&found.claim.name).map(|known| &known.claim);
                let mode = text(known.unwrap_or(&found.claim.object), "/spec/volumeMode");
                let access = VolumeAccess::Claim {
                    claim: found.claim.name.clone(),
                    node: None,
                    block: mode == "Block",
                };
                volumes.push(HostVolume { name: mount.volume.clone(), access });
            }
            if self.has_rule(&name) {
                for TemplateClaim { claim, .. } in claims {
                    match facts.claims.get(&claim.name) {
                        Some(known) => {
                            self.plan.remarks.extend(remarks(&claim.name, &known.claim, &claim.object));
                        }
                        None => self.plan.new_claims.push(claim),
                    }
                }
            }
            self.plan.hosts.push(RestoreHost {
                name,
                of,
                destination: Ok(Destination { pod: None, volumes }),
            });
        }
        Ok(())
    }
}

/// What must exist before the data of a host can be written: claims that the restore creates, and objects that it waits for.
#[derive(Debug, Default)]
struct Needs {
    new_claims: Vec<NewClaim>,
    missing: Vec<Missing>,
}

impl Needs {
    /// A claim that does not exist: created if it belongs to a StatefulSet's templates; otherwise the restore waits
    /// for it.
    fn claim(
        &mut self,
        object: &Value,
        of: &HostOf,
        volume: &str,
        claim: String,
        title: &str,
    ) -> VolumeAccess {
        let template = templates(object).find(|template| text(template, "/metadata/name") == volume);
        let mut block = false;
        if let (Some(template), HostOf::Ordinal(ordinal)) = (template, of) {
            block = text(template, "/spec/volumeMode") == "Block";
            self.new_claims.push(of_stateful_set(object, template, *ordinal));
        } else {
            self.missing.push(Missing::Claim { name: claim.clone(), of: title.to_owned() });
        }
        VolumeAccess::Claim { claim, node: None, block }
    }
}
