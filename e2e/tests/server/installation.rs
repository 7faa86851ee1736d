//! Installing and uninstalling: what is created, what is refused, what stays.

use lifeboat_e2e::{Installation, Namespace, get, kubectl, lifeboat, variable, wait_for};
use serde_json::Value;

#[test]
fn the_servers_pods_run_where_restricted_is_enforced() {
    Installation::ensure();
    let namespace = get(&["namespace", "lifeboat"]);
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    let deployment = get(&["-n", "lifeboat", "deployment", "lifeboat"]);
    assert_eq!(deployment["status"]["readyReplicas"], 2);
    // It is enforced: a pod with more rights is refused.
    let said = kubectl()
        .args([
            "-n",
            "lifeboat",
            "run",
            "bad",
            "--image",
            &variable("LIFEBOAT_TEST_IMAGE"),
            "--restart=Never",
        ])
        .refused();
    assert!(said.contains("violates PodSecurity"), "{said}");
}

#[test]
fn a_live_velero_is_refused_without_adopt() {
    Installation::ensure();
    let namespace = Namespace::new("velero");
    namespace.apply(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: velero, labels: {component: velero}}
spec:
  replicas: 1
  selector: {matchLabels: {app: velero}}
  template:
    metadata: {labels: {app: velero}}
    spec:
      containers:
      - {name: velero, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}
",
    );
    let _asleep = Asleep { namespace: &namespace };
    let install = lifeboat().args(["install", "--image", &variable("LIFEBOAT_IMAGE")]);
    let said = install.refused();
    assert!(said.contains("Velero") && said.contains(&namespace.name) && said.contains("--adopt"), "{said}");
    namespace.kubectl().args(["scale", "deployment/velero", "--replicas=0"]).ok();
    install.clone().args(["--server-arg=--store-validation-frequency=10s"]).ok();
    namespace.kubectl().args(["scale", "deployment/velero", "--replicas=1"]).ok();
    install.args(["--adopt", "--server-arg=--store-validation-frequency=10s"]).ok();
}

/// Stops the test's Velero when dropped, so that it does not affect later tests.
struct Asleep<'a> {
    namespace: &'a Namespace,
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.namespace.kubectl().args(["scale", "deployment/velero", "--replicas=0"]).run();
    }
}

#[test]
fn bad_arguments_are_refused_before_anything_happens() {
    let install = || lifeboat().args(["install", "--image", &variable("LIFEBOAT_IMAGE")]);
    let said = install().args(["--provider", "aws", "--bucket", "b"]).refused();
    assert!(said.contains("--secret-file") && said.contains("--no-secret"), "{said}");
    let said = install().args(["--provider", "aws"]).refused();
    assert!(said.contains("--bucket"), "{said}");
    let said =
        install().args(["--provider", "aws", "--bucket", "b", "--secret-file", "/nonexistent"]).refused();
    assert!(said.contains("/nonexistent"), "{said}");
    let said = install().args(["--repository-password-file", "/nonexistent"]).refused();
    assert!(said.contains("/nonexistent"), "{said}");
}

#[test]
fn nothing_is_changed_where_install_refuses() {
    Installation::ensure();
    let other = Namespace::new("tenant");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: app}\nspec:\n  containers:\n  - {name: app, image: TEST_IMAGE, command: [sleep, infinity]}\n";
    other.apply(pod);
    let image = variable("LIFEBOAT_IMAGE");
    // A second Lifeboat would act on the same objects.
    let said = lifeboat().args(["-n", &other.name, "install", "--image", &image]).refused();
    assert!(said.contains("Lifeboat (deployment lifeboat/lifeboat)"), "{said}");
    let said = lifeboat().args(["-n", &other.name, "install", "--image", &image, "--adopt"]).refused();
    assert!(said.contains("another namespace"), "{said}");
    assert_eq!(get(&["namespace", &other.name])["metadata"]["labels"]["app.kubernetes.io/name"], Value::Null);
    let said = lifeboat().args(["install", "--image", &image, "--namespaces", "no-such-namespace"]).refused();
    assert!(said.contains("no-such-namespace"), "{said}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "another-password").unwrap();
    let path = file.path().to_string_lossy();
    let said = lifeboat().args(["install", "--image", &image, "--repository-password-file", &path]).refused();
    assert!(said.contains("another repository password"), "{said}");
    let output = lifeboat().args(["-n", &other.name, "uninstall"]).run();
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert_ne!(get(&["clusterrolebinding", "lifeboat:lifeboat"]), Value::Null);
}

#[test]
fn a_live_stash_is_refused_too() {
    Installation::ensure();
    let namespace = Namespace::new("stash");
    namespace.apply(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: stash, labels: {app.kubernetes.io/name: stash-enterprise}}
spec:
  replicas: 1
  selector: {matchLabels: {app: stash}}
  template:
    metadata: {labels: {app: stash}}
    spec:
      containers:
      - {name: operator, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}
",
    );
    let said = lifeboat().args(["install", "--image", &variable("LIFEBOAT_IMAGE")]).refused();
    namespace.kubectl().args(["delete", "deployment", "stash"]).ok();
    assert!(said.contains("Stash"), "{said}");
}

#[test]
fn uninstall_keeps_objects_and_password_and_deleting_them_needs_two_yeses() {
    Installation::ensure();
    let said = lifeboat().args(["uninstall", "--delete-crds"]).refused();
    assert!(said.contains("--yes-delete-every-backup-object"), "{said}");
    assert_ne!(get(&["-n", "lifeboat", "deployment", "lifeboat"]), Value::Null);
    lifeboat().arg("uninstall").ok();
    assert_eq!(get(&["-n", "lifeboat", "deployment", "lifeboat"]), Value::Null);
    assert_eq!(get(&["clusterrolebinding", "lifeboat:lifeboat"]), Value::Null);
    assert_ne!(get(&["crd", "backups.velero.io"]), Value::Null);
    assert_ne!(get(&["-n", "lifeboat", "bsl", "default"]), Value::Null);
    assert_ne!(get(&["-n", "lifeboat", "secret", "velero-repo-credentials"]), Value::Null);
    Installation::ensure();
}

#[test]
fn a_limited_installation_works_and_has_no_rights_elsewhere() {
    let namespace = Namespace::new("limited");
    Installation::ensure();
    // Over the full installation, whose rights must be removed.
    lifeboat()
        .args(["install", "--image", &variable("LIFEBOAT_IMAGE"), "--namespaces", &namespace.name])
        .args(["--server-arg=--store-validation-frequency=10s"])
        .ok();
    let may = |verb: &str, what: &str, place: &str| {
        let output = kubectl()
            .args([
                "auth",
                "can-i",
                verb,
                what,
                "-n",
                place,
                "--as",
                "system:serviceaccount:lifeboat:lifeboat",
            ])
            .run();
        output.stdout.trim() == "yes"
    };
    assert!(may("create", "deployments.apps", &namespace.name));
    assert!(!may("list", "secrets", "kube-system"));
    assert!(!may("create", "clusterroles", "default"));
    let before = get(&["-n", "lifeboat", "bsl", "default"])["status"]["lastValidationTime"].clone();
    wait_for("a fresh verdict by the limited server", 40, || {
        let location = get(&["-n", "lifeboat", "bsl", "default"]);
        let status = &location["status"];
        if status["phase"] == "Available" && status["lastValidationTime"] != before {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
    // Running install again to upgrade must not make it a cluster administrator.
    let said = lifeboat().args(["install", "--image", &variable("LIFEBOAT_IMAGE")]).refused();
    assert!(said.contains("--full-rights") && said.contains(&namespace.name), "{said}");
    assert!(!may("list", "secrets", "kube-system"));
    lifeboat().args(["install", "--image", &variable("LIFEBOAT_IMAGE"), "--full-rights"]).ok();
    Installation::ensure();
    assert!(!may_bind(&namespace.name), "the rights of the limited installation are still there");
}

/// Whether a binding of a limited installation exists in the namespace.
fn may_bind(namespace: &str) -> bool {
    get(&["-n", namespace, "rolebinding", "lifeboat:lifeboat:namespace"]) != Value::Null
}

/// The names of the kinds that `lifeboat crds` prints with these flags.
fn kinds(flags: &[&str]) -> Vec<String> {
    let text = lifeboat().args(["crds", "-o", "json"]).args(flags).ok();
    let list: Value = serde_json::from_str(&text).unwrap();
    let items = list["items"].as_array().unwrap();
    items.iter().map(|crd| crd["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Leaves the cluster as other tests expect it when dropped: without the kinds of Stash's API, unless they are installed by default.
struct AsBefore;

impl Drop for AsBefore {
    fn drop(&mut self) {
        Installation::ensure();
        let by_default = kinds(&[]);
        let more: Vec<String> =
            kinds(&["--stash"]).into_iter().filter(|kind| !by_default.contains(kind)).collect();
        if !more.is_empty() {
            kubectl().args(["delete", "crd", "--ignore-not-found", "--timeout=60s"]).args(&more).run();
        }
    }
}

const POLICIES: &str = "validatingadmissionpolicies,validatingadmissionpolicybindings";

fn policies() -> Vec<Value> {
    let all = get(&[POLICIES]);
    let is_ours = |policy: &&Value| {
        policy["metadata"]["name"].as_str().unwrap_or_default().ends_with(".lifeboat.lifeboat.io")
    };
    all["items"].as_array().into_iter().flatten().filter(is_ours).cloned().collect()
}

/// Waits until BackupConfiguration `web` is in this phase and its status says this.
fn wait_for_configuration(tenant: &Namespace, what: &str, phase: &str, says: &str) {
    wait_for(what, 60, || {
        let found = get(&["-n", &tenant.name, "backupconfigurations.stash.appscode.com", "web"]);
        let status = &found["status"];
        if status["phase"] == phase && status.to_string().contains(says) {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
}

/// Waits until the API server has checked the expressions of the policies; it may warn about none.
fn wait_for_type_check() {
    wait_for("the type check of the policies", 60, || {
        for policy in policies().iter().filter(|policy| policy["kind"] == "ValidatingAdmissionPolicy") {
            let status = &policy["status"];
            if status["observedGeneration"] != policy["metadata"]["generation"] {
                return Err(format!("{} is not checked", policy["metadata"]["name"]));
            }
            assert_eq!(
                status["typeChecking"]["expressionWarnings"],
                Value::Null,
                "{}",
                policy["metadata"]["name"]
            );
        }
        Ok(())
    });
}

#[test]
fn stashs_api_is_served_with_what_checks_it_and_leaves_nothing_but_its_kinds() {
    Installation::ensure();
    let _as_before = AsBefore;
    let install = |stash: &str| {
        let image = variable("LIFEBOAT_IMAGE");
        lifeboat()
            .args(["install", "--image", &image, stash, "--server-arg=--store-validation-frequency=10s"])
            .ok();
    };
    install("--stash");
    wait_for_type_check();
    let tenant = Namespace::new("tenant");
    tenant.apply(
        "
apiVersion: stash.appscode.com/v1beta1
kind: BackupConfiguration
metadata: {name: web}
spec:
  schedule: '0 3 1 1 *'
  repository: {name: none}
  target: {alias: web, ref: {apiVersion: apps/v1, kind: Deployment, name: web}, volumeMounts: [{name: data, mountPath: /data}]}
  retentionPolicy: {name: keep, keepLast: 1, prune: false}
",
    );
    let until = |what: &str, phase: &str, says: &str| wait_for_configuration(&tenant, what, phase, says);
    until("a server that looks for the Repository", "NotReady", "Repository");
    let name = "backupconfigurations.lifeboat.lifeboat.io";
    kubectl().args(["delete", "validatingadmissionpolicybinding", name]).ok();
    until(
        "a server that misses the binding",
        "Invalid",
        "ValidatingAdmissionPolicyBinding backupconfigurations.lifeboat.lifeboat.io is missing",
    );
    install("--stash");
    until("the binding", "NotReady", "Repository");
    // Somebody exempts everybody: a condition that an update of the policy would leave.
    let exempt = r#"[{"op": "add", "path": "/spec/matchConditions/-", "value": {"name": "never", "expression": "false"}}]"#;
    kubectl().args(["patch", "validatingadmissionpolicy", name, "--type=json", "-p", exempt]).ok();
    until("a server that sees the exemption", "Invalid", "spec.matchConditions");
    install("--stash");
    until("the policy as it was", "NotReady", "Repository");
    install("--stash=false");
    assert_eq!(policies(), Vec::<Value>::new());
    assert_eq!(get(&["clusterrole", "lifeboat:lifeboat:stash:edit"]), Value::Null);
    assert_ne!(get(&["crd", "backupconfigurations.stash.appscode.com"]), Value::Null);
    assert_ne!(get(&["-n", &tenant.name, "backupconfigurations.stash.appscode.com", "web"]), Value::Null);
}

#[test]
fn a_live_kubestash_is_refused_too() {
    Installation::ensure();
    let namespace = Namespace::new("kubestash");
    namespace.apply(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: kubestash, labels: {app.kubernetes.io/name: kubestash-operator}}
spec:
  replicas: 1
  selector: {matchLabels: {app: kubestash}}
  template:
    metadata: {labels: {app: kubestash}}
    spec:
      containers:
      - {name: operator, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}
",
    );
    let said = lifeboat().args(["install", "--image", &variable("LIFEBOAT_IMAGE")]).refused();
    namespace.kubectl().args(["delete", "deployment", "kubestash"]).ok();
    assert!(said.contains("KubeStash") && said.contains("--adopt"), "{said}");
}
