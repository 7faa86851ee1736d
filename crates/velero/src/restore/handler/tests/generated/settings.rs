//! Secrets, Services and ConfigMaps.

use serde_json::{Value, json};

use super::{Backup, add, add_named};

/// The annotation of `kubectl apply`.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A service account and the Secret with its token.
pub(super) fn token(made: &mut Backup, _: usize, number: usize) {
    let secret = format!("account{number}-token-x");
    let account = json!({"secrets": [{"name": secret}, {"name": "own"}]});
    add_named(made, "v1", "ServiceAccount", &format!("shop/account{number}"), account);
    let token = json!({"type": "kubernetes.io/service-account-token",
        "data": {"token": "t", "ca.crt": "c", "own": "o"}});
    add_named(made, "v1", "Secret", &format!("shop/{secret}"), token);
}

/// A Secret, also one with a token of a service account that is gone.
pub(super) fn secret(made: &mut Backup, variation: usize, number: usize) {
    let kinds = ["Opaque", "kubernetes.io/service-account-token"];
    add(made, "v1", "Secret", number, json!({"type": kinds[variation % 2], "data": {"token": "t"}}));
}

/// A Service whose ports the old cluster assigned, or a user chose, as the annotation of `kubectl apply` or the managed
/// fields say. An annotation that is not JSON is an error.
pub(super) fn service(made: &mut Backup, variation: usize, number: usize) {
    let address = if variation.is_multiple_of(3) { "None" } else { "10.0.0.1" };
    let mut spec = json!({"clusterIP": address,
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]});
    let applied = |text: String| json!({"annotations": {APPLIED: text}});
    let metadata = match variation % 6 {
        1 => applied("{not JSON".to_owned()),
        2 => applied(json!({"spec": {"ports": [{"nodePort": 30080}]}}).to_string()),
        3 => {
            let port = json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:nodePort": {}}});
            json!({"managedFields": [{"manager": "kubectl", "operation": "Update",
                "fieldsV1": {"f:spec": {"f:ports": port}}}]})
        }
        4 => {
            spec["type"] = json!("LoadBalancer");
            spec["externalTrafficPolicy"] = json!("Local");
            spec["healthCheckNodePort"] = json!(31000);
            json!({})
        }
        5 => json!({"managedFields": [{"manager": "argo", "operation": "Apply", "fieldsV1": {}}]}),
        _ => json!({}),
    };
    add(made, "v1", "Service", number, json!({"metadata": metadata, "spec": spec}));
}

/// Endpoints of the service behind the webhooks.
pub(super) fn slice(made: &mut Backup, variation: usize, number: usize) {
    let fields = json!({"metadata": {"labels": {"kubernetes.io/service-name": "behind"}},
        "endpoints": [{"conditions": {"ready": variation.is_multiple_of(4)}}]});
    add(made, "discovery.k8s.io/v1", "EndpointSlice", number, fields);
}

pub(super) fn map(made: &mut Backup, variation: usize, number: usize) {
    let manager: Value = if variation.is_multiple_of(2) { json!("Apply") } else { json!("Update") };
    let fields = json!({"metadata": {"managedFields": [{"manager": "argo", "operation": manager}]},
        "data": {"a": "1"}});
    add(made, "v1", "ConfigMap", number, fields);
}

/// The settings of an action, restored with everything else: the action finds them once they are in the cluster.
pub(super) fn of_actions(made: &mut Backup, variation: usize, number: usize) {
    let (action, data) = [
        ("velero.io/change-image-name", json!({"1": "i,restored/i"})),
        ("velero.io/change-storage-class", json!({"fast": "gone"})),
        ("velero.io/pod-volume-restore", json!({"image": "restored/image:1"})),
    ][variation % 3]
        .clone();
    let labels = json!({"velero.io/plugin-config": "", action: "RestoreItemAction"});
    let place = format!("lifeboat/settings{number}");
    add_named(made, "v1", "ConfigMap", &place, json!({"metadata": {"labels": labels}, "data": data}));
}

/// A ConfigMap of a namespace that the backup does not have.
pub(super) fn elsewhere(made: &mut Backup, _: usize, number: usize) {
    add_named(made, "v1", "ConfigMap", &format!("elsewhere{number}/map"), json!({"data": {"a": "1"}}));
}
