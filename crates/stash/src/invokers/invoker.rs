//! A BackupConfiguration or BackupBatch in one form: a BackupConfiguration is a batch with one member. Called by the controllers
//! of invokers and by sessions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifeboat_api::stash::{
    BackupBatch, BackupConfiguration, BackupMember, InvokerKind, RetentionPolicy, RetryConfig, TargetRef,
};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::hosts::{Collision, collisions};
use lifeboat_plan::stash::invoker::{
    InvokerStatus, Problems, ValidBackup, backup_batch, backup_configuration, backup_hosts,
};
use lifeboat_plan::stash::session::InvokerId;

use crate::repository::invoker_resource;

/// An invoker of backups.
#[derive(Clone, Debug)]
pub(crate) struct Invoker {
    pub(crate) id: InvokerId,
    pub(crate) uid: String,
    pub(crate) created: Option<Timestamp>,
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
}

impl Invoker {
    /// Reads the invoker of a session; None if it does not exist or cannot be read.
    pub(crate) async fn read(core: &Core, id: &InvokerId) -> Result<Option<Self>, ApiError> {
        let Some(resource) = invoker_resource(&id.kind) else { return Ok(None) };
        let api = objects::namespaced(&core.client, &id.namespace, &resource);
        let attempt = format!("read {} {}/{}", id.kind, id.namespace, id.name);
        let found = api.get_opt(&id.name).await.attempt(attempt)?;
        Ok(found.and_then(|found| Self::of(&id.kind, &found).ok()))
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
            annotations: object.metadata.annotations.clone().unwrap_or_default(),
            status,
            last_due: last_due.map(|time| time.0),
            spec,
        })
    }

    pub(crate) fn is_batch(&self) -> bool {
        matches!(self.spec, Spec::Batch(_))
    }

    /// Its retries, as the spec has them.
    pub(crate) fn retries(&self) -> Option<&RetryConfig> {
        match &self.spec {
            Spec::Configuration(configuration) => configuration.spec.retry_config.as_ref(),
            Spec::Batch(batch) => batch.spec.retry_config.as_ref(),
        }
    }

    pub(crate) fn members(&self) -> &[BackupMember] {
        match &self.spec {
            Spec::Configuration(configuration) => std::slice::from_ref(&configuration.spec.member),
            Spec::Batch(batch) => &batch.spec.members,
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
        }
    }

    /// Its retention policy, as the spec has it.
    pub(crate) fn policy(&self) -> &RetentionPolicy {
        match &self.spec {
            Spec::Configuration(configuration) => &configuration.spec.retention_policy,
            Spec::Batch(batch) => &batch.spec.retention_policy,
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
        }
        .unwrap_or_default();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        object
    }
}
