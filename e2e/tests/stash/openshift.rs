//! DeploymentConfigs, on a cluster that serves the kind without a controller of it: the test does what the controller would do.

use std::fs;

use lifeboat_e2e::{RESTORE_SESSIONS, StashTest, apply, contents, get, kubectl, wait_for};
use serde_json::json;

use super::workloads::{fill, into, target};

const VERSION: &str = "apps.openshift.io/v1";
const KIND: &str = "DeploymentConfig";
const RESOURCE: &str = "deploymentconfigs.apps.openshift.io";

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: deploymentconfigs.apps.openshift.io}
spec:
  group: apps.openshift.io
  scope: Namespaced
  names: {kind: DeploymentConfig, plural: deploymentconfigs, singular: deploymentconfig}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const CLAIM: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: web}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
";

const TEMPLATE: &str = "{metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: TEST_IMAGE, \
                        imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{name: data, mountPath: /source/data}]}], \
                        volumes: [{name: data, persistentVolumeClaim: {claimName: web}}]}}";

/// The kind, as long as the test runs.
struct Served;

impl Served {
    fn start() -> Self {
        apply(DEFINITION);
        kubectl().args(["wait", "--for=condition=Established", "crd", RESOURCE, "--timeout=60s"]).ok();
        Self
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        kubectl().args(["delete", "crd", RESOURCE, "--timeout=60s"]).run();
    }
}

/// DeploymentConfig `web`, and the ReplicationController that its controller would make.
fn put(test: &StashTest) {
    let config = format!(
        "{CLAIM}---
apiVersion: {VERSION}
kind: {KIND}
metadata: {{name: web}}
spec: {{replicas: 1, selector: {{app: web}}, template: {TEMPLATE}}}
"
    );
    test.tenant.apply(&config);
    let uid = get(&["-n", &test.tenant.name, RESOURCE, "web"])["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": VERSION, "kind": KIND, "name": "web", "uid": uid, "controller": true});
    test.tenant.apply(&format!(
        "apiVersion: v1
kind: ReplicationController
metadata: {{name: web-1, ownerReferences: [{owner}]}}
spec: {{replicas: 1, selector: {{app: web}}, template: {TEMPLATE}}}
"
    ));
    test.wait_for_ready("web", 1);
}

/// What the controller does once the DeploymentConfig has this scale.
fn follow(test: &StashTest, scale: i64) {
    wait_for(&format!("scale {scale}"), 120, || {
        let found = test.replicas(RESOURCE, "web");
        if found == scale { Ok(()) } else { Err(found.to_string()) }
    });
    test.kubectl().args(["scale", "replicationcontroller", "web-1", &format!("--replicas={scale}")]).ok();
}

#[test]
fn a_deployment_config_is_backed_up_and_comes_back_in_place() {
    let _served = Served::start();
    let test = StashTest::start();
    put(&test);
    let before = fill(&test.directory("web", 0, "data"), "web");
    test.put_repository("repo");
    test.put_configuration("nightly", &target("app", VERSION, KIND, "web"), "");
    let session = test.run("BackupConfiguration", "nightly", "Succeeded");
    let pod = session["status"]["targets"][0]["stats"][0]["pod"].as_str().unwrap_or_default().to_owned();
    assert!(pod.starts_with("web-1-"), "{:#}", session["status"]);
    test.assert_stored("repo", "app", "/source/data", &before);
    let directory = test.directory("web", 0, "data");
    fs::remove_dir_all(directory.join("own")).unwrap();
    fs::write(directory.join("which"), "damaged").unwrap();
    test.restore("back", &format!("  target: {}", into("app", KIND, "web").replace("apps/v1", VERSION)), "");
    follow(&test, 0);
    follow(&test, 1);
    let back = test.restored_as(RESTORE_SESSIONS, "back", "Succeeded");
    assert_eq!(back["status"]["standstill"]["step"], "Started", "{:#}", back["status"]);
    test.wait_for_ready("web", 1);
    before.assert_same(&contents(&test.directory("web", 0, "data")), "restored");
    test.assert_nothing_is_left("repo");
}
