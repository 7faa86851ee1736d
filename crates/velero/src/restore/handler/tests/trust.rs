//! What a restore from an untrusted location brings: only what is on a short list, into namespaces of its own, and what
//! it leaves out is named. The same objects come from a location that is trusted.

use rstest::rstest;

use super::*;

/// Restores one object into an empty cluster; returns whether it was created, and all warnings.
async fn restored(object: Value, untrusted: bool, annotations: Value) -> (bool, Vec<String>) {
    let mut world = World::new(vec![object]);
    world.actions = Vec::new();
    world.untrusted = untrusted.then(|| "theirs".into());
    world.annotations = annotations;
    let (ended, api) = world.restore().await;
    assert_eq!(ended.results.errors.count(), 0, "{:?}", ended.results);
    let warnings = ended.results.warnings;
    let all = warnings.velero.iter().chain(&warnings.cluster).chain(warnings.namespaces.values().flatten());
    (api.created().iter().any(|path| path.ends_with("/x")), all.cloned().collect())
}

/// Objects that give rights, and a few that give none, with what the documentation says about each
/// (docs/restore.md). `comes`: whether it is restored from an untrusted location.
#[rstest]
#[case::a_config_map("v1", "ConfigMap", "shop/x", json!({}), true)]
#[case::a_secret("v1", "Secret", "shop/x", json!({"type": "Opaque"}), true)]
#[case::a_service_account_token("v1", "Secret", "shop/x", json!({"type": "kubernetes.io/service-account-token"}), false)]
#[case::a_bootstrap_token("v1", "Secret", "shop/x", json!({"type": "bootstrap.kubernetes.io/token"}), false)]
#[case::a_service("v1", "Service", "shop/x", json!({}), true)]
#[case::an_ingress("networking.k8s.io/v1", "Ingress", "shop/x", json!({}), true)]
#[case::a_claim("v1", "PersistentVolumeClaim", "shop/x", json!({"spec": {}}), true)]
#[case::a_service_account("v1", "ServiceAccount", "shop/x", json!({}), true)]
#[case::an_autoscaler("autoscaling/v2", "HorizontalPodAutoscaler", "shop/x", json!({}), true)]
#[case::a_disruption_budget("policy/v1", "PodDisruptionBudget", "shop/x", json!({}), true)]
#[case::a_pod("v1", "Pod", "shop/x", json!({"spec": {"containers": [{"name": "main"}]}}), true)]
#[case::a_privileged_pod("v1", "Pod", "shop/x", json!({"spec": {"containers": [{"name": "main", "securityContext": {"privileged": true}}]}}), false)]
#[case::a_pod_with_a_directory_of_its_node("v1", "Pod", "shop/x", json!({"spec": {"containers": [{"name": "main"}], "volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}), false)]
#[case::a_pod_in_the_network_of_its_node("v1", "Pod", "shop/x", json!({"spec": {"hostNetwork": true, "containers": [{"name": "main"}]}}), false)]
#[case::a_pod_that_sees_all_processes("v1", "Pod", "shop/x", json!({"spec": {"hostPID": true, "containers": [{"name": "main"}]}}), false)]
#[case::a_pod_with_a_capability("v1", "Pod", "shop/x", json!({"spec": {"containers": [{"name": "main", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}}), false)]
#[case::a_deployment("apps/v1", "Deployment", "shop/x", json!({"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}}), true)]
#[case::a_privileged_deployment("apps/v1", "Deployment", "shop/x", json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "securityContext": {"privileged": true}}]}}}}), false)]
#[case::a_privileged_stateful_set("apps/v1", "StatefulSet", "shop/x", json!({"spec": {"template": {"spec": {"hostIPC": true}}}}), false)]
#[case::a_privileged_daemon_set("apps/v1", "DaemonSet", "shop/x", json!({"spec": {"template": {"spec": {"hostPID": true}}}}), false)]
#[case::a_privileged_replica_set("apps/v1", "ReplicaSet", "shop/x", json!({"spec": {"template": {"spec": {"hostPID": true}}}}), false)]
#[case::a_privileged_replication_controller("v1", "ReplicationController", "shop/x", json!({"spec": {"template": {"spec": {"hostPID": true}}}}), false)]
#[case::a_privileged_job("batch/v1", "Job", "shop/x", json!({"spec": {"template": {"spec": {"hostPID": true}}}}), false)]
#[case::a_privileged_cron_job("batch/v1", "CronJob", "shop/x", json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"hostPID": true}}}}}}), false)]
#[case::a_role("rbac.authorization.k8s.io/v1", "Role", "shop/x", json!({}), false)]
#[case::a_role_binding("rbac.authorization.k8s.io/v1", "RoleBinding", "shop/x", json!({}), false)]
#[case::a_cluster_role("rbac.authorization.k8s.io/v1", "ClusterRole", "x", json!({}), false)]
#[case::a_cluster_role_binding("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "x", json!({}), false)]
#[case::a_validating_webhook("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "x", json!({}), false)]
#[case::a_mutating_webhook("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "x", json!({}), false)]
#[case::an_admission_policy("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "x", json!({}), false)]
#[case::a_definition("apiextensions.k8s.io/v1", "CustomResourceDefinition", "x", json!({"spec": {"group": "example.com"}}), false)]
#[case::an_api_service("apiregistration.k8s.io/v1", "APIService", "x", json!({}), false)]
#[case::a_signing_request("certificates.k8s.io/v1", "CertificateSigningRequest", "x", json!({}), false)]
#[case::a_priority_class("scheduling.k8s.io/v1", "PriorityClass", "x", json!({}), false)]
#[case::a_storage_class("storage.k8s.io/v1", "StorageClass", "x", json!({}), false)]
#[case::a_driver("storage.k8s.io/v1", "CSIDriver", "x", json!({}), false)]
#[case::a_runtime_class("node.k8s.io/v1", "RuntimeClass", "x", json!({}), false)]
#[case::a_volume("v1", "PersistentVolume", "x", json!({"spec": {"persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/"}}}), false)]
#[case::a_volume_snapshot_content("snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", "x", json!({}), false)]
#[case::a_network_policy("networking.k8s.io/v1", "NetworkPolicy", "shop/x", json!({}), false)]
#[case::endpoints("v1", "Endpoints", "shop/x", json!({}), false)]
#[case::a_quota("v1", "ResourceQuota", "shop/x", json!({}), false)]
#[case::a_flow_schema("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "x", json!({}), false)]
#[case::a_custom_resource("example.com/v1", "Widget", "shop/x", json!({}), false)]
#[case::a_custom_resource_under_a_known_name("example.com/v1", "ConfigMap", "shop/x", json!({}), false)]
#[case::a_schedule("velero.io/v1", "Schedule", "shop/x", json!({}), false)]
#[case::a_location("velero.io/v1", "BackupStorageLocation", "shop/x", json!({}), false)]
#[case::a_configuration_of_workload_backups("stash.appscode.com/v1beta1", "BackupConfiguration", "shop/x", json!({}), false)]
#[case::an_object_in_kube_system("v1", "ConfigMap", "kube-system/x", json!({}), false)]
#[case::an_object_in_the_servers_namespace("v1", "ConfigMap", "lifeboat/x", json!({}), false)]
#[case::an_object_in_the_movers_namespace("v1", "ConfigMap", "lifeboat-movers/x", json!({}), false)]
#[tokio::test]
async fn an_object_comes_from_an_untrusted_location_only_if_it_gives_no_rights(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] place: &str,
    #[case] fields: Value,
    #[case] comes: bool,
) {
    let mut subject = object(api_version, kind, place);
    lifeboat_cluster::testing::merge(&mut subject, &fields);
    let (made, warnings) = restored(subject.clone(), false, json!({})).await;
    assert!(made, "from a trusted location: {warnings:?}");
    let allowed = json!({"lifeboat.io/allow-privileged": "true"});
    let (made, warnings) = restored(subject.clone(), true, allowed).await;
    assert!(made, "where the Restore allows it: {warnings:?}");
    let (made, warnings) = restored(subject, true, json!({})).await;
    assert_eq!(made, comes, "{warnings:?}");
    let named =
        warnings.iter().filter(|text| text.contains("/x was left out, because location theirs")).count();
    assert_eq!(named, usize::from(!comes), "{warnings:?}");
}

/// A namespace that allows everything, and a ConfigMap in it.
fn open_namespace() -> Vec<Value> {
    let mut namespace = object("v1", "Namespace", "shop");
    namespace["metadata"]["labels"] = json!({"team": "a", "pod-security.kubernetes.io/enforce": "privileged",
        "pod-security.kubernetes.io/warn": "privileged"});
    vec![namespace, object("v1", "ConfigMap", "shop/x")]
}

#[tokio::test]
async fn a_namespace_from_an_untrusted_location_has_no_pod_security_labels() {
    for untrusted in [true, false] {
        let mut world = World::new(open_namespace());
        world.untrusted = untrusted.then(|| "theirs".into());
        let (_, api) = world.restore().await;
        let labels = api.object("/api/v1/namespaces/shop").unwrap()["metadata"]["labels"].clone();
        assert_eq!(labels["team"], "a");
        assert_eq!(labels.to_string().contains("pod-security"), !untrusted, "{labels}");
    }
}

#[rstest]
#[case::not_named(json!({}), false)]
#[case::by_a_pattern(json!({"includedNamespaces": ["sh*"]}), false)]
#[case::named(json!({"includedNamespaces": ["shop"]}), true)]
#[case::named_as_a_target(json!({"namespaceMapping": {"shop": "there"}}), true)]
#[tokio::test]
async fn nothing_comes_from_an_untrusted_location_into_a_namespace_that_exists_unless_it_is_named(
    #[case] spec: Value,
    #[case] comes: bool,
) {
    for untrusted in [true, false] {
        let mut world = World::new(open_namespace());
        world.spec = spec.clone();
        world.untrusted = untrusted.then(|| "theirs".into());
        for name in ["shop", "there"] {
            world.also_there.push((format!("/api/v1/namespaces/{name}"), object("v1", "Namespace", name)));
        }
        let (ended, api) = world.restore().await;
        let made = api.created().iter().any(|path| path.ends_with("/x"));
        assert_eq!(made, comes || !untrusted, "{:?}", ended.results);
        assert_eq!(ended.results.warnings.count(), usize::from(!made), "{:?}", ended.results);
    }
}

#[tokio::test]
async fn a_namespace_that_an_earlier_attempt_made_is_one_of_the_restores_own() {
    let mut ours = object("v1", "Namespace", "shop");
    ours["metadata"]["labels"] = json!({"velero.io/restore-name": "r"});
    ours["metadata"]["creationTimestamp"] = json!("2026-11-15T23:00:01Z");
    let mut world = World::new(open_namespace());
    world.untrusted = Some("theirs".into());
    world.there.push(("/api/v1/namespaces/shop", ours));
    let (ended, api) = world.restore().await;
    assert!(api.created().iter().any(|path| path.ends_with("/x")), "{:?}", ended.results);
    assert_eq!(ended.results.warnings.count(), 0, "{:?}", ended.results);
}

#[tokio::test]
async fn a_claim_from_an_untrusted_location_gets_a_new_volume_whatever_it_names() {
    let mut claim = object("v1", "PersistentVolumeClaim", "shop/x");
    claim["spec"] = json!({"volumeName": "of-others"});
    let mut world = World::new(vec![claim]);
    world.untrusted = Some("theirs".into());
    world.there.push(("/api/v1/persistentvolumes/of-others", object("v1", "PersistentVolume", "of-others")));
    let (ended, api) = world.restore().await;
    let made = api.object("/api/v1/namespaces/shop/persistentvolumeclaims/x").unwrap();
    assert_eq!(made["spec"].get("volumeName"), None, "{made}");
    assert_eq!(ended.results.warnings.count(), 1, "{:?}", ended.results);
}
