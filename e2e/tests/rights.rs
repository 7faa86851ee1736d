//! The admission policies and the roles of users on a real API server, the empty one of `schemas.rs`: who may create the
//! kinds of Stash's API, and which right is missing where the policies refuse. Users are impersonated; every test has users
//! and namespaces of its own. Nothing is stored except the objects whose change is tested.
#![allow(clippy::unwrap_used)] // tests end by panicking
#![allow(clippy::needless_for_each)] // a case of a table is one call

use lifeboat_e2e::{Output, Program, lifeboat, wait_for};
use serde_json::{Value, json};

use crate::schemas::{every_kind, kubectl};

/// How many seconds the API server may take to notice a policy, a role or a binding.
const NOTICED: u64 = 60;

/// A user with two namespaces: `own`, where the user may write every kind of Stash's API and nothing else, and `other`.
struct User {
    name: String,
    own: String,
    other: String,
}

impl User {
    fn new(name: &str) -> Self {
        every_kind();
        apply(&policies_and_roles());
        let prefix = name.replace(':', "-");
        let user = Self { name: name.into(), own: format!("{prefix}-own"), other: format!("{prefix}-other") };
        for namespace in [&user.own, &user.other] {
            kubectl().args(["create", "namespace", namespace]).run();
        }
        user.grant(&user.own, "stash.appscode.com", "*", &["get", "create", "update", "patch"]);
        user
    }

    /// Grants verbs on a resource, or on `RESOURCE:NAME` one object of it, in a namespace.
    fn grant(&self, namespace: &str, group: &str, resource: &str, verbs: &[&str]) {
        let (resource, names) = match resource.split_once(':') {
            Some((resource, name)) => (resource, json!([name])),
            None => (resource, json!([])),
        };
        let role = format!("{}.{}", self.name, resource.replace(['/', '*'], "-"));
        let metadata = json!({"name": role, "namespace": namespace});
        let rules =
            json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs, "resourceNames": names}]);
        apply(&[
            json!({"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules}),
            self.binding(namespace, "Role", &role),
        ]);
    }

    fn binding(&self, namespace: &str, kind: &str, role: &str) -> Value {
        let name = format!("{}.{}", self.name, role.replace(':', "-"));
        json!({
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": self.name}],
        })
    }

    fn kubectl(&self) -> Program {
        kubectl().args(["--namespace", &self.own, "--as", &self.name])
    }

    fn create(&self, object: &Value) -> Output {
        self.kubectl().args(["create", "--dry-run=server", "-f", "-"]).input(&object.to_string()).run()
    }

    fn is_refused(&self, object: &Value, expected: &str) {
        wait_for(&format!("{} refused: {expected}", object["kind"]), NOTICED, || {
            refused(&self.create(object), expected)
        });
    }

    fn is_accepted(&self, object: &Value) {
        wait_for(&format!("{} accepted", object["kind"]), NOTICED, || accepted(&self.create(object)));
    }

    /// Whether the user may do this; `action` is a verb, a resource and further arguments of `kubectl auth can-i`.
    fn may(&self, action: &[&str]) -> bool {
        self.kubectl().args(["auth", "can-i"]).args(action).run().stdout.trim() == "yes"
    }

    fn is_allowed(&self, action: &[&str]) {
        wait_for(&format!("{} may {action:?}", self.name), NOTICED, || {
            if self.may(action) { Ok(()) } else { Err("no") }
        });
    }

    /// The rights of a user who may do all that the kinds without targets elsewhere do.
    fn grant_own(&self) {
        self.grant(&self.own, "", "pods", &["create"]);
        self.grant(&self.own, "", "pods/exec", &["create"]);
        for resource in ["deployments/scale", "statefulsets/scale", "replicasets/scale"] {
            self.grant(&self.own, "apps", resource, &["patch"]);
        }
        self.grant(&self.own, "", "replicationcontrollers/scale", &["patch"]);
        self.grant(&self.own, "apps.openshift.io", "deploymentconfigs/scale", &["patch"]);
    }
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn apply(objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]).input(&list.to_string()).ok();
}

/// The policies, their bindings and the roles of users, as `lifeboat install` applies them.
fn policies_and_roles() -> Vec<Value> {
    let list = lifeboat().args(["install", "--dry-run", "--output", "json"]).ok();
    let list: Value = serde_json::from_str(&list).unwrap();
    let kinds = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole"];
    let all = list["items"].as_array().unwrap().iter();
    all.filter(|object| kinds.iter().any(|kind| object["kind"] == *kind)).cloned().collect()
}

fn refused(output: &Output, expected: &str) -> Result<(), String> {
    let is_refused = output.code != 0 && output.stderr.contains(expected);
    if is_refused { Ok(()) } else { Err(format!("{}{}", output.stdout, output.stderr)) }
}

fn accepted(output: &Output) -> Result<(), String> {
    if output.code == 0 { Ok(()) } else { Err(output.stderr.clone()) }
}

fn object(version: &str, kind: &str, spec: &Value) -> Value {
    let api_version = format!("stash.appscode.com/{version}");
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})
}

/// The spec of a backup, with these fields in place of its own.
fn backup(kind: &str, fields: &Value) -> Value {
    let mut spec = json!({
        "repository": {"name": "r"},
        "schedule": "@daily",
        "retentionPolicy": {"name": "keep-last-5", "keepLast": 5, "prune": true},
    });
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object("v1beta1", kind, &spec)
}

fn restore(kind: &str, fields: &Value) -> Value {
    let mut spec = json!({"repository": {"name": "r"}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object("v1beta1", kind, &spec)
}

fn target(kind: &str) -> Value {
    json!({"ref": {"apiVersion": "apps/v1", "kind": kind, "name": "app"}})
}

/// An AppBinding called `name` in another namespace.
fn elsewhere(user: &User, name: &str) -> Value {
    json!({"ref": {"apiVersion": "appcatalog.appscode.com/v1alpha1", "kind": "AppBinding", "name": name,
        "namespace": user.other}})
}

fn command() -> Value {
    json!({"exec": {"command": ["sync"]}})
}

/// One object of each kind that needs no right but `create pods` and, to restore, the scales.
fn simple_objects() -> Vec<Value> {
    let backend = json!({"storageSecretName": "s", "s3": {"endpoint": "s3.example.com", "bucket": "b"}});
    let with_target = json!({"target": target("Deployment")});
    let members = json!({"members": [with_target]});
    vec![
        object("v1alpha1", "Repository", &json!({"backend": backend})),
        object("v1beta1", "BackupSession", &json!({"invoker": {"kind": "BackupConfiguration", "name": "b"}})),
        backup("BackupConfiguration", &with_target),
        backup("BackupBatch", &members),
        restore("RestoreSession", &with_target),
        restore("RestoreBatch", &members),
    ]
}

/// The four kinds with targets, each with this member.
fn with_member(backup_member: &Value, restore_member: &Value) -> [Value; 4] {
    [
        backup("BackupConfiguration", backup_member),
        backup("BackupBatch", &json!({"members": [backup_member]})),
        restore("RestoreSession", restore_member),
        restore("RestoreBatch", &json!({"members": [restore_member]})),
    ]
}

#[test]
fn rejects_every_kind_from_a_user_who_may_not_create_pods() {
    let user = User::new("no-pods");
    user.grant(&user.own, "apps", "deployments/scale", &["patch"]);
    user.grant(&user.own, "apps", "statefulsets/scale", &["patch"]);
    let expected = format!("user no-pods lacks the right to create pods in namespace {}", user.own);
    for object in simple_objects() {
        user.is_refused(&object, &expected);
    }
    user.grant(&user.own, "", "pods", &["create"]);
    for object in simple_objects() {
        user.is_accepted(&object);
    }
}

#[test]
fn rejects_commands_in_pods_from_a_user_who_may_not_exec() {
    let user = User::new("no-exec");
    for resource in ["deployments/scale", "statefulsets/scale"] {
        user.grant(&user.own, "apps", resource, &["patch"]);
    }
    user.grant(&user.own, "", "pods", &["create"]);
    let member = |hook: &str| json!({"target": target("Deployment"), "hooks": {hook: command()}});
    let mut objects = Vec::from(with_member(&member("preBackup"), &member("preRestore")));
    objects.extend(with_member(&member("postBackup"), &member("postRestore")));
    let members = json!([{"target": target("Deployment")}]);
    objects.push(backup("BackupBatch", &json!({"members": members, "hooks": {"postBackup": command()}})));
    objects.push(restore("RestoreBatch", &json!({"members": members, "hooks": {"preRestore": command()}})));
    for object in &objects {
        user.is_refused(object, &format!("lacks the right to create pods/exec in namespace {}", user.own));
    }
    // A hook that only sends a request needs no such right.
    let request = json!({"target": target("Deployment"),
        "hooks": {"preBackup": {"httpGet": {"path": "/", "port": 80}}}});
    user.is_accepted(&backup("BackupConfiguration", &request));
    user.grant(&user.own, "", "pods/exec", &["create"]);
    objects.iter().for_each(|object| user.is_accepted(object));
}

#[test]
fn rejects_restores_from_a_user_who_may_not_stop_workloads() {
    let user = User::new("no-scale");
    user.grant(&user.own, "", "pods", &["create"]);
    let into = |kind: &str| {
        let member = json!({"target": target(kind)});
        [restore("RestoreSession", &member), restore("RestoreBatch", &json!({"members": [member]}))]
    };
    for kind in ["Deployment", "StatefulSet", "PersistentVolumeClaim"] {
        for object in into(kind) {
            user.is_refused(&object, "lacks the right to patch deployments.apps/scale");
        }
    }
    into("AppBinding").iter().for_each(|object| user.is_accepted(object));
    user.grant(&user.own, "apps", "deployments/scale", &["patch"]);
    for object in into("Deployment") {
        user.is_refused(&object, "lacks the right to patch statefulsets.apps/scale");
    }
    user.grant(&user.own, "apps", "statefulsets/scale", &["patch"]);
    for kind in ["Deployment", "StatefulSet", "PersistentVolumeClaim"] {
        into(kind).iter().for_each(|object| user.is_accepted(object));
    }
    for (kind, group, resource, shown) in [
        ("ReplicaSet", "apps", "replicasets/scale", "replicasets.apps/scale"),
        ("ReplicationController", "", "replicationcontrollers/scale", "replicationcontrollers/scale"),
        (
            "DeploymentConfig",
            "apps.openshift.io",
            "deploymentconfigs/scale",
            "deploymentconfigs.apps.openshift.io/scale",
        ),
    ] {
        for object in into(kind) {
            user.is_refused(&object, &format!("lacks the right to patch {shown}"));
        }
        user.grant(&user.own, group, resource, &["patch"]);
        into(kind).iter().for_each(|object| user.is_accepted(object));
    }
}

#[test]
fn rejects_an_appbinding_elsewhere_that_the_user_may_not_use() {
    let user = User::new("no-use");
    user.grant_own();
    let member =
        |name: &str| json!({"target": elsewhere(&user, name), "task": {"name": "mysql-backup-8.0.14"}});
    let objects = |name: &str| with_member(&member(name), &member(name));
    let expected =
        format!("lacks the right to use appbindings.appcatalog.appscode.com in namespace {}", user.other);
    for object in objects("mine") {
        user.is_refused(&object, &expected);
        user.is_refused(&object, "which the target mine needs");
    }
    user.grant(&user.other, "appcatalog.appscode.com", "appbindings:mine", &["use"]);
    objects("mine").iter().for_each(|object| user.is_accepted(object));
    // The right is to one object.
    for object in objects("theirs") {
        user.is_refused(&object, "which the target theirs needs");
    }
}

#[test]
fn rejects_commands_and_settings_for_pods_elsewhere() {
    let user = User::new("no-pods-elsewhere");
    user.grant_own();
    user.grant(&user.other, "appcatalog.appscode.com", "appbindings", &["use"]);
    let member = |field: &str, value: Value| json!({"target": elsewhere(&user, "db"), field: value});
    let hooks = with_member(
        &member("hooks", json!({"preBackup": command()})),
        &member("hooks", json!({"preRestore": command()})),
    );
    for object in &hooks {
        user.is_refused(object, &format!("lacks the right to create pods/exec in namespace {}", user.other));
    }
    let settings = member("runtimeSettings", json!({"pod": {"serviceAccountName": "database"}}));
    let mut settings = Vec::from(with_member(&settings, &settings));
    let of_batch = json!({"members": [{"target": elsewhere(&user, "db")}],
        "runtimeSettings": {"container": {"envFrom": [{"secretRef": {"name": "keys"}}]}}});
    settings.push(backup("BackupBatch", &of_batch));
    for object in &settings {
        user.is_refused(object, &format!("lacks the right to create pods in namespace {}", user.other));
    }
    user.grant(&user.other, "", "pods/exec", &["create"]);
    hooks.iter().for_each(|object| user.is_accepted(object));
    user.grant(&user.other, "", "pods", &["create"]);
    settings.iter().for_each(|object| user.is_accepted(object));
}

/// Also a test of the cost limit: these are the most questions that one object can cause.
#[test]
fn accepts_sixteen_appbindings_elsewhere_and_rejects_seventeen() {
    let user = User::new("many");
    user.grant_own();
    user.grant(&user.other, "appcatalog.appscode.com", "appbindings", &["use"]);
    user.grant(&user.other, "", "pods", &["create"]);
    user.grant(&user.other, "", "pods/exec", &["create"]);
    let hooks = |hook: &str| json!({hook: command()});
    let batch = |kind: &str, hook: &str, count: usize| {
        let kinds = [
            "Deployment",
            "StatefulSet",
            "ReplicaSet",
            "ReplicationController",
            "DeploymentConfig",
            "DaemonSet",
        ];
        let members: Vec<Value> = (0..64)
            .map(|place| {
                let mut target = if place < count {
                    elsewhere(&user, &format!("db-{place}"))
                } else {
                    target(kinds[place % kinds.len()])
                };
                target["alias"] = json!(format!("member-{place}"));
                json!({"target": target, "hooks": hooks(hook),
                    "runtimeSettings": {"pod": {"podLabels": {"a": "b"}}}})
            })
            .collect();
        let fields = json!({"members": members, "hooks": hooks(hook)});
        if kind == "BackupBatch" { backup(kind, &fields) } else { restore(kind, &fields) }
    };
    for (kind, hook) in [("BackupBatch", "preBackup"), ("RestoreBatch", "preRestore")] {
        let expected = format!("17 targets are in other namespaces, a {kind} can have 16");
        user.is_refused(&batch(kind, hook, 17), &expected);
        user.is_accepted(&batch(kind, hook, 16));
    }
}

#[test]
fn accepts_new_labels_and_rejects_a_new_spec_without_the_rights() {
    let user = User::new("no-change");
    let by_admin = backup("BackupConfiguration", &json!({"target": target("Deployment")}));
    kubectl().args(["--namespace", &user.own, "apply", "-f", "-"]).input(&by_admin.to_string()).ok();
    let change = |patch: Value| {
        let patch = patch.to_string();
        let target =
            ["patch", "backupconfigurations.stash.appscode.com", "x", "--type=merge", "--dry-run=server"];
        user.kubectl().args(target).args(["--patch", &patch]).run()
    };
    wait_for("a changed spec refused", NOTICED, || {
        refused(&change(json!({"spec": {"paused": true}})), "lacks the right to create pods")
    });
    wait_for("a label", NOTICED, || accepted(&change(json!({"metadata": {"labels": {"a": "b"}}}))));
    user.grant(&user.own, "", "pods", &["create"]);
    wait_for("a changed spec", NOTICED, || accepted(&change(json!({"spec": {"paused": true}}))));
}

#[test]
fn accepts_sessions_of_a_server_with_limited_rights() {
    let server = User::new("system:serviceaccount:lifeboat:server");
    // As in a namespace of `lifeboat install --namespaces`.
    server.grant(&server.own, "*", "*", &["*"]);
    simple_objects().iter().for_each(|object| server.is_accepted(object));
}

#[test]
fn roles_of_kubernetes_contain_what_the_policies_ask_for() {
    let bind = |user: &User, roles: &[&str]| {
        let bindings: Vec<Value> =
            roles.iter().map(|role| user.binding(&user.own, "ClusterRole", role)).collect();
        apply(&bindings);
    };
    // No controller aggregates roles here: the parts are bound instead.
    let view = ["system:aggregate-to-view", "lifeboat:lifeboat:stash-view"];
    let edit = ["system:aggregate-to-edit", "lifeboat:lifeboat:stash-edit"];
    let viewer = User::new("viewer");
    kubectl().args(["--namespace", &viewer.own, "delete", "rolebinding", "--all"]).ok();
    bind(&viewer, &view);
    viewer.is_allowed(&["get", "backupbatches.stash.appscode.com"]);
    assert!(!viewer.may(&["create", "backupbatches.stash.appscode.com"]));
    assert!(!viewer.may(&["use", "appbindings.appcatalog.appscode.com"]));

    let editor = User::new("editor");
    kubectl().args(["--namespace", &editor.own, "delete", "rolebinding", "--all"]).ok();
    bind(&editor, &[view, edit].concat());
    simple_objects().iter().for_each(|object| editor.is_accepted(object));
    let member = |hook: &str| json!({"target": target("StatefulSet"), "hooks": {hook: command()}});
    let with_commands = with_member(&member("preBackup"), &member("preRestore"));
    with_commands.iter().for_each(|object| editor.is_accepted(object));
    assert!(editor.may(&["use", "appbindings.appcatalog.appscode.com"]));
    for action in [
        &["patch", "backupsessions.stash.appscode.com", "--subresource=status"][..],
        &["update", "repositories.stash.appscode.com", "--subresource=status"],
        &["create", "functions.stash.appscode.com"],
        &["create", "tasks.stash.appscode.com"],
        &["create", "appbindings.appcatalog.appscode.com"],
    ] {
        assert!(!editor.may(action), "{action:?}");
    }
    let admin = User::new("admin-of-one");
    bind(&admin, &["lifeboat:lifeboat:stash-admin"]);
    admin.is_allowed(&["create", "appbindings.appcatalog.appscode.com"]);
}
