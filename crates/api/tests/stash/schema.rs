//! The CRDs themselves: names, columns and what the API server requires.

use std::sync::LazyLock;

use lifeboat_api::crds::Crd;
use lifeboat_api::{appcatalog, stash};
use rstest::rstest;
use serde_json::Value;

static ALL: LazyLock<Vec<Crd>> = LazyLock::new(|| [stash::crds(), appcatalog::crds()].concat());

fn all() -> &'static [Crd] {
    &ALL
}

fn crd(kind: &str) -> &'static Crd {
    all().iter().find(|crd| crd.kind() == kind).expect("a kind of ours")
}

#[rstest]
#[case("Repository", "repositories", "v1alpha1", "Namespaced", "repo")]
#[case("Restic", "restics", "v1alpha1", "Namespaced", "rst")]
#[case("Recovery", "recoveries", "v1alpha1", "Namespaced", "rec")]
#[case("BackupAgent", "backupagents", "v1alpha1", "Cluster", "")]
#[case("BackupConfiguration", "backupconfigurations", "v1beta1", "Namespaced", "bc")]
#[case("BackupBatch", "backupbatches", "v1beta1", "Namespaced", "")]
#[case("BackupSession", "backupsessions", "v1beta1", "Namespaced", "")]
#[case("RestoreSession", "restoresessions", "v1beta1", "Namespaced", "restore")]
#[case("RestoreBatch", "restorebatches", "v1beta1", "Namespaced", "")]
#[case("Function", "functions", "v1beta1", "Cluster", "fn")]
#[case("Task", "tasks", "v1beta1", "Cluster", "")]
#[case("BackupBlueprint", "backupblueprints", "v1beta1", "Cluster", "bb")]
#[case("AppBinding", "appbindings", "v1alpha1", "Namespaced", "")]
fn a_kind_has_upstreams_names(
    #[case] kind: &str,
    #[case] plural: &str,
    #[case] version: &str,
    #[case] scope: &str,
    #[case] short: &str,
) {
    let crd = crd(kind);
    let spec = &crd.definition().spec;
    assert_eq!((crd.plural(), spec.scope.as_str()), (plural, scope));
    assert_eq!(crd.versions()[0].name, version);
    let shorts = spec.names.short_names.clone().unwrap_or_default();
    assert_eq!(shorts.first().map_or("", String::as_str), short);
    assert!(spec.names.categories.iter().flatten().any(|category| category == "lifeboat"));
}

#[rstest]
#[case("BackupConfiguration", &["Task", "Schedule", "Paused", "Phase", "Age"])]
#[case("BackupBatch", &["Schedule", "Paused", "Phase", "Age"])]
#[case("BackupSession", &["Invoker-Type", "Invoker-Name", "Phase", "Duration", "Age", "Message"])]
#[case("RestoreSession", &["Repository", "Phase", "Duration", "Age", "Message"])]
#[case("Repository", &["Integrity", "Size", "Snapshot-Count", "Last-Successful-Backup", "Age", "Reachable", "Message"])]
#[case("BackupBlueprint", &["Task", "Schedule", "Age"])]
#[case("AppBinding", &["Type", "Version", "Age"])]
fn a_kind_has_the_columns_people_look_for(#[case] kind: &str, #[case] columns: &[&str]) {
    let crd = crd(kind);
    let shown: Vec<&str> = crd.versions()[0]
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(shown, columns);
}

#[test]
fn kinds_with_a_status_have_its_subresource_and_no_others() {
    for crd in all() {
        let version = serde_json::to_value(&crd.versions()[0]).expect("a version encodes");
        let status = version.pointer("/schema/openAPIV3Schema/properties/status").is_some();
        assert_eq!(version.pointer("/subresources/status").is_some(), status, "{}", crd.kind());
        let template =
            ["BackupAgent", "Function", "Task", "BackupBlueprint", "AppBinding"].contains(&crd.kind());
        assert_eq!(status, !template, "{}", crd.kind());
    }
}

#[test]
fn no_schema_has_what_a_structural_schema_or_our_rules_cannot_have() {
    for crd in all() {
        let schema = serde_json::to_value(crd.definition()).expect("a CRD encodes");
        for word in ["nullable", "anyOf", "oneOf", "allOf", "$ref"] {
            assert!(!has_key(&schema, word), "{} has {word}", crd.kind());
        }
    }
}

/// `kubectl apply` without `--server-side` keeps a copy in an annotation, and those have a limit.
#[test]
fn every_definition_is_small_enough_for_a_plain_kubectl_apply() {
    for crd in all() {
        let size = serde_json::to_string(crd.definition()).expect("a CRD encodes").len();
        assert!(size < 256 * 1024, "{}: {size} bytes", crd.kind());
    }
}

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(fields) => fields.contains_key(key) || fields.values().any(|field| has_key(field, key)),
        Value::Array(items) => items.iter().any(|item| has_key(item, key)),
        _ => false,
    }
}
