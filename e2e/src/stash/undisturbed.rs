//! What a backup must leave alone: the pods of the tenant's workloads (UIDs and restarts), the workloads themselves, and owners and modes of
//! all files in their volumes. Every backup that a test runs is checked.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::StashTest;
use crate::{get, volume_directory};

/// The kinds of workloads that tests have.
const WORKLOADS: [&str; 5] =
    ["deployments", "statefulsets", "daemonsets", "replicasets", "replicationcontrollers"];

/// The state before a backup.
pub struct Undisturbed {
    namespace: String,
    /// Of each pod with label `app`: its name, and what is counted by its UID.
    pods: BTreeMap<String, Pod>,
    /// Generation and replicas of each workload.
    workloads: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Pod {
    name: String,
    /// By container.
    restarts: BTreeMap<String, i64>,
    files: BTreeMap<PathBuf, Owned>,
}

/// What a mover could have changed of a file without writing to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owned {
    user: u32,
    group: u32,
    mode: u32,
}

impl StashTest {
    /// The state that a backup must not change.
    pub fn undisturbed(&self) -> Undisturbed {
        Undisturbed::of(&self.tenant.name)
    }
}

impl Undisturbed {
    fn of(namespace: &str) -> Self {
        let list = |arguments: &[&str]| get(arguments)["items"].as_array().cloned().unwrap_or_default();
        let pods = list(&["-n", namespace, "pods", "-l", "app"]);
        let workloads = WORKLOADS.iter().flat_map(|kind| {
            list(&["-n", namespace, kind]).into_iter().map(move |one| {
                let name = format!("{kind}/{}", one["metadata"]["name"].as_str().unwrap_or_default());
                let state = format!(
                    "generation {}, {} replicas",
                    one["metadata"]["generation"], one["spec"]["replicas"]
                );
                (name, state)
            })
        });
        Self {
            namespace: namespace.to_owned(),
            pods: pods.iter().map(|pod| (text(&pod["metadata"]["uid"]), Pod::of(pod))).collect(),
            workloads: workloads.collect(),
        }
    }

    /// Fails unless every pod is there with as many restarts, every workload is as it was, and every file that is still there has the owner,
    /// group and mode that it had. Databases make and remove files meanwhile.
    pub fn assert_unchanged(&self) {
        let now = Self::of(&self.namespace);
        for (uid, before) in &self.pods {
            let name = &before.name;
            let found = now.pods.get(uid).unwrap_or_else(|| panic!("pod {name} is gone after a backup"));
            assert_eq!(found.restarts, before.restarts, "restarts of pod {name}");
            let same = |(path, owned): (&PathBuf, &Owned)| {
                let now = found.files.get(path)?;
                (now != owned).then(|| format!("{}: {owned:?} became {now:?}", path.display()))
            };
            let changed: Vec<String> = before.files.iter().filter_map(same).collect();
            assert!(changed.is_empty(), "a backup changed files of pod {name}:\n{}", changed.join("\n"));
        }
        assert_eq!(now.workloads, self.workloads, "a backup changed a workload");
    }
}

impl Pod {
    fn of(pod: &Value) -> Self {
        let statuses = ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .flat_map(|list| pod["status"][list].as_array().cloned().unwrap_or_default());
        let restarts =
            statuses.map(|status| (text(&status["name"]), status["restartCount"].as_i64().unwrap_or(-1)));
        let mut files = BTreeMap::new();
        if pod["status"]["phase"] == "Running" {
            let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
            let holds_files = |volume: &&Value| {
                volume["persistentVolumeClaim"].is_object() || volume["emptyDir"].is_object()
            };
            for volume in volumes.iter().filter(holds_files) {
                collect(&volume_directory(pod, &text(&volume["name"])), &mut files);
            }
        }
        Self { name: text(&pod["metadata"]["name"]), restarts: restarts.collect(), files }
    }
}

/// Everything below a directory, and itself. A block volume has none.
fn collect(path: &Path, files: &mut BTreeMap<PathBuf, Owned>) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    files.insert(path.to_owned(), Owned { user: found.uid(), group: found.gid(), mode: found.mode() });
    if found.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), files);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
