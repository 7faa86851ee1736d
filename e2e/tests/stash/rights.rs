//! Who may create the objects that make the server act: a user needs the rights that the object uses, on creation and on every change of
//! its spec.

use lifeboat_e2e::{StashTest, User, wait_for};

use super::workloads::{deployment, into, member};

/// The kinds of Stash's API and nothing else.
const KINDS: [&str; 3] = ["stash.appscode.com", "'*'", "'*'"];
const HOOKS: &str = "hooks: {preBackup: {exec: {command: [id]}}}";

fn object(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: stash.appscode.com/v1beta1
kind: {kind}
metadata: {{name: {name}}}
spec:
  {spec}
"
    )
}

const COMMON: &str = "schedule: '0 3 1 1 *'
  repository: {name: repo}
  retentionPolicy: {name: keep, keepLast: 2, prune: false}";

fn configuration(name: &str, hooks: &str) -> String {
    object(
        "BackupConfiguration",
        name,
        &format!("{COMMON}\n  target: {}\n  {hooks}", deployment(name, "web")),
    )
}

fn batch(name: &str, of_member: &str) -> String {
    let with = member(&deployment(name, "web")).replacen('{', &format!("{{{of_member}"), 1);
    object("BackupBatch", name, &format!("{COMMON}\n  members: [{with}]"))
}

fn session(name: &str) -> String {
    let invoker = "invoker: {apiGroup: stash.appscode.com, kind: BackupConfiguration, name: none}";
    object("BackupSession", name, invoker)
}

fn restore(name: &str) -> String {
    let target = into("app", "Deployment", "web");
    object("RestoreSession", name, &format!("repository: {{name: repo}}\n  target: {target}"))
}

fn restore_batch(name: &str) -> String {
    let members = member(&into("app", "Deployment", "web"));
    object("RestoreBatch", name, &format!("repository: {{name: repo}}\n  members: [{members}]"))
}

fn repository(name: &str) -> String {
    let spec = "backend: {rest: {url: 'https://backup.invalid/'}, storageSecretName: none}";
    object("Repository", name, spec).replace("/v1beta1", "/v1alpha1")
}

/// Waits until an object is refused for this reason: the rights that were granted just now may not be known everywhere.
fn assert_refused(user: &User, namespace: &str, manifest: &str, lacks: &str) {
    wait_for(&format!("a refusal for the lack of {lacks}"), 20, || {
        let said = user.may_not_create(namespace, manifest);
        if said.contains("denied request") && said.contains(lacks) { Ok(()) } else { Err(said) }
    });
}

#[test]
fn each_object_needs_the_rights_that_it_uses() {
    let test = StashTest::start();
    let (user, namespace) = (User::new(), test.tenant.name.as_str());
    user.grant_rules(namespace, &[KINDS]);
    for manifest in [
        configuration("plain", ""),
        batch("plain", ""),
        session("plain"),
        restore("plain"),
        restore_batch("plain"),
        repository("plain"),
    ] {
        assert_refused(&user, namespace, &manifest, "create pods");
    }
    user.grant_rules(namespace, &[["''", "pods", "create"]]);
    user.may_create(namespace, &configuration("plain", ""));
    user.may_create(namespace, &batch("plain", ""));
    user.may_create(namespace, &session("plain"));
    user.may_create(namespace, &repository("plain"));
    // Commands in pods.
    assert_refused(&user, namespace, &configuration("hooked", HOOKS), "create pods/exec");
    assert_refused(&user, namespace, &batch("hooked", &format!("{HOOKS}, ")), "create pods/exec");
    user.grant_rules(namespace, &[["''", "pods/exec", "create"]]);
    user.may_create(namespace, &configuration("hooked", HOOKS));
    user.may_create(namespace, &batch("hooked", &format!("{HOOKS}, ")));
    // Restores stop workloads.
    assert_refused(&user, namespace, &restore("back"), "patch deployments/scale");
    user.grant_rules(namespace, &[["apps", "deployments/scale", "patch"]]);
    assert_refused(&user, namespace, &restore("back"), "patch statefulsets/scale");
    assert_refused(&user, namespace, &restore_batch("back"), "patch statefulsets/scale");
    user.grant_rules(namespace, &[["apps", "statefulsets/scale", "patch"]]);
    user.may_create(namespace, &restore("back"));
    user.may_create(namespace, &restore_batch("back"));
}

#[test]
fn a_change_of_a_spec_needs_the_same_rights_and_one_of_a_label_none() {
    let test = StashTest::start();
    let namespace = test.tenant.name.as_str();
    test.tenant.apply(&configuration("plain", ""));
    let user = User::new();
    user.grant_rules(namespace, &[KINDS]);
    let patch = |text: &str| {
        user.kubectl(namespace).args(["patch", "backupconfiguration", "plain", "--type=merge", "-p", text])
    };
    let label = patch(r#"{"metadata": {"labels": {"team": "shop"}}}"#);
    wait_for("the label", 20, || {
        let output = label.run();
        if output.code == 0 { Ok(()) } else { Err(output.stderr) }
    });
    let schedule = patch(r#"{"spec": {"schedule": "@daily"}}"#).refused();
    assert!(schedule.contains("create pods"), "{schedule}");
    user.grant_rules(namespace, &[["''", "pods", "create"]]);
    let hook = r#"{"spec": {"hooks": {"preBackup": {"exec": {"command": ["id"]}}}}}"#;
    wait_for("a refusal for the lack of create pods/exec", 20, || {
        let said = patch(hook).refused();
        if said.contains("create pods/exec") { Ok(()) } else { Err(said) }
    });
    patch(r#"{"spec": {"schedule": "@daily"}}"#).ok();
    let found = test.invoker("BackupConfiguration", "plain");
    assert_eq!((&found["spec"]["schedule"], &found["spec"]["hooks"]), (&"@daily".into(), &().into()));
}

/// The address of a Repository is where the password of its Secret is sent.
#[test]
fn a_repository_is_not_changed_by_whoever_may_not_create_pods() {
    let test = StashTest::start();
    let (user, namespace) = (User::new(), test.tenant.name.as_str());
    test.tenant.apply(&repository("theirs"));
    user.grant_rules(namespace, &[KINDS]);
    let url = r#"{"spec": {"backend": {"rest": {"url": "https://elsewhere.invalid/"}}}}"#;
    let patch = || user.kubectl(namespace).args(["patch", "repository", "theirs", "--type=merge", "-p", url]);
    wait_for("a refusal for the lack of create pods", 20, || {
        let said = patch().refused();
        if said.contains("create pods") { Ok(()) } else { Err(said) }
    });
    user.grant_rules(namespace, &[["''", "pods", "create"]]);
    wait_for("the change", 20, || {
        let output = patch().run();
        if output.code == 0 { Ok(()) } else { Err(output.stderr) }
    });
}

#[test]
fn the_clusters_own_roles_include_these_kinds() {
    let test = StashTest::start();
    let namespace = test.tenant.name.as_str();
    let (editor, viewer) = (User::new(), User::new());
    editor.grant(namespace, "edit");
    viewer.grant(namespace, "view");
    editor.may_create(namespace, &configuration("plain", HOOKS));
    editor.may_create(namespace, &restore("back"));
    wait_for("the right to view", 20, || {
        let output = viewer.kubectl(namespace).args(["get", "backupconfigurations,restoresessions"]).run();
        if output.code == 0 { Ok(()) } else { Err(output.stderr) }
    });
    let refused = viewer.may_not_create(namespace, &configuration("other", ""));
    assert!(refused.contains("cannot create"), "{refused}");
    // The status is the server's journal.
    let status = r#"{"status": {"phase": "Succeeded"}}"#;
    let patch = ["patch", "restoresession", "back", "--subresource=status", "--type=merge", "-p", status];
    let refused = editor.kubectl(namespace).args(patch).refused();
    assert!(refused.contains("restoresessions/status"), "{refused}");
}

#[test]
fn no_more_app_bindings_elsewhere_than_are_checked() {
    let test = StashTest::start();
    let members: Vec<String> = (0..17)
        .map(|number| {
            format!("{{target: {{alias: a{number}, ref: {{apiVersion: v1, kind: AppBinding, name: db, namespace: n{number}}}}}, task: {{name: mysql-backup-8.0.14}}}}")
        })
        .collect();
    let manifest = object("BackupBatch", "many", &format!("{COMMON}\n  members: [{}]", members.join(", ")));
    let refused = test.kubectl().args(["create", "-f", "-"]).input(&manifest).refused();
    assert!(refused.contains("16"), "{refused}");
}
