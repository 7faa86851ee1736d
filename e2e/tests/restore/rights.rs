//! Objects that give rights, restored from an untrusted location, from it where the Restore allows it, and from a trusted
//! one: the result is the documented one (docs/restore.md). More kinds are in the unit test of the same name.

use lifeboat_e2e::{HostServer, Namespace, delete_namespace, get, kubectl};
use serde_json::Value;

/// Objects of a namespace: type, name, whether they come from an untrusted location, and the manifest without
/// metadata.
const INSIDE: [(&str, &str, bool, &str); 22] = [
    ("configmap", "settings", true, "apiVersion: v1\nkind: ConfigMap"),
    ("secret", "opaque", true, "apiVersion: v1\nkind: Secret"),
    ("serviceaccount", "account", true, "apiVersion: v1\nkind: ServiceAccount"),
    ("secret", "token", false, "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token"),
    ("service", "web", true, "apiVersion: v1\nkind: Service\nspec: {ports: [{port: 80}]}"),
    (
        "ingress",
        "way",
        true,
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}",
    ),
    (
        "poddisruptionbudget",
        "budget",
        true,
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nspec: {maxUnavailable: 1, selector: {matchLabels: {app: none}}}",
    ),
    (
        "horizontalpodautoscaler",
        "scaler",
        true,
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec: {maxReplicas: 1, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: plain}}",
    ),
    (
        "deployment",
        "plain",
        true,
        "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: TEST_IMAGE}]}}}",
    ),
    (
        "deployment",
        "privileged",
        false,
        "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 0, selector: {matchLabels: {app: b}}, template: {metadata: {labels: {app: b}}, spec: {containers: [{name: main, image: TEST_IMAGE, securityContext: {privileged: true}}]}}}",
    ),
    (
        "deployment",
        "capability",
        false,
        "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 0, selector: {matchLabels: {app: c}}, template: {metadata: {labels: {app: c}}, spec: {containers: [{name: main, image: TEST_IMAGE, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]}}}",
    ),
    (
        "statefulset",
        "host-path",
        false,
        "apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: 0, serviceName: web, selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}, spec: {containers: [{name: main, image: TEST_IMAGE}], volumes: [{name: root, hostPath: {path: /}}]}}}",
    ),
    (
        "daemonset",
        "host-network",
        false,
        "apiVersion: apps/v1\nkind: DaemonSet\nspec: {selector: {matchLabels: {app: e}}, template: {metadata: {labels: {app: e}}, spec: {nodeSelector: {none: here}, hostNetwork: true, containers: [{name: main, image: TEST_IMAGE}]}}}",
    ),
    (
        "replicaset",
        "host-ipc",
        false,
        "apiVersion: apps/v1\nkind: ReplicaSet\nspec: {replicas: 0, selector: {matchLabels: {app: f}}, template: {metadata: {labels: {app: f}}, spec: {hostIPC: true, containers: [{name: main, image: TEST_IMAGE}]}}}",
    ),
    (
        "replicationcontroller",
        "host-pid",
        false,
        "apiVersion: v1\nkind: ReplicationController\nspec: {replicas: 0, selector: {app: g}, template: {metadata: {labels: {app: g}}, spec: {hostPID: true, containers: [{name: main, image: TEST_IMAGE}]}}}",
    ),
    (
        "job",
        "host-pid",
        false,
        "apiVersion: batch/v1\nkind: Job\nspec: {suspend: true, template: {spec: {restartPolicy: Never, hostPID: true, containers: [{name: main, image: TEST_IMAGE}]}}}",
    ),
    (
        "cronjob",
        "host-pid",
        false,
        "apiVersion: batch/v1\nkind: CronJob\nspec: {suspend: true, schedule: '0 0 1 1 *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, hostPID: true, containers: [{name: main, image: TEST_IMAGE}]}}}}}",
    ),
    (
        "cronjob",
        "plain",
        true,
        "apiVersion: batch/v1\nkind: CronJob\nspec: {suspend: true, schedule: '0 0 1 1 *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: TEST_IMAGE}]}}}}}",
    ),
    ("role", "reader", false, "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nrules: []"),
    (
        "rolebinding",
        "reader",
        false,
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}",
    ),
    (
        "networkpolicy",
        "open",
        false,
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nspec: {podSelector: {}}",
    ),
    ("resourcequota", "quota", false, "apiVersion: v1\nkind: ResourceQuota\nspec: {hard: {pods: '100'}}"),
];

/// Cluster-scoped objects, none of which comes.
const OUTSIDE: [(&str, &str); 6] = [
    ("clusterrole", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nrules: []"),
    (
        "clusterrolebinding",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}",
    ),
    (
        "validatingwebhookconfiguration",
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nwebhooks: []",
    ),
    (
        "mutatingwebhookconfiguration",
        "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nwebhooks: []",
    ),
    ("priorityclass", "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nvalue: 1"),
    ("storageclass", "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nprovisioner: example.com/none"),
];

/// The objects of a test, removed when dropped.
struct Objects {
    app: Namespace,
}

impl Objects {
    fn create() -> Self {
        let objects = Self { app: Namespace::new("rights-app") };
        let app = &objects.app.name;
        // Its level would let everything in.
        kubectl().args(["label", "namespace", app, "pod-security.kubernetes.io/enforce=privileged"]).ok();
        for (_, name, _, manifest) in INSIDE {
            let token = if name == "token" {
                ", annotations: {kubernetes.io/service-account.name: account}"
            } else {
                ""
            };
            let labels = format!("labels: {{rights: {app}}}");
            objects.app.apply(&format!("{manifest}\nmetadata: {{name: {name}, {labels}{token}}}\n"));
        }
        for (_, manifest) in OUTSIDE {
            objects.app.apply(&format!("{manifest}\nmetadata: {{name: {app}, labels: {{rights: {app}}}}}\n"));
        }
        objects
    }

    /// Removes everything, so that the next restore makes it anew.
    fn lose(&self) {
        delete_namespace(&self.app.name);
        for (kind, _) in OUTSIDE {
            kubectl().args(["delete", kind, &self.app.name, "--ignore-not-found"]).ok();
        }
    }

    /// Fails unless exactly the expected objects exist; `all`: all of them.
    fn assert_restored(&self, how: &str, all: bool) {
        let app = &self.app.name;
        for (kind, name, comes, _) in INSIDE {
            // The control plane removes a token of a service account that was made anew.
            if all && name == "token" {
                continue;
            }
            let exists = !get(&["-n", app, kind, name]).is_null();
            assert_eq!(exists, comes || all, "{how}: {kind} {name}");
        }
        for (kind, _) in OUTSIDE {
            assert_eq!(!get(&[kind, app]).is_null(), all, "{how}: {kind}");
        }
        let labels = get(&["namespace", app])["metadata"]["labels"].clone();
        let level = labels.get("pod-security.kubernetes.io/enforce");
        assert_eq!(level.is_some(), all, "{how}: {labels}");
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for (kind, _) in OUTSIDE {
            kubectl().args(["delete", kind, &self.app.name, "--ignore-not-found"]).run();
        }
    }
}

#[test]
fn an_object_comes_from_an_untrusted_location_only_if_it_gives_no_rights() {
    let server = HostServer::start("rights", &[]);
    let objects = Objects::create();
    let app = objects.app.name.as_str();
    let selector = format!("rights={app}");
    let flags = ["--include-namespaces", app, "--include-cluster-resources", "--selector", &selector];
    server.assert_phase(&server.backup("rights", &flags), &["Completed"]);
    for (name, untrusted, arguments, all) in [
        ("untrusted", true, &[][..], false),
        ("allowed", true, &["--allow-privileged"][..], true),
        ("trusted", false, &[][..], true),
    ] {
        objects.lose();
        let annotation = format!("lifeboat.io/untrusted={untrusted}");
        server.kubectl().args(["annotate", "bsl", "default", "--overwrite", &annotation]).ok();
        let restored: Value = server.restore(name, "rights", arguments);
        server.assert_phase(&restored, &["Completed"]);
        objects.assert_restored(name, all);
        let described = server.described("restore", name);
        for (kind, object, comes, _) in INSIDE {
            let named = described.contains(&format!("/{object} was left out"));
            assert!(comes || all || named, "{kind} {object} is not named:\n{described}");
        }
    }
    server.no_mover_is_left();
}
