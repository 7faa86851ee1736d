//! Velero's node agents on the box: one DaemonSet for each node, because the nodes' kubelets have different directories.
//! For the pods that move data, Velero uses the directory of the DaemonSet `node-agent` on all nodes; so this DaemonSet
//! names a directory with links to the pods of both nodes, which a thread updates.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::app::Node;
use crate::servers::{Home, Kubectl};
use crate::{image, run};

/// The name by which Velero finds the DaemonSet.
const NAME: &str = "node-agent";
const CONFIG: &str = "node-agent-config";
/// A restored pod has a directory for about a second before Velero looks for it.
const INTERVAL: Duration = Duration::from_millis(100);

/// The agents. They are deleted with their namespace; the other objects and files are deleted when this is dropped.
pub(super) struct Agents {
    kubectl: Kubectl,
    name: String,
    _links: Links,
}

impl Agents {
    /// Starts the agents and waits until they run. `at_once` is the number of concurrent volumes per node; None for
    /// Velero's default.
    pub(super) fn start(home: &Home, nodes: &[Node], at_once: Option<u32>) -> Result<Self> {
        // Inside a directory that a kubelet has made a shared mount, because containerd refuses others.
        let first = nodes.first().context("no node says where its kubelet keeps pods")?;
        let links = Links::keep(first.root.join(&home.namespace), nodes)?;
        let objects = objects(home, nodes, &links.directory, at_once).to_string();
        let agents = Self { kubectl: home.kubectl_maker(), name: home.namespace.clone(), _links: links };
        let set_image = format!("velero={}", image::VELERO);
        run::output(home.kubectl().args(["set", "image", "deployment/velero", &set_image]))?;
        run::with_input(home.kubectl().args(["apply", "-f", "-"]), &objects)?;
        for number in 0..nodes.len() {
            let set = format!("daemonset/{}", daemon_set(number));
            run::output(home.kubectl().args(["rollout", "status", &set, "--timeout=120s"]))?;
        }
        Ok(agents)
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        let delete = ["delete", "clusterrolebinding", &self.name, "--ignore-not-found"];
        let _ = run::output(self.kubectl.command().args(delete));
    }
}

/// A directory with links to the directories of all pods.
struct Links {
    directory: PathBuf,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    fn keep(directory: PathBuf, nodes: &[Node]) -> Result<Self> {
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let end = Arc::new(AtomicBool::new(false));
        let (ended, place) = (Arc::clone(&end), directory.clone());
        let pods: Vec<PathBuf> = nodes.iter().map(|node| node.root.join("pods")).collect();
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                for pods in &pods {
                    link(pods, &place);
                }
                thread::sleep(INTERVAL);
            }
        });
        Ok(Self { directory, end, thread: Some(thread) })
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path()); // links only, never what they lead to
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Creates a link for each pod that has none.
fn link(pods: &Path, place: &Path) {
    for pod in fs::read_dir(pods).into_iter().flatten().flatten() {
        let _ = symlink(pod.path(), place.join(pod.file_name())); // there already, most of the time
    }
}

fn daemon_set(number: usize) -> String {
    if number == 0 { NAME.to_owned() } else { format!("{NAME}-{number}") }
}

/// The objects that `velero install --use-node-agent` creates, except for the directories.
fn objects(home: &Home, nodes: &[Node], links: &Path, at_once: Option<u32>) -> Value {
    let namespace = &home.namespace;
    let mut items = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "velero", "namespace": namespace}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "velero", "namespace": namespace}],
        }),
    ];
    let mut arguments = vec!["node-agent".to_owned(), "server".to_owned()];
    if let Some(at_once) = at_once {
        let config = json!({"loadConcurrency": {"globalConfig": at_once}}).to_string();
        items.push(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG, "namespace": namespace},
            "data": {"config.json": config},
        }));
        arguments.push(format!("--node-agent-configmap={CONFIG}"));
    }
    for (number, node) in nodes.iter().enumerate() {
        let name = daemon_set(number);
        let metadata = json!({"name": name, "namespace": namespace});
        items.push(json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": {"name": name}},
                "template": {
                    "metadata": {"labels": {"name": name, "role": "node-agent"}},
                    "spec": pod(node, links, &arguments),
                },
            },
        }));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn pod(node: &Node, links: &Path, arguments: &[String]) -> Value {
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    json!({
        "serviceAccountName": "velero",
        "nodeSelector": {"kubernetes.io/hostname": node.name},
        "securityContext": {"runAsUser": 0},
        "terminationGracePeriodSeconds": 1,
        "volumes": [
            {"name": "host-pods", "hostPath": {"path": links}},
            {"name": "pods-of-node", "hostPath": {"path": node.root.join("pods")}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}},
        ],
        "containers": [{
            "name": NAME,
            "image": image::VELERO,
            "imagePullPolicy": "Never",
            "command": ["/velero"],
            "args": arguments,
            "securityContext": {"privileged": true},
            "volumeMounts": [
                {"name": "pods-of-node", "mountPath": "/host_pods", "mountPropagation": "HostToContainer"},
                {"name": "scratch", "mountPath": "/scratch"},
                {"name": "cloud-credentials", "mountPath": "/credentials"},
            ],
            "env": [
                field("NODE_NAME", "spec.nodeName"),
                field("VELERO_NAMESPACE", "metadata.namespace"),
                {"name": "VELERO_SCRATCH_DIR", "value": "/scratch"},
                {"name": "AWS_SHARED_CREDENTIALS_FILE", "value": "/credentials/cloud"},
            ],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_of_both_nodes_has_a_link_and_no_directory_goes_with_it() {
        let below = tempfile::tempdir().expect("a directory");
        let node = |name: &str| Node { name: name.into(), root: below.path().join(name) };
        let nodes = [node("a"), node("b")];
        let pods = ["a/pods/one", "b/pods/two"].map(|path| below.path().join(path));
        for pod in &pods {
            fs::create_dir_all(pod).expect("made");
        }
        let directory = below.path().join("a/links");
        let links = Links::keep(directory.clone(), &nodes).expect("kept");
        for node in &nodes {
            link(&node.root.join("pods"), &directory);
        }
        assert!(["one", "two"].iter().all(|uid| directory.join(uid).is_dir()));
        drop(links);
        assert!(!directory.exists());
        assert!(pods.iter().all(|pod| pod.is_dir()));
    }
}
