//! One sequence of pods, claims and volumes. A listed claim or volume that a pod mounts is processed with its pod; so
//! the orders of the three types become one sequence of steps:
//!
//! - listed pods keep their order; pods that are not listed come after them, in the order of their first listed claim;
//! - a listed claim or volume that no pod mounts has its own step among them;
//! - if an order of claims or volumes contradicts that of the pods, a warning names both.

use std::collections::{BTreeMap, BTreeSet};

use super::Order;

/// A pod of the backup and the claims it mounts, all as `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    pub pod: String,
    pub claims: Vec<String>,
}

/// A claim of the backup and its bound volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    pub claim: String,
    pub volume: Option<String>,
}

/// The orders of the three types, if given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed<'a> {
    pub pods: Option<&'a Order>,
    pub claims: Option<&'a Order>,
    pub volumes: Option<&'a Order>,
}

/// One step, completed before the next one starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Indexes of pods; several only if they share a listed claim and none of them is listed.
    Pods(Vec<usize>),
    /// A claim that no pod mounts.
    Claim(usize),
    /// A volume that no claim of the backup is bound to, or none that a pod mounts.
    Volume(usize),
}

/// The sequence, and warnings about the orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeOrder {
    pub steps: Vec<Step>,
    pub warnings: Vec<String>,
}

/// Builds the sequence of everything that is listed, or that a listed object depends on.
pub fn order_volumes(
    listed: Listed<'_>,
    pods: &[Mounts],
    claims: &[Claimed],
    volumes: &[String],
) -> VolumeOrder {
    let mut chain = Chain::new(pods, claims);
    let mut warnings = Vec::new();
    if let Some(order) = listed.pods {
        let paths: Vec<_> = pods.iter().map(|pod| pod.pod.clone()).collect();
        let sorted = order.sort(&paths);
        chain.explicit = sorted.listed;
        warnings.extend(sorted.warnings);
    }
    let sorted_claims = listed.claims.map(|order| {
        let paths: Vec<_> = claims.iter().map(|claim| claim.claim.clone()).collect();
        order.sort(&paths)
    });
    for claim in sorted_claims.iter().flat_map(|sorted| &sorted.listed) {
        chain.place_claim(*claim);
    }
    let sorted_volumes = listed.volumes.map(|order| order.sort(volumes));
    for volume in sorted_volumes.iter().flat_map(|sorted| &sorted.listed) {
        chain.place_volume(*volume, &volumes[*volume]);
    }
    chain.finish_explicit();
    if let Some(sorted) = sorted_claims {
        let names: Vec<_> = sorted.listed.iter().map(|at| claims[*at].claim.as_str()).collect();
        let steps: Vec<_> = sorted.listed.iter().map(|at| chain.step_of_claim(*at)).collect();
        warnings.extend(sorted.warnings);
        warnings.extend(chain.contradictions("persistentvolumeclaims", &names, &steps));
    }
    if let Some(sorted) = sorted_volumes {
        let names: Vec<_> = sorted.listed.iter().map(|at| volumes[*at].as_str()).collect();
        let steps: Vec<_> = sorted.listed.iter().map(|at| chain.step_of_volume(*at, &volumes[*at])).collect();
        warnings.extend(sorted.warnings);
        warnings.extend(chain.contradictions("persistentvolumes", &names, &steps));
    }
    VolumeOrder { steps: chain.steps, warnings }
}

struct Chain<'a> {
    pods: &'a [Mounts],
    claims: &'a [Claimed],
    /// The pods that mount each claim, sorted by name.
    mounted_by: BTreeMap<&'a str, Vec<usize>>,
    /// The claim of each volume.
    claim_of: BTreeMap<&'a str, usize>,
    /// The listed pods in their order.
    explicit: Vec<usize>,
    /// How many of them have a step.
    begun: usize,
    steps: Vec<Step>,
    placed: BTreeSet<usize>,
}

impl<'a> Chain<'a> {
    fn new(pods: &'a [Mounts], claims: &'a [Claimed]) -> Self {
        let mut mounted_by: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, pod) in pods.iter().enumerate() {
            for claim in &pod.claims {
                let mounting = mounted_by.entry(claim.as_str()).or_default();
                if !mounting.contains(&at) {
                    mounting.push(at);
                }
            }
        }
        for mounting in mounted_by.values_mut() {
            mounting.sort_by(|a, b| pods[*a].pod.cmp(&pods[*b].pod));
        }
        let claim_of = claims
            .iter()
            .enumerate()
            .filter_map(|(at, claim)| Some((claim.volume.as_deref()?, at)))
            .collect();
        let (explicit, steps, placed) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { pods, claims, mounted_by, claim_of, explicit, begun: 0, steps, placed }
    }

    fn place_claim(&mut self, claim: usize) {
        let mounting = self.mounted_by.get(self.claims[claim].claim.as_str()).cloned().unwrap_or_default();
        if mounting.is_empty() {
            self.push_once(Step::Claim(claim));
            return;
        }
        if mounting.iter().any(|pod| self.placed.contains(pod)) {
            return;
        }
        if let Some(last) = self.explicit.iter().position(|pod| mounting.contains(pod)) {
            self.explicit_up_to(last + 1);
            return;
        }
        // Pods that are not listed come after all listed ones.
        self.finish_explicit();
        self.placed.extend(&mounting);
        self.steps.push(Step::Pods(mounting));
    }

    fn place_volume(&mut self, volume: usize, name: &str) {
        match self.claim_of.get(name) {
            Some(claim) => self.place_claim(*claim),
            None => self.push_once(Step::Volume(volume)),
        }
    }

    fn push_once(&mut self, step: Step) {
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    fn finish_explicit(&mut self) {
        self.explicit_up_to(self.explicit.len());
    }

    fn explicit_up_to(&mut self, end: usize) {
        while self.begun < end {
            let pod = self.explicit[self.begun];
            self.begun += 1;
            if self.placed.insert(pod) {
                self.steps.push(Step::Pods(vec![pod]));
            }
        }
    }

    /// The step in which a claim is processed: that of the first of its pods, or its own.
    fn step_of_claim(&self, claim: usize) -> Option<usize> {
        let mounting = self.mounted_by.get(self.claims[claim].claim.as_str());
        self.steps.iter().position(|step| match step {
            Step::Pods(pods) => {
                mounting.is_some_and(|mounting| pods.iter().any(|pod| mounting.contains(pod)))
            }
            Step::Claim(at) => *at == claim,
            Step::Volume(_) => false,
        })
    }

    fn step_of_volume(&self, volume: usize, name: &str) -> Option<usize> {
        match self.claim_of.get(name) {
            Some(claim) => self.step_of_claim(*claim),
            None => self.steps.iter().position(|step| *step == Step::Volume(volume)),
        }
    }

    /// A warning for each listed name whose step comes before that of a name listed earlier.
    fn contradictions(&self, key: &str, names: &[&str], steps: &[Option<usize>]) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut latest: Option<(usize, &str)> = None;
        for (name, step) in names.iter().zip(steps) {
            let Some(step) = *step else { continue };
            match latest {
                Some((before, earlier)) if step < before => {
                    let (first, second) = (self.title(step), self.title(before));
                    warnings.push(format!(
                        "orderedResources lists {earlier:?} before {name:?} for {key}, but they are backed up with {second} and {first}, which are in the other order; the order of the pods is kept"
                    ));
                }
                _ => latest = Some((step, name)),
            }
        }
        warnings
    }

    fn title(&self, step: usize) -> String {
        match &self.steps[step] {
            Step::Pods(pods) => {
                let names: Vec<_> = pods.iter().map(|pod| self.pods[*pod].pod.as_str()).collect();
                format!("pod {}", names.join(" and "))
            }
            Step::Claim(claim) => format!("claim {}", self.claims[*claim].claim),
            Step::Volume(_) => "the volume itself".to_owned(),
        }
    }
}
