//! An API server with unusual answers during a backup's lists, and unusual objects.

use std::collections::BTreeSet;
use std::fs;

use lifeboat_e2e::{Fault, HostServer, Namespace, Program, apply, get, kubectl, wait_for};

use super::{backup, fill, filled, status};

#[test]
fn a_list_that_expires_is_begun_again_and_nothing_is_doubled_or_lost() {
    let server = HostServer::start("gone410", &["--client-page-size=10"]);
    let app = Namespace::new("gone410-app");
    fill(&app, 35);
    let path = format!("/api/v1/namespaces/{}/configmaps?&limit=10&continue=", app.name);
    let expired = status(410, "Expired", "The provided continue parameter is too old");
    server.cluster.close("GET", &path, Fault::Answer(410, expired), 1);
    server.backup_and_compare("expired", &[&app.name], &[]);
    let said = server.described("backup", "expired");
    let names: Vec<&str> = said.lines().map(str::trim).filter(|line| line.contains("/map-")).collect();
    let unique: BTreeSet<&&str> = names.iter().collect();
    assert_eq!((names.len(), unique.len()), (35, 35), "{said}");
    assert!(
        server.cluster.seen().iter().any(|line| line.contains("continue=")),
        "no second page was asked for"
    );
}

#[test]
fn a_type_that_disappears_while_it_is_listed_is_a_warning() {
    let server = HostServer::start("vanished", &[]);
    let app = Namespace::new("vanished-app");
    fill(&app, 5);
    let gone = status(404, "NotFound", "the server could not find the requested resource");
    server.cluster.close("GET", "/podtemplates?", Fault::Answer(404, gone), 1);
    let made = server.backup_and_compare("vanished", &[&app.name], &[]);
    assert!(made["status"]["warnings"].as_i64().unwrap_or_default() >= 1, "{}", made["status"]);
    assert!(server.described("backup", "vanished").contains("podtemplates"));
}

#[test]
fn an_api_server_that_is_busy_now_and_then_is_asked_again() {
    let server = HostServer::start("busy", &[]);
    let app = Namespace::new("busy-app");
    fill(&app, 5);
    let busy = status(429, "TooManyRequests", "too many requests");
    server.cluster.close("GET", "/configmaps?", Fault::Answer(429, busy.clone()), 2);
    server.cluster.close("GET", "/secrets?", Fault::Cut, 1);
    server.assert_phase(&backup(&server, "busy", &app.name), &["Completed"]);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    server.cluster.open();
    server.cluster.close("POST", "/configmaps?", Fault::Answer(429, busy), 3);
    server.assert_phase(&server.restore("busy", "busy", &[]), &["Completed"]);
    assert_eq!(filled(&app.name), 5);
}

/// An aggregated API without a server; deleted when dropped, because it disturbs all clients.
struct BrokenApi;

impl BrokenApi {
    fn new() -> Self {
        apply(
            "
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.broken.example.com}
spec:
  group: broken.example.com
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: missing, namespace: default}
",
        );
        Self
    }
}

impl Drop for BrokenApi {
    fn drop(&mut self) {
        kubectl().args(["delete", "apiservice", "v1.broken.example.com"]).run();
    }
}

#[test]
fn an_aggregated_api_that_is_down_makes_a_backup_partial_unless_the_spec_excludes_it() {
    let server = HostServer::start("aggregated", &[]);
    let app = Namespace::new("aggregated-app");
    fill(&app, 5);
    let broken = BrokenApi::new();
    wait_for("the API to be known as broken", 60, || {
        let service = get(&["apiservice", "v1.broken.example.com"]);
        if service["status"]["conditions"][0]["status"] == "False" {
            Ok(())
        } else {
            Err(service.to_string())
        }
    });
    let made = backup(&server, "aggregated", &app.name);
    let without = server.backup(
        "without",
        &["--include-namespaces", &app.name, "--exclude-resources", "*.broken.example.com"],
    );
    drop(broken);
    server.assert_phase(&made, &["PartiallyFailed"]);
    assert!(server.described("backup", "aggregated").contains("broken.example.com"));
    server.assert_restores(&without, &[&app.name]);
}

#[test]
fn an_object_of_more_than_a_megabyte_comes_back_byte_for_byte() {
    let server = HostServer::start("heavy", &[]);
    let group = format!("heavy{}.example.com", std::process::id());
    let app = Namespace::new("heavy-app");
    apply(&format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: blobs.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: blobs, singular: blob, kind: Blob}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"
    ));
    let crd = format!("crd/blobs.{group}");
    kubectl().args(["wait", "--for=condition=Established", "--timeout=30s", &crd]).ok();
    let data = Program::new("sh").args(["-c", "head -c 930000 /dev/urandom | base64 -w0"]).ok();
    let file = tempfile::NamedTempFile::new().unwrap();
    let blob = serde_json::json!({
        "apiVersion": format!("{group}/v1"), "kind": "Blob",
        "metadata": {"name": "large", "namespace": app.name}, "spec": {"data": data},
    });
    fs::write(file.path(), blob.to_string()).unwrap();
    kubectl().args(["create", "-f", &file.path().to_string_lossy()]).ok();
    server.assert_phase(&backup(&server, "heavy", &app.name), &["Completed"]);
    kubectl().args(["delete", "namespace", &app.name, "--timeout=120s"]).ok();
    server.assert_phase(&server.restore("heavy", "heavy", &[]), &["Completed"]);
    let back = get(&["-n", &app.name, &format!("blobs.{group}"), "large"]);
    assert_eq!(back["spec"]["data"].as_str().map(str::len), Some(data.len()));
    assert!(back["spec"]["data"] == data.as_str(), "other bytes came back");
    kubectl().args(["delete", &crd, "--wait=false"]).ok();
}

#[test]
fn a_hook_that_hangs_is_given_up_after_its_timeout_and_its_post_hook_runs() {
    let server = HostServer::start("hangs", &[]);
    let app = Namespace::new("hangs-app");
    app.apply(
        "
apiVersion: v1
kind: Pod
metadata:
  name: hanging
  annotations:
    pre.hook.backup.velero.io/command: '[\"sh\", \"-c\", \"echo pre >> /tmp/log; sleep infinity\"]'
    pre.hook.backup.velero.io/timeout: 3s
    pre.hook.backup.velero.io/on-error: Fail
    post.hook.backup.velero.io/command: '[\"sh\", \"-c\", \"echo post >> /tmp/log\"]'
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
",
    );
    app.kubectl().args(["wait", "--for=condition=Ready", "pod/hanging", "--timeout=90s"]).ok();
    let made = backup(&server, "hangs", &app.name);
    server.assert_phase(&made, &["PartiallyFailed"]);
    let log = app.kubectl().args(["exec", "hanging", "--", "cat", "/tmp/log"]).ok();
    assert_eq!(log, "pre\npost\n");
    assert!(server.described("backup", "hangs").contains("hanging"));
}
