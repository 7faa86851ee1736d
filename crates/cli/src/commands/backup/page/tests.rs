//! Pages of backups, as text and as JSON.

use super::*;
use crate::error::CliError;

fn facts(backup: Value) -> Facts {
    Facts {
        backup: serde_json::from_value(backup).unwrap(),
        deletions: Vec::new(),
        records: Records::default(),
    }
}

fn partial() -> Facts {
    let mut facts = facts(json!({"apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {"name": "nightly-20261116030000", "namespace": "lifeboat",
            "labels": {"velero.io/schedule-name": "nightly"}, "annotations": {"why": "test"}},
        "spec": {"includedNamespaces": ["shop"], "labelSelector": {"matchLabels": {"app": "web"}}, "ttl": "720h0m0s",
            "storageLocation": "default", "csiSnapshotTimeout": "10m0s", "itemOperationTimeout": "4h0m0s",
            "snapshotMoveData": false,
            "orderedResources": {"pods": "shop/db-1, shop/db-0", "persistentvolumes": "pv2,pv1"},
            "hooks": {"resources": [{"name": "freeze", "pre": [{"exec": {"container": "db", "command": ["fsfreeze", "-f"]}}],
                "post": [{"exec": {"command": ["fsfreeze", "-u"]}}]}]}},
        "status": {"phase": "PartiallyFailed", "errors": 1, "warnings": 1, "startTimestamp": "2026-11-16T03:00:00Z",
            "completionTimestamp": "2026-11-16T03:00:12Z", "expiration": "2026-12-16T03:00:00Z",
            "progress": {"totalItems": 512, "itemsBackedUp": 511},
            "hookStatus": {"hooksAttempted": 2, "hooksFailed": 1},
            "backupItemOperationsAttempted": 1, "backupItemOperationsCompleted": 1}}));
    facts.records.results = Some(Ok(serde_json::from_value(json!({
        "errors": {"namespaces": {"shop": [" resource: /pods name: /db-1 message: /the hook did not answer"]}},
        "warnings": {"velero": ["Cannot find resource 'shop/db-9'."]},
    }))
    .unwrap()));
    facts.records.volumes = Some(Ok(serde_json::from_value(json!([
        {"pvcNamespace": "shop", "pvcName": "data", "pvName": "pv1", "skipped": true, "skippedReason": "no backup method applies to it"},
        {"pvcNamespace": "shop", "pvcName": "logs", "pvName": "pv2", "backupMethod": "CSISnapshot", "result": "succeeded"},
        {"pvName": "pv3", "backupMethod": "CSISnapshot", "result": "failed"},
    ]))
    .unwrap()));
    facts
}

#[test]
fn a_backup_at_a_glance() {
    insta::assert_snapshot!(page(&partial(), "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text());
}

#[test]
fn a_backup_in_detail() {
    let mut facts = partial();
    facts.records.resources =
        Some(Ok(BTreeMap::from([("v1/Pod".into(), vec!["shop/db-0".into(), "shop/db-1".into()])])));
    facts.records.operations = Some(Ok(vec![json!({"spec": {"operationID": "du-1",
        "resourceIdentifier": {"Resource": "persistentvolumeclaims", "Namespace": "shop", "Name": "data"}},
        "status": {"phase": "Completed"}})]));
    let page = page(&facts, "2026-11-16T12:00:00Z".parse().unwrap(), true);
    insta::assert_snapshot!(page.to_text());
    insta::assert_json_snapshot!("a_backup_as_json", page.to_json());
}

#[test]
fn a_new_backup_has_little_to_say() {
    let facts = facts(json!({"metadata": {"name": "b", "namespace": "lifeboat"}, "spec": {}}));
    insta::assert_snapshot!(page(&facts, "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text());
}

#[test]
fn what_cannot_be_fetched_is_said_in_its_place() {
    let mut facts = partial();
    facts.records.results = Some(Err(NotFetched::File(CliError::ended("no link"))));
    facts.records.volumes = Some(Err(NotFetched::File(CliError::ended("no link"))));
    facts.backup.status.as_mut().unwrap().failure_reason = Some("cancelled by annotation".into());
    facts.deletions = vec![
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": {"backupName": "b"},
        "status": {"phase": "Processed", "errors": ["the bucket is read-only"]}}))
        .unwrap(),
    ];
    insta::assert_snapshot!(page(&facts, "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text());
}

#[test]
fn the_store_of_the_location_is_named() {
    let mut facts = partial();
    facts.records.store = Some("plugin velero.io/aws (/plugins/velero-plugin-for-aws)".into());
    let text = page(&facts, "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text();
    let line = text.lines().find(|line| line.starts_with("Store:")).unwrap();
    assert!(line.ends_with("plugin velero.io/aws (/plugins/velero-plugin-for-aws)"), "{line}");
}

#[test]
fn a_backup_whose_storage_is_away_says_since_when() {
    let mut facts = partial();
    let waits = json!({"waits": [{"item": "the backup", "for": ["storage location default (connection refused)"],
        "since": "2026-11-16T11:55:00Z"}]});
    facts.backup.metadata.annotations = Some([(WAITING.to_owned(), waits.to_string())].into());
    let text = |facts: &Facts| page(facts, "2026-11-16T12:00:00Z".parse().unwrap(), false).to_text();
    assert!(!text(&facts).contains("Waiting"), "a backup that has ended waits for nothing");
    facts.backup.status.as_mut().unwrap().phase = Some(BackupPhase::InProgress);
    let text = text(&facts);
    let expected = "the backup waits for storage location default (connection refused) since 2026-11-16T11:55:00Z, for 5m now";
    assert!(text.contains(expected), "{text}");
}
