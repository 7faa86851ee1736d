//! The workloads of the tests, and their data.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use lifeboat_e2e::tree::{Listing, everything};
use lifeboat_e2e::{Program, StashTest, contents, get, random, volume_directory, wait_for};
use serde_json::Value;

/// How many movers of the first host died: each was followed by another.
pub(crate) fn dead_movers(session: &Value) -> usize {
    session["status"]["targets"][0]["stats"][0]["deadOwners"].as_array().map_or(0, Vec::len)
}

/// Evicts a mover, and waits until its container has ended: storage that answers at once would let it succeed before it gets the signal.
pub(crate) fn evict(test: &StashTest, mover: &Value) {
    let (name, namespace) = (mover["metadata"]["name"].as_str().unwrap(), &test.tenant.name);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    let eviction = format!(
        r#"{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{name}", "namespace": "{namespace}"}}}}"#
    );
    test.kubectl().args(["create", "--raw", &path, "-f", "-"]).input(&eviction).ok();
    wait_for("the end of the evicted mover", 60, || {
        let state = &get(&["-n", namespace, "pods", name])["status"]["containerStatuses"][0]["state"];
        if state["running"].is_null() { Ok(()) } else { Err(state.to_string()) }
    });
}

/// A directory of this machine that pods may mount so that later mounts below it are seen, as below the root of an
/// ordinary node: `data` in a mount of its own that is shared.
pub(crate) struct NodeDirectory(tempfile::TempDir);

impl NodeDirectory {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = base.path().to_str().unwrap();
        Program::new("mount").args(["--bind", path, path]).ok();
        Program::new("mount").args(["--make-shared", path]).ok();
        fs::create_dir(base.path().join("data")).unwrap();
        Self(base)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("data")
    }
}

impl Drop for NodeDirectory {
    fn drop(&mut self) {
        Program::new("umount").args(["--lazy", self.0.path().to_str().unwrap_or_default()]).run();
    }
}

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

/// The target of a restore: volume `data` at `/source/data`.
pub(crate) fn into(alias: &str, kind: &str, name: &str) -> String {
    target(alias, "apps/v1", kind, name).replace("paths: [/source/data], ", "")
}

/// The member of a batch with this target and nothing else.
pub(crate) fn member(target: &str) -> String {
    format!("{{target: {target}}}")
}

const POD: &str = "
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      OF_POD
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        OF_CONTAINER
        volumeMounts: [{name: data, mountPath: /source/data}]";

/// A Deployment with a claim of its name, and files in it; gives its content.
pub(crate) fn put_deployment(test: &StashTest, name: &str) -> Listing {
    put_empty_deployment(test, name);
    test.wait_until_running(&format!("deployment/{name}"));
    fill(&test.directory(name, 0, "data"), name)
}

/// A Deployment with an empty claim of its name, which may not run yet.
pub(crate) fn put_empty_deployment(test: &StashTest, name: &str) {
    put_empty(test, "Deployment", name, "ReadWriteOnce");
}

/// A workload of one pod (Deployment, ReplicaSet or ReplicationController) with a claim of its name and this access mode, and files in it;
/// gives its content.
pub(crate) fn put_workload(test: &StashTest, kind: &str, name: &str, mode: &str) -> Listing {
    put_empty(test, kind, name, mode);
    test.wait_for_ready(name, 1);
    fill(&test.directory(name, 0, "data"), name)
}

/// A Deployment of one running pod with an empty claim of its name. `of_pod`, `of_container`: further fields of its pod and of the container,
/// as YAML; each line after the first is indented as in the template.
pub(crate) fn put_deployment_with(test: &StashTest, name: &str, of_pod: &str, of_container: &str) {
    let manifests = of_one_pod("Deployment", name, "ReadWriteOnce");
    test.tenant.apply(&manifests.replace("OF_POD", of_pod).replace("OF_CONTAINER", of_container));
    test.wait_for_ready(name, 1);
}

fn put_empty(test: &StashTest, kind: &str, name: &str, mode: &str) {
    test.tenant.apply(&plain(&of_one_pod(kind, name, mode)));
}

/// Manifests without more fields.
fn plain(manifests: &str) -> String {
    manifests.replace("      OF_POD\n", "").replace("        OF_CONTAINER\n", "")
}

fn of_one_pod(kind: &str, name: &str, mode: &str) -> String {
    let (version, selector) = match kind {
        "ReplicationController" => ("v1", "{app: NAME}"),
        _ => ("apps/v1", "{matchLabels: {app: NAME}}"),
    };
    let manifests = format!(
        "{}---
apiVersion: {version}
kind: {kind}
metadata: {{name: NAME}}
spec:
  replicas: 1
  selector: {selector}
  template:{POD}
      volumes: [{{name: data, persistentVolumeClaim: {{claimName: NAME}}}}]
",
        claim(mode)
    );
    manifests.replace("NAME", name)
}

/// A Deployment of one running pod whose volume exists only with it: an emptyDir with these settings, as the inside of a map.
pub(crate) fn put_in_pod(test: &StashTest, name: &str, settings: &str) {
    let manifests = format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: NAME}}
spec:
  selector: {{matchLabels: {{app: NAME}}}}
  template:{POD}
      volumes: [{{name: data, emptyDir: {{{settings}}}}}]
"
    );
    test.tenant.apply(&plain(&manifests.replace("NAME", name)));
    test.wait_for_ready(name, 1);
}

fn claim(mode: &str) -> String {
    format!(
        "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: NAME}}
spec: {{accessModes: [{mode}], storageClassName: box-csi, resources: {{requests: {{storage: 64Mi}}}}}}
"
    )
}

/// A claim with files that no pod uses; gives its content.
pub(crate) fn put_claim(test: &StashTest, name: &str) -> Listing {
    put_empty(test, "ReplicaSet", name, "ReadWriteOnce");
    test.wait_for_ready(name, 1);
    let content = fill(&test.directory(name, 0, "data"), name);
    test.delete(&["replicaset", name]);
    wait_for("the end of the pod", 60, || if test.pods(name).is_empty() { Ok(()) } else { Err("it runs") });
    content
}

/// A claim as the target of a backup or restore.
pub(crate) fn claim_target(alias: &str, name: &str) -> String {
    format!("{{alias: {alias}, ref: {{apiVersion: v1, kind: PersistentVolumeClaim, name: {name}}}}}")
}

/// The content of a claim that no pod uses, read by a pod that is gone afterwards.
pub(crate) fn content_of_claim(test: &StashTest, name: &str) -> Listing {
    let pod = format!("reader-{name}");
    test.tenant.apply(&format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {pod}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: TEST_IMAGE, imagePullPolicy: IfNotPresent, command: [sleep, infinity], volumeMounts: [{{name: data, mountPath: /d}}]}}
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {name}}}}}]
"
    ));
    test.kubectl().args(["wait", "--for=condition=Ready", "pod", &pod, "--timeout=90s"]).ok();
    let reader = get(&["-n", &test.tenant.name, "pods", &pod]);
    let content = contents(&volume_directory(&reader, "data"));
    test.delete(&["pod", &pod]);
    content
}

/// A StatefulSet with two replicas, each with a claim and files; gives their contents.
pub(crate) fn put_stateful_set(test: &StashTest, name: &str) -> Vec<Listing> {
    put_replicas(test, name, "data", 2)
}

/// A StatefulSet with replicas, each with a claim of this template and files; gives their contents.
pub(crate) fn put_replicas(test: &StashTest, name: &str, volume: &str, replicas: usize) -> Vec<Listing> {
    put_empty_replicas(test, name, volume, replicas);
    (0..replicas)
        .map(|number| fill(&test.directory(name, number, volume), &format!("{name}-{number}")))
        .collect()
}

pub(crate) fn put_empty_replicas(test: &StashTest, name: &str, volume: &str, replicas: usize) {
    let manifests = format!(
        "apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: NAME}}
spec:
  serviceName: NAME
  replicas: {replicas}
  podManagementPolicy: Parallel
  selector: {{matchLabels: {{app: NAME}}}}
  template:{POD}
  volumeClaimTemplates:
  - metadata: {{name: {volume}}}
    spec: {{accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {{requests: {{storage: 64Mi}}}}}}
"
    );
    let pod_volume = format!("name: {volume}, mountPath: /source/data");
    let manifests = manifests.replace("name: data, mountPath: /source/data", &pod_volume);
    test.tenant.apply(&plain(&manifests.replace("NAME", name)));
    test.wait_for_ready(name, replicas);
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
    test.tenant.apply(&plain(&manifests.replace("NAME", name)));
    test.wait_until_running(&format!("daemonset/{name}"));
    let pods = test.pods(name);
    let node = |number: usize| pods[number]["spec"]["nodeName"].as_str().unwrap().to_owned();
    (0..pods.len())
        .map(|number| (node(number), fill(&test.directory(name, number, "data"), &node(number))))
        .collect()
}

/// Files of every kind, with owners and modes of an application; gives the content.
pub(crate) fn fill(directory: &Path, which: &str) -> Listing {
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
