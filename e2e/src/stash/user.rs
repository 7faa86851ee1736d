//! A user with few rights: `kubectl --as` with a name that only this test uses, and Roles for it in single namespaces.

use crate::{Program, apply, kubectl, unique, wait_for};

/// A user of the cluster without rights, until they are granted.
pub struct User {
    pub name: String,
}

impl User {
    pub fn new() -> Self {
        Self { name: unique("user") }
    }

    /// `kubectl` with the rights of this user, in a namespace.
    pub fn kubectl(&self, namespace: &str) -> Program {
        kubectl().args(["--as", &self.name, "--namespace", namespace])
    }

    /// Grants a ClusterRole in a namespace.
    pub fn grant(&self, namespace: &str, cluster_role: &str) {
        let name = unique("grant");
        let role = format!("--clusterrole={cluster_role}");
        let user = format!("--user={}", self.name);
        kubectl().args(["-n", namespace, "create", "rolebinding", &name, &role, &user]).ok();
    }

    /// Grants verbs in a namespace; each rule is API groups, resources and verbs, as lists in YAML.
    pub fn grant_rules(&self, namespace: &str, rules: &[[&str; 3]]) {
        let rules: Vec<String> = rules
            .iter()
            .map(|[groups, resources, verbs]| {
                format!("{{apiGroups: [{groups}], resources: [{resources}], verbs: [{verbs}]}}")
            })
            .collect();
        let name = unique("role");
        apply(&format!(
            "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}, namespace: {namespace}}}
rules: [{rules}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]
",
            rules = rules.join(", "),
            user = self.name
        ));
    }

    /// Creates objects; this must succeed as soon as the API server knows what was granted just now.
    pub fn may_create(&self, namespace: &str, manifests: &str) {
        let create = self.kubectl(namespace).args(["create", "-f", "-"]).input(manifests);
        wait_for(&format!("{} to create an object", self.name), 20, || {
            let output = create.run();
            if output.code == 0 { Ok(()) } else { Err(output.stderr) }
        });
    }

    /// Creates objects; this must be refused. Gives the answer.
    pub fn may_not_create(&self, namespace: &str, manifests: &str) -> String {
        self.kubectl(namespace).args(["create", "-f", "-"]).input(manifests).refused()
    }
}

impl Default for User {
    fn default() -> Self {
        Self::new()
    }
}
