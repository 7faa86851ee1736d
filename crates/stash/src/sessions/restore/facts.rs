//! Reads the facts for the decision about a member: its target, the pods that use the target's volumes, and what sets
//! its scale.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::stash::{RestoreRule, RestoreTarget};
use lifeboat_cluster::ApiError;
use lifeboat_plan::stash::hosts::{TargetKind, replicas};
use lifeboat_plan::stash::in_place::{InPlace, InPlaceFacts, Standstill, decide, users};
use lifeboat_plan::stash::invoker::ValidRestoreMember;
use lifeboat_plan::stash::targets::{RestoreFacts, RestorePlan, Site, TargetFacts, active_pods};
use serde_json::Value;

use super::copies::{Left, is_unfinished};
use super::find::{failed, joined, planned};
use super::work::RestoreWork;
use crate::sessions::engine::NoHosts;
use crate::standstill::earlier;
use crate::target::{self, TargetName};

/// Since that restore a person has allowed backups: the data counts as good again, and a copy of it is made before it is overwritten.
fn without_copy(record: Standstill) -> Standstill {
    Standstill { safety_of: None, ..record }
}

impl RestoreWork {
    /// Whether a workload has to be stopped, and may be.
    pub(super) async fn way(
        &self,
        facts: &RestoreFacts,
        plan: &RestorePlan,
        left: &Left<'_>,
    ) -> Result<InPlace, NoHosts> {
        let target = &facts.target;
        let claims = plan.claims();
        let workload = target.object.clone().filter(|_| target.kind.is_workload());
        let is_named = !target.name.is_empty();
        let name = if is_named { target.name.clone() } else { joined(&claims) };
        let before = workload.as_ref().and_then(earlier);
        let before =
            before.map(|record| if is_unfinished(target, &claims) { record } else { without_copy(record) });
        let source = before.as_ref().and_then(|record| record.safety_of.as_ref());
        let facts = InPlaceFacts {
            kind: target.kind,
            name,
            not_covered: left.not_covered(facts, plan),
            is_copied: source.is_some_and(|source| left.are_copied(&plan.mounts, &source.uid)),
            earlier: before,
            autoscalers: if workload.is_some() { self.autoscalers().await? } else { Vec::new() },
            workload,
            own_pods: active_pods(target),
            users: users(&claims, &target.pods, Some(&self.record.uid)),
            with_pods_only: plan.with_pods_only.clone(),
            settings: self.object.settings(),
        };
        decide(&facts).map_err(|error| failed(&error.to_string()))
    }

    async fn autoscalers(&self) -> Result<Vec<Value>, ApiError> {
        let (group, version) = ("autoscaling", "v2");
        let (kind, plural) = ("HorizontalPodAutoscaler", "horizontalpodautoscalers");
        match target::list(&self.context.core, &self.record.namespace, group, version, kind, plural).await {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// Reads the target. `standstill`: that of this restore, once it has started.
    pub(super) async fn facts(
        &self,
        valid: &ValidRestoreMember,
        spec: &RestoreTarget,
        standstill: Option<&Standstill>,
    ) -> Result<RestoreFacts, NoHosts> {
        let reference = valid.target.as_ref().and_then(|target| target.reference.as_ref());
        if !spec.volume_claim_templates.is_empty() {
            return self.template_facts(spec, &valid.rules.rules).await;
        }
        let Some((key, kind)) = reference else { return Err(failed("the member has no target")) };
        let name = TargetName { kind: *kind, namespace: &key.namespace, name: &key.name };
        let target = target::read(&self.context.core, &self.transfers.settings, name, None).await?;
        let stopped = target.object.as_ref().filter(|object| replicas(object) == 0);
        let before = standstill.cloned().or_else(|| stopped.and_then(earlier)).map(|record| record.replicas);
        Ok(RestoreFacts { target, replicas: before, into_running: false })
    }

    /// The facts of a restore into claim templates: which of their claims exist, and the pods of the namespace.
    async fn template_facts(
        &self,
        spec: &RestoreTarget,
        rules: &[RestoreRule],
    ) -> Result<RestoreFacts, NoHosts> {
        let (core, namespace) = (&self.context.core, &self.record.namespace);
        let target = TargetFacts {
            kind: TargetKind::Claim,
            name: String::new(),
            namespace: namespace.clone(),
            object: None,
            between: Vec::new(),
            pods: target::list(core, namespace, "", "v1", "Pod", "pods").await?,
            claims: BTreeMap::new(),
            nodes: Vec::new(),
            site: Site::default(),
        };
        let mut facts = RestoreFacts { target, replicas: None, into_running: false };
        let names: BTreeSet<String> =
            planned(&facts, spec, rules)?.new_claims.into_iter().map(|claim| claim.name).collect();
        facts.target.claims = target::claims(core, namespace, names).await?;
        Ok(facts)
    }
}
