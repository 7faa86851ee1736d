//! Restores: the claims of templates, the snapshot of each, and whether they have their data.

use std::time::Duration;

use lifeboat_api::stash::{RestoreRule, RestoreTarget};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::*;
use super::snapshot;
use crate::stash::hosts::HostName;

fn target(name: &str, replicas: Option<i32>, changes: &Value) -> RestoreTarget {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "512Mi"}}});
    for (field, value) in changes.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let template = json!({"metadata": {"name": name}, "spec": spec});
    serde_json::from_value(json!({"replicas": replicas, "volumeClaimTemplates": [template]})).unwrap()
}

#[rstest]
#[case::another_kind(json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "data"}}), "spec.dataSource has")]
#[case::elsewhere(
    json!({"dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x", "namespace": "bank"}}),
    "spec.dataSourceRef has"
)]
#[case::a_volume(json!({"volumeName": "pv-1"}), "spec.volumeName chooses an existing volume")]
#[case::a_selector(json!({"selector": {"matchLabels": {"a": "b"}}}), "spec.selector chooses an existing volume")]
fn a_template_may_name_only_a_snapshot_of_its_namespace(#[case] changes: Value, #[case] says: &str) {
    let error = restored_claims(&target("data", None, &changes), "shop").unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

#[rstest]
#[case::one_name("data", Some(2), "all replicas would get one claim")]
#[case::too_many("data-${POD_ORDINAL}", Some(i32::MAX), "is too many")]
fn claims_have_names_of_their_own_and_are_bounded(
    #[case] name: &str,
    #[case] replicas: Option<i32>,
    #[case] says: &str,
) {
    let error = restored_claims(&target(name, replicas, &json!({})), "shop").unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

#[test]
fn rules_cannot_choose_parts_of_a_snapshot() {
    let rule = RestoreRule { paths: Some(vec!["/data".into()]), ..RestoreRule::default() };
    assert!(check_rules(&[rule]).unwrap_err().to_string().contains("paths chooses parts"));
    let rule = RestoreRule { paths: Some(Vec::new()), ..RestoreRule::default() };
    assert_eq!(check_rules(&[rule]), Ok(()));
}

/// Two claims `back-0` and `back-1`, made from templates.
fn two_claims(changes: &Value) -> Vec<RestoredClaim> {
    restored_claims(&target("back-${POD_ORDINAL}", Some(2), changes), "shop").unwrap()
}

fn stored() -> Vec<Value> {
    vec![
        snapshot("db-0-old", "db-0", "u1", "2026-01-01T00:00:00Z"),
        snapshot("db-0-new", "db-0", "u2", "2026-01-02T00:00:00Z"),
        snapshot("db-1-new", "db-1", "u2", "2026-01-02T00:00:00Z"),
        snapshot("back-0-own", "back-0", "u2", "2026-01-02T00:00:00Z"),
        snapshot("back-1-own", "back-1", "u2", "2026-01-02T00:00:00Z"),
    ]
}

/// `claim=snapshot` for each host, or the message.
fn selected(rules: &Value, claims: &[RestoredClaim], snapshots: &[Value]) -> Result<String, String> {
    let rules: Vec<RestoreRule> = serde_json::from_value(rules.clone()).unwrap();
    match select_snapshots(&rules, claims, snapshots) {
        SnapshotSelection::Found(selection) => {
            let shown = selection
                .hosts
                .iter()
                .map(|host| format!("{}={}", host.name, host.parts.as_ref().unwrap()[0].snapshot));
            let left = selection.left_alone.iter().map(|host| format!("{host} is left alone"));
            Ok(shown.chain(left).collect::<Vec<_>>().join(" "))
        }
        SnapshotSelection::NotReady(message) | SnapshotSelection::Failed(message) => Err(message),
    }
}

#[rstest]
#[case::no_rule(json!([]), Ok("back-0=back-0-own back-1=back-1-own"))]
#[case::of_other_claims(json!([{"sourceHost": "db-${POD_ORDINAL}"}]), Ok("back-0=db-0-new back-1=db-1-new"))]
#[case::latest(json!([{"sourceHost": "db-0", "snapshots": ["latest"]}]), Ok("back-0=db-0-new back-1=db-0-new"))]
#[case::named(json!([{"snapshots": ["db-0-old"]}]), Ok("back-0=db-0-old back-1=db-0-old"))]
#[case::one_for_each(
    json!([{"sourceHost": "db-${POD_ORDINAL}", "snapshots": ["db-1-new", "db-0-old"]}]), Ok("back-0=db-0-old back-1=db-1-new")
)]
#[case::one_host(
    json!([{"targetHosts": ["back-1"], "snapshots": ["db-0-old"]}]), Ok("back-1=db-0-old back-0 is left alone")
)]
#[case::missing(json!([{"snapshots": ["gone"]}]), Err("VolumeSnapshot gone does not exist"))]
#[case::not_of_the_source(
    json!([{"sourceHost": "db-1", "snapshots": ["db-0-old"]}]), Err("is of claim db-0, and the rule takes data of source host db-1")
)]
#[case::none_of_the_source(json!([{"sourceHost": "web"}]), Err("no session has taken a VolumeSnapshot of claim web"))]
#[case::two_of_one_claim(
    json!([{"sourceHost": "db-0", "snapshots": ["db-0-old", "db-0-new"]}]), Err("not exactly one was taken of claim db-0")
)]
#[case::unknown_host(json!([{"targetHosts": ["app-0"]}]), Err("hosts are claims, and these are back-0, back-1"))]
fn each_claim_gets_the_snapshot_of_its_rule(#[case] rules: Value, #[case] expected: Result<&str, &str>) {
    match (selected(&rules, &two_claims(&json!({})), &stored()), expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected),
        (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
        (found, expected) => panic!("{found:?}, not {expected:?}"),
    }
}

#[test]
fn a_template_names_its_snapshot_as_upstreams_manifests_do() {
    let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "db-${POD_ORDINAL}-new"});
    let claims = two_claims(&json!({"dataSource": source}));
    let found = selected(&json!([]), &claims, &stored());
    assert_eq!(found.as_deref(), Ok("back-0=db-0-new back-1=db-1-new"));
    let error = selected(&json!([{"snapshots": ["db-0-old"]}]), &claims, &stored()).unwrap_err();
    assert!(error.contains("remove one of the two"), "{error}");
}

#[test]
fn a_failed_selection_lists_what_could_be_restored() {
    let error = selected(&json!([{"sourceHost": "web"}]), &two_claims(&json!({})), &stored()).unwrap_err();
    assert!(error.contains("The namespace has VolumeSnapshots"), "{error}");
    assert!(error.contains("db-0-old (of claim db-0)"), "{error}");
}

#[test]
fn snapshots_of_others_and_those_that_are_not_ready_are_never_the_newest() {
    let mut unready = snapshot("unready", "back-0", "u3", "2026-01-09T00:00:00Z");
    unready["status"]["readyToUse"] = json!(false);
    let mut foreign = snapshot("foreign", "back-0", "", "2026-01-09T00:00:00Z");
    foreign["metadata"]["labels"] = json!({});
    let mut all = stored();
    all.extend([unready, foreign]);
    let claims = two_claims(&json!({}));
    assert_eq!(selected(&json!([]), &claims, &all).as_deref(), Ok("back-0=back-0-own back-1=back-1-own"));
    // One that is named is waited for, and may be of anybody.
    let waits = selected(&json!([{"snapshots": ["unready"]}]), &claims, &all).unwrap_err();
    assert!(waits.contains("waits for VolumeSnapshot unready for claim back-0"), "{waits}");
    let named = selected(&json!([{"snapshots": ["foreign"]}]), &claims, &all);
    assert_eq!(named.as_deref(), Ok("back-0=foreign back-1=foreign"));
}

#[rstest]
#[case::small("512Mi", "1Gi", "1Gi")]
#[case::as_large("1Gi", "1Gi", "1Gi")]
#[case::larger("2Gi", "1Gi", "2Gi")]
#[case::in_other_units("1073741824", "1Gi", "1073741824")]
#[case::size_not_known("512Mi", "", "512Mi")]
#[case::size_zero("512Mi", "0", "512Mi")]
fn a_claim_is_at_least_as_large_as_its_snapshot(
    #[case] asked: &str,
    #[case] restore_size: &str,
    #[case] expected: &str,
) {
    let resources = json!({"resources": {"requests": {"storage": asked}}});
    let claim = &restored_claims(&target("data", None, &resources), "shop").unwrap()[0];
    let mut from = snapshot("data-1", "data", "u1", "2026-01-01T00:00:00Z");
    from["status"]["restoreSize"] = json!(restore_size);
    let made = claim_from(&claim.claim, &from, "r1");
    assert_eq!(made["spec"]["resources"]["requests"]["storage"], expected);
    assert_eq!(made["spec"]["dataSource"]["name"], "data-1");
    assert!(is_of_restore(&made, "r1") && !is_of_restore(&made, "r2"));
    assert_eq!(claim.host(), HostName::from("data"));
}

#[rstest]
#[case::bound("Bound", "Immediate", None, 0, Filling::Filled)]
#[case::at_work("Pending", "Immediate", None, 9_000, Filling::Waits("waits for the volume, which its driver makes from the snapshot".into()))]
#[case::failing("Pending", "Immediate", Some("quota"), 60, Filling::Waits("quota".into()))]
#[case::failed("Pending", "Immediate", Some("quota"), 601, Filling::Failed("no volume could be made from the snapshot: quota".into()))]
#[case::nobody_uses_it("Pending", "WaitForFirstConsumer", None, 0, Filling::AwaitsPod)]
#[case::lost("Lost", "Immediate", None, 0, Filling::Failed("the volume of the claim is gone".into()))]
fn a_claim_is_filled_fails_or_awaits_its_pod(
    #[case] phase: &str,
    #[case] mode: &str,
    #[case] complaint: Option<&str>,
    #[case] seconds: u64,
    #[case] expected: Filling,
) {
    let claim = json!({"metadata": {"name": "data"}, "status": {"phase": phase}});
    let class = json!({"volumeBindingMode": mode});
    let facts = RestoredClaimFacts {
        claim: Some(&claim),
        volume: None,
        class: Some(&class),
        pods: &[],
        complaint,
        waited: Duration::from_secs(seconds),
    };
    assert_eq!(filling(&facts), expected);
}

#[rstest]
#[case::none("", "the claim has no storage class")]
#[case::missing("fast", "StorageClass fast does not exist")]
fn a_claim_without_a_class_is_given_up_after_a_while(#[case] class: &str, #[case] says: &str) {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"storageClassName": class}, "status": {"phase": "Pending"}});
    let at = |seconds| {
        filling(&RestoredClaimFacts {
            claim: Some(&claim),
            volume: None,
            class: None,
            pods: &[],
            complaint: None,
            waited: Duration::from_secs(seconds),
        })
    };
    assert!(matches!(at(599), Filling::Waits(_)), "the default class may come");
    assert!(matches!(at(600), Filling::Failed(message) if message.contains(says)));
}

#[test]
fn a_pod_that_waits_for_its_claim_fills_it() {
    let claim = json!({"metadata": {"name": "data"}, "status": {"phase": "Pending"}});
    let class = json!({"volumeBindingMode": "WaitForFirstConsumer"});
    let pods = [json!({"metadata": {"name": "db-0"}, "status": {"phase": "Pending"},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}})];
    let at = |seconds| {
        filling(&RestoredClaimFacts {
            claim: Some(&claim),
            volume: None,
            class: Some(&class),
            pods: &pods,
            complaint: None,
            waited: Duration::from_secs(seconds),
        })
    };
    assert_eq!(at(10), Filling::Waits("waits for a node for pod db-0".into()));
    assert_eq!(at(121), Filling::AwaitsPod, "whether it gets a node is not known");
}

#[rstest]
#[case::made_for_it("2026-01-01T00:00:05Z", true)]
#[case::in_the_same_second("2026-01-01T00:00:00Z", true)]
#[case::older("2025-12-31T00:00:00Z", false)]
fn a_volume_that_was_there_before_has_no_data_of_the_snapshot(#[case] made: &str, #[case] filled: bool) {
    let claim = json!({"metadata": {"name": "data", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Bound"}});
    let volume = json!({"metadata": {"name": "pv-1", "creationTimestamp": made}});
    let facts = RestoredClaimFacts {
        claim: Some(&claim),
        volume: Some(&volume),
        class: None,
        pods: &[],
        complaint: None,
        waited: Duration::ZERO,
    };
    let found = filling(&facts);
    assert_eq!(found == Filling::Filled, filled, "{found:?}");
}
