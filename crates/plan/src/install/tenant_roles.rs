//! What users may do with the kinds that live in their own namespaces: ClusterRoles that Kubernetes adds to its roles
//! `admin`, `edit` and `view`. They write no status, which is the server's; Functions and Tasks belong to the whole
//! cluster and run in the namespaces of others, so that only its administrators write them. As upstream, `admin` writes
//! AppBindings and `edit` does not.

use serde_json::{Value, json};

use super::{InstallOptions, rbac, rights_name};

const GROUP: &str = "stash.appscode.com";
const SNAPSHOTS: &str = "repositories.stash.appscode.com";
const CATALOG: &str = "appcatalog.appscode.com";

/// The kinds that users create in their namespaces.
const OWN: [&str; 6] = [
    "repositories",
    "backupconfigurations",
    "backupbatches",
    "backupsessions",
    "restoresessions",
    "restorebatches",
];
const CLUSTER_WIDE: [&str; 2] = ["functions", "tasks"];

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    let all = [&OWN[..], &CLUSTER_WIDE].concat();
    let view = json!([
        {"apiGroups": [GROUP], "resources": all, "verbs": READ},
        {"apiGroups": [SNAPSHOTS], "resources": ["snapshots"], "verbs": READ},
        {"apiGroups": [CATALOG], "resources": ["appbindings"], "verbs": READ},
    ]);
    let edit = json!([
        {"apiGroups": [GROUP], "resources": OWN, "verbs": WRITE},
        // The server makes them; deleting one deletes no data.
        {"apiGroups": [SNAPSHOTS], "resources": ["snapshots"], "verbs": ["delete", "deletecollection"]},
        // Role `edit` reads the Secrets of its namespace and so may use its databases from elsewhere.
        {"apiGroups": [CATALOG], "resources": ["appbindings"], "verbs": ["use"]},
    ]);
    let admin = json!([{"apiGroups": [CATALOG], "resources": ["appbindings"], "verbs": WRITE}]);
    [("view", view), ("edit", edit), ("admin", admin)]
        .into_iter()
        .map(|(role, rules)| aggregated(options, role, &rules))
        .collect()
}

/// A ClusterRole whose rules Kubernetes adds to its own role `role`. Role `admin` includes `edit`, and `edit` includes
/// `view`.
fn aggregated(options: &InstallOptions, role: &str, rules: &Value) -> Value {
    let name = format!("{}:stash-{role}", rights_name(&options.namespace));
    let mut object = rbac::cluster_role(&name, rules);
    object["metadata"]["labels"][format!("rbac.authorization.k8s.io/aggregate-to-{role}")] = json!("true");
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<Value> {
        let roles = objects(&InstallOptions::new("lifeboat", "i:1"));
        roles.iter().flat_map(|role| role["rules"].as_array().unwrap().clone()).collect()
    }

    fn has(rule: &Value, field: &str, wanted: &[&str]) -> bool {
        rule[field].as_array().unwrap().iter().any(|value| wanted.iter().any(|one| value == one))
    }

    #[test]
    fn no_role_of_users_writes_a_status_or_anything_of_the_whole_cluster() {
        for rule in rules() {
            let resources = rule["resources"].as_array().unwrap();
            assert!(resources.iter().all(|name| !name.as_str().unwrap().contains(['/', '*'])), "{rule}");
            assert!(!has(&rule, "resources", &CLUSTER_WIDE) || !has(&rule, "verbs", &WRITE), "{rule}");
            assert!(!has(&rule, "verbs", &["*"]), "{rule}");
        }
    }

    #[test]
    fn each_role_is_added_to_one_role_of_kubernetes() {
        let roles = objects(&InstallOptions::new("lifeboat", "i:1"));
        let names: Vec<_> = roles.iter().map(|role| role["metadata"]["name"].clone()).collect();
        assert_eq!(
            names,
            ["lifeboat:lifeboat:stash-view", "lifeboat:lifeboat:stash-edit", "lifeboat:lifeboat:stash-admin"]
        );
        for (role, to) in roles.iter().zip(["view", "edit", "admin"]) {
            let labels = role["metadata"]["labels"].as_object().unwrap();
            assert_eq!(labels.len(), 3, "{labels:?}");
            assert_eq!(labels[&format!("rbac.authorization.k8s.io/aggregate-to-{to}")], "true");
        }
    }
}
