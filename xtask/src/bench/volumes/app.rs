//! The pods whose volumes are backed up: idle pods, half of them on each node, each with a claim of class `box-csi`.
//! Returns the directories of their volumes on this machine. Everything is deleted when it is dropped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::run;
use crate::servers::Kubectl;

pub(super) const NAMESPACE: &str = "bench-volumes";
/// The annotation with the directory in which a kubelet of the box keeps its pods.
const ROOT: &str = "/metadata/annotations/lifeboat.io~1kubelet-root";

/// A node and its kubelet's directory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) root: PathBuf,
}

pub(in crate::bench) struct App {
    namespace: String,
    kubectl: Kubectl,
    nodes: Vec<Node>,
    pods: u32,
    /// The number of nodes with pods.
    used: usize,
}

impl App {
    pub(in crate::bench) fn new(
        environment: &BTreeMap<String, String>,
        namespace: &str,
        pods: u32,
        used: u8,
    ) -> Result<Self> {
        let kubectl = Kubectl::new(environment, namespace);
        let found = run::output(kubectl.command().args(["get", "nodes", "-o", "json"]))?;
        let nodes = nodes(&serde_json::from_str(&found).context("cannot read the nodes")?);
        Ok(Self { namespace: namespace.to_owned(), kubectl, nodes, pods, used: usize::from(used) })
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Creates the pods and waits until they run.
    pub(in crate::bench) fn create(&self) -> Result<()> {
        self.delete()?;
        let objects = objects(&self.namespace, self.nodes.iter().take(self.used), self.pods);
        run::with_input(self.kubectl.command().args(["apply", "-f", "-"]), &objects.to_string())?;
        self.wait()
    }

    /// Waits until all pods run.
    pub(super) fn wait(&self) -> Result<()> {
        let wait = ["wait", "pods", "--all", "--for=condition=Ready", "--timeout=300s"];
        run::output(self.kubectl.command().args(wait)).map(drop)
    }

    /// Deletes the namespace with its volumes and data.
    pub(super) fn delete(&self) -> Result<()> {
        let delete = ["delete", "namespace", &self.namespace, "--ignore-not-found", "--timeout=300s"];
        run::output(self.kubectl.command().args(delete)).map(drop)
    }

    /// The volumes' directories on this machine, in the order of the pods.
    pub(in crate::bench) fn directories(&self) -> Result<Vec<PathBuf>> {
        let found = run::output(self.kubectl.command().args(["get", "pods", "-o", "json"]))?;
        let found: Value = serde_json::from_str(&found).context("cannot read the pods")?;
        let mut places: Vec<(String, PathBuf)> = Vec::new();
        for pod in found["items"].as_array().into_iter().flatten() {
            let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let node = self.nodes.iter().find(|node| node.name == text("/spec/nodeName"));
            let node = node.with_context(|| format!("pod {} is on no node", text("/metadata/name")))?;
            let volumes =
                node.root.join("pods").join(text("/metadata/uid")).join("volumes/kubernetes.io~csi");
            places.push((text("/metadata/name").to_owned(), only_entry(&volumes)?.join("mount")));
        }
        places.sort();
        Ok(places.into_iter().map(|(_, place)| place).collect())
    }

    /// Deletes the files in the volumes; the volumes stay.
    pub(super) fn empty(&self) -> Result<()> {
        for directory in self.directories()? {
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let removed = if entry.file_type()?.is_dir() {
                    fs::remove_dir_all(entry.path())
                } else {
                    fs::remove_file(entry.path())
                };
                removed.with_context(|| format!("cannot empty {}", directory.display()))?;
            }
        }
        Ok(())
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.delete();
    }
}

fn only_entry(directory: &Path) -> Result<PathBuf> {
    let mut entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let entry = entries.next().with_context(|| format!("{} is empty", directory.display()))?;
    Ok(entry?.path())
}

/// The name of a pod and of its claim.
pub(in crate::bench) fn name(number: u32) -> String {
    format!("pod-{number:03}")
}

/// The nodes that have the annotation with their kubelet's directory.
fn nodes(list: &Value) -> Vec<Node> {
    let items = list["items"].as_array().into_iter().flatten();
    let node = |item: &Value| {
        let root = item.pointer(ROOT).and_then(Value::as_str)?.into();
        Some(Node { name: item["metadata"]["name"].as_str()?.to_owned(), root })
    };
    items.filter_map(node).collect()
}

fn objects<'a>(namespace: &str, nodes: impl Iterator<Item = &'a Node> + Clone, pods: u32) -> Value {
    let mut items = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})];
    for (number, node) in (0..pods).zip(nodes.cycle()) {
        let metadata = json!({"name": name(number), "namespace": namespace});
        items.push(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "box-csi",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }));
        items.push(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {"kubernetes.io/hostname": node.name},
                "containers": [{
                    "name": "idle",
                    "image": "lifeboat-box/pause:1",
                    "imagePullPolicy": "Never",
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": metadata["name"]}}],
            },
        }));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_spread_over_the_nodes_of_the_box() {
        let annotated = |name, root| json!({"metadata": {"name": name, "annotations": {"lifeboat.io/kubelet-root": root}}});
        let list =
            json!({"items": [annotated("a", "/a"), {"metadata": {"name": "x"}}, annotated("b", "/b")]});
        let nodes = nodes(&list);
        assert_eq!(nodes[1], Node { name: "b".into(), root: "/b".into() });
        let objects = objects("n", nodes.iter(), 3);
        let places: Vec<&str> = objects["items"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|item| item.pointer("/spec/nodeSelector/kubernetes.io~1hostname")?.as_str())
            .collect();
        assert_eq!(places, ["a", "b", "a"]);
    }
}
