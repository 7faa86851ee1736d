//! An installation that is limited to namespaces: it backs up and restores within them, and its movers' namespace admits
//! no privileged pod unless movers may access nodes.

use lifeboat_e2e::{Installation, Namespace, get, kubectl, lifeboat, unique, variable};
use serde_json::Value;

const APP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: '1'}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {a: '1'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
";

/// Installs again with full rights when dropped.
struct AsBefore;

impl Drop for AsBefore {
    fn drop(&mut self) {
        lifeboat().args(["install", "--image", &variable("LIFEBOAT_IMAGE"), "--full-rights"]).run();
        Installation::ensure();
    }
}

#[test]
fn a_limited_installation_backs_up_and_restores_within_its_namespaces() {
    let installation = Installation::ensure();
    installation.wait_for_phase("default", "Available", 60);
    let (shop, blog) = (Namespace::new("limited-shop"), Namespace::new("limited-blog"));
    shop.apply(APP);
    let _before = AsBefore;
    lifeboat().args(["install", "--image", &variable("LIFEBOAT_IMAGE"), "--namespaces", &shop.name]).ok();
    installation.wait_for_phase("default", "Available", 60);
    let name = unique("limited");
    let namespace = ["--include-namespaces", shop.name.as_str()];
    lifeboat().args(["backup", "create", &name, "--wait"]).args(namespace).ok();
    let backup = get(&["-n", "lifeboat", "backups.velero.io", &name]);
    assert_eq!(backup["status"]["phase"], "Completed", "{}", backup["status"]);
    shop.kubectl().args(["delete", "configmap/settings", "secret/key", "deployment/web"]).ok();
    lifeboat().args(["restore", "create", &name, "--from-backup", &name, "--wait"]).ok();
    let restore = get(&["-n", "lifeboat", "restores.velero.io", &name]);
    assert_eq!(restore["status"]["phase"], "Completed", "{}", restore["status"]);
    for (kind, object) in [("configmap", "settings"), ("secret", "key"), ("deployment", "web")] {
        assert_ne!(get(&["-n", &shop.name, kind, object]), Value::Null, "{object}");
    }
    // Elsewhere it may not write.
    let elsewhere = format!("{}:{}", shop.name, blog.name);
    let other = unique("limited-elsewhere");
    let said = lifeboat()
        .args([
            "restore",
            "create",
            &other,
            "--from-backup",
            &name,
            "--namespace-mappings",
            &elsewhere,
            "--wait",
        ])
        .run();
    assert_ne!(said.code, 0, "{}", said.stdout);
    assert_eq!(get(&["-n", &blog.name, "configmap", "settings"]), Value::Null);
    lifeboat().args(["backup", "delete", &name, "--confirm", "--wait"]).ok();
    assert_eq!(get(&["-n", "lifeboat", "restores.velero.io", &name]), Value::Null);
}

#[test]
fn the_movers_namespace_admits_a_privileged_pod_only_with_node_access() {
    let _before = AsBefore;
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: stolen, namespace: lifeboat-movers}\nspec:\n  \
               containers: [{name: main, image: none, securityContext: {privileged: true}}]\n";
    let create = || kubectl().args(["create", "--dry-run=server", "-f", "-"]).input(pod);
    Installation::ensure();
    let said = create().refused();
    assert!(said.contains("violates PodSecurity \"baseline"), "{said}");
    Installation::ensure_with(&["--node-access"]);
    create().ok();
}
