//! A cluster that refuses restored objects, and concurrent restores.

use lifeboat_e2e::{HostServer, Namespace, apply, get, kubectl};

use super::{backup, fill, filled};

#[test]
fn a_namespace_that_never_ends_holds_up_only_its_own_objects() {
    let server = HostServer::start("terminating", &["--terminating-resource-timeout=8s"]);
    let (stuck, free) = (Namespace::new("terminating-stuck"), Namespace::new("terminating-free"));
    fill(&stuck, 3);
    fill(&free, 3);
    let both = format!("{},{}", stuck.name, free.name);
    server.assert_phase(&backup(&server, "both", &both), &["Completed"]);
    stuck
        .kubectl()
        .args([
            "patch",
            "configmap",
            "map-0",
            "--type=merge",
            "-p",
            finalizers("[\"e2e.lifeboat.io/never\"]").as_str(),
        ])
        .ok();
    kubectl().args(["delete", "namespace", &free.name, "--timeout=120s"]).ok();
    kubectl().args(["delete", "namespace", &stuck.name, "--wait=false"]).ok();
    let made = server.restore("both", "both", &[]);
    stuck
        .kubectl()
        .args(["patch", "configmap", "map-0", "--type=merge", "-p", finalizers("null").as_str()])
        .ok();
    server.assert_phase(&made, &["PartiallyFailed"]);
    assert_eq!(filled(&free.name), 3);
    let said = server.described("restore", "both");
    assert!(said.contains(&stuck.name) && said.contains("terminat"), "{said}");
}

fn finalizers(value: &str) -> String {
    format!("{{\"metadata\": {{\"finalizers\": {value}}}}}")
}

/// An admission policy of the API server; deleted when dropped.
struct Policy(String);

impl Policy {
    fn against(namespace: &str, name: &str) -> Self {
        let policy = format!("no-{name}-in-{namespace}");
        apply(&format!(
            "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {policy}}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]
  validations: [{{expression: \"object.metadata.name != '{name}'\", message: this one is not wanted}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {policy}}}
spec:
  policyName: {policy}
  validationActions: [Deny]
  matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}}}
"
        ));
        Self(policy)
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            kubectl().args(["delete", kind, &self.0]).run();
        }
    }
}

#[test]
fn what_admission_refuses_is_named_and_the_rest_is_restored() {
    let server = HostServer::start("admission", &[]);
    let app = Namespace::new("admission-app");
    fill(&app, 5);
    server.assert_phase(&backup(&server, "all", &app.name), &["Completed"]);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    let _policy = Policy::against(&app.name, "map-3");
    lifeboat_e2e::wait_for("the policy to work", 60, || {
        kubectl().args(["create", "namespace", &app.name]).run();
        let tried = app.kubectl().args(["create", "configmap", "map-3", "--dry-run=server"]).run();
        if tried.stderr.contains("not wanted") { Ok(()) } else { Err(tried.stdout) }
    });
    let made = server.restore("all", "all", &[]);
    server.assert_phase(&made, &["PartiallyFailed"]);
    assert_eq!(made["status"]["errors"], 1, "{}", made["status"]);
    assert_eq!(filled(&app.name), 4);
    let said = server.described("restore", "all");
    assert!(said.contains("map-3") && said.contains("this one is not wanted"), "{said}");
}

#[test]
fn what_a_quota_leaves_no_room_for_is_named() {
    let server = HostServer::start("quota", &[]);
    let app = Namespace::new("quota-app");
    fill(&app, 5);
    server.assert_phase(&backup(&server, "all", &app.name), &["Completed"]);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    kubectl().args(["create", "namespace", &app.name]).ok();
    // One of the three is the cluster's own certificate.
    app.kubectl().args(["create", "quota", "few", "--hard=configmaps=3"]).ok();
    lifeboat_e2e::wait_for("the quota to count", 60, || {
        let quota = get(&["-n", &app.name, "quota", "few"]);
        if quota["status"]["used"]["configmaps"] == "1" { Ok(()) } else { Err(quota["status"].to_string()) }
    });
    let made = server.restore("all", "all", &[]);
    server.assert_phase(&made, &["PartiallyFailed"]);
    // A create of an existing object counts towards the quota for a while, so one or two of the objects fit.
    let there = filled(&app.name);
    assert!((1..=2).contains(&there), "{there} of 5 are there: {}", made["status"]);
    assert_eq!(made["status"]["errors"], 5 - there, "{}", made["status"]);
    assert!(server.described("restore", "all").contains("exceeded quota"));
}

#[test]
fn two_restores_of_one_backup_at_once_both_end_and_every_object_is_there_once() {
    let server = HostServer::start("twice", &[]);
    let app = Namespace::new("twice-app");
    fill(&app, 50);
    server.assert_phase(&backup(&server, "all", &app.name), &["Completed"]);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    for name in ["first", "second"] {
        server.lifeboat().args(["restore", "create", name, "--from-backup", "all"]).ok();
    }
    for name in ["first", "second"] {
        server.assert_phase(&server.ended("restore", name), &["Completed"]);
    }
    assert_eq!(filled(&app.name), 50);
}

#[test]
fn a_name_that_is_used_is_refused_and_what_was_there_stays() {
    let server = HostServer::start("taken", &[]);
    let app = Namespace::new("taken-app");
    fill(&app, 2);
    server.assert_phase(&backup(&server, "taken", &app.name), &["Completed"]);
    let refused = server.lifeboat().args(["backup", "create", "taken"]).run();
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("taken"), "{}", refused.stderr);
    // The object is gone, its files are not: a new backup with that name must not change them. Without this a sync would bring the
    // object back.
    let no_sync = r#"{"spec":{"backupSyncPeriod":"0s"}}"#;
    let location = "backupstoragelocations.velero.io";
    server.kubectl().args(["patch", location, "default", "--type=merge", "-p", no_sync]).ok();
    server.kubectl().args(["delete", "backups.velero.io", "taken"]).ok();
    let size = server.bucket.keys().len();
    server.lifeboat().args(["backup", "create", "taken", "--include-namespaces", "no-such-one"]).ok();
    let made = server.ended("backup", "taken");
    server.assert_phase(&made, &["Failed", "FailedValidation"]);
    assert_eq!(server.bucket.keys().len(), size);
    assert!(made["status"].to_string().contains("exists"), "{}", made["status"]);
}
