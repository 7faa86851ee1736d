//! A BackupConfiguration, BackupBatch or Restic in one form: a BackupConfiguration is a batch with one member, a Restic has a
//! member for each workload that it selects. Called by the controllers of invokers and by sessions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_api::stash::{
    BackupBatch, BackupConfiguration, BackupMember, BackupType, Driver, InvokerKind, Restic, RetentionPolicy,
    RetryConfig, TargetRef,
};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_plan::stash::hosts::{Collision, collisions};
use lifeboat_plan::stash::invoker::{
    InvokerStatus, Problems, ValidBackup, backup_batch, backup_configuration, backup_hosts, restic,
};
use lifeboat_plan::stash::restic::{self as restics, InstantRun};
use lifeboat_plan::stash::session::InvokerId;

use super::workloads;
use crate::context::Context;
use crate::repository::invoker_resource;

/// An invoker of backups.
#[derive(Clone, Debug)]
pub(crate) struct Invoker {
    pub(crate) id: InvokerId,
    pub(crate) uid: String,
    pub(crate) created: Option<Timestamp>,
    generation: i64,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) status: InvokerStatus,
    /// When its last scheduled session was due.
    pub(crate) last_due: Option<Timestamp>,
    spec: Spec,
}

#[derive(Clone, Debug)]
enum Spec {
    Configuration(Box<BackupConfiguration>),
    Batch(Box<BackupBatch>),
    Restic(Box<ResticSpec>),
}

/// A Restic, and what the engine needs of it.
#[derive(Clone, Debug)]
struct ResticSpec {
    restic: Restic,
    /// One for each of its workloads; none while they were not looked for.
    members: Vec<BackupMember>,
    /// Stands for those of its directories where only one policy is asked for.
    policy: RetentionPolicy,
}

/// The driver of Restics.
static RESTIC: Driver = Driver::Restic;

impl Invoker {
    /// Reads the invoker of a session; None if it does not exist or cannot be read.
    pub(crate) async fn read(context: &Context, id: &InvokerId) -> Result<Option<Self>, ApiError> {
        if id.kind == InvokerKind::Restic && !context.settings.restics {
            return Ok(None);
        }
        let Some(resource) = invoker_resource(&id.kind) else { return Ok(None) };
        let api = objects::namespaced(&context.client, &id.namespace, &resource);
        let attempt = format!("read {} {}/{}", id.kind, id.namespace, id.name);
        let found = api.get_opt(&id.name).await.attempt(attempt)?;
        match found.and_then(|found| Self::of(&id.kind, &found).ok()) {
            Some(invoker) => invoker.with_workloads(context).await.map(Some),
            None => Ok(None),
        }
    }

    /// Looks for the workloads of a Restic; other invokers name their targets.
    pub(crate) async fn with_workloads(mut self, context: &Context) -> Result<Self, ApiError> {
        let Spec::Restic(spec) = &mut self.spec else { return Ok(self) };
        if let Some(selector) = &spec.restic.spec.volume_selector {
            let found = workloads::find(context, &self.id.namespace, &selector.selector).await?;
            spec.members = restics::members(&spec.restic.spec, &found);
        }
        Ok(self)
    }

    /// The invoker as a session has it that has these targets on record: a Restic may select others since.
    pub(crate) fn of_session(mut self, recorded: &[Option<TargetRef>]) -> Self {
        if let Spec::Restic(spec) = &mut self.spec
            && !recorded.is_empty()
        {
            let workloads: Vec<TargetRef> = recorded.iter().flatten().cloned().collect();
            spec.members = restics::members(&spec.restic.spec, &workloads);
        }
        self
    }

    /// Converts an object into an invoker.
    pub(crate) fn of(kind: &InvokerKind, object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let (spec, status, last_due) = if *kind == InvokerKind::BackupBatch {
            let batch: BackupBatch = objects::typed(object)?;
            let status = batch.status.clone().unwrap_or_default();
            let last_due = status.last_schedule_time.clone();
            let status = InvokerStatus {
                phase: status.phase,
                conditions: status.conditions,
                members: status.member_conditions,
            };
            (Spec::Batch(Box::new(batch)), status, last_due)
        } else if *kind == InvokerKind::Restic {
            let restic: Restic = objects::typed(object)?;
            let status = restic.status.clone().unwrap_or_default();
            let last_due = status.last_schedule_time.clone();
            let status = InvokerStatus {
                phase: status.phase,
                conditions: status.conditions,
                ..InvokerStatus::default()
            };
            let policy =
                RetentionPolicy { prune: restics::prunes(&restic.spec), ..RetentionPolicy::default() };
            (Spec::Restic(Box::new(ResticSpec { restic, members: Vec::new(), policy })), status, last_due)
        } else {
            let configuration: BackupConfiguration = objects::typed(object)?;
            let status = configuration.status.clone().unwrap_or_default();
            let last_due = status.last_schedule_time.clone();
            let status = InvokerStatus {
                phase: status.phase,
                conditions: status.conditions,
                ..InvokerStatus::default()
            };
            (Spec::Configuration(Box::new(configuration)), status, last_due)
        };
        Ok(Self {
            id: InvokerId {
                kind: kind.clone(),
                namespace: object.namespace().unwrap_or_default(),
                name: object.name_any(),
            },
            uid: object.uid().unwrap_or_default(),
            created: object.creation_timestamp().map(|time| time.0),
            generation: object.metadata.generation.unwrap_or_default(),
            annotations: object.metadata.annotations.clone().unwrap_or_default(),
            status,
            last_due: last_due.map(|time| time.0),
            spec,
        })
    }

    pub(crate) fn is_batch(&self) -> bool {
        matches!(self.spec, Spec::Batch(_))
    }

    /// The run of an invoker that backs up once; None for one with a schedule.
    pub(crate) fn instant_run(&self) -> Option<InstantRun> {
        let Spec::Restic(spec) = &self.spec else { return None };
        let is_instant = spec.restic.spec.backup_type == Some(BackupType::Instant);
        let created = self.created.unwrap_or(Timestamp::UNIX_EPOCH);
        is_instant.then(|| InstantRun::of(&spec.restic.spec, &self.annotations, created, self.generation))
    }

    /// Its retries, as the spec has them.
    pub(crate) fn retries(&self) -> Option<&RetryConfig> {
        match &self.spec {
            Spec::Configuration(configuration) => configuration.spec.retry_config.as_ref(),
            Spec::Batch(batch) => batch.spec.retry_config.as_ref(),
            Spec::Restic(_) => None,
        }
    }

    /// Its driver, and the name of the Repository that this driver writes into, as the spec has them.
    pub(crate) fn stores_with(&self) -> (&Driver, Option<&str>) {
        let (driver, repository) = match &self.spec {
            Spec::Configuration(configuration) => {
                (&configuration.spec.driver, &configuration.spec.repository)
            }
            Spec::Batch(batch) => (&batch.spec.driver, &batch.spec.repository),
            Spec::Restic(spec) => (&RESTIC, &spec.restic.spec.repository),
        };
        let repository = repository.as_ref().filter(|_| *driver != Driver::VolumeSnapshotter);
        (driver, repository.map(|repository| repository.name.as_str()))
    }

    pub(crate) fn members(&self) -> &[BackupMember] {
        match &self.spec {
            Spec::Configuration(configuration) => std::slice::from_ref(&configuration.spec.member),
            Spec::Batch(batch) => &batch.spec.members,
            Spec::Restic(spec) => &spec.members,
        }
    }

    /// The targets of its members, in their order.
    pub(crate) fn targets(&self) -> Vec<Option<TargetRef>> {
        let target = |member: &BackupMember| member.target.as_ref().map(|target| target.reference.clone());
        self.members().iter().map(target).collect()
    }

    /// Validates the invoker. `nodes`: the nodes of a member's target, if it is a DaemonSet.
    pub(crate) fn valid(&self, nodes: impl Fn(usize) -> Vec<String>) -> Result<ValidBackup, Problems> {
        let own = &self.id.namespace;
        match &self.spec {
            Spec::Configuration(configuration) => backup_configuration(own, &configuration.spec),
            Spec::Batch(batch) => {
                let hosts = backup_hosts(&batch.spec.members, nodes);
                let collisions: Vec<Collision> = collisions(&hosts);
                backup_batch(own, &batch.spec, &collisions)
            }
            Spec::Restic(spec) => restic(own, &spec.restic.spec, &spec.members),
        }
    }

    /// Its retention policy, as the spec has it.
    pub(crate) fn policy(&self) -> &RetentionPolicy {
        match &self.spec {
            Spec::Configuration(configuration) => &configuration.spec.retention_policy,
            Spec::Batch(batch) => &batch.spec.retention_policy,
            Spec::Restic(spec) => &spec.policy,
        }
    }

    /// Whether its retention policy requests a prune.
    pub(crate) fn prunes(&self) -> bool {
        let policy = self.policy();
        policy.prune && !policy.dry_run
    }

    /// The object without its status, for the state in the backend.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut object = match &self.spec {
            Spec::Configuration(configuration) => serde_json::to_value(configuration),
            Spec::Batch(batch) => serde_json::to_value(batch),
            Spec::Restic(spec) => serde_json::to_value(&spec.restic),
        }
        .unwrap_or_default();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        object
    }
}
