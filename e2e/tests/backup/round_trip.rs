//! Restores: into the same namespace, into another one, and after Lifeboat itself was lost.

use std::fs;

use lifeboat_e2e::{
    Installation, Namespace, apply, assert_same_objects, delete_namespace, get, kubectl, lifeboat,
    objects_of, sample_app, wait_for, wait_until_running,
};

use super::{assert_phase, backup, installed, restore, unique};

fn app(namespace: &Namespace) {
    namespace.apply(&sample_app(&namespace.name));
    wait_until_running(&namespace.name);
}

#[test]
fn an_app_comes_back_as_it_was() {
    installed();
    let namespace = Namespace::new("roundtrip");
    app(&namespace);
    let before = objects_of(&namespace.name);
    let name = unique("roundtrip");
    assert_phase(&backup(&name, &["--include-namespaces", &namespace.name]), "Completed");
    delete_namespace(&namespace.name);
    assert_phase(&restore(&name, &name, &[]), "Completed");
    wait_until_running(&namespace.name);
    assert_same_objects(&before, &objects_of(&namespace.name));
}

#[test]
fn an_app_comes_back_beside_itself_under_another_name() {
    installed();
    let namespace = Namespace::new("mapped");
    app(&namespace);
    let name = unique("mapped");
    assert_phase(&backup(&name, &["--include-namespaces", &namespace.name]), "Completed");
    let copy = format!("{}-copy", namespace.name);
    let mapping = format!("{}:{copy}", namespace.name);
    let restored = restore(&name, &name, &["--namespace-mappings", &mapping]);
    assert_phase(&restored, "Completed");
    wait_until_running(&copy);
    let (mut before, after) = (objects_of(&namespace.name), objects_of(&copy));
    let subject = before.get_mut("RoleBinding/reader").unwrap().pointer_mut("/subjects/0/namespace").unwrap();
    *subject = copy.clone().into();
    assert_same_objects(&before, &after);
    kubectl().args(["delete", "namespace", &copy, "--wait=false"]).ok();
}

#[test]
fn backups_come_back_from_the_bucket_after_lifeboat_was_lost() {
    installed();
    let namespace = Namespace::new("lost");
    app(&namespace);
    let before = objects_of(&namespace.name);
    let name = unique("lost");
    assert_phase(&backup(&name, &["--include-namespaces", &namespace.name]), "Completed");
    let password = tempfile::NamedTempFile::new().unwrap();
    let exported = lifeboat().args(["repository-password", "export"]).ok();
    fs::write(password.path(), exported.trim_end()).unwrap();
    // Deletes the app, and Lifeboat with all its objects and Secrets.
    delete_namespace(&namespace.name);
    lifeboat().args(["uninstall", "--delete-crds", "--yes-delete-every-backup-object"]).ok();
    kubectl().args(["wait", "--for=delete", "namespace/lifeboat", "--timeout=120s"]).run();
    assert!(get(&["namespace", "lifeboat"]).is_null(), "Lifeboat's namespace is still there");
    let installation =
        Installation::ensure_with(&["--repository-password-file", &password.path().to_string_lossy()]);
    installation.wait_for_phase("default", "Available", 90);
    wait_for("the backup from the bucket", 90, || {
        let found = get(&["-n", "lifeboat", "backups.velero.io", &name]);
        if found["status"]["phase"] == "Completed" { Ok(()) } else { Err(found.to_string()) }
    });
    assert_eq!(lifeboat().args(["repository-password", "export"]).ok(), exported);
    assert_phase(&restore(&name, &name, &[]), "Completed");
    wait_until_running(&namespace.name);
    assert_same_objects(&before, &objects_of(&namespace.name));
}

/// A webhook without a running server; deleted when dropped, because it blocks all creations.
struct Webhook(String);

impl Webhook {
    fn guarding(namespace: &str) -> Self {
        let name = format!("guard-{namespace}");
        apply(&format!(
            "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: {name}}}
webhooks:
- name: guard.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 2
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
  clientConfig: {{service: {{name: web, namespace: {namespace}, port: 80}}}}
  rules:
  - {{apiGroups: ['', apps], apiVersions: [v1], operations: [CREATE], resources: [configmaps, services, deployments]}}
"
        ));
        Self(name)
    }

    fn delete(&self) {
        kubectl().args(["delete", "validatingwebhookconfiguration", &self.0, "--ignore-not-found"]).run();
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.delete();
    }
}

#[test]
fn a_webhook_whose_pods_are_in_the_same_backup_does_not_block_the_restore() {
    installed();
    let namespace = Namespace::new("webhook");
    app(&namespace);
    let before = objects_of(&namespace.name);
    let webhook = Webhook::guarding(&namespace.name);
    let name = unique("webhook");
    let types = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    let made = backup(
        &name,
        &["--include-namespaces", &namespace.name, "--include-cluster-scoped-resources", types],
    );
    assert_phase(&made, "Completed");
    delete_namespace(&namespace.name);
    webhook.delete();
    let restored = restore(&name, &name, &[]);
    assert_phase(&restored, "Completed");
    let back = get(&["validatingwebhookconfiguration", &webhook.0]);
    assert_eq!(back["webhooks"][0]["name"], "guard.example.com");
    wait_until_running(&namespace.name);
    assert_same_objects(&before, &objects_of(&namespace.name));
}

#[test]
fn existing_objects_are_left_alone_by_default() {
    installed();
    let namespace = Namespace::new("existing");
    namespace.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: backed-up}\n");
    let name = unique("existing");
    assert_phase(&backup(&name, &["--include-namespaces", &namespace.name]), "Completed");
    let change = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: newer}\n";
    namespace.apply(change);
    let value = || get(&["-n", &namespace.name, "configmap", "settings"])["data"]["a"].clone();
    let left = restore(&unique("left"), &name, &[]);
    assert_phase(&left, "Completed");
    assert!(left["status"]["warnings"].as_i64().unwrap() >= 1, "{}", left["status"]);
    assert_eq!(value(), "newer");
    assert_phase(&restore(&unique("updated"), &name, &["--existing-resource-policy", "update"]), "Completed");
    assert_eq!(value(), "backed-up");
}

#[test]
fn a_custom_resource_comes_back_with_its_definition() {
    installed();
    let group = format!("g{}.example.com", std::process::id());
    let definition = format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: widgets.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: widgets, singular: widget, kind: Widget}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
    );
    apply(&definition);
    let crd = format!("crd/widgets.{group}");
    kubectl().args(["wait", "--for=condition=Established", "--timeout=30s", &crd]).ok();
    let namespace = Namespace::new("widgets");
    namespace.apply(&format!(
        "apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: one}}\nspec: {{size: 3}}\n"
    ));
    let name = unique("widgets");
    assert_phase(&backup(&name, &["--include-namespaces", &namespace.name]), "Completed");
    delete_namespace(&namespace.name);
    kubectl().args(["delete", &crd]).ok();
    assert_phase(&restore(&name, &name, &[]), "Completed");
    assert_eq!(get(&["-n", &namespace.name, &format!("widgets.{group}"), "one"])["spec"]["size"], 3);
    kubectl().args(["delete", &crd, "--wait=false"]).ok();
}
