//! A BackupConfiguration or BackupBatch in one form: a BackupConfiguration is a batch with one member. Called by the controllers
//! of invokers and by sessions.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use lifeboat_api::common::{Condition, GoDuration};
use lifeboat_api::stash::{
    BackupBatch, BackupConfiguration, BackupHooks, BackupMember, Driver, InvokerKind, InvokerPhase, ObjectRef,
    RetentionPolicy, RetryConfig,
};
use lifeboat_cluster::{ApiError, Attempt, objects};
use lifeboat_control::Core;
use lifeboat_plan::stash::session::{InvokerId, Order};

/// An invoker of backups.
#[derive(Clone, Debug)]
pub(crate) struct Invoker {
    pub(crate) id: InvokerId,
    pub(crate) uid: String,
    pub(crate) created: Option<Timestamp>,
    pub(crate) generation: Option<i64>,
    pub(crate) members: Vec<BackupMember>,
    pub(crate) order: Order,
    pub(crate) schedule: String,
    pub(crate) paused: bool,
    pub(crate) driver: Driver,
    pub(crate) repository: Option<ObjectRef>,
    pub(crate) retention: RetentionPolicy,
    pub(crate) history_limit: usize,
    pub(crate) time_out: Option<GoDuration>,
    pub(crate) retry: Option<RetryConfig>,
    /// Hooks of a batch before its first and after its last member.
    pub(crate) hooks: Option<BackupHooks>,
    pub(crate) phase: Option<InvokerPhase>,
    pub(crate) conditions: Vec<Condition>,
}

/// The resource of a kind of invokers.
pub(crate) fn resource(kind: &InvokerKind) -> Option<ApiResource> {
    match kind {
        InvokerKind::BackupConfiguration => Some(objects::resource_of::<BackupConfiguration>()),
        InvokerKind::BackupBatch => Some(objects::resource_of::<BackupBatch>()),
        InvokerKind::Other(_) => None,
    }
}

impl Invoker {
    /// Reads the invoker of a session; None if it does not exist or cannot be read.
    pub(crate) async fn read(core: &Core, id: &InvokerId) -> Result<Option<Self>, ApiError> {
        let Some(resource) = resource(&id.kind) else { return Ok(None) };
        let api = objects::namespaced(&core.client, &id.namespace, &resource);
        let attempt = format!("read {} {}/{}", id.kind, id.namespace, id.name);
        let found = api.get_opt(&id.name).await.attempt(attempt)?;
        Ok(found.and_then(|found| Self::of(&id.kind, &found).ok()))
    }

    /// The invoker that an object is.
    pub(crate) fn of(kind: &InvokerKind, object: &DynamicObject) -> Result<Self, serde_json::Error> {
        match kind {
            InvokerKind::BackupBatch => objects::typed(object).map(Self::of_batch),
            _ => objects::typed(object).map(Self::of_configuration),
        }
    }

    fn of_configuration(object: BackupConfiguration) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let spec = object.spec.clone();
        Self {
            id: id(InvokerKind::BackupConfiguration, &object),
            uid: object.uid().unwrap_or_default(),
            created: object.creation_timestamp().map(|time| time.0),
            generation: object.metadata.generation,
            members: vec![spec.member],
            order: Order::Parallel,
            schedule: spec.schedule,
            paused: spec.paused,
            driver: spec.driver,
            repository: spec.repository,
            retention: spec.retention_policy,
            history_limit: usize::try_from(spec.backup_history_limit).unwrap_or_default(),
            time_out: spec.time_out,
            retry: spec.retry_config,
            hooks: None,
            phase: status.phase,
            conditions: status.conditions,
        }
    }

    fn of_batch(object: BackupBatch) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let spec = object.spec.clone();
        Self {
            id: id(InvokerKind::BackupBatch, &object),
            uid: object.uid().unwrap_or_default(),
            created: object.creation_timestamp().map(|time| time.0),
            generation: object.metadata.generation,
            order: if spec.is_sequential() { Order::Sequential } else { Order::Parallel },
            members: spec.members,
            schedule: spec.schedule,
            paused: spec.paused,
            driver: spec.driver,
            repository: spec.repository,
            retention: spec.retention_policy,
            history_limit: usize::try_from(spec.backup_history_limit).unwrap_or_default(),
            time_out: spec.time_out,
            retry: spec.retry_config,
            hooks: spec.hooks,
            phase: status.phase,
            conditions: status.conditions,
        }
    }
}

fn id(kind: InvokerKind, object: &impl ResourceExt) -> InvokerId {
    InvokerId { kind, namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}
