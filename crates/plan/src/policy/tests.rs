//! Policies parsed from text and evaluated for volumes.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn volume(spec: &Value) -> VolumeFacts {
    let mut volume = json!({"spec": {"capacity": {"storage": "5Gi"}, "storageClassName": "fast",
        "claimRef": {"name": "data"}}});
    for (field, value) in spec.as_object().unwrap() {
        volume["spec"][field] = value.clone();
    }
    VolumeFacts::of_volume(&volume)
}

fn action(conditions: &str, facts: &VolumeFacts) -> Option<VolumeAction> {
    let text =
        format!("version: v1\nvolumePolicies:\n- conditions: {conditions}\n  action:\n    type: fs-backup\n");
    Policies::parse(&text).unwrap().action(facts)
}

#[rstest]
#[case::none("{}", true)]
#[case::capacity("{capacity: \"1Gi,10Gi\"}", true)]
#[case::too_small("{capacity: \"6Gi,\"}", false)]
#[case::too_big("{capacity: \",1000Mi\"}", false)]
#[case::class("{storageClass: [slow, fast]}", true)]
#[case::other_class("{storageClass: [slow]}", false)]
#[case::any_csi("{csi: {}}", true)]
#[case::driver("{csi: {driver: ebs, volumeAttributes: {tier: a}}}", true)]
#[case::other_attribute("{csi: {driver: ebs, volumeAttributes: {tier: b}}}", false)]
#[case::nfs("{nfs: {}}", false)]
#[case::volume_type("{volumeTypes: [csi, nfs]}", true)]
#[case::other_volume_type("{volumeTypes: [hostPath]}", false)]
#[case::claim_label("{pvcLabels: {app: db}}", true)]
#[case::other_claim_label("{pvcLabels: {app: web}}", false)]
#[case::claim_phase("{pvcPhase: [Pending, Bound]}", true)]
#[case::claim_modes("{pvcAccessModes: [ReadWriteOnce], pvcVolumeMode: Filesystem}", true)]
#[case::other_mode("{pvcVolumeMode: Block}", false)]
fn conditions_hold(#[case] conditions: &str, #[case] expected: bool) {
    let claim = json!({"metadata": {"labels": {"app": "db"}}, "status": {"phase": "Bound"},
        "spec": {"volumeMode": "Filesystem", "accessModes": ["ReadWriteOnce"]}});
    let facts =
        volume(&json!({"csi": {"driver": "ebs", "volumeAttributes": {"tier": "a"}}})).with_claim(&claim);
    assert_eq!(action(conditions, &facts).is_some(), expected);
}

#[test]
fn the_first_policy_that_fits_counts() {
    let text = "version: v1
volumePolicies:
- conditions: {storageClass: [other]}
  action: {type: snapshot}
- conditions: {capacity: \"1Gi,\"}
  action: {type: skip, parameters: {a: b}}
- conditions: {}
  action: {type: fs-backup}
";
    assert_eq!(Policies::parse(text).unwrap().action(&volume(&json!({}))), Some(VolumeAction::Skip));
}

#[test]
fn a_pods_volume_has_a_type_too() {
    let facts = VolumeFacts::of_pod_volume(&json!({"name": "tmp", "emptyDir": {}}));
    assert_eq!(action("{volumeTypes: [emptyDir]}", &facts), Some(VolumeAction::FsBackup));
}

#[rstest]
#[case::not_yaml("version: [", "cannot be read")]
#[case::version("version: v2", "\"v2\"")]
#[case::unknown_field("version: v1\nvolumePolicy: []", "cannot be read")]
#[case::unknown_condition(
    "version: v1\nvolumePolicies:\n- conditions: {size: 1}\n  action: {type: skip}",
    "cannot be read"
)]
#[case::action("version: v1\nvolumePolicies:\n- action: {type: copy}", "\"copy\"")]
#[case::capacity(
    "version: v1\nvolumePolicies:\n- conditions: {capacity: 10Gi}\n  action: {type: skip}",
    "\"10Gi\""
)]
// It would match every CSI volume, and with `skip` leave out all their data.
#[case::attributes_of_no_driver(
    "version: v1\nvolumePolicies:\n- conditions: {csi: {volumeAttributes: {tier: a}}}\n  action: {type: skip}",
    "volumePolicies[0].conditions.csi.volumeAttributes"
)]
#[case::star("version: v1\nincludeExcludePolicy: {includedClusterScopedResources: [\"*\"]}", "'*'")]
#[case::both(
    "version: v1\nincludeExcludePolicy: {includedNamespaceScopedResources: [a], excludedNamespaceScopedResources: [a]}",
    "\"a\""
)]
#[case::no_filters("version: v1\nclusterScopedFilterPolicy: {}", "at least one")]
#[case::cluster_needs_kinds(
    "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{names: []}]}",
    "clusterScopedFilterPolicy.resourceFilters[0]: kinds"
)]
#[case::no_namespaces(
    "version: v1\nnamespacedFilterPolicies: [{resourceFilters: [{kinds: [pods]}]}]",
    "namespacedFilterPolicies[0]"
)]
#[case::namespace_twice(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{}]}, {namespaces: [a], resourceFilters: [{}]}]",
    "namespacedFilterPolicies[1]: the namespace \"a\""
)]
#[case::kind_twice(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [x]}, {kinds: [x]}]}]",
    "\"x\""
)]
#[case::two_for_every_kind(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{}, {kinds: [\"*\"]}]}]",
    "only one"
)]
#[case::names_for_every_kind(
    "version: v1\nnamespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{names: [x]}]}]",
    "need kinds"
)]
#[case::two_ways_of_labels(
    "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: [a], labelSelector: {matchLabels: {a: b}}, orLabelSelectors: [{}]}]}",
    "cannot both"
)]
#[case::operator(
    "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: [a], labelSelector: {matchExpressions: [{key: a, operator: Is}]}}]}",
    "\"Is\""
)]
#[case::unknown_filter_field(
    "version: v1\nclusterScopedFilterPolicy: {resourceFilters: [{kinds: [a], name: x}]}",
    "cannot be read"
)]
fn a_bad_policy_is_refused(#[case] text: &str, #[case] named: &str) {
    let error = Policies::parse(text).unwrap_err().to_string();
    assert!(error.contains(named), "{error}");
}

#[rstest]
#[case("10Gi", 10.0 * 1_073_741_824.0)]
#[case("1.5G", 1.5e9)]
#[case("500m", 0.5)]
#[case("1e3", 1000.0)]
#[case("2E", 2e18)]
fn quantities_are_read(#[case] text: &str, #[case] expected: f64) {
    let bytes = Quantity::parse(text).unwrap();
    assert!(bytes == Quantity::parse(&format!("{expected}")).unwrap(), "{bytes:?}");
}

#[rstest]
#[case("ten")]
#[case("inf")]
#[case("10Gi ,")]
fn what_is_no_quantity_is_refused(#[case] text: &str) {
    assert!(Quantity::parse(text).is_none());
}

#[test]
fn a_config_map_has_one_policy() {
    assert_eq!(Policies::from_data(&BTreeMap::new()), Err(PolicyError::Keys(0)));
    let one = [("any".to_owned(), "version: v1".to_owned())].into();
    assert_eq!(Policies::from_data(&one), Ok(Policies::default()));
}
