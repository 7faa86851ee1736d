//! The namespace of movers: pods in it may read volumes and directories of nodes, and nothing else runs there. It has
//! a service account without a token and a network policy without ingress. Egress is open unless the networks of the
//! storage are named.

use serde_json::{Value, json};

use super::rbac::{role, role_binding};
use super::{EXISTED_ANNOTATION, InstallOptions, Rights, labels};
use crate::transfer::movers::job::SERVICE_ACCOUNT;

/// The options for movers. The fields are strings because the chart puts template expressions there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoverOptions {
    pub namespace: String,
    /// The namespace existed before the installation, so uninstall must not delete it.
    pub namespace_existed: bool,
    /// Whether movers may mount directories of nodes.
    pub node_access: bool,
    /// The kubelet's directory on nodes, where it is not the default.
    pub kubelet_root: Option<String>,
    /// Networks (CIDR) that movers may reach in addition to DNS; empty means all networks.
    pub egress: Vec<String>,
}

impl MoverOptions {
    pub fn new(server_namespace: &str) -> Self {
        Self {
            namespace: namespace_of(server_namespace),
            namespace_existed: false,
            node_access: false,
            kubelet_root: None,
            egress: Vec::new(),
        }
    }
}

/// The movers' namespace of a server. Each server has its own.
pub fn namespace_of(server_namespace: &str) -> String {
    let room = server_namespace.len().min(63 - "-movers".len());
    format!("{}-movers", server_namespace[..room].trim_end_matches('-'))
}

/// The server's arguments that follow from the options.
pub(super) fn args(options: &InstallOptions) -> Vec<String> {
    let movers = &options.movers;
    let mut args =
        vec![format!("--mover-image={}", options.image), format!("--mover-namespace={}", movers.namespace)];
    if movers.node_access {
        args.push("--node-access".to_owned());
    }
    args.extend(movers.kubelet_root.iter().map(|root| format!("--kubelet-root={root}")));
    args
}

pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    let name = &options.movers.namespace;
    let mut objects = vec![namespace(options), service_account(name), network_policy(&options.movers)];
    if options.rights != Rights::Full {
        objects.push(role(name, "lifeboat", &rules()));
        objects.push(role_binding(options, name, "Role", "lifeboat"));
    }
    objects
}

/// The Pod Security level of the movers' namespace. Directories of nodes require `privileged`. Without them
/// the server's token cannot be used to run a privileged pod there.
fn level(options: &MoverOptions) -> &'static str {
    if options.node_access { "privileged" } else { "baseline" }
}

/// The namespace of movers.
fn namespace(options: &InstallOptions) -> Value {
    let level = level(&options.movers);
    let mut namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": options.movers.namespace,
            "labels": {
                "app.kubernetes.io/name": "lifeboat",
                "component": "velero",
                "pod-security.kubernetes.io/enforce": level,
                "pod-security.kubernetes.io/audit": level,
                "pod-security.kubernetes.io/warn": level,
            },
        },
    });
    if options.movers.namespace_existed {
        namespace["metadata"]["annotations"] = json!({EXISTED_ANNOTATION: "true"});
    }
    namespace
}

fn service_account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": SERVICE_ACCOUNT, "namespace": namespace, "labels": labels()},
        "automountServiceAccountToken": false,
    })
}

fn network_policy(options: &MoverOptions) -> Value {
    let mut policy = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": SERVICE_ACCOUNT, "namespace": options.namespace, "labels": labels()},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    });
    if !options.egress.is_empty() {
        let networks: Vec<_> = options.egress.iter().map(|cidr| json!({"ipBlock": {"cidr": cidr}})).collect();
        let dns = ["UDP", "TCP"].map(|protocol| json!({"port": 53, "protocol": protocol}));
        policy["spec"]["policyTypes"] = json!(["Ingress", "Egress"]);
        policy["spec"]["egress"] = json!([{"to": networks}, {"ports": dns}]);
    }
    policy
}

/// The permissions that a server with limited rights needs there: to run movers and to create volumes for them.
fn rules() -> Value {
    json!([
        {
            "apiGroups": ["batch"],
            "resources": ["jobs"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "list"]},
        {
            "apiGroups": [""],
            "resources": ["persistentvolumeclaims"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
        {
            "apiGroups": ["snapshot.storage.k8s.io"],
            "resources": ["volumesnapshots"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_never_share_a_namespace_of_movers() {
        assert_eq!(namespace_of("lifeboat"), crate::transfer::movers::DEFAULT_NAMESPACE);
        assert_eq!(namespace_of("backup"), "backup-movers");
        let long = namespace_of(&format!("{}-{}", "a".repeat(55), "b".repeat(7)));
        assert_eq!(long, format!("{}-movers", "a".repeat(55)));
    }

    #[test]
    fn only_movers_with_node_access_may_be_privileged() {
        for (node_access, level) in [(false, "baseline"), (true, "privileged")] {
            let mut options = InstallOptions::new("lifeboat", "i:1");
            options.movers.node_access = node_access;
            let labels = namespace(&options)["metadata"]["labels"].clone();
            for mode in ["enforce", "audit", "warn"] {
                assert_eq!(labels[format!("pod-security.kubernetes.io/{mode}")], level, "{mode}");
            }
        }
    }

    #[test]
    fn the_server_gets_the_options_as_arguments() {
        let mut options = InstallOptions::new("lifeboat", "i:1");
        assert_eq!(args(&options), ["--mover-image=i:1", "--mover-namespace=lifeboat-movers"]);
        options.movers.node_access = true;
        options.movers.kubelet_root = Some("/k".to_owned());
        assert_eq!(args(&options)[2..], ["--node-access", "--kubelet-root=/k"]);
    }

    #[test]
    fn the_way_out_leads_to_the_named_networks_and_to_names() {
        let mut options = MoverOptions::new("lifeboat");
        assert_eq!(network_policy(&options)["spec"], json!({"podSelector": {}, "policyTypes": ["Ingress"]}));
        options.egress = vec!["10.1.0.0/16".to_owned()];
        let spec = &network_policy(&options)["spec"];
        assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(spec["egress"][0], json!({"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}));
        assert_eq!(spec["egress"][1]["ports"][0], json!({"port": 53, "protocol": "UDP"}));
    }
}
