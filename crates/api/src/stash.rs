//! Group `stash.appscode.com`: backups and restores of single workloads, databases and batches of them, as users of
//! Stash write them. `v1beta1` is the version that Stash ships, `v1alpha1` has the Repository and the kinds of the
//! design-discussion document.
//!
//! One file per kind; shared parts have files of their own. The API server refuses invalid and contradicting values,
//! by rules that are defined with the fields. All kinds except templates have a status subresource.
#![allow(unreachable_pub, reason = "KubeSchema copies each struct, `pub` and all, into a function")]

mod backend;
mod backup_agent;
mod backup_batch;
mod backup_blueprint;
mod backup_configuration;
mod backup_session;
mod cel;
mod claim_template;
mod database;
mod function;
mod hooks;
mod host_run;
mod invoker;
mod limits;
mod member;
mod recovery;
mod reference;
mod repository;
mod restic;
mod restore_batch;
mod restore_session;
mod retention;
mod rule;
mod runtime;
mod standstill;
mod strict;
mod target;
mod task;
mod volume_source;

pub use backend::{
    AzureBackend, B2Backend, Backend, GcsBackend, LocalBackend, RestBackend, S3Backend, SwiftBackend,
};
pub use backup_agent::{AgentCommands, BackupAgent, BackupAgentSpec};
pub use backup_batch::{BackupBatch, BackupBatchSpec, BackupBatchStatus, MemberConditions};
pub use backup_blueprint::{BackupBlueprint, BackupBlueprintSpec};
pub use backup_configuration::{BackupConfiguration, BackupConfigurationSpec, BackupConfigurationStatus};
pub use backup_session::{
    BackupSession, BackupSessionPhase, BackupSessionSpec, BackupSessionStatus, BackupTargetStatus, FileStats,
    HostBackupPhase, HostBackupStats, InvokerKind, InvokerRef, SnapshotStats, TargetPhase,
};
pub use claim_template::{ClaimMetadata, ClaimTemplate};
pub use database::{ConnectionUrl, Credentials, DatabaseAccessor};
pub use function::{Function, FunctionSpec};
pub use hooks::{
    BackupHookPolicy, BackupHooks, FormEntry, HookHandler, HttpPostAction, HttpScheme, PostBackupHook,
    PostRestoreHook, RestoreHookPolicy, RestoreHooks,
};
pub use host_run::{HookPhase, HookPodRef, HostRun};
pub use invoker::{Driver, ExecutionOrder, InvokerPhase, RetryConfig};
pub use member::{BackupMember, RestoreMember};
pub use recovery::{
    ClusterRestorer, DatabaseRestorer, EarlierRecovery, ExistingObjects, RecoveredVolume, Recovery,
    RecoverySpec, RecoveryStats, RecoveryStatus, RecoveryTargetType, VolumeRestorer,
};
pub use reference::{ObjectRef, Param, TargetRef, TaskRef, TypedObjectRef};
pub use repository::{
    AllowedNamespaces, BackupRepo, BackupRepoType, NamespacesFrom, Repository, RepositorySpec,
    RepositoryStatus, UsagePolicy,
};
pub use restic::{
    BackupMode, BackupType, ClusterResources, DatabaseSelector, EarlierBackupMode, EarlierRestic, FileGroup,
    ResourceSelector, Restic, ResticSpec, ResticStatus, ResticTargetType, TargetDirectory, TargetVolume,
    VolumeSelector,
};
pub use restore_batch::{
    RestoreBatch, RestoreBatchSpec, RestoreBatchStatus, RestoreMemberStatus, RestoreTargetPhase,
};
pub use restore_session::{
    HostRestorePhase, HostRestoreStats, RestorePhase, RestoreSession, RestoreSessionSpec,
    RestoreSessionStatus, RestoredPath,
};
pub use retention::RetentionPolicy;
pub use rule::RestoreRule;
pub use runtime::{
    ContainerRuntimeSettings, IoNiceSettings, NiceSettings, PodRuntimeSettings, RuntimeSettings,
    TempDirSettings,
};
pub use standstill::{RestoreRef, StoppedWorkload};
pub(crate) use strict::Strict;
pub use target::{BackupTarget, RestoreTarget};
pub use task::{FunctionRef, Task, TaskSpec};
pub use volume_source::VolumeSource;

use crate::definition::Crd;

/// The API group of all kinds here.
pub const GROUP: &str = "stash.appscode.com";

/// The kinds that no controller of this version acts on, or not in all of their forms. They are defined, and not installed.
pub(crate) const WITHOUT_CONTROLLER: [&str; 4] = ["Restic", "Recovery", "BackupAgent", "BackupBlueprint"];

/// The CRDs of the group.
pub fn crds() -> Vec<Crd> {
    vec![
        Crd::of::<Strict<Repository>>(),
        Crd::of::<Strict<Restic>>(),
        Crd::of::<Strict<Recovery>>(),
        Crd::of::<Strict<BackupAgent>>(),
        Crd::of::<Strict<BackupConfiguration>>(),
        Crd::of::<Strict<BackupBatch>>(),
        Crd::of::<Strict<BackupSession>>(),
        Crd::of::<Strict<RestoreSession>>(),
        Crd::of::<Strict<RestoreBatch>>(),
        Crd::of::<Strict<Function>>(),
        Crd::of::<Strict<Task>>(),
        Crd::of::<Strict<BackupBlueprint>>(),
    ]
}
