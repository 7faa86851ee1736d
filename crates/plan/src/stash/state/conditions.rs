//! The conditions of Stash's kinds: their types, and upstream's reason for each status. Used by all code that writes
//! a status, so that a type has one spelling and only its own reasons.

use jiff::Timestamp;
use lifeboat_api::common::{Condition, Time};

/// The most bytes of a message. The API server refuses more than 32768; a status has many.
const LONGEST_MESSAGE: usize = 4096;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Declares the condition types: their level, and the reasons for True, False and Unknown.
macro_rules! condition_types {
    ($($(#[$doc:meta])* $level:ident $name:ident: $yes:literal, $no:literal $(, $unknown:literal)?;)+) => {
        /// The type of a condition.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ConditionType {
            $($(#[$doc])* $name,)+
        }

        impl ConditionType {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name as it is written in a status.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// Whether the condition is about the whole object or about one member.
            #[allow(clippy::match_same_arms, reason = "one line for each type, from the table below")]
            pub fn level(self) -> Level {
                match self {
                    $(Self::$name => Level::$level,)+
                }
            }

            /// The reason of the condition for this status.
            #[allow(clippy::match_same_arms, reason = "one line for each type, from the table below")]
            fn reason(self, truth: Truth) -> &'static str {
                match (self, truth) {
                    $((Self::$name, Truth::True) => $yes,
                    (Self::$name, Truth::False) => $no,
                    $((Self::$name, Truth::Unknown) => $unknown,)?)+
                    (_, Truth::Unknown) => "NotKnown",
                }
            }
        }
    };
}

/// What a condition is about. In a status with one member only, such as that of a RestoreSession, the conditions of both
/// levels are in one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The invoker or the session as a whole.
    Session,
    /// One member.
    Member,
}

condition_types! {
    /// The Repository exists and may be used.
    Session RepositoryFound: "RepositoryAvailable", "RepositoryNotAvailable", "UnableToCheckRepositoryAvailability";
    /// The Secret of the Repository's backend exists.
    Session BackendSecretFound: "BackendSecretAvailable", "BackendSecretNotAvailable", "UnableToCheckBackendSecretAvailability";
    /// Ours, of a Repository: the server can open the restic repository.
    Session RepositoryReachable: "RepositoryOpened", "RepositoryNotOpened", "OpenedByMovers";
    /// Ours, of a Repository: the last prune and check.
    Session RepositoryMaintained: "MaintenanceSucceeded", "MaintenanceFailed";
    /// Ours, of a Repository that is being deleted: its data was deleted.
    Session DataWipedOut: "DataDeleted", "DataNotDeleted";
    /// The spec is valid.
    Session ValidationPassed: "ResourceValidationPassed", "ResourceValidationFailed";
    /// The target of a backup exists.
    Member BackupTargetFound: "TargetAvailable", "TargetNotAvailable", "UnableToCheckTargetAvailability";
    /// Ours: the target of a backup exists, and the next session will not find what the invoker names in it.
    Member BackupTargetIncomplete: "NamesNotFound", "NamesFound";
    /// The target of a restore exists.
    Member RestoreTargetFound: "TargetAvailable", "TargetNotAvailable", "UnableToCheckTargetAvailability";
    /// Upstream's only: a sidecar is in the workload.
    Member StashSidecarInjected: "SidecarInjectionSucceeded", "SidecarInjectionFailed";
    /// Upstream's only: an init container is in the workload.
    Member StashInitContainerInjected: "InitContainerInjectionSucceeded", "InitContainerInjectionFailed";
    /// The schedule is in force.
    Session CronJobCreated: "CronJobCreationSucceeded", "CronJobCreationFailed";
    /// The hook of a BackupBatch before its first member.
    Session GlobalPreBackupHookSucceeded: "GlobalPreBackupHookExecutedSuccessfully", "GlobalPreBackupHookExecutionFailed";
    /// The hook of a BackupBatch after its last member.
    Session GlobalPostBackupHookSucceeded: "GlobalPostBackupHookExecutedSuccessfully", "GlobalPostBackupHookExecutionFailed";
    /// The hook of a RestoreBatch before its first member.
    Session GlobalPreRestoreHookSucceeded: "GlobalPreRestoreHookExecutedSuccessfully", "GlobalPreRestoreHookExecutionFailed";
    /// The hook of a RestoreBatch after its last member.
    Session GlobalPostRestoreHookSucceeded: "GlobalPostRestoreHookExecutedSuccessfully", "GlobalPostRestoreHookExecutionFailed";
    /// The hosts of a backup's member are known, and movers can be sent.
    Member BackupExecutorEnsured: "SuccessfullyEnsuredBackupExecutor", "FailedToEnsureBackupExecutor";
    /// The hooks before the hosts of a backup's member.
    Member PreBackupHookExecutionSucceeded: "SuccessfullyExecutedPreBackupHook", "FailedToExecutePreBackupHook";
    /// The hooks after the hosts of a backup's member.
    Member PostBackupHookExecutionSucceeded: "SuccessfullyExecutedPostBackupHook", "FailedToExecutePostBackupHook";
    /// The backup of a member was stopped from outside.
    Member BackupDisrupted: "BackupDisrupted", "BackupNotDisrupted";
    /// The repository exists in the backend.
    Session BackendRepositoryInitialized: "BackendRepositoryFound", "FailedToInitializeBackendRepository";
    /// Old snapshots were forgotten.
    Session RetentionPolicyApplied: "SuccessfullyAppliedRetentionPolicy", "FailedToApplyRetentionPolicy";
    /// The repository was checked.
    Session RepositoryIntegrityVerified: "SuccessfullyVerifiedRepositoryIntegrity", "FailedToVerifyRepositoryIntegrity";
    /// The Repository's status has the new sizes.
    Session RepositoryMetricsPushed: "SuccessfullyPushedRepositoryMetrics", "FailedToPushRepositoryMetrics";
    /// The last step of every session.
    Session MetricsPushed: "SuccessfullyPushedMetrics", "FailedToPushMetrics";
    /// The session did not run; the message says why.
    Session BackupSkipped: "SkippedTakingNewBackup", "BackupNotSkipped";
    /// Old sessions of the invoker were deleted.
    Session BackupHistoryCleaned: "SuccessfullyCleanedBackupHistory", "FailedToCleanBackupHistory";
    /// The session did not end in time.
    Session DeadlineExceeded: "FailedToCompleteWithinDeadline", "WithinDeadline";
    /// Ours: requests of the session have been failing since the transition time; the message has the cause.
    Session Interrupted: "RequestsFail", "RequestsSucceed";
    /// The Jobs of a restore's member were created.
    Member RestoreJobCreated: "RestoreJobCreationSucceeded", "RestoreJobCreationFailed";
    /// The hosts of a restore's member are known, and movers can be sent.
    Member RestoreExecutorEnsured: "SuccessfullyEnsuredRestoreExecutor", "FailedToEnsureRestoreExecutor";
    /// False while steps after the data of a restore's member are left, such as starting the workload, and if the restore failed.
    Member RestoreCompleted: "PostRestoreTasksExecuted", "PostRestoreTasksNotExecuted";
    /// The hooks before the hosts of a restore's member.
    Member PreRestoreHookExecutionSucceeded: "SuccessfullyExecutedPreRestoreHook", "FailedToExecutePreRestoreHook";
    /// The hooks after the hosts of a restore's member.
    Member PostRestoreHookExecutionSucceeded: "SuccessfullyExecutedPostRestoreHook", "FailedToExecutePostRestoreHook";
    /// Ours: a session or a member waits, because another session has the target.
    Member TargetInUse: "OtherSessionOnTarget", "TargetFree";
    /// Ours: the replicas of the target share no volume, and one was backed up.
    Member OtherReplicasNotBackedUp: "ReplicasShareNoVolume", "ReplicasShareVolumes";
    /// Ours: a DaemonSet has fewer pods than nodes to run on.
    Member PodsMissing: "FewerPodsThanNodes", "PodsOnAllNodes";
    /// Ours: a mount is below a path of another volume, and its files are not in that path's snapshot.
    Member MountBelowPath: "MountNotInPath", "MountsInPaths";
    /// Ours: volumes without CSI snapshots were read as they are.
    Member VolumeReadLive: "NoSnapshotOfVolume", "SnapshotsOfVolumes";
    /// Ours: driver VolumeSnapshotter takes no snapshots of some volumes of the target.
    Member VolumesWithoutSnapshot: "NoClaimOfVolume", "ClaimsOfVolumes";
    /// Ours: claims of a restore get their volumes, and their data, when pods use them.
    Member ClaimsAwaitPods: "WaitForFirstConsumer", "VolumesMade";
    /// Ours: rules in their deprecated place were read as `target.rules`.
    Member RulesMoved: "DeprecatedRulesRead", "RulesInTarget";
    /// Ours: hosts of a restore for which there is no rule were not changed.
    Member HostsWithoutRule: "NoRuleForHosts", "RulesForAllHosts";
    /// Ours: a restore stopped the workload; False: it stays stopped, and the message says what to do.
    Member WorkloadStarted: "ScaleRestored", "WorkloadStaysDown", "WorkloadIsStopped";
    /// Ours: a restore has started to write and has not succeeded, so its target is not backed up.
    Member BackupsBlocked: "RestoreUnfinished", "BackupsAllowed";
    /// Ours: remarks about the snapshots that a restore takes.
    Member RestoreRemarks: "SnapshotsWithRemarks", "NoRemarks";
    /// Ours: owners of files that a restore was not allowed to set.
    Member OwnersNotRestored: "NotPermitted", "OwnersRestored";
}

/// The reason of `ValidationPassed=False` while another invoker has the repository.
pub const REPOSITORY_IN_USE: &str = "RepositoryInUse";

/// The reason of `RestoreCompleted=False` when the steps of a member have ended and it failed.
const RESTORE_FAILED: &str = "RestoreFailed";

/// The reason of `RepositoryReachable=False` if a mover, not the server, tried to open the repository.
pub const NOT_OPENED_BY_MOVER: &str = "RepositoryNotOpenedByMover";

/// A condition that was observed, without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub kind: ConditionType,
    pub truth: Truth,
    pub reason: &'static str,
    pub message: String,
}

impl ConditionType {
    /// The observation that the condition has a status, with upstream's reason for it.
    pub fn observed(self, truth: Truth, message: impl Into<String>) -> Observation {
        Observation {
            kind: self,
            truth,
            reason: self.reason(truth),
            message: bounded(message.into(), LONGEST_MESSAGE),
        }
    }

    pub fn yes(self, message: impl Into<String>) -> Observation {
        self.observed(Truth::True, message)
    }

    pub fn no(self, message: impl Into<String>) -> Observation {
        self.observed(Truth::False, message)
    }

    /// The status in a list; None if the list has no such condition.
    pub fn status_in(self, conditions: &[Condition]) -> Option<Truth> {
        let condition = conditions.iter().find(|condition| condition.type_ == self.name())?;
        Some(match condition.status.as_str() {
            "True" => Truth::True,
            "False" => Truth::False,
            _ => Truth::Unknown,
        })
    }

    pub fn is_true(self, conditions: &[Condition]) -> bool {
        self.status_in(conditions) == Some(Truth::True)
    }

    pub fn is_false(self, conditions: &[Condition]) -> bool {
        self.status_in(conditions) == Some(Truth::False)
    }

    /// Whether steps after the data of a restore's member are left.
    pub fn is_restore_open(conditions: &[Condition]) -> bool {
        let known = conditions.iter().find(|known| known.type_ == Self::RestoreCompleted.name());
        known.is_some_and(|known| known.status == "False" && known.reason != RESTORE_FAILED)
    }

    /// The type with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

impl Observation {
    /// The invoker waits because another one has the repository; the message names it.
    pub fn repository_in_use(message: impl Into<String>) -> Self {
        Self { reason: REPOSITORY_IN_USE, ..ConditionType::ValidationPassed.no(message) }
    }

    /// All steps of a restore's member were done; not all of its data was restored, or its workload stays stopped.
    pub fn restore_failed() -> Self {
        let message =
            "the restore has ended and failed; the errors of its hosts and the other conditions say why";
        Self { reason: RESTORE_FAILED, ..ConditionType::RestoreCompleted.no(message) }
    }

    /// A mover could not open the repository of a Repository.
    pub fn not_opened_by_mover(message: impl Into<String>) -> Self {
        Self { reason: NOT_OPENED_BY_MOVER, ..ConditionType::RepositoryReachable.no(message) }
    }

    /// Writes the condition into a list; the others stay, and the transition time stays while the status does.
    pub fn set_in(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        crate::conditions::set(
            conditions,
            Condition {
                type_: self.kind.name().to_owned(),
                status: self.truth.as_str().to_owned(),
                reason: self.reason.to_owned(),
                message: self.message.clone(),
                last_transition_time: Time(now),
                observed_generation: None,
            },
        );
    }
}

/// The message, cut after so many bytes.
pub(super) fn bounded(mut message: String, longest: usize) -> String {
    if message.len() > longest {
        let end = (0..=longest).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::found(ConditionType::RepositoryFound, Truth::True, "RepositoryAvailable")]
    #[case::missing(ConditionType::BackendSecretFound, Truth::False, "BackendSecretNotAvailable")]
    #[case::not_asked(ConditionType::BackupTargetFound, Truth::Unknown, "UnableToCheckTargetAvailability")]
    #[case::no_word_of_upstream(ConditionType::MetricsPushed, Truth::Unknown, "NotKnown")]
    #[case::deadline(ConditionType::DeadlineExceeded, Truth::True, "FailedToCompleteWithinDeadline")]
    #[case::skipped(ConditionType::BackupSkipped, Truth::True, "SkippedTakingNewBackup")]
    #[case::global(
        ConditionType::GlobalPostRestoreHookSucceeded,
        Truth::False,
        "GlobalPostRestoreHookExecutionFailed"
    )]
    fn a_status_has_upstreams_reason(
        #[case] kind: ConditionType,
        #[case] truth: Truth,
        #[case] reason: &str,
    ) {
        assert_eq!(kind.observed(truth, "text").reason, reason);
    }

    #[test]
    fn every_type_has_a_name_of_its_own_and_reasons_that_the_api_server_takes() {
        for kind in ConditionType::ALL {
            assert_eq!(ConditionType::named(kind.name()), Some(*kind));
            for truth in [Truth::True, Truth::False, Truth::Unknown] {
                let reason = kind.observed(truth, "").reason;
                assert!(!reason.is_empty() && reason.chars().all(|c| c.is_ascii_alphanumeric()), "{reason}");
            }
        }
        assert_eq!(ConditionType::named("Ready"), None);
    }

    #[test]
    fn a_condition_is_set_read_and_keeps_its_transition_time() {
        let (first, second) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let mut conditions = Vec::new();
        ConditionType::ValidationPassed.yes("valid").set_in(&mut conditions, first);
        ConditionType::ValidationPassed.yes("still valid").set_in(&mut conditions, second);
        assert_eq!(conditions[0].last_transition_time, Time(first));
        assert!(ConditionType::ValidationPassed.is_true(&conditions));
        Observation::repository_in_use("BackupBatch demo/other").set_in(&mut conditions, second);
        assert!(ConditionType::ValidationPassed.is_false(&conditions));
        assert_eq!(conditions[0].reason, "RepositoryInUse");
        assert_eq!(conditions[0].last_transition_time, Time(second));
        assert_eq!(ConditionType::CronJobCreated.status_in(&conditions), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = ConditionType::BackupSkipped.yes("ä".repeat(4096)).message;
        assert!(message.len() <= LONGEST_MESSAGE + '…'.len_utf8());
        assert!(message.ends_with('…'));
    }
}
