//! The workloads of the tests, and their data.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use lifeboat_e2e::tree::{Listing, everything};
use lifeboat_e2e::{StashTest, contents, random};

/// The target of a Deployment: alias, name.
pub(crate) fn deployment(alias: &str, name: &str) -> String {
    target(alias, "apps/v1", "Deployment", name)
}

/// A target whose volume `data` is mounted at `/source/data`.
pub(crate) fn target(alias: &str, version: &str, kind: &str, name: &str) -> String {
    let alias = if alias.is_empty() { String::new() } else { format!("alias: {alias}, ") };
    format!(
        "{{{alias}ref: {{apiVersion: {version}, kind: {kind}, name: {name}}}, paths: [/source/data], \
         volumeMounts: [{{name: data, mountPath: /source/data}}]}}"
    )
}

const POD: &str = "
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        volumeMounts: [{name: data, mountPath: /source/data}]";

/// A Deployment with a claim of its name, and files in it; gives its content.
pub(crate) fn put_deployment(test: &StashTest, name: &str) -> Listing {
    put_empty_deployment(test, name);
    test.wait_until_running(&format!("deployment/{name}"));
    fill(&test.directory(name, 0, "data"), name)
}

/// A Deployment with an empty claim of its name, which may not run yet.
pub(crate) fn put_empty_deployment(test: &StashTest, name: &str) {
    let manifests = format!(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: NAME}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {{requests: {{storage: 64Mi}}}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: NAME}}
spec:
  selector: {{matchLabels: {{app: NAME}}}}
  template:{POD}
      volumes: [{{name: data, persistentVolumeClaim: {{claimName: NAME}}}}]
"
    );
    test.tenant.apply(&manifests.replace("NAME", name));
}

/// A StatefulSet with two replicas, each with a claim and files; gives their contents.
pub(crate) fn put_stateful_set(test: &StashTest, name: &str) -> Vec<Listing> {
    let manifests = format!(
        "apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: NAME}}
spec:
  serviceName: NAME
  replicas: 2
  podManagementPolicy: Parallel
  selector: {{matchLabels: {{app: NAME}}}}
  template:{POD}
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {{requests: {{storage: 64Mi}}}}}}
"
    );
    test.tenant.apply(&manifests.replace("NAME", name));
    test.wait_until_running(&format!("statefulset/{name}"));
    (0..2).map(|number| fill(&test.directory(name, number, "data"), &format!("{name}-{number}"))).collect()
}

/// A DaemonSet with an emptyDir on each node; gives nodes and contents.
pub(crate) fn put_daemon_set(test: &StashTest, name: &str) -> Vec<(String, Listing)> {
    let manifests = format!(
        "apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: NAME}}
spec:
  selector: {{matchLabels: {{app: NAME}}}}
  template:{POD}
      volumes: [{{name: data, emptyDir: {{}}}}]
"
    );
    test.tenant.apply(&manifests.replace("NAME", name));
    test.wait_until_running(&format!("daemonset/{name}"));
    let pods = test.pods(name);
    let node = |number: usize| pods[number]["spec"]["nodeName"].as_str().unwrap().to_owned();
    (0..pods.len())
        .map(|number| (node(number), fill(&test.directory(name, number, "data"), &node(number))))
        .collect()
}

/// Files of every kind, with owners and modes of an application; gives the content.
fn fill(directory: &Path, which: &str) -> Listing {
    fs::write(directory.join("which"), which).unwrap();
    fs::write(directory.join("bytes"), random(1 << 20)).unwrap();
    fs::create_dir_all(directory.join("everything")).unwrap();
    everything(&directory.join("everything"));
    fs::create_dir(directory.join("own")).unwrap();
    fs::write(directory.join("own/secret"), "of the application").unwrap();
    fs::set_permissions(directory.join("own/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    for path in ["own", "own/secret"] {
        chown(directory.join(path), Some(1000), Some(1001)).unwrap();
    }
    contents(directory)
}
