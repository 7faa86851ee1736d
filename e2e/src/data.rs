//! An app with data: two pods of a StatefulSet, one on each node of the box, with a claim and an emptyDir each, and a
//! Deployment with both. The nodes are this machine, so tests fill and compare volumes in their mount points.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::tree::{Listing, everything};
use crate::{Namespace, get, wait_for};

const APP: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'ls /data > /seen; sleep infinity']
        volumeMounts: [{name: data, mountPath: /data}, {name: cache, mountPath: /cache}]
      volumes: [{name: cache, emptyDir: {}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: CLASS, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: uploads}
spec: {accessModes: [ReadWriteOnce], storageClassName: CLASS, resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sh, -c, 'ls /data > /seen; sleep infinity']
        volumeMounts: [{name: data, mountPath: /data}, {name: scratch, mountPath: /scratch}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: uploads}}, {name: scratch, emptyDir: {}}]
";

/// A volume of the app: the label of its pods, the pod's number in order, and the volume's name in the pod.
pub type VolumeName = (&'static str, usize, &'static str);

/// All volumes of the app.
pub const VOLUMES: [VolumeName; 6] = [
    ("db", 0, "data"),
    ("db", 0, "cache"),
    ("db", 1, "data"),
    ("db", 1, "cache"),
    ("web", 0, "data"),
    ("web", 0, "scratch"),
];

/// The app in its own namespace.
pub struct DataApp {
    pub namespace: Namespace,
}

impl DataApp {
    /// Starts it with empty volumes. Claims use the box's default class.
    pub fn start(prefix: &str) -> Self {
        Self::of_class(prefix, "box-csi")
    }

    pub fn of_class(prefix: &str, class: &str) -> Self {
        let app = Self { namespace: Namespace::new(prefix) };
        app.namespace.apply(&APP.replace("CLASS", class));
        app.wait_until_running();
        app
    }

    /// Fills all volumes, each with different files, and returns their content.
    pub fn fill(&self) -> BTreeMap<VolumeName, Listing> {
        for (number, name) in VOLUMES.iter().enumerate() {
            let directory = self.directory(*name);
            std::fs::write(directory.join("which"), format!("{number} {name:?}")).unwrap();
            std::os::unix::fs::chown(&directory, Some(1000), Some(1001)).unwrap();
            std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o2750)).unwrap();
            if number == 0 {
                std::fs::create_dir(directory.join("everything")).unwrap();
                everything(&directory.join("everything"));
            } else {
                let bytes: Vec<u8> =
                    (0..3_usize << 20).map(|at| (at / 7 * (number + 1)).to_le_bytes()[0]).collect();
                std::fs::write(directory.join("bytes"), bytes).unwrap();
            }
        }
        self.contents()
    }

    /// The content of all volumes, as far as movers store it.
    pub fn contents(&self) -> BTreeMap<VolumeName, Listing> {
        VOLUMES.into_iter().map(|name| (name, contents(&self.directory(name)))).collect()
    }

    /// Fails unless the volumes have the same content as before.
    pub fn assert_same(&self, before: &BTreeMap<VolumeName, Listing>) {
        for (name, listing) in before {
            listing.assert_same(&contents(&self.directory(*name)), &format!("{name:?}"));
        }
    }

    /// The pods with one label, sorted by name.
    pub fn pods(&self, app: &str) -> Vec<Value> {
        let label = format!("app={app}");
        let list = get(&["-n", &self.namespace.name, "pods", "-l", &label]);
        let mut pods = list["items"].as_array().cloned().unwrap_or_default();
        pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().map(str::to_owned));
        pods
    }

    /// The directory of a volume on this machine.
    pub fn directory(&self, (app, number, volume): VolumeName) -> PathBuf {
        volume_directory(&self.pods(app)[number], volume)
    }

    /// Restarts of containers, by pod; a backup must cause none.
    pub fn restarts(&self) -> Vec<(String, i64)> {
        let pods = self.pods("db").into_iter().chain(self.pods("web"));
        let count =
            |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(-1);
        pods.map(|pod| (pod["metadata"]["uid"].to_string(), count(&pod))).collect()
    }

    /// The content of their claim when the containers started.
    pub fn seen_at_start(&self) -> Vec<String> {
        let pods = self.pods("db").into_iter().chain(self.pods("web"));
        pods.map(|pod| {
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            self.namespace.kubectl().args(["exec", &name, "-c", "main", "--", "cat", "/seen"]).ok()
        })
        .collect()
    }

    pub fn wait_until_running(&self) {
        for workload in ["statefulset/db", "deployment/web"] {
            self.namespace.kubectl().args(["rollout", "status", workload, "--timeout=120s"]).ok();
        }
        wait_for("running pods", 60, || {
            let pods = [self.pods("db"), self.pods("web")].concat();
            let ready = |pod: &&Value| {
                pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
            };
            let count = pods.iter().filter(ready).count();
            if count == 3 && pods.len() == 3 { Ok(()) } else { Err(format!("{count} of {} run", pods.len())) }
        });
    }

    /// Deletes the namespace with everything in it.
    pub fn delete(&self) {
        let name = &self.namespace.name;
        crate::kubectl().args(["delete", "namespace", name, "--timeout=120s"]).ok();
    }
}

/// The directory of a pod's volume on this machine.
pub fn volume_directory(pod: &Value, volume: &str) -> PathBuf {
    let node = get(&["node", pod["spec"]["nodeName"].as_str().unwrap()]);
    let root = node["metadata"]["annotations"]["lifeboat.io/kubelet-root"].as_str().unwrap().to_owned();
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let volumes = Path::new(&root).join("pods").join(uid).join("volumes");
    let spec = pod["spec"]["volumes"].as_array().unwrap().iter().find(|one| one["name"] == volume).unwrap();
    match spec["persistentVolumeClaim"]["claimName"].as_str() {
        None => volumes.join("kubernetes.io~empty-dir").join(volume),
        Some(claim) => {
            let claim = get(&["-n", pod["metadata"]["namespace"].as_str().unwrap(), "pvc", claim]);
            volumes
                .join("kubernetes.io~csi")
                .join(claim["spec"]["volumeName"].as_str().unwrap())
                .join("mount")
        }
    }
}

/// The content that movers store: without attributes that only a privileged process may set, and without sockets, which
/// are useless without the listening process.
pub fn contents(directory: &Path) -> Listing {
    let mut listing = Listing::of(directory).without_sockets();
    for entry in listing.0.values_mut() {
        entry.attributes.retain(|name, _| !name.starts_with(b"trusted.") && name != b"security.lifeboat");
    }
    // Of the root only owner and mode, because it is a mount point.
    if let Some(root) = listing.0.get_mut(Path::new("")) {
        root.attributes.clear();
        root.modified = (0, 0);
        root.names = (1, PathBuf::new());
    }
    listing.0.remove(Path::new("lost+found"));
    // The files that restored pods wait for stay in their volumes.
    listing.0.retain(|path, _| !path.starts_with(".velero"));
    listing
}
