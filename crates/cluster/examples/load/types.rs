//! The types, and one object of each. Workloads are scaled to zero and Jobs are suspended, so that no pod runs.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A type, and the fields of its objects beside apiVersion, kind and metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) api_version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) fields: fn(usize) -> Value,
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        (self.api_version, self.plural) == (other.api_version, other.plural)
    }
}

const fn own(
    api_version: &'static str,
    plural: &'static str,
    kind: &'static str,
    fields: fn(usize) -> Value,
) -> Type {
    Type { api_version, plural, kind, namespaced: true, fields }
}

const fn shared(
    api_version: &'static str,
    plural: &'static str,
    kind: &'static str,
    fields: fn(usize) -> Value,
) -> Type {
    Type { api_version, plural, kind, namespaced: false, fields }
}

const GROUP: &str = "bench.lifeboat.io";
const RBAC: &str = "rbac.authorization.k8s.io/v1";
const NETWORKING: &str = "networking.k8s.io/v1";

pub(crate) const CONFIG: [Type; 2] = [
    own("v1", "configmaps", "ConfigMap", |number| json!({"data": {"payload": text(number, 1500)}})),
    own("v1", "secrets", "Secret", |number| json!({"stringData": {"payload": text(number, 1100)}})), // 1.5 kB in base64
];

pub(crate) const DEFINITIONS: Type = shared(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    |number| {
        let kind = custom()[number % CUSTOM.len()];
        let schema = json!({"type": "object", "properties":
            {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        json!({"spec": {"group": GROUP, "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": kind.kind.to_lowercase(), "kind": kind.kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    },
);

const CUSTOM: [(&str, &str); 12] = [
    ("anchors", "Anchor"),
    ("buoys", "Buoy"),
    ("cables", "Cable"),
    ("davits", "Davit"),
    ("engines", "Engine"),
    ("flares", "Flare"),
    ("gangways", "Gangway"),
    ("hatches", "Hatch"),
    ("keels", "Keel"),
    ("ladders", "Ladder"),
    ("masts", "Mast"),
    ("oars", "Oar"),
];

/// The types that the custom resource definitions define.
pub(crate) fn custom() -> Vec<Type> {
    let kind = |(plural, kind)| {
        own(
            "bench.lifeboat.io/v1",
            plural,
            kind,
            |number| json!({"spec": {"size": number, "owner": {"team": format!("team-{}", number % 7)}, "note": text(number, 600)}}),
        )
    };
    CUSTOM.into_iter().map(kind).collect()
}

/// The 27 types of Kubernetes itself.
pub(crate) fn mixed() -> Vec<Type> {
    [core(), workloads(), others()].concat()
}

fn core() -> Vec<Type> {
    vec![
        CONFIG[0],
        CONFIG[1],
        own(
            "v1",
            "services",
            "Service",
            |_| json!({"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}}),
        ),
        own("v1", "serviceaccounts", "ServiceAccount", |_| json!({"automountServiceAccountToken": false})),
        own(
            "v1",
            "replicationcontrollers",
            "ReplicationController",
            |number| json!({"spec": {"replicas": 0, "selector": labels(number), "template": template(number)}}),
        ),
        own(
            "v1",
            "limitranges",
            "LimitRange",
            |_| json!({"spec": {"limits": [{"type": "Container", "default": {"memory": "64Mi"}}]}}),
        ),
        own("v1", "podtemplates", "PodTemplate", |number| json!({"template": template(number)})),
    ]
}

fn workloads() -> Vec<Type> {
    vec![
        own("apps/v1", "deployments", "Deployment", workload),
        own("apps/v1", "replicasets", "ReplicaSet", workload),
        own("apps/v1", "statefulsets", "StatefulSet", workload),
        own("apps/v1", "daemonsets", "DaemonSet", |number| {
            let mut template = template(number);
            template["spec"]["nodeSelector"] = json!({"bench.lifeboat.io/node": "none"});
            json!({"spec": {"selector": {"matchLabels": labels(number)}, "template": template}})
        }),
        own(
            "apps/v1",
            "controllerrevisions",
            "ControllerRevision",
            |number| json!({"revision": 1, "data": {"note": text(number, 300)}}),
        ),
        own("batch/v1", "jobs", "Job", job),
        own(
            "batch/v1",
            "cronjobs",
            "CronJob",
            |number| json!({"spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": job(number)}}),
        ),
    ]
}

fn others() -> Vec<Type> {
    vec![
        own(RBAC, "roles", "Role", rules),
        own(RBAC, "rolebindings", "RoleBinding", |number| binding(number, "Role")),
        shared(RBAC, "clusterroles", "ClusterRole", rules),
        shared(RBAC, "clusterrolebindings", "ClusterRoleBinding", |number| binding(number, "ClusterRole")),
        own(
            NETWORKING,
            "ingresses",
            "Ingress",
            |number| json!({"spec": {"defaultBackend": {"service": {"name": format!("service-{number}"), "port": {"number": 80}}}}}),
        ),
        own(
            NETWORKING,
            "networkpolicies",
            "NetworkPolicy",
            |number| json!({"spec": {"podSelector": {"matchLabels": labels(number)}, "policyTypes": ["Ingress"]}}),
        ),
        shared(
            NETWORKING,
            "ingressclasses",
            "IngressClass",
            |_| json!({"spec": {"controller": "bench.lifeboat.io/none"}}),
        ),
        own(
            "policy/v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            |number| json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": labels(number)}}}),
        ),
        own("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", |number| {
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("deployment-{number:05}")});
            json!({"spec": {"scaleTargetRef": target, "maxReplicas": 3}})
        }),
        own(
            "coordination.k8s.io/v1",
            "leases",
            "Lease",
            |number| json!({"spec": {"holderIdentity": format!("holder-{number}"), "leaseDurationSeconds": 60}}),
        ),
        own("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", |number| {
            json!({"addressType": "IPv4", "endpoints": [{"addresses": [format!("192.0.2.{}", number % 250 + 1)]}],
                "ports": [{"name": "web", "port": 80, "protocol": "TCP"}]})
        }),
        shared("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", |number| json!({"value": number})),
        shared(
            "storage.k8s.io/v1",
            "storageclasses",
            "StorageClass",
            |_| json!({"provisioner": "bench.lifeboat.io/none"}),
        ),
    ]
}

fn labels(number: usize) -> Value {
    json!({"app": format!("app-{number}")})
}

fn template(number: usize) -> Value {
    let variables: Vec<Value> = (0..4)
        .map(|each| json!({"name": format!("VARIABLE_{each}"), "value": text(number + each, 60)}))
        .collect();
    json!({"metadata": {"labels": labels(number)}, "spec": {"containers":
        [{"name": "main", "image": "localhost/none:none", "command": ["true"], "env": variables}]}})
}

fn workload(number: usize) -> Value {
    let mut spec =
        json!({"replicas": 0, "selector": {"matchLabels": labels(number)}, "template": template(number)});
    // Only a StatefulSet has this field; the API server drops it for the others.
    spec["serviceName"] = json!("none");
    json!({"spec": spec})
}

fn job(number: usize) -> Value {
    let mut template = template(number);
    template["spec"]["restartPolicy"] = json!("Never");
    json!({"spec": {"suspend": true, "template": template}})
}

fn rules(number: usize) -> Value {
    json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [format!("name-{number}")],
        "verbs": ["get"]}]})
}

fn binding(number: usize, role: &str) -> Value {
    json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": format!("role-{number}")},
        "subjects": [{"kind": "ServiceAccount", "name": format!("account-{number}"), "namespace": "default"}]})
}

/// Text that compresses like configuration; the same number always gives the same text.
fn text(number: usize, length: usize) -> String {
    const VOCABULARY: [&str; 16] = [
        "port",
        "host=10.",
        "timeout",
        "true",
        "false",
        "level: info",
        "retry",
        "cache",
        "path/",
        "user",
        "limit",
        "0x7f",
        "queue",
        "\n",
        "zone-b",
        "name=",
    ];
    let mut state = number as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = String::new();
    while text.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let _ = write!(text, "{}{:04x} ", VOCABULARY[(state >> 60) as usize], (state >> 40) & 0xffff); // a String takes everything
    }
    text.truncate(length);
    text
}
