//! Targets of driver VolumeSnapshotter.

use lifeboat_api::stash::BackupTarget;
use rstest::rstest;

use super::*;

fn classes() -> Vec<Value> {
    vec![
        json!({"metadata": {"name": "fast"}, "driver": "csi.example"}),
        json!({"metadata": {"name": "other"}, "driver": "other.example"}),
    ]
}

fn hosts(facts: &TargetFacts, target: &BackupTarget) -> Vec<String> {
    let plan = snapshot_plan(facts, target, &classes()).unwrap();
    let shown = plan.hosts.iter().map(|host| match &host.source {
        Ok(source) => {
            let pod = source.pod.as_ref().map_or("no pod", |pod| pod.name.as_str());
            format!("{} by {pod}", host.name)
        }
        Err(error) => format!("{}: {error}", host.name),
    });
    shown.collect()
}

fn two_volumes() -> Value {
    json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}},
        {"name": "cache", "emptyDir": {}},
        {"name": "settings", "configMap": {"name": "c"}},
    ])
}

#[test]
fn each_claim_of_a_deployment_is_a_host_and_volumes_without_claims_are_named() {
    let facts = facts(
        TargetKind::Deployment,
        workload(1, two_volumes()),
        vec![pod("web-1", "n", 0, two_volumes())],
        &[claim("data", "ReadWriteOnce"), claim("logs", "ReadWriteMany")],
    );
    let target = backup_target(TargetKind::Deployment, &[], &[]);
    assert_eq!(hosts(&facts, &target), ["data by web-1", "logs by web-1"]);
    let plan = snapshot_plan(&facts, &target, &classes()).unwrap();
    let wanted = VolumeAccess::Snapshot { claim: "data".into(), class: "fast".into(), block: false };
    assert_eq!(access(&plan.hosts[0]), wanted);
    let notes: Vec<String> = plan.notes.iter().map(Note::to_string).collect();
    assert!(notes.len() == 1 && notes[0].contains("volumes cache (emptyDir) have no claim"), "{notes:?}");
}

#[rstest]
#[case::its_own_replicas(2, None, &["data-web-0 by web-0", "data-web-1 by web-1", "shared by web-0"])]
#[case::fewer(2, Some(1), &["data-web-0 by web-0", "shared by web-0"])]
#[case::stopped(0, None, &["data-web-0 by no pod", "data-web-1 by no pod", "data-web-7 by no pod", "shared by no pod"])]
#[case::one_is_missing(3, None, &[
    "data-web-0 by web-0", "data-web-1 by web-1",
    "data-web-2: PersistentVolumeClaim data-web-2 of StatefulSet web does not exist; its events say why it was not made", "shared by web-0"
])]
fn the_claims_of_a_stateful_set_are_those_of_its_ordinals_and_of_its_pod_template(
    #[case] replicas: u32,
    #[case] wanted: Option<i32>,
    #[case] expected: &[&str],
) {
    let shared = json!([{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]);
    let mut object = stateful_set(replicas);
    object["spec"]["template"]["spec"]["volumes"] = shared.clone();
    let mut pods: Vec<Value> = (0..replicas.min(2)).map(|ordinal| stateful_pod(ordinal, "n")).collect();
    for pod in &mut pods {
        pod["spec"]["volumes"].as_array_mut().unwrap().push(shared[0].clone());
    }
    let claims =
        ["data-web-0", "data-web-1", "data-web-7", "shared"].map(|name| claim(name, "ReadWriteMany"));
    let facts = facts(TargetKind::StatefulSet, object, pods, &claims);
    let target = BackupTarget { replicas: wanted, ..backup_target(TargetKind::StatefulSet, &[], &[]) };
    assert_eq!(hosts(&facts, &target), expected);
}

#[test]
fn a_claim_as_target_is_its_own_host_with_and_without_a_pod() {
    let object = json!({"metadata": {"name": "web"}});
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "web"}}]);
    let target = backup_target(TargetKind::Claim, &[], &[]);
    let of = |pods| facts(TargetKind::Claim, object.clone(), pods, &[claim("web", "ReadWriteOnce")]);
    assert_eq!(hosts(&of(vec![pod("any", "n", 0, volumes)]), &target), ["web by any"]);
    assert_eq!(hosts(&of(Vec::new()), &target), ["web by no pod"]);
}

/// A Deployment whose claim `data` is changed.
fn changed(change: impl FnOnce(&mut ClaimOf)) -> TargetFacts {
    let (name, mut known) = claim("data", "ReadWriteOnce");
    change(&mut known);
    facts(TargetKind::Deployment, workload(0, data()), Vec::new(), &[(name, known)])
}

#[test]
fn a_claim_that_cannot_be_snapshotted_fails_its_host_and_says_why() {
    let target = backup_target(TargetKind::Deployment, &[], &[]);
    let unbound = changed(|known| {
        known.volume = None;
        known.claim["status"]["phase"] = json!("Pending");
    });
    assert!(hosts(&unbound, &target)[0].contains("has no volume (phase Pending)"));
    let of_host = changed(|known| known.volume = Some(json!({"spec": {"hostPath": {"path": "/d"}}})));
    assert!(hosts(&of_host, &target)[0].contains("is of no CSI driver"));
    let named = BackupTarget { snapshot_class_name: Some("other".into()), ..target.clone() };
    let message = &hosts(&changed(|_| ()), &named)[0];
    assert!(
        message.contains("is of driver other.example, and the claim is of driver csi.example"),
        "{message}"
    );
    let empty = BackupTarget { snapshot_class_name: Some(String::new()), ..target };
    assert_eq!(hosts(&changed(|_| ()), &empty), ["data by no pod"], "an empty name is none");
}

#[rstest]
#[case::no_claims(workload(u32::MAX, json!([{"name": "cache", "emptyDir": {}}])), TargetKind::Deployment, "has no PersistentVolumeClaims")]
#[case::too_many(stateful_set(u32::MAX), TargetKind::StatefulSet, "has more than 1000 claims")]
fn a_target_without_claims_or_with_too_many_is_refused(
    #[case] object: Value,
    #[case] kind: TargetKind,
    #[case] says: &str,
) {
    let facts = facts(kind, object, Vec::new(), &[]);
    let error = snapshot_plan(&facts, &backup_target(kind, &[], &[]), &classes()).unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}
