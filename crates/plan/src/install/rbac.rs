//! The server's permissions, in two profiles. Full: the server can restore anything, including roles and bindings,
//! which is equivalent to `cluster-admin` and is granted as such. Limited: everything inside named namespaces and
//! read access to a few cluster-scoped types.

use serde_json::{Value, json};

use super::{DEPLOYMENT, InstallOptions, Rights, labels, rights_name};

pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    match &options.rights {
        Rights::Full => {
            vec![cluster_role_binding(options, &rights_name(&options.namespace), "cluster-admin")]
        }
        Rights::Namespaces(namespaces) => limited(options, namespaces),
    }
}

fn limited(options: &InstallOptions, namespaces: &[String]) -> Vec<Value> {
    let prefix = rights_name(&options.namespace);
    let (view, inside) = (format!("{prefix}:view"), format!("{prefix}:namespace"));
    let mut objects = vec![
        cluster_role(&view, &view_rules()),
        cluster_role_binding(options, &view, &view),
        cluster_role(&inside, &namespace_rules()),
        own_role(options),
        role_binding(options, &options.namespace, "Role", "lifeboat"),
    ];
    let bindings =
        namespaces.iter().map(|namespace| role_binding(options, namespace, "ClusterRole", &inside));
    objects.extend(bindings);
    objects
}

/// Cluster-wide read access that a backup of single namespaces needs.
fn view_rules() -> Value {
    let read = ["get", "list", "watch"];
    json!([
        {"apiGroups": [""], "resources": ["namespaces", "nodes", "persistentvolumes"], "verbs": read},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": read},
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses", "csidrivers"], "verbs": read},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": read},
        {"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshotclasses"], "verbs": read},
    ])
}

/// Permissions inside a namespace of users: any type that users may have created there. RBAC's escalation check keeps
/// the server from granting permissions that it does not have itself.
fn namespace_rules() -> Value {
    json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
}

/// Permissions inside Lifeboat's own namespace: custom resources, lease, Secrets, events.
fn own_role(options: &InstallOptions) -> Value {
    let rules = json!([
            {
                "apiGroups": ["velero.io"],
                "resources": ["*"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
            },
            {
                "apiGroups": [""],
                "resources": ["secrets"],
                "verbs": ["get", "list", "watch", "create", "patch"],
            },
            {
                // Journals of backups are deleted when the backup has ended.
                "apiGroups": [""],
                "resources": ["configmaps"],
                "verbs": ["get", "list", "watch", "create", "patch", "delete"],
            },
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "verbs": ["get", "create", "update"],
            },
            {"apiGroups": ["events.k8s.io", ""], "resources": ["events"], "verbs": ["create", "patch"]},
            {
                // Completes init containers of plugins in the server's own Deployment, and reports which of them
                // fail.
                "apiGroups": ["apps"],
                "resources": ["deployments"],
                "resourceNames": [DEPLOYMENT],
                "verbs": ["get", "list", "watch", "patch"],
            },
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    ]);
    role(&options.namespace, "lifeboat", &rules)
}

pub(super) fn role(namespace: &str, name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()},
        "rules": rules,
    })
}

pub(super) fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels()},
        "rules": rules,
    })
}

pub(super) fn cluster_role_binding(options: &InstallOptions, name: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": labels()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject(options)],
    })
}

/// Binds a Role in a namespace of Lifeboat, or a ClusterRole in a namespace of users.
pub(super) fn role_binding(options: &InstallOptions, namespace: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace, "labels": labels()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [subject(options)],
    })
}

fn subject(options: &InstallOptions) -> Value {
    json!({"kind": "ServiceAccount", "name": "lifeboat", "namespace": options.namespace})
}
