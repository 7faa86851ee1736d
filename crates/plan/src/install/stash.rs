//! What Stash's API needs in a cluster: the policies that check who may create its objects, roles of users, and the permissions of
//! a server with limited rights.

use serde_json::{Value, json};

use super::rbac::{cluster_role, cluster_role_binding, role_binding};
use super::{InstallOptions, Rights, labels, policies, rights_name, service};

/// Whether `lifeboat install`, the chart, `lifeboat server` and `lifeboat crds` include Stash's API if no flag or
/// value says otherwise. The default is defined only here; `cargo xtask gen` writes it into the chart's values.
pub const STASH_BY_DEFAULT: bool = true;

/// The options of Stash's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StashOptions {
    pub is_served: bool,
    /// The namespaces whose objects are served; empty for all that the server has rights in.
    pub tenant_namespaces: Vec<String>,
    /// Whether Restics are installed and served, which is not complete yet.
    pub restics: bool,
}

impl Default for StashOptions {
    fn default() -> Self {
        Self { is_served: STASH_BY_DEFAULT, tenant_namespaces: Vec::new(), restics: false }
    }
}

/// The kinds that users write.
const OF_USERS: [&str; 6] = [
    "backupconfigurations",
    "backupbatches",
    "backupsessions",
    "restoresessions",
    "restorebatches",
    "repositories",
];
/// The group of these kinds.
const GROUP: &str = "stash.appscode.com";

/// The kinds that users of an installation write.
fn of_users(options: &InstallOptions) -> Vec<&'static str> {
    let restics = options.stash.restics.then_some("restics");
    OF_USERS.into_iter().chain(restics).collect()
}

/// The server's arguments that follow from the options.
pub(super) fn args(options: &InstallOptions) -> Vec<String> {
    let mut args = vec![format!("--stash={}", options.stash.is_served)];
    let served = served_namespaces(options);
    if options.stash.is_served && !served.is_empty() {
        args.push(format!("--tenant-namespaces={}", served.join(",")));
    }
    if options.stash.is_served && options.stash.restics {
        args.push("--experimental-restics".to_owned());
    }
    args
}

/// The namespaces whose objects are served; empty for all. A server with limited rights serves those in which it has some.
pub fn served_namespaces(options: &InstallOptions) -> &[String] {
    match (&options.rights, options.stash.tenant_namespaces.as_slice()) {
        (Rights::Namespaces(namespaces), []) => namespaces,
        (_, tenants) => tenants,
    }
}

/// The policies, the roles of users, the gateway, and the server's permissions.
pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    if !options.stash.is_served {
        return Vec::new();
    }
    let mut objects = policies::objects(&options.namespace);
    if options.stash.restics {
        objects.extend(policies::restic_objects(&options.namespace));
    }
    objects.extend(user_roles(&options.namespace, &of_users(options)));
    objects.push(service::gateway(options));
    if options.rights != Rights::Full {
        objects.extend(server_rights(options));
    }
    objects
}

/// Roles that the cluster's own roles `admin`, `edit` and `view` include. None of them gives access to a status: the server
/// keeps its journal there.
fn user_roles(namespace: &str, of_users: &[&str]) -> [Value; 2] {
    let prefix = rights_name(namespace);
    let write = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let read = ["get", "list", "watch"];
    let edit = json!([
        {"apiGroups": [GROUP], "resources": of_users, "verbs": write},
        {"apiGroups": ["appcatalog.appscode.com"], "resources": ["appbindings"], "verbs": write},
        // Backups and restores of a database from another namespace need this verb on its AppBinding.
        {"apiGroups": ["appcatalog.appscode.com"], "resources": ["appbindings"], "verbs": ["use"]},
        // Snapshots mirror what is in a repository; deleting one deletes no data.
        {
            "apiGroups": ["repositories.stash.appscode.com"],
            "resources": ["snapshots"],
            "verbs": ["delete", "get", "list", "watch"],
        },
    ]);
    let view = json!([
        {"apiGroups": [GROUP], "resources": of_users, "verbs": read},
        // Cluster-wide kinds, which administrators write: they decide which images run in the pods of others.
        {"apiGroups": [GROUP], "resources": ["functions", "tasks"], "verbs": read},
        {"apiGroups": ["appcatalog.appscode.com"], "resources": ["appbindings"], "verbs": read},
        {"apiGroups": ["repositories.stash.appscode.com"], "resources": ["snapshots"], "verbs": read},
    ]);
    [
        aggregated(&format!("{prefix}:stash:edit"), &["admin", "edit"], &edit),
        aggregated(&format!("{prefix}:stash:view"), &["admin", "edit", "view"], &view),
    ]
}

fn aggregated(name: &str, into: &[&str], rules: &Value) -> Value {
    let mut role = cluster_role(name, rules);
    let mut all = labels();
    for target in into {
        all[format!("rbac.authorization.k8s.io/aggregate-to-{target}")] = json!("true");
    }
    role["metadata"]["labels"] = all;
    role
}

/// The permissions of a server that is no cluster administrator: in the namespaces of tenants what backups and restores of
/// workloads need, cluster-wide read access to policies, Functions and Tasks.
fn server_rights(options: &InstallOptions) -> Vec<Value> {
    let prefix = rights_name(&options.namespace);
    let (view, inside) = (format!("{prefix}:stash:server-view"), format!("{prefix}:stash:server"));
    let mut objects = vec![
        cluster_role(&view, &cluster_rules()),
        cluster_role_binding(options, &view, &view),
        cluster_role(&inside, &tenant_rules(&of_users(options))),
    ];
    let tenants = &options.stash.tenant_namespaces;
    objects.extend(tenants.iter().map(|tenant| role_binding(options, tenant, "ClusterRole", &inside)));
    objects
}

fn cluster_rules() -> Value {
    let read = ["get", "list", "watch"];
    let kinds = policies::KINDS.map(|(_, plural)| plural);
    json!([
        {"apiGroups": [GROUP], "resources": ["functions", "tasks"], "verbs": read},
        {"apiGroups": [policies::API.0], "resources": kinds, "verbs": read},
    ])
}

/// Permissions in the namespace of a tenant.
fn tenant_rules(of_users: &[&str]) -> Value {
    let all = ["get", "list", "watch", "create", "patch", "delete"];
    let each = |part: &str| of_users.iter().map(|kind| format!("{kind}/{part}")).collect::<Vec<_>>();
    let (status, finalizers) = (each("status"), each("finalizers"));
    json!([
        // Finalizers of Repositories and restores are in their metadata.
        {"apiGroups": [GROUP], "resources": of_users, "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [GROUP], "resources": status, "verbs": ["get", "update", "patch"]},
        // Sessions belong to their invoker and Jobs to their session: where owners are checked, this right is needed.
        {"apiGroups": [GROUP], "resources": finalizers, "verbs": ["update"]},
        // Of the schedule, and of the history.
        {"apiGroups": [GROUP], "resources": ["backupsessions"], "verbs": ["create", "delete"]},
        {"apiGroups": ["repositories.stash.appscode.com"], "resources": ["snapshots"], "verbs": all},
        {"apiGroups": ["appcatalog.appscode.com"], "resources": ["appbindings"], "verbs": ["get", "list", "watch"]},
        // Movers. Before one is created, a dry run of its pod shows what the namespace admits.
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": all},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "delete"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        // Hooks: a WebSocket is opened with a GET.
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
        // Keys of repositories and databases; and those that a mover gets, which are deleted with it.
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": all},
        {"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshots"], "verbs": all},
        // Targets. A restore writes scale and annotation of a workload in one request, so the right to its scale alone is not enough.
        {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets", "replicasets"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["replicationcontrollers"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": ["apps.openshift.io"], "resources": ["deploymentconfigs"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["list"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["get", "list", "create", "patch"]},
    ])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::install;

    fn options(rights: Rights, tenants: &[&str]) -> InstallOptions {
        let tenant_namespaces = tenants.iter().map(|&name| name.to_owned()).collect();
        InstallOptions {
            rights,
            stash: StashOptions { is_served: true, tenant_namespaces, restics: false },
            ..InstallOptions::new("lifeboat", "i:1")
        }
    }

    fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> Vec<&'a Value> {
        objects.iter().filter(|o| o["kind"] == kind && o["metadata"]["name"] == name).collect()
    }

    #[test]
    fn without_the_api_an_installation_has_no_trace_of_it() {
        let mut options = options(Rights::Namespaces(vec!["shop".into()]), &["shop"]);
        options.stash.is_served = false;
        let objects = install::objects(&options);
        let text = serde_json::to_string(&objects).unwrap();
        assert!(
            !text.contains(GROUP) && !text.contains(":stash:") && !text.contains("--tenant-namespaces"),
            "{text}"
        );
        assert!(
            text.contains("--stash=false"),
            "a server of another version may serve Stash's API without this flag"
        );
    }

    #[test]
    fn restics_are_installed_on_request_with_their_policy_and_rights() {
        let mut options = options(Rights::Namespaces(vec!["shop".into()]), &["bank"]);
        let text = |options: &InstallOptions| serde_json::to_string(&install::objects(options)).unwrap();
        assert!(!text(&options).contains("restics"));
        options.stash.restics = true;
        let found = text(&options);
        for part in ["--experimental-restics", "\"restics.lifeboat.lifeboat.io\"", "\"restics/status\""] {
            assert!(found.contains(part), "{part}");
        }
    }

    #[test]
    fn permissions_and_roles_of_a_limited_server() {
        let objects = objects(&options(Rights::Namespaces(vec!["shop".into()]), &["bank"]));
        let roles: Vec<_> =
            objects.into_iter().filter(|o| o["apiVersion"] == "rbac.authorization.k8s.io/v1").collect();
        insta::assert_yaml_snapshot!(roles);
    }

    #[rstest]
    #[case::everywhere(Rights::Full, &[], None)]
    #[case::some(Rights::Full, &["a", "b"], Some("--tenant-namespaces=a,b"))]
    #[case::limited(Rights::Namespaces(vec!["shop".into()]), &[], Some("--tenant-namespaces=shop"))]
    #[case::limited_and_others(Rights::Namespaces(vec!["shop".into()]), &["bank"], Some("--tenant-namespaces=bank"))]
    fn a_limited_server_serves_no_namespace_in_which_it_has_no_rights(
        #[case] rights: Rights,
        #[case] tenants: &[&str],
        #[case] expected: Option<&str>,
    ) {
        let args = args(&options(rights, tenants));
        assert_eq!(args[0], "--stash=true");
        assert_eq!(args.get(1).map(String::as_str), expected);
    }

    #[test]
    fn a_limited_server_gets_rights_in_the_namespaces_of_tenants_only() {
        let objects = objects(&options(Rights::Namespaces(vec!["shop".into()]), &["bank", "post"]));
        let bindings = named(&objects, "RoleBinding", "lifeboat:lifeboat:stash:server");
        let namespaces: Vec<_> = bindings.iter().map(|binding| &binding["metadata"]["namespace"]).collect();
        assert_eq!(namespaces, ["bank", "post"]);
        let cluster_wide: Vec<_> = objects.iter().filter(|o| o["kind"] == "ClusterRoleBinding").collect();
        assert_eq!(cluster_wide.len(), 1);
        assert_eq!(cluster_wide[0]["roleRef"]["name"], "lifeboat:lifeboat:stash:server-view");
        let view = named(&objects, "ClusterRole", "lifeboat:lifeboat:stash:server-view");
        let verbs =
            view[0]["rules"].as_array().unwrap().iter().flat_map(|rule| rule["verbs"].as_array().unwrap());
        assert!(verbs.clone().all(|verb| ["get", "list", "watch"].contains(&verb.as_str().unwrap())));
    }

    #[test]
    fn a_server_with_all_rights_gets_no_role_of_its_own() {
        let objects = objects(&options(Rights::Full, &["shop"]));
        assert!(!serde_json::to_string(&objects).unwrap().contains(":stash:server"));
    }

    #[rstest]
    #[case::edit("edit", &["admin", "edit"])]
    #[case::view("view", &["admin", "edit", "view"])]
    fn roles_are_included_in_those_of_the_cluster(#[case] role: &str, #[case] into: &[&str]) {
        let roles = user_roles("lifeboat", &OF_USERS);
        let role = roles
            .iter()
            .find(|r| r["metadata"]["name"] == format!("lifeboat:lifeboat:stash:{role}"))
            .unwrap();
        let labels = role["metadata"]["labels"].as_object().unwrap();
        let prefix = "rbac.authorization.k8s.io/aggregate-to-";
        let found: Vec<_> = labels.keys().filter_map(|label| label.strip_prefix(prefix)).collect();
        assert_eq!(found, into);
    }

    #[test]
    fn no_role_of_users_writes_a_status_or_a_cluster_wide_kind_and_view_changes_nothing() {
        for role in user_roles("lifeboat", &OF_USERS) {
            let is_view = role["metadata"]["name"].as_str().unwrap().ends_with(":view");
            for rule in role["rules"].as_array().unwrap() {
                let verbs: Vec<_> =
                    rule["verbs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
                let resources: Vec<_> =
                    rule["resources"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
                let only_reads = verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb));
                assert!(only_reads || !is_view, "{rule}");
                assert!(
                    resources.iter().all(|resource| !resource.contains('/') && *resource != "*"),
                    "{rule}"
                );
                assert!(
                    only_reads || !resources.contains(&"functions") && !resources.contains(&"tasks"),
                    "{rule}"
                );
            }
        }
    }
}
