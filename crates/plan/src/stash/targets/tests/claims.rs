use std::collections::BTreeSet;

use lifeboat_api::stash::{ClaimMetadata, ClaimTemplate, RestoreTarget};
use rstest::rstest;

use super::*;
use crate::stash::targets::claims::{of_stateful_set, of_templates};

#[rstest]
#[case::of_the_template(TargetKind::Deployment, workload(0, data()), vec![], &["data"])]
#[case::of_an_older_pod(TargetKind::Deployment, workload(1, json!([])), vec![pod("web-1", "n", 0, json!([{"name": "o", "persistentVolumeClaim": {"claimName": "old"}}]))], &["old"])]
#[case::ephemeral(TargetKind::Deployment, workload(1, json!([])), vec![pod("web-1", "n", 0, json!([{"name": "e", "ephemeral": {}}]))], &["web-1-e"])]
#[case::all_ordinals(TargetKind::StatefulSet, stateful_set(1), vec![], &["data-web-0", "data-web-7"])]
#[case::itself(TargetKind::Claim, json!({"metadata": {"name": "old"}}), vec![], &["old"])]
fn the_claims_of_a_target_are_found_among_all(
    #[case] kind: TargetKind,
    #[case] object: Value,
    #[case] pods: Vec<Value>,
    #[case] expected: &[&str],
) {
    let existing =
        ["data", "old", "web-1-e", "data-web-0", "data-web-7", "data-web-x", "data-other-0", "unrelated"];
    let existing: Vec<String> = existing.iter().map(|name| (*name).to_owned()).collect();
    let pods: Vec<&Value> = pods.iter().collect();
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(claims_of(kind, &object, &pods, &existing), expected);
}

#[test]
fn a_stateful_sets_claim_is_what_its_controller_would_make() {
    let object = stateful_set(3);
    let made = of_stateful_set(&object, &object["spec"]["volumeClaimTemplates"][0], 4);
    assert_eq!(made.name, "data-web-4");
    assert_eq!(
        made.object,
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-web-4", "namespace": "demo", "labels": {"tier": "db", "app": "web"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })
    );
}

pub(super) fn template(name: &str, spec: Value) -> ClaimTemplate {
    let metadata = ClaimMetadata { name: Some(name.to_owned()), ..ClaimMetadata::default() };
    let spec = serde_json::from_value(spec).unwrap();
    ClaimTemplate { metadata: Some(metadata), spec: Some(spec), ..ClaimTemplate::default() }
}

#[test]
fn ordinals_are_put_into_all_texts_of_a_template() {
    let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap-${POD_ORDINAL}"});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "dataSource": source});
    let target = RestoreTarget {
        replicas: Some(3),
        volume_claim_templates: vec![template("data-web-${POD_ORDINAL}", spec)],
        ..RestoreTarget::default()
    };
    let made = of_templates(&target, "demo", &HostOf::Ordinal(2)).unwrap();
    assert_eq!(made[0].volume, "data-web", "as upstream's mounts name it");
    assert_eq!(made[0].claim.name, "data-web-2");
    assert_eq!(made[0].claim.object["metadata"], json!({"name": "data-web-2", "namespace": "demo"}));
    assert_eq!(made[0].claim.object["spec"]["dataSource"]["name"], "snap-2");
    let alone = of_templates(&RestoreTarget { replicas: None, ..target }, "demo", &HostOf::Whole).unwrap();
    assert_eq!(alone[0].claim.name, "data-web-0");
}

#[rstest]
#[case::no_name("", None, 1, "volumeClaimTemplates[0] has no metadata.name")]
#[case::one_claim_for_all("data", None, 2, "named \"data\", and target.replicas is 2")]
#[case::unknown_variable("data-${CLAIM}", None, 1, "\"data-${CLAIM}\", with a variable that is not known")]
#[case::elsewhere("data", Some("other"), 1, "is for namespace \"other\"; expected none or \"demo\"")]
fn templates_that_make_no_claim_are_named(
    #[case] name: &str,
    #[case] namespace: Option<&str>,
    #[case] replicas: i32,
    #[case] expected: &str,
) {
    let mut template = template(name, json!({}));
    template.metadata.as_mut().unwrap().namespace = namespace.map(str::to_owned);
    let target = RestoreTarget {
        replicas: Some(replicas),
        volume_claim_templates: vec![template],
        ..RestoreTarget::default()
    };
    let error = of_templates(&target, "demo", &HostOf::Ordinal(0)).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}
