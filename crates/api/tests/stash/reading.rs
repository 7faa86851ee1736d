//! How our types read unusual spellings.

use lifeboat_api::stash::{
    BackupBatchSpec, BackupConfigurationSpec, BackupHookPolicy, BackupSessionPhase, BackupSessionStatus,
    Driver, NamespacesFrom, PostBackupHook, RecoveredVolume, RepositorySpec, RestoreMember,
    RestoreSessionSpec, VolumeSource,
};
use rstest::rstest;
use serde_json::json;

#[rstest]
#[case::nothing_said(json!({}), false)]
#[case::the_documents_word(json!({"maintainOrder": true}), true)]
#[case::the_documents_word_for_no(json!({"maintainOrder": false}), false)]
#[case::upstreams_word(json!({"executionOrder": "Sequential"}), true)]
#[case::upstreams_word_for_no(json!({"executionOrder": "Parallel"}), false)]
#[case::both(json!({"maintainOrder": true, "executionOrder": "Sequential"}), true)]
fn a_batch_is_sequential_in_either_spelling(#[case] order: serde_json::Value, #[case] sequential: bool) {
    let mut spec = json!({
        "members": [], "schedule": "@daily", "retentionPolicy": {"name": "keep", "prune": true},
    });
    spec.as_object_mut().expect("an object").append(order.clone().as_object_mut().expect("an object"));
    let spec: BackupBatchSpec = serde_json::from_value(spec).expect("a spec");
    assert_eq!(spec.is_sequential(), sequential);
}

#[rstest]
#[case::in_the_target(json!({"target": {"alias": "a", "rules": [{"sourceHost": "x"}]}}))]
#[case::beside_it(json!({"target": {"alias": "a"}, "rules": [{"sourceHost": "x"}]}))]
fn rules_are_found_in_either_place(#[case] member: serde_json::Value) {
    let member: RestoreMember = serde_json::from_value(member).expect("a member");
    assert_eq!(member.effective_rules()[0].source_host.as_deref(), Some("x"));
}

#[test]
fn a_restore_session_has_its_deprecated_rules_as_its_members() {
    let spec: RestoreSessionSpec =
        serde_json::from_value(json!({"rules": [{"snapshots": ["latest"]}]})).expect("a spec");
    assert_eq!(spec.member.effective_rules().len(), 1);
    assert_eq!(spec.driver, Driver::Restic);
}

#[test]
fn a_backup_configuration_has_upstreams_defaults() {
    let spec: BackupConfigurationSpec = serde_json::from_value(json!({
        "schedule": "@daily", "retentionPolicy": {"name": "keep", "prune": true}, "retryConfig": {},
    }))
    .expect("a spec");
    assert_eq!((spec.driver, spec.backup_history_limit, spec.paused), (Driver::Restic, 1, false));
    assert_eq!(spec.retry_config.map(|retry| retry.max_retry), Some(1));
}

#[test]
fn the_default_execution_policy_of_a_hook_is_always() {
    let hook: PostBackupHook =
        serde_json::from_value(json!({"exec": {"command": ["true"]}})).expect("a hook");
    assert_eq!(hook.execution_policy, BackupHookPolicy::Always);
    assert!(hook.handler.exec.is_some());
}

#[test]
fn the_default_usage_policy_allows_the_same_namespace() {
    let spec: RepositorySpec = serde_json::from_value(json!({
        "backend": {"storageSecretName": "s", "rest": {"url": "u"}}, "usagePolicy": {},
    }))
    .expect("a spec");
    assert_eq!(spec.usage_policy.map(|policy| policy.allowed_namespaces.from), Some(NamespacesFrom::Same));
}

#[test]
fn an_inline_volume_source_becomes_a_pods_volume_and_back() {
    let volume: RecoveredVolume =
        serde_json::from_value(json!({"mountPath": "/data", "hostPath": {"path": "/restored"}}))
            .expect("a volume");
    let source = volume.volume.clone();
    let pods = volume.volume.into_volume("restored");
    assert_eq!(
        (pods.name.as_str(), pods.host_path.as_ref().map(|path| path.path.as_str())),
        ("restored", Some("/restored"))
    );
    assert_eq!(VolumeSource::from_volume(pods), source);
}

#[test]
fn a_phase_of_a_later_version_does_not_make_the_object_unreadable() {
    let status: BackupSessionStatus = serde_json::from_value(json!({"phase": "Paused"})).expect("a status");
    assert_eq!(status.phase, Some(BackupSessionPhase::Other("Paused".into())));
}
