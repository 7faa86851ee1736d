mod standstill;

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::stash::hosts::TargetKind;

fn pod(name: &str, claim: &str, change: impl Fn(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"),
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "controller": true}]},
        "spec": {"nodeName": "n", "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]},
        "status": {"phase": "Running"},
    });
    change(&mut pod);
    pod
}

#[rstest]
#[case::running(|_: &mut Value| (), true)]
#[case::pending(|pod: &mut Value| pod["status"]["phase"] = json!("Pending"), true)]
#[case::without_node(|pod: &mut Value| pod["spec"]["nodeName"] = json!(null), true)]
#[case::terminating(|pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"), true)]
#[case::unknown(|pod: &mut Value| pod["status"]["phase"] = json!("Unknown"), true)]
#[case::ephemeral_claim(|pod: &mut Value| pod["spec"]["volumes"] = json!([{"name": "x", "ephemeral": {}}]), true)]
#[case::succeeded(|pod: &mut Value| pod["status"]["phase"] = json!("Succeeded"), false)]
#[case::failed(|pod: &mut Value| pod["status"]["phase"] = json!("Failed"), false)]
#[case::another_claim(|pod: &mut Value| pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = json!("other"), false)]
#[case::own_mover(|pod: &mut Value| pod["metadata"]["labels"] = json!({"lifeboat.io/owner-uid": "session"}), false)]
#[case::mover_of_another(|pod: &mut Value| pod["metadata"]["labels"] = json!({"lifeboat.io/owner-uid": "backup"}), true)]
fn a_pod_uses_a_claim_until_its_containers_ended(#[case] change: fn(&mut Value), #[case] expected: bool) {
    let claims = BTreeSet::from(["data".to_owned(), "web-x".to_owned()]);
    let found = users(&claims, &[pod("web", "data", change)], Some("session"));
    assert_eq!(!found.is_empty(), expected, "{found:?}");
}

#[rstest]
#[case::running(|_: &mut Value| (), false)]
#[case::terminating(|pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"), true)]
#[case::mover_of_another(|pod: &mut Value| pod["metadata"]["labels"] = json!({"lifeboat.io/owner-uid": "backup"}), true)]
fn a_restore_waits_for_pods_that_go_by_themselves(#[case] change: fn(&mut Value), #[case] waits: bool) {
    let users = users(&BTreeSet::from(["data".to_owned()]), &[pod("web", "data", change)], Some("session"));
    let claim = InPlaceFacts { users: users.clone(), ..facts(TargetKind::Claim, None) };
    assert_eq!(matches!(decide(&claim), Ok(InPlace::Later { .. })), waits);
    let workload = InPlaceFacts { users, ..facts(TargetKind::Deployment, Some(workload(1))) };
    assert_eq!(
        matches!(decide(&workload), Ok(InPlace::Stop(_))),
        waits,
        "it is waited for while the workload stops"
    );
}

fn marked(place: &str, name: &str, value: &str) -> Value {
    let mut object = workload(1);
    object["metadata"][place] = json!({name: value});
    object
}

fn workload(replicas: u32) -> Value {
    json!({"metadata": {"name": "web", "uid": "uid"}, "spec": {"replicas": replicas}})
}

fn autoscaler(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"metadata": {"name": "scaler"},
        "spec": {"scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": name}}})
}

fn owned(controller: bool) -> Value {
    let mut object = workload(1);
    object["metadata"]["ownerReferences"] =
        json!([{"kind": "Database", "name": "main", "controller": controller}]);
    object
}

/// As Argo CD before version 3 and Helm label what they apply.
fn applied_by(manager: &str) -> Value {
    let mut object = marked("labels", "app.kubernetes.io/instance", "shop");
    object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}, {"manager": manager}]);
    object
}

#[rstest]
#[case::free(workload(1), vec![], None)]
#[case::owner(owned(true), vec![], Some("its owner Database main"))]
#[case::an_owner_that_does_not_control(owned(false), vec![], Some("its owner Database main"))]
#[case::autoscaler(workload(1), vec![autoscaler("apps/v1", "Deployment", "web")], Some("HorizontalPodAutoscaler scaler"))]
#[case::autoscaler_of_another_name(workload(1), vec![autoscaler("apps/v1", "Deployment", "other")], None)]
#[case::autoscaler_of_another_kind(workload(1), vec![autoscaler("apps/v1", "StatefulSet", "web")], None)]
#[case::autoscaler_of_another_group(workload(1), vec![autoscaler("example.com/v1", "Deployment", "web")], None)]
#[case::argo_cd(marked("annotations", "argocd.argoproj.io/tracking-id", "shop:apps/Deployment:demo/web"), vec![], Some("Argo CD (Application shop)"))]
#[case::argo_cd_by_label(marked("labels", "argocd.argoproj.io/instance", "shop"), vec![], Some("Argo CD (Application shop)"))]
#[case::written_for_argo_cd(marked("annotations", "argocd.argoproj.io/sync-wave", "1"), vec![], Some("Argo CD"))]
#[case::argo_cd_by_the_label_of_all(applied_by("argocd-controller"), vec![], Some("Argo CD (Application shop)"))]
#[case::label_of_all_and_another_manager(applied_by("helm"), vec![], None)]
#[case::helm(marked("labels", "app.kubernetes.io/instance", "shop"), vec![], None)]
#[case::flux(marked("labels", "kustomize.toolkit.fluxcd.io/name", "apps"), vec![], Some("Flux (Kustomization apps)"))]
#[case::flux_helm(marked("labels", "helm.toolkit.fluxcd.io/name", "shop"), vec![], Some("Flux (HelmRelease shop)"))]
#[case::flux_leaves_it_alone(marked("annotations", "kustomize.toolkit.fluxcd.io/reconcile", "disabled"), vec![], None)]
fn what_sets_the_scale_is_found(
    #[case] workload: Value,
    #[case] autoscalers: Vec<Value>,
    #[case] expected: Option<&str>,
) {
    let found = scale_owners(TargetKind::Deployment, &workload, &autoscalers);
    let found: Vec<String> = found.iter().map(ScaleOwner::to_string).collect();
    assert_eq!(found, expected.map(str::to_owned).into_iter().collect::<Vec<_>>());
}

#[rstest]
#[case::nothing(json!({}), (false, true, false))]
#[case::all(json!({"lifeboat.io/force-scale": "true", "lifeboat.io/safety-copy": "false", "lifeboat.io/restore-running": "true"}), (true, false, true))]
#[case::other_values(json!({"lifeboat.io/force-scale": "yes", "lifeboat.io/safety-copy": "no", "lifeboat.io/restore-running": ""}), (false, true, false))]
fn settings_are_annotations_of_the_restore(#[case] annotations: Value, #[case] expected: (bool, bool, bool)) {
    let found = InPlaceSettings::of(&json!({"metadata": {"annotations": annotations}}));
    assert_eq!((found.force_scale, found.safety_copy, found.restore_running), expected);
}

fn user(pod: &str) -> VolumeUser {
    let controller = Some("ReplicaSet web-1".to_owned());
    VolumeUser {
        claim: "data".into(),
        pod: pod.into(),
        pod_uid: format!("uid-{pod}"),
        controller,
        is_leaving: false,
    }
}

fn facts(kind: TargetKind, workload: Option<Value>) -> InPlaceFacts {
    InPlaceFacts {
        kind,
        name: "web".into(),
        workload,
        autoscalers: Vec::new(),
        own_pods: BTreeSet::new(),
        users: Vec::new(),
        with_pods_only: Vec::new(),
        settings: InPlaceSettings { force_scale: false, safety_copy: true, restore_running: false },
        earlier: None,
        not_covered: BTreeSet::new(),
        is_copied: true,
    }
}

fn restore_name(name: &str) -> RestoreName {
    RestoreName {
        kind: "RestoreSession".into(),
        namespace: "demo".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

fn stop_plan(replicas: u32) -> StopPlan {
    StopPlan { replicas, safety_copy: true, safety_of: None, held_by: None, forced: Vec::new() }
}

/// What an earlier restore left behind that failed with three replicas on record.
fn earlier(step: Step) -> Standstill {
    let record =
        Standstill::new(TargetKind::Deployment, ("web", "uid"), &stop_plan(3), restore_name("first"));
    Standstill { step, safety_of: Some(restore_name("first")), ..record }
}

fn running(facts: &mut InPlaceFacts) {
    facts.own_pods.insert("uid-web".into());
    facts.users = vec![user("web")];
}

#[rstest]
#[case::stopped_already(0, |_: &mut InPlaceFacts| (), Ok(InPlace::Stop(stop_plan(0))))]
#[case::running(2, running, Ok(InPlace::Stop(stop_plan(2))))]
#[case::wanted_but_without_pods(2, |_: &mut InPlaceFacts| (), Ok(InPlace::Stop(stop_plan(2))))]
#[case::pods_still_end(0, running, Ok(InPlace::Stop(stop_plan(0))))]
#[case::no_safety_copy(1, |facts: &mut InPlaceFacts| facts.settings.safety_copy = false, Ok(InPlace::Stop(StopPlan { safety_copy: false, ..stop_plan(1) })))]
#[case::scaled_by_others(1, |facts: &mut InPlaceFacts| facts.autoscalers = vec![autoscaler("apps/v1", "Deployment", "web")], Err("HorizontalPodAutoscaler scaler would start it again"))]
#[case::forced(1, |facts: &mut InPlaceFacts| {
    facts.autoscalers = vec![autoscaler("apps/v1", "Deployment", "web")];
    facts.settings.force_scale = true;
}, Ok(InPlace::Stop(StopPlan { forced: vec![ScaleOwner::Autoscaler { name: "scaler".into() }], ..stop_plan(1) })))]
#[case::stopped_and_scaled_by_others(0, |facts: &mut InPlaceFacts| facts.autoscalers = vec![autoscaler("apps/v1", "Deployment", "web")], Ok(InPlace::Stop(stop_plan(0))))]
#[case::used_by_another_pod(1, |facts: &mut InPlaceFacts| facts.users = vec![user("debug")], Err("also used by pod debug of ReplicaSet web-1 (claim data)"))]
#[case::empty_dir(1, |facts: &mut InPlaceFacts| facts.with_pods_only = vec!["emptyDir volume cache".into()], Err("emptyDir volume cache of Deployment web exists only while its pod runs"))]
#[case::empty_dir_while_running(1, |facts: &mut InPlaceFacts| {
    facts.with_pods_only = vec!["emptyDir volume cache".into()];
    facts.settings.restore_running = true;
}, Ok(InPlace::IntoRunning))]
#[case::claims_are_never_written_while_running(1, |facts: &mut InPlaceFacts| facts.settings.restore_running = true, Ok(InPlace::Stop(stop_plan(1))))]
#[case::left_stopped_by_an_earlier_restore(0, |facts: &mut InPlaceFacts| facts.earlier = Some(earlier(Step::HeldDown)), Ok(InPlace::Stop(StopPlan { safety_copy: false, safety_of: Some(restore_name("first")), held_by: Some(restore_name("first")), ..stop_plan(3) })))]
#[case::the_earlier_copies_lack_something(0, |facts: &mut InPlaceFacts| { facts.earlier = Some(earlier(Step::HeldDown)); facts.is_copied = false; }, Ok(InPlace::Stop(StopPlan { safety_copy: true, safety_of: Some(restore_name("first")), held_by: Some(restore_name("first")), ..stop_plan(3) })))]
#[case::claims_stay_half_restored(0, |facts: &mut InPlaceFacts| { facts.earlier = Some(earlier(Step::HeldDown)); facts.not_covered = ["logs".to_owned()].into(); }, Err("RestoreSession demo/first may have half restored logs, which this restore does not write"))]
#[case::half_restored_claims_of_a_workload_that_was_started(2, |facts: &mut InPlaceFacts| { facts.earlier = Some(earlier(Step::HeldDown)); facts.not_covered = ["logs".to_owned()].into(); }, Ok(InPlace::Stop(stop_plan(2))))]
#[case::its_restore_vanished_while_it_wrote(0, |facts: &mut InPlaceFacts| facts.earlier = Some(earlier(Step::Restoring)), Ok(InPlace::Stop(StopPlan { safety_copy: false, safety_of: Some(restore_name("first")), held_by: Some(restore_name("first")), ..stop_plan(3) })))]
#[case::its_restore_vanished_before_it_wrote(0, |facts: &mut InPlaceFacts| facts.earlier = Some(Standstill { safety_of: None, ..earlier(Step::Stopping) }), Ok(InPlace::Stop(stop_plan(3))))]
#[case::left_stopped_and_its_pods_still_end(0, |facts: &mut InPlaceFacts| { running(facts); facts.earlier = Some(earlier(Step::HeldDown)); }, Ok(InPlace::Stop(StopPlan { held_by: Some(restore_name("first")), ..stop_plan(3) })))]
#[case::started_since_then(2, |facts: &mut InPlaceFacts| facts.earlier = Some(earlier(Step::HeldDown)), Ok(InPlace::Stop(stop_plan(2))))]
fn a_deployment_is_stopped_where_it_has_to_be(
    #[case] replicas: u32,
    #[case] change: fn(&mut InPlaceFacts),
    #[case] expected: Result<InPlace, &str>,
) {
    let mut facts = facts(TargetKind::Deployment, Some(workload(replicas)));
    change(&mut facts);
    compare(decide(&facts), expected);
}

/// `whenScaled: Delete` has the claims, and so all data, deleted when the StatefulSet is scaled down.
#[rstest]
#[case::running("Delete", 2, Err("persistentVolumeClaimRetentionPolicy.whenScaled: Delete"))]
#[case::next_step("Delete", 2, Err("set whenScaled: Retain until the restore has ended"))]
#[case::retained("Retain", 2, Ok(InPlace::Stop(stop_plan(2))))]
#[case::nothing_is_scaled_down("Delete", 0, Ok(InPlace::Stop(stop_plan(0))))]
fn a_stateful_set_that_would_lose_its_claims_is_not_stopped(
    #[case] when_scaled: &str,
    #[case] replicas: u32,
    #[case] expected: Result<InPlace, &str>,
) {
    let mut object = workload(replicas);
    object["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": "Retain", "whenScaled": when_scaled});
    let mut facts = facts(TargetKind::StatefulSet, Some(object));
    // No annotation of the restore allows it.
    facts.settings.force_scale = true;
    compare(decide(&facts), expected);
}

#[rstest]
#[case::unused_claim(TargetKind::Claim, None, vec![], false, Ok(InPlace::AtOnce))]
#[case::used_claim(TargetKind::Claim, None, vec![user("web")], false, Err("PersistentVolumeClaim web is in use by pod web of ReplicaSet web-1"))]
#[case::used_claim_whatever_the_annotation(TargetKind::Claim, None, vec![user("web")], true, Err("make that workload the target"))]
#[case::daemon_set(TargetKind::DaemonSet, Some(workload(1)), vec![], false, Err("lifeboat.io/restore-running: \"true\""))]
#[case::daemon_set_while_running(TargetKind::DaemonSet, Some(workload(1)), vec![user("web")], true, Ok(InPlace::IntoRunning))]
fn other_targets_are_not_stopped(
    #[case] kind: TargetKind,
    #[case] workload: Option<Value>,
    #[case] users: Vec<VolumeUser>,
    #[case] restore_running: bool,
    #[case] expected: Result<InPlace, &str>,
) {
    let mut facts = facts(kind, workload);
    facts.users = users;
    facts.settings.restore_running = restore_running;
    compare(decide(&facts), expected);
}

/// What the API server notes about a manager: it owns these fields, and changed one of them last at this minute.
fn managed(manager: &str, subresource: &str, fields: &Value, minute: u32) -> Value {
    json!({
        "manager": manager, "operation": "Update", "subresource": subresource, "apiVersion": "apps/v1",
        "time": format!("2026-01-01T00:{minute:02}:00Z"), "fieldsType": "FieldsV1", "fieldsV1": fields,
    })
}

/// The restore stopped the workload and wrote its record onto it in minute 10.
fn recorded() -> Value {
    let annotations = json!({"f:lifeboat.io/standstill": {}});
    managed("lifeboat", "", &json!({"f:metadata": {"f:annotations": annotations}}), 10)
}

fn scaled(manager: &str, subresource: &str, minute: u32) -> Value {
    managed(manager, subresource, &json!({"f:spec": {"f:replicas": {}}}), minute)
}

#[rstest]
#[case::by_kubectl_scale(vec![recorded(), scaled("kubectl", "scale", 11)], true)]
#[case::by_kubectl_apply(vec![recorded(), scaled("kubectl-client-side-apply", "", 11)], true)]
#[case::by_two_of_which_one_later(vec![scaled("helm", "", 1), recorded(), scaled("kubectl", "scale", 12)], true)]
#[case::before_the_record(vec![recorded(), scaled("kubectl", "scale", 9)], false)]
#[case::other_fields_since(vec![recorded(), scaled("helm", "", 1), managed("kubectl", "", &json!({"f:spec": {"f:template": {}}}), 20)], false)]
#[case::by_the_restore_itself(vec![managed("lifeboat", "", &json!({"f:metadata": {"f:annotations": {"f:lifeboat.io/standstill": {}}}, "f:spec": {"f:replicas": {}}}), 10)], false)]
#[case::without_a_record(vec![scaled("kubectl", "scale", 11)], false)]
#[case::without_notes(vec![], false)]
fn a_workload_that_was_scaled_since_the_record_is_known_by_its_managed_fields(
    #[case] entries: Vec<Value>,
    #[case] expected: bool,
) {
    let mut object = workload(0);
    object["metadata"]["managedFields"] = json!(entries);
    assert_eq!(was_scaled_since(&object), expected);
}

/// It ran in between: what it wrote is copied before it is overwritten. It stays down if that fails, as it was found.
#[rstest]
#[case::stopped_ever_since(9, false)]
#[case::started_and_stopped_by_hand(11, true)]
fn a_safety_copy_from_before_the_workload_ran_is_stale(#[case] minute: u32, #[case] copied_again: bool) {
    let mut object = workload(0);
    object["metadata"]["managedFields"] = json!([recorded(), scaled("kubectl", "scale", minute)]);
    let facts = InPlaceFacts {
        earlier: Some(earlier(Step::HeldDown)),
        ..facts(TargetKind::Deployment, Some(object))
    };
    let Ok(InPlace::Stop(plan)) = decide(&facts) else { panic!() };
    assert_eq!((plan.safety_copy, plan.safety_of.is_none()), (copied_again, copied_again));
    assert_eq!((plan.replicas, plan.held_by), (3, Some(restore_name("first"))));
}

fn compare(found: Result<InPlace, InPlaceError>, expected: Result<InPlace, &str>) {
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected),
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
        (found, expected) => panic!("{found:?} instead of {expected:?}"),
    }
}
