//! Service accounts of the measured products: takes a namespace and a name, returns the kubeconfig of a service account
//! with cluster-admin permissions, whose requests the API server counts separately. Each product gets one, so that flow
//! control treats both as workloads, not as the exempt administrator.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run;
use crate::servers::{Home, Kubectl};

/// The API server's counter of requests by flow schema.
const COUNTER: &str = "apiserver_flowcontrol_dispatched_requests_total{";

/// A service account; its objects in the cluster are deleted when it is dropped.
pub(super) struct Identity {
    kubectl: Kubectl,
    name: String,
    directory: TempDir,
}

impl Identity {
    pub(super) fn new(home: &Home, account: &str) -> Result<Self> {
        let name = format!("bench-{}-{account}", home.namespace);
        let directory = TempDir::with_prefix("lifeboat-bench-").context("cannot create a directory")?;
        let identity = Self { kubectl: home.kubectl_maker(), name, directory };
        let objects = identity.objects(&home.namespace, account).to_string();
        run::with_input(home.kubectl().args(["apply", "-f", "-"]), &objects)?;
        let token = run::output(home.kubectl().args(["create", "token", account, "--duration=12h"]))?;
        let config = run::output(home.kubectl().args(["config", "view", "--raw", "--minify", "-o", "json"]))?;
        let mut config: Value = serde_json::from_str(&config).context("cannot read the kubeconfig")?;
        let user = config.pointer_mut("/users/0/user").context("the kubeconfig has no user")?;
        *user = json!({"token": token.trim()});
        std::fs::write(identity.kubeconfig(), config.to_string()).context("cannot write a kubeconfig")?;
        Ok(identity)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// How many requests the account has made so far.
    pub(super) fn requests(&self) -> Result<u64> {
        let metrics = run::output(self.kubectl.command().args(["get", "--raw", "/metrics"]))?;
        Ok(count(&metrics, &self.name))
    }

    fn objects(&self, namespace: &str, account: &str) -> Value {
        let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
        let schema_subject =
            json!({"kind": "ServiceAccount", "serviceAccount": {"name": account, "namespace": namespace}});
        json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": self.name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [subject],
            },
            {
                "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
                "kind": "FlowSchema",
                "metadata": {"name": self.name},
                "spec": {
                    "priorityLevelConfiguration": {"name": "workload-low"},
                    "matchingPrecedence": 500,
                    "distinguisherMethod": {"type": "ByUser"},
                    "rules": [{
                        "subjects": [schema_subject],
                        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                            "clusterScope": true, "namespaces": ["*"]}],
                        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                    }],
                },
            },
        ]})
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        for kind in ["flowschema", "clusterrolebinding"] {
            let _ =
                run::output(self.kubectl.command().args(["delete", kind, &self.name, "--ignore-not-found"]));
        }
    }
}

fn count(metrics: &str, schema: &str) -> u64 {
    let wanted = format!("flow_schema=\"{schema}\"");
    metrics
        .lines()
        .filter(|line| line.starts_with(COUNTER) && line.contains(&wanted))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .map(|number| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count
            let number = number as u64;
            number
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_schema_are_counted() {
        let metrics = format!(
            "# HELP\n{COUNTER}flow_schema=\"bench-a\",priority_level=\"workload-low\"}} 12\n\
             {COUNTER}flow_schema=\"bench-ab\",priority_level=\"workload-low\"}} 7\n\
             {COUNTER}flow_schema=\"bench-a\",priority_level=\"other\"}} 1.5e+03\n"
        );
        assert_eq!(count(&metrics, "bench-a"), 1512);
    }
}
