use rstest::rstest;
use serde_json::{Value, json};

use super::testing::{Objects, run};

#[rstest]
#[case::a_job_loses_the_labels_of_its_controller(
    "velero.io/job",
    json!({"spec": {"selector": {"matchLabels": {"controller-uid": "u", "a": "b"}},
        "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "u", "a": "b"}}}}}),
    json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}}}),
)]
#[case::a_pod_loses_node_priority_and_token(
    "velero.io/pod",
    json!({"spec": {"nodeName": "n", "priority": 3, "serviceAccountName": "web",
        "volumes": [{"name": "web-token-abc"}, {"name": "data"}],
        "containers": [{"name": "c", "volumeMounts": [{"name": "web-token-abc"}]}],
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "data"}, {"name": "web-token-abc"}]}]}}),
    json!({"spec": {"serviceAccountName": "web", "volumes": [{"name": "data"}], "containers": [{"name": "c"}],
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "data"}]}]}}),
)]
#[case::a_pod_that_was_debugged_loses_the_containers_that_no_create_takes(
    "velero.io/pod",
    json!({"spec": {"containers": [{"name": "c"}], "ephemeralContainers": [{"name": "debugger"}]}}),
    json!({"spec": {"containers": [{"name": "c"}]}}),
)]
#[case::a_headless_service_stays_headless(
    "velero.io/service",
    json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
    json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
)]
#[case::a_service_loses_given_addresses_and_ports(
    "velero.io/service",
    json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 3,
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30080}]}}),
    json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}}),
)]
#[case::an_account_loses_its_token(
    "velero.io/service-account",
    json!({"metadata": {"name": "web"}, "secrets": [{"name": "mine"}, {"name": "web-token-x"}]}),
    json!({"metadata": {"name": "web"}, "secrets": [{"name": "mine"}]}),
)]
#[case::subjects_follow_their_namespace(
    "velero.io/role-bindings",
    json!({"subjects": [{"name": "a", "namespace": "shop"}, {"name": "b", "namespace": "other"}, {"name": "c"}]}),
    json!({"subjects": [{"name": "a", "namespace": "copy"}, {"name": "b", "namespace": "other"}, {"name": "c"}]}),
)]
#[case::a_definition_keeps_unknown_fields_by_schema(
    "velero.io/crd-preserve-fields",
    json!({"apiVersion": "apiextensions.k8s.io/v1", "spec": {"preserveUnknownFields": true,
        "versions": [{"schema": {"openAPIV3Schema": {"type": "object"}}}, {"name": "v2"}]}}),
    json!({"apiVersion": "apiextensions.k8s.io/v1", "spec": {"preserveUnknownFields": false,
        "versions": [{"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            {"name": "v2"}]}}),
)]
#[case::a_webhook_has_side_effects_that_the_api_takes(
    "velero.io/admission-webhook-configuration",
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "webhooks": [{"sideEffects": "Some"}, {"sideEffects": "NoneOnDryRun"}]}),
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "webhooks": [{"sideEffects": "None"}, {"sideEffects": "NoneOnDryRun"}]}),
)]
#[tokio::test]
async fn items_are_changed(#[case] name: &str, #[case] item: Value, #[case] expected: Value) {
    let spec = json!({"namespaceMapping": {"shop": "copy"}});
    let outcome = run(name, item, &spec, &Objects::default()).await.unwrap();
    assert_eq!(outcome.item, expected);
    assert!(!outcome.skip);
}

#[rstest]
#[case::noted_by_kubectl_by_name(
    json!([{"name": "web", "port": 80, "nodePort": 30080}, {"name": "other", "port": 81, "nodePort": 30081}]),
    Some(r#"{"spec": {"ports": [{"name": "web", "port": 80, "nodePort": 30080}]}}"#), json!([]),
)]
#[case::noted_by_kubectl_without_name(
    json!([{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30081}]),
    Some(r#"{"spec": {"ports": [{"port": 80, "nodePort": "30080"}]}}"#), json!([]),
)]
#[case::owned_by_somebody(
    json!([{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 81, "protocol": "TCP", "nodePort": 30081}]),
    None,
    json!([{"fieldsV1": {"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:nodePort": {}}}}}}]),
)]
#[tokio::test]
async fn ports_that_a_user_chose_stay(
    #[case] ports: Value,
    #[case] applied: Option<&str>,
    #[case] fields: Value,
) {
    let mut item =
        json!({"metadata": {"managedFields": fields}, "spec": {"type": "NodePort", "ports": ports}});
    if let Some(applied) = applied {
        item["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
    }
    let outcome = run("velero.io/service", item.clone(), &json!({}), &Objects::default()).await.unwrap();
    let ports = outcome.item["spec"]["ports"].as_array().unwrap();
    assert_eq!((ports[0].get("nodePort"), ports[1].get("nodePort")), (Some(&json!(30080)), None));
    let all = run("velero.io/service", item, &json!({"preserveNodePorts": true}), &Objects::default())
        .await
        .unwrap();
    assert_eq!(all.item["spec"]["ports"][1]["nodePort"], 30081);
}

#[tokio::test]
async fn pods_bring_their_claims_and_class_and_claims_their_volume() {
    let pod = json!({"metadata": {"namespace": "shop"}, "spec": {"priorityClassName": "high",
        "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "emptyDir": {}}]}});
    let names = |outcome: crate::actions::RestoreOutcome| -> Vec<String> {
        outcome.additional_items.iter().map(ToString::to_string).collect()
    };
    let none = Objects::default();
    let claims = run("velero.io/add-pvc-from-pod", pod.clone(), &json!({}), &none).await.unwrap();
    assert_eq!(names(claims), ["persistentvolumeclaims shop/data"]);
    let class = run("velero.io/pod", pod, &json!({}), &none).await.unwrap();
    assert_eq!(names(class), ["priorityclasses.scheduling.k8s.io high"]);
    let claim = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n", "mine": "x"}},
        "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
    let outcome = run("velero.io/pvc", claim, &json!({}), &none).await.unwrap();
    assert_eq!(outcome.item["metadata"]["annotations"], json!({"mine": "x"}));
    assert_eq!(names(outcome), ["persistentvolumes pv"]);
}

#[tokio::test]
async fn tokens_that_the_cluster_made_are_left_out_and_others_come_without_the_old_one() {
    let secret = |name: &str| {
        json!({"type": "kubernetes.io/service-account-token", "data": {"token": "t", "ca.crt": "c", "namespace": "n"},
            "metadata": {"name": name, "namespace": "shop", "annotations": {"kubernetes.io/service-account.uid": "u"}}})
    };
    let cluster =
        Objects(vec![("serviceaccounts", json!({"metadata": {"name": "web", "namespace": "shop"}}))]);
    let made = run("velero.io/secret", secret("web-token-x1"), &json!({}), &cluster).await.unwrap();
    assert!(made.skip);
    let asked = run("velero.io/secret", secret("mine"), &json!({}), &cluster).await.unwrap();
    assert_eq!(asked.item["data"], json!({"namespace": "n"}));
    assert_eq!(asked.item["metadata"].get("annotations"), None);
}

#[tokio::test]
async fn storage_classes_change_by_config_map_where_the_new_one_exists() {
    let map = json!({"metadata": {"name": "m", "namespace": "lifeboat"}, "data": {"old": "new"}});
    let item = json!({"kind": "PersistentVolumeClaim", "spec": {"storageClassName": "old"}});
    let without = Objects(vec![("configmaps", map.clone())]);
    let error = run("velero.io/change-storage-class", item.clone(), &json!({}), &without).await.unwrap_err();
    assert!(error.to_string().contains("storage class new"), "{error}");
    let class = ("storageclasses.storage.k8s.io", json!({"metadata": {"name": "new"}}));
    let cluster = Objects(vec![("configmaps", map), class]);
    let outcome = run("velero.io/change-storage-class", item, &json!({}), &cluster).await.unwrap();
    assert_eq!(outcome.item["spec"]["storageClassName"], "new");
    let set = json!({"kind": "StatefulSet", "spec": {"volumeClaimTemplates": [{"spec": {"storageClassName": "old"}}]}});
    let outcome = run("velero.io/change-storage-class", set, &json!({}), &cluster).await.unwrap();
    assert_eq!(outcome.item.pointer("/spec/volumeClaimTemplates/0/spec/storageClassName").unwrap(), "new");
}

#[tokio::test]
async fn images_change_by_config_map_and_two_maps_are_refused() {
    let map = |name: &str| {
        (
            "configmaps",
            json!({"metadata": {"name": name, "namespace": "lifeboat"}, "data": {"c": "one.example/, two.example/"}}),
        )
    };
    let item = json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec":
        {"containers": [{"image": "one.example/app:1"}]}}}}}});
    let outcome =
        run("velero.io/change-image-name", item.clone(), &json!({}), &Objects(vec![map("a")])).await.unwrap();
    let image = outcome.item.pointer("/spec/jobTemplate/spec/template/spec/containers/0/image").unwrap();
    assert_eq!(image, "two.example/app:1");
    let error =
        run("velero.io/change-image-name", item, &json!({}), &Objects(vec![map("a"), map("b")])).await;
    assert!(error.unwrap_err().to_string().contains("a, b"));
}

#[tokio::test]
async fn what_the_cluster_makes_itself_is_left_out() {
    for name in ["velero.io/apiservice", "velero.io/dataupload"] {
        assert!(run(name, json!({}), &json!({}), &Objects::default()).await.unwrap().skip, "{name}");
    }
}

#[tokio::test]
async fn a_pod_that_is_marked_waits_before_everything_else() {
    use lifeboat_plan::pod_volumes::{Wait, mark};
    let wait =
        Wait { image: "example.com/lifeboat:1".into(), restore: "r-1".into(), volumes: vec!["data".into()] };
    let plain = json!({"metadata": {"name": "db-0"}, "spec": {"initContainers": [{"name": "own"}]}});
    let mut pod = plain.clone();
    mark(&mut pod, Some(&wait));
    let action = "velero.io/pod-volume-restore";
    let config = json!({"metadata": {"name": "c", "namespace": "lifeboat"}, "data": {"cpuLimit": "2"}});
    let cluster = Objects(vec![("configmaps", config)]);
    let made = run(action, pod, &json!({}), &cluster).await.unwrap().item;
    let containers = made["spec"]["initContainers"].as_array().unwrap();
    assert_eq!((&containers[0]["name"], &containers[1]["name"]), (&json!("restore-wait"), &json!("own")));
    assert_eq!(containers[0]["resources"]["limits"]["cpu"], "2");
    assert_eq!(made["metadata"], plain["metadata"]);
    let unmarked = run(action, plain.clone(), &json!({}), &cluster).await.unwrap().item;
    assert_eq!(unmarked, plain);
}
