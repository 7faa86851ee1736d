//! The server's Deployment. Stock tools look for the label `component=velero` and a container named `velero`; the
//! other settings follow from the namespace's Pod Security level `restricted`.

use serde_json::{Value, json};

use super::service::DOWNLOAD_PORT;
use super::{CLOUD_CREDENTIALS, DEPLOYMENT, InstallOptions, labels, movers, stash};
use crate::plugin_images;
use crate::transfer::gateway;

/// The port of metrics and probes: upstream's.
const HTTP_PORT: u16 = 8085;

/// The directory where archives are unpacked.
const SPOOL: &str = "/spool";

/// The directory where plugins may write: upstream's path.
const SCRATCH: &str = "/scratch";

/// The directory with the plugin programs: upstream's path.
const PLUGINS: &str = "/plugins";

pub(super) fn object(options: &InstallOptions) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": DEPLOYMENT, "namespace": options.namespace, "labels": labels()},
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": labels()},
            // The old server stops only when a new one is ready.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": pod_labels(options), "annotations": pod_annotations(options)},
                "spec": pod(options),
            },
        },
    })
}

fn pod(options: &InstallOptions) -> Value {
    let mut pod = json!({
        "serviceAccountName": "lifeboat",
        // Time to finish a step, write its status and release the lease.
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels()},
        }],
        "containers": [container(options)],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            {"name": "spool", "emptyDir": {"sizeLimit": options.spool.limit}},
            // Go plugins take 50 to 150 MB each.
            {"name": plugin_images::VOLUME, "emptyDir": {"sizeLimit": "4Gi"}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": CLOUD_CREDENTIALS.0, "secret": {"secretName": CLOUD_CREDENTIALS.0, "optional": true}},
        ],
    });
    if !options.plugins.is_empty() {
        pod["initContainers"] = json!(plugins(options));
    }
    pod
}

fn plugins(options: &InstallOptions) -> Vec<Value> {
    let mut containers: Vec<Value> = Vec::new();
    for image in &options.plugins {
        let taken: Vec<&str> =
            containers.iter().map(|container| plugin_images::text(container, "name")).collect();
        containers.push(plugin_images::container(image, "IfNotPresent", &taken));
    }
    containers
}

fn container(options: &InstallOptions) -> Value {
    let mut args = vec![
        "server".to_owned(),
        format!("--spool-directory={SPOOL}"),
        format!("--spool-size={}", options.spool.archive),
    ];
    args.extend(movers::args(options));
    args.extend(stash::args(options));
    args.extend(options.download_url.iter().map(|url| format!("--download-url={url}")));
    args.extend(options.server_args.iter().cloned());
    json!({
        "name": "velero",
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "env": env(options),
        "ports": ports(options),
        "livenessProbe": probe("/healthz", 10, 6),
        "readinessProbe": probe("/readyz", 2, 3),
        "resources": options.resources,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "spool", "mountPath": SPOOL},
            {"name": plugin_images::VOLUME, "mountPath": PLUGINS, "readOnly": true},
            {"name": "scratch", "mountPath": SCRATCH},
            {"name": CLOUD_CREDENTIALS.0, "mountPath": "/credentials", "readOnly": true},
        ],
    })
}

fn ports(options: &InstallOptions) -> Vec<Value> {
    let mut ports = vec![
        json!({"name": "http", "containerPort": HTTP_PORT}),
        json!({"name": "gateway", "containerPort": gateway::PORT}),
    ];
    if options.download_url.is_some() {
        ports.push(json!({"name": "downloads", "containerPort": DOWNLOAD_PORT}));
    }
    ports
}

fn probe(path: &str, period: u32, failures: u32) -> Value {
    json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": period, "failureThreshold": failures})
}

fn env(options: &InstallOptions) -> Vec<Value> {
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut env = vec![
        field("LIFEBOAT_NAMESPACE", "metadata.namespace"),
        field("LIFEBOAT_IDENTITY", "metadata.name"),
        // For plugins, as upstream. The server itself sets the path of the credentials, because it knows whether
        // there are any.
        field("VELERO_NAMESPACE", "metadata.namespace"),
        json!({"name": "VELERO_SCRATCH_DIR", "value": SCRATCH}),
        json!({"name": "LD_LIBRARY_PATH", "value": PLUGINS}),
    ];
    // Variables of the user win: a name may occur only once.
    env.retain(|own| options.env.iter().all(|given| given["name"] != own["name"]));
    env.extend(options.env.iter().cloned());
    env
}

/// Annotations by which Prometheus finds the metrics. Annotations of the user win.
fn pod_annotations(options: &InstallOptions) -> Value {
    let own = json!({
        "prometheus.io/scrape": "true",
        "prometheus.io/port": HTTP_PORT.to_string(),
        "prometheus.io/path": "/metrics",
    });
    merged(own, &options.pod_annotations)
}

/// Labels of the user, overridden by the labels with which the Deployment selects its pods.
fn pod_labels(options: &InstallOptions) -> Value {
    merged(options.pod_labels.clone(), &labels())
}

/// Merges two maps; the second one wins.
fn merged(mut base: Value, over: &Value) -> Value {
    if let (Some(all), Some(given)) = (base.as_object_mut(), over.as_object()) {
        all.extend(given.clone());
    }
    base
}
