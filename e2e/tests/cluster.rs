//! Preconditions of the tests and the demo: DNS, volumes and snapshots work on every node of the cluster.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use lifeboat_e2e::{Namespace, get, wait_for};
use serde_json::Value;

/// A pod on one node that resolves a name, writes into a new volume and keeps running.
fn pod(node: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data-{node}}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 64Mi}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: pod-{node}, labels: {{app: probe}}}}
spec:
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'getent hosts kubernetes.default.svc.cluster.local > /data/names && echo bytes-of-{node} > /data/file && exec sleep infinity']
    volumeMounts: [{{name: data, mountPath: /data}}]
  volumes:
  - name: data
    persistentVolumeClaim: {{claimName: data-{node}}}
"
    )
}

fn nodes() -> Vec<String> {
    let nodes = get(&["nodes"]);
    let items = nodes["items"].as_array().unwrap();
    items.iter().map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn wait_until_ready(namespace: &Namespace, pod: &str) {
    namespace.kubectl().args(["wait", "--for=condition=Ready", "--timeout=90s", pod]).ok();
}

fn read(namespace: &Namespace, pod: &str, file: &str) -> String {
    wait_for(file, 30, || {
        let output = namespace.kubectl().args(["exec", pod, "--", "cat", file]).run();
        if output.code == 0 && !output.stdout.is_empty() { Ok(output.stdout) } else { Err(output.stderr) }
    })
}

#[test]
fn on_every_node_a_pod_resolves_a_service_and_mounts_a_new_volume() {
    let namespace = Namespace::new("nodes");
    let nodes = nodes();
    assert!(nodes.len() >= 2, "only {nodes:?}");
    for node in &nodes {
        namespace.apply(&pod(node));
    }
    for node in &nodes {
        let name = format!("pod-{node}");
        wait_until_ready(&namespace, &format!("pod/{name}"));
        assert!(read(&namespace, &name, "/data/names").contains("kubernetes.default"));
        assert_eq!(read(&namespace, &name, "/data/file"), format!("bytes-of-{node}\n"));
    }
}

#[test]
fn a_volume_snapshot_becomes_ready_and_restores_the_bytes_of_its_moment() {
    let namespace = Namespace::new("snapshots");
    let node = nodes().pop().unwrap();
    namespace.apply(&pod(&node));
    let source = format!("pod-{node}");
    wait_until_ready(&namespace, &format!("pod/{source}"));
    // The pod is Ready as soon as its command has begun.
    assert_eq!(read(&namespace, &source, "/data/file"), format!("bytes-of-{node}\n"));
    namespace.apply(&format!(
        "
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {{name: moment}}
spec: {{source: {{persistentVolumeClaimName: data-{node}}}}}
"
    ));
    wait_for("a ready snapshot", 60, || {
        let snapshot = get(&["-n", &namespace.name, "volumesnapshot", "moment"]);
        if snapshot["status"]["readyToUse"] == Value::Bool(true) {
            Ok(())
        } else {
            Err(snapshot["status"].to_string())
        }
    });
    namespace.kubectl().args(["exec", &source, "--", "sh", "-c", "echo changed > /data/file"]).ok();
    namespace.apply(&format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: restored}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {{requests: {{storage: 64Mi}}}}
  dataSource: {{apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: moment}}
---
apiVersion: v1
kind: Pod
metadata: {{name: reader}}
spec:
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: TEST_IMAGE
    imagePullPolicy: IfNotPresent
    command: [sleep, infinity]
    volumeMounts: [{{name: data, mountPath: /data}}]
  volumes:
  - name: data
    persistentVolumeClaim: {{claimName: restored}}
"
    ));
    wait_until_ready(&namespace, "pod/reader");
    assert_eq!(read(&namespace, "reader", "/data/file"), format!("bytes-of-{node}\n"));
    assert_eq!(read(&namespace, &source, "/data/file"), "changed\n");
}
