//! The admission policies of Stash's API on a real API server, the second one of the box: users with and without rights create and
//! change objects. No server of Lifeboat runs.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::sync::OnceLock;

use lifeboat_e2e::{Output, Program, lifeboat, unique, variable, wait_for};
use rstest::rstest;
use serde_json::{Value, json};

/// The kinds that policies check.
const KINDS: [&str; 6] =
    ["BackupConfiguration", "BackupBatch", "BackupSession", "RestoreSession", "RestoreBatch", "Repository"];

/// `kubectl` on the bare API server.
fn kubectl() -> Program {
    Program::new("kubectl").args(["--kubeconfig", &variable("LIFEBOAT_BARE_KUBECONFIG")])
}

fn apply(objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]).input(&list).ok();
}

/// Kinds, policies and roles as `lifeboat install` applies them, once in a process.
fn installed() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let flags = ["install", "--stash", "--dry-run", "-o", "json", "--namespace", "lifeboat"];
        let list: Value = serde_json::from_str(&lifeboat().args(flags).ok()).unwrap();
        let all = list["items"].as_array().unwrap().clone();
        let of = |kinds: &[&str]| {
            let found = all.iter().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind));
            found.cloned().collect::<Vec<_>>()
        };
        apply(&of(&["CustomResourceDefinition"]));
        kubectl().args(["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]).ok();
        apply(&of(&["ClusterRole", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]));
        let nobody = Tenant::new();
        let user = nobody.user(&[]);
        // The API server takes up policies a moment after they were created: each kind shows that its own is in force.
        for kind in KINDS {
            wait_for(&format!("the policy of {kind}"), 60, || {
                let said = user.creates(&object(kind, &spec_of(kind))).stderr;
                if said.contains("denied request") { Ok(()) } else { Err(said) }
            });
        }
    });
}

/// Verbs on resources, as `create pods/exec` and `patch deployments.apps/scale`.
const PODS: &str = "create pods";
const EXEC: &str = "create pods/exec";
const DEPLOYMENTS: &str = "patch deployments.apps/scale";
const STATEFUL_SETS: &str = "patch statefulsets.apps/scale";
/// All that the policies ask for in the namespace of an object.
const ALL: [&str; 4] = [PODS, EXEC, DEPLOYMENTS, STATEFUL_SETS];

/// A namespace of users.
struct Tenant(String);

/// A user who may write every kind of Stash's API in one namespace, and has other rights as the test gives them.
struct User {
    name: String,
    namespace: String,
}

impl Tenant {
    fn new() -> Self {
        let name = unique("policies");
        kubectl().args(["create", "namespace", &name]).ok();
        Self(name)
    }

    fn user(&self, rights: &[&str]) -> User {
        let user = User { name: unique("user"), namespace: self.0.clone() };
        apply(&[binding(&user.name, &self.0, "lifeboat:lifeboat:stash:edit")]);
        self.grant(&user, rights);
        user
    }

    /// Gives a user rights in this namespace, and waits until the authorizer knows them.
    fn grant(&self, user: &User, rights: &[&str]) {
        let allowed = |right: &&str| {
            let (verb, resource) = right.split_once(' ').unwrap();
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            let resource = if subresource.is_empty() {
                resource.to_owned()
            } else {
                format!("{resource}/{subresource}")
            };
            json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
        };
        let rules: Vec<Value> = rights.iter().map(allowed).collect();
        let name = format!("{}-more", user.name);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": self.0}, "rules": rules});
        let mut binding = binding(&user.name, &self.0, &name);
        binding["roleRef"]["kind"] = json!("Role");
        binding["metadata"]["name"] = json!(name);
        apply(&[role, binding]);
        for right in rights {
            let (verb, resource) = right.split_once(' ').unwrap();
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let subresource = format!("--subresource={subresource}");
            wait_for(right, 30, || {
                let asked =
                    ["auth", "can-i", verb, resource, &subresource, "-n", &self.0, "--as", &user.name];
                let said = kubectl().args(asked).run().stdout;
                if said.trim() == "yes" { Ok(()) } else { Err(said) }
            });
        }
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        kubectl().args(["delete", "namespace", &self.0, "--wait=false"]).run();
    }
}

impl User {
    fn kubectl(&self) -> Program {
        kubectl().args(["-n", &self.namespace, "--as", &self.name])
    }

    /// Creates an object in a dry run, which admission sees like any other request.
    fn creates(&self, object: &Value) -> Output {
        let create = ["create", "--dry-run=server", "-f", "-"];
        self.kubectl().args(create).input(&object.to_string()).run()
    }

    fn assert_admitted(&self, object: &Value) {
        let output = self.creates(object);
        assert_eq!(output.code, 0, "{object}: {}", output.stderr);
    }

    /// Fails unless the object is refused by a policy, with these texts.
    fn assert_refused(&self, object: &Value, texts: &[&str]) {
        let output = self.creates(object);
        assert_ne!(output.code, 0, "{object} was admitted");
        assert_denied(&output, texts);
    }
}

fn assert_denied(output: &Output, texts: &[&str]) {
    for text in [&["ValidatingAdmissionPolicy", "denied request"], texts].concat() {
        assert!(output.stderr.contains(text), "{text:?} is not in {}", output.stderr);
    }
}

fn binding(user: &str, namespace: &str, role: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": user, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
}

fn object(kind: &str, spec: &Value) -> Value {
    let version = if kind == "Repository" { "v1alpha1" } else { "v1beta1" };
    let version = format!("stash.appscode.com/{version}");
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": "one"}, "spec": spec})
}

/// A workload of the object's own namespace.
fn deployment() -> Value {
    json!({"alias": "app", "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]})
}

/// A database of another namespace.
fn database(namespace: &str, alias: &str) -> Value {
    json!({"alias": alias, "ref": {"apiVersion": "appcatalog.appscode.com/v1alpha1", "kind": "AppBinding", "name": "db",
        "namespace": namespace}})
}

/// A spec without hooks, with a target of the object's own namespace.
fn spec_of(kind: &str) -> Value {
    let target = deployment();
    let members = json!([{"target": target}]);
    let mut spec = match kind {
        "BackupSession" => {
            return json!({"invoker": {"apiGroup": "stash.appscode.com", "kind": "BackupConfiguration", "name": "one"}});
        }
        "Repository" => {
            return json!({"backend": {"rest": {"url": "https://b"}, "storageSecretName": "keys"}});
        }
        "BackupBatch" | "RestoreBatch" => json!({"members": members}),
        _ => json!({"target": target}),
    };
    spec["repository"] = json!({"name": "repo"});
    if kind.starts_with("Backup") {
        spec["schedule"] = json!("0 3 * * *");
        spec["retentionPolicy"] = json!({"name": "keep", "keepLast": 1, "prune": false});
    }
    spec
}

/// A spec with changes at some JSON pointers.
fn spec_with(kind: &str, changes: &[(&str, Value)]) -> Value {
    let mut spec = spec_of(kind);
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    spec
}

fn command() -> Value {
    json!({"exec": {"command": ["sync"]}})
}

#[test]
fn admits_an_administrator_of_the_namespace() {
    installed();
    let tenant = Tenant::new();
    let user = tenant.user(&ALL);
    for kind in KINDS {
        user.assert_admitted(&object(kind, &spec_of(kind)));
    }
}

#[rstest]
#[case::configuration("BackupConfiguration", &[], PODS, "create pods in namespace")]
#[case::batch("BackupBatch", &[], PODS, "create pods in namespace")]
#[case::session("BackupSession", &[], PODS, "spec.invoker")]
#[case::restore("RestoreSession", &[], PODS, "create pods in namespace")]
#[case::restore_batch("RestoreBatch", &[], PODS, "create pods in namespace")]
#[case::repository("Repository", &[], PODS, "spec.backend")]
#[case::stops_deployments("RestoreSession", &[], DEPLOYMENTS, "patch deployments/scale (apps) in namespace")]
#[case::stops_stateful_sets("RestoreBatch", &[], STATEFUL_SETS, "patch statefulsets/scale (apps) in namespace")]
#[case::command_before("BackupConfiguration", &[("/hooks", json!({"preBackup": command()}))], EXEC, "spec.hooks")]
#[case::command_after("RestoreSession", &[("/hooks", json!({"postRestore": command()}))], EXEC, "create pods/exec")]
#[case::command_of_a_member("BackupBatch", &[("/members/0/hooks", json!({"postBackup": command()}))], EXEC, "spec.members[].hooks")]
#[case::command_of_the_batch("RestoreBatch", &[("/hooks", json!({"preRestore": command()}))], EXEC, "exec in spec.hooks")]
fn rejects_whoever_lacks_a_right_and_names_it(
    #[case] kind: &str,
    #[case] changes: &[(&str, Value)],
    #[case] lacks: &str,
    #[case] says: &str,
) {
    installed();
    let tenant = Tenant::new();
    let object = object(kind, &spec_with(kind, changes));
    let rights: Vec<&str> = ALL.into_iter().filter(|right| *right != lacks).collect();
    let user = tenant.user(&rights);
    user.assert_refused(&object, &[says, &user.name, "lacks the right to", &tenant.0]);
    tenant.user(&ALL).assert_admitted(&object);
}

#[test]
fn accepts_hooks_without_commands_of_whoever_may_not_run_any() {
    installed();
    let tenant = Tenant::new();
    let http = json!({"preBackup": {"httpGet": {"port": 80}}});
    let spec = spec_with("BackupConfiguration", &[("/hooks", http)]);
    tenant.user(&[PODS]).assert_admitted(&object("BackupConfiguration", &spec));
}

#[rstest]
#[case::configuration("BackupConfiguration", "/target", "/hooks", "spec.target.ref", "spec.hooks")]
#[case::batch(
    "BackupBatch",
    "/members/0/target",
    "/members/0/hooks",
    "spec.members[0].target.ref",
    "spec.members[0].hooks"
)]
fn rejects_databases_of_other_namespaces_unless_they_may_be_used(
    #[case] kind: &str,
    #[case] target: &str,
    #[case] hooks: &str,
    #[case] target_field: &str,
    #[case] hooks_field: &str,
) {
    installed();
    let (tenant, other) = (Tenant::new(), Tenant::new());
    let user = tenant.user(&ALL);
    let of_database = [(target, database(&other.0, "db"))];
    let plain = object(kind, &spec_with(kind, &of_database));
    user.assert_refused(&plain, &[target_field, "use appbindings (appcatalog.appscode.com) db", &other.0]);
    other.grant(&user, &["use appbindings.appcatalog.appscode.com"]);
    user.assert_admitted(&plain);
    // A hook of that member runs next to the database.
    let with_command = [of_database[0].clone(), (hooks, json!({"preBackup": command()}))];
    let with_command = object(kind, &spec_with(kind, &with_command));
    user.assert_refused(&with_command, &[hooks_field, "create pods/exec", &other.0]);
    other.grant(&user, &["use appbindings.appcatalog.appscode.com", EXEC]);
    user.assert_admitted(&with_command);
}

#[test]
fn a_change_of_the_spec_is_checked_like_a_creation_and_any_other_change_is_not() {
    installed();
    let tenant = Tenant::new();
    let user = tenant.user(&[]);
    let object = object("BackupConfiguration", &spec_of("BackupConfiguration"));
    tenant.user(&ALL).kubectl().args(["create", "-f", "-"]).input(&object.to_string()).ok();
    let name = "backupconfigurations.stash.appscode.com/one";
    let patch = |text: &str| user.kubectl().args(["patch", name, "--type=merge", "-p", text]).run();
    for spec in [
        json!({"spec": {"schedule": "* * * * *"}}),
        json!({"spec": {"paused": true}}),
        json!({"spec": {"target": {"ref": {"name": "other"}}}}),
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"hooks": {"preBackup": command()}}}),
    ] {
        let output = patch(&spec.to_string());
        assert_ne!(output.code, 0, "{spec} was admitted");
        assert_denied(&output, &["create pods in namespace", &user.name]);
    }
    let replaced = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": "one"},
        "spec": spec_with("BackupConfiguration", &[("/schedule", json!("1 1 * * *"))])});
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    assert_denied(
        &user.kubectl().args(apply).input(&replaced.to_string()).run(),
        &["create pods in namespace"],
    );
    for metadata in [
        json!({"metadata": {"labels": {"team": "a"}}}),
        json!({"metadata": {"annotations": {"note": "b"}, "finalizers": ["example.com/x"]}}),
        json!({"metadata": {"finalizers": null}}),
    ] {
        let output = patch(&metadata.to_string());
        assert_eq!(output.code, 0, "{metadata}: {}", output.stderr);
    }
    // The status is the server's: no role of users has it, and no policy is in the way of who has.
    let status = ["--subresource=status", "--type=merge", "-p", r#"{"status": {"phase": "Ready"}}"#];
    // kubectl reads what it patches.
    let rights =
        ["get", "patch"].map(|verb| format!("{verb} backupconfigurations.stash.appscode.com/status"));
    tenant.grant(&user, &[&rights[0]]);
    let said = user.kubectl().args(["patch", name]).args(status).refused();
    assert!(said.contains("cannot patch resource") && !said.contains("denied request"), "{said}");
    tenant.grant(&user, &rights.each_ref().map(String::as_str));
    user.kubectl().args(["patch", name]).args(status).ok();
}

#[test]
fn the_largest_batch_is_checked_within_the_cost_that_the_api_server_allows() {
    installed();
    let (tenant, other) = (Tenant::new(), Tenant::new());
    let member = |target: Value, hook: &str| json!({"target": target, "hooks": {hook: command()}});
    for (kind, hook) in [("BackupBatch", "postBackup"), ("RestoreBatch", "postRestore")] {
        let user = tenant.user(&ALL);
        other.grant(&user, &["use appbindings.appcatalog.appscode.com", EXEC]);
        let own = |number: usize| {
            let mut target = deployment();
            target["alias"] = json!(format!("app-{number}"));
            member(target, hook)
        };
        let elsewhere = |number: usize| member(database(&other.0, &format!("db-{number}")), hook);
        let most: Vec<Value> = (0..48).map(own).chain((0..16).map(elsewhere)).collect();
        let batch = |members: &[Value]| {
            let hooks = json!({hook: command()});
            object(kind, &spec_with(kind, &[("/members", json!(members)), ("/hooks", hooks)]))
        };
        user.assert_admitted(&batch(&most));
        let too_many: Vec<Value> = (0..17).map(elsewhere).collect();
        user.assert_refused(&batch(&too_many), &["more than 16 targets are in other namespaces"]);
        // The last place is checked like the first. Without a hook, whose command needs a right there, too.
        let mut last = most.clone();
        last[63]["target"]["ref"]["namespace"] = json!(tenant.0.clone() + "-x");
        last[63].as_object_mut().unwrap().remove("hooks");
        user.assert_refused(&batch(&last), &["spec.members[63].target.ref", "-x"]);
    }
}

#[test]
fn who_may_only_view_changes_nothing_and_sees_every_kind() {
    installed();
    let tenant = Tenant::new();
    let viewer = unique("viewer");
    apply(&[binding(&viewer, &tenant.0, "lifeboat:lifeboat:stash:view")]);
    let may = |verb: &str, resource: &str| {
        let asked = ["auth", "can-i", verb, resource, "-n", &tenant.0, "--as", &viewer];
        kubectl().args(asked).run().stdout.trim() == "yes"
    };
    let kinds = [
        "backupconfigurations.stash.appscode.com",
        "backupbatches.stash.appscode.com",
        "backupsessions.stash.appscode.com",
        "restoresessions.stash.appscode.com",
        "restorebatches.stash.appscode.com",
        "repositories.stash.appscode.com",
        "snapshots.repositories.stash.appscode.com",
        "appbindings.appcatalog.appscode.com",
    ];
    wait_for("the rights of the viewer", 30, || {
        if may("list", kinds[0]) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    for kind in kinds {
        assert!(may("get", kind) && may("watch", kind), "{kind}");
        for verb in ["create", "update", "patch", "delete", "use"] {
            assert!(!may(verb, kind), "{verb} {kind}");
        }
    }
    assert!(!may("get", "secrets"));
}
