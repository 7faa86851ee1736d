//! A node is lost while it has a mover of Stash's API. These tests stop the kubelet of the second node, so they run alone, after those in
//! `stash.rs`.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::fs;

use lifeboat_e2e::{Fault, StashTest};

use crate::nodes::{LostNode, NODE};

/// A Deployment that runs on that node only, and is not evicted while it is lost.
const PINNED: &str = "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: web}
spec: {accessModes: [ReadWriteOnce], storageClassName: box-csi, resources: {requests: {storage: 64Mi}}}
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
      nodeSelector: {kubernetes.io/hostname: NODE}
      tolerations: [{operator: Exists}]
      containers:
      - name: main
        image: TEST_IMAGE
        imagePullPolicy: IfNotPresent
        command: [sleep, infinity]
        volumeMounts: [{name: data, mountPath: /source/data}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: web}}]
";

const TARGET: &str = "{alias: app, ref: {apiVersion: apps/v1, kind: Deployment, name: web}, paths: [/source/data], \
                      volumeMounts: [{name: data, mountPath: /source/data}]}";

#[test]
fn a_session_whose_node_is_gone_fails_with_its_name_and_the_next_one_succeeds_when_it_is_back() {
    let test = StashTest::alone(&["--mover-node-timeout", "10s", "--mover-prepare-timeout", "20s"]);
    test.put_repository("repo");
    test.tenant.apply(&PINNED.replace("NODE", NODE));
    test.wait_for_ready("web", 1);
    fs::write(test.directory("web", 0, "data").join("which"), "web").unwrap();
    test.put_configuration("nightly", TARGET, "");
    test.wait_for_phase("BackupConfiguration", "nightly", "Ready");
    test.storage.close("PUT", "/data/", Fault::Hold, 1000);
    let session = test.begin("BackupConfiguration", "nightly");
    test.storage.wait_until_reached(90);
    let node = LostNode::gone();
    let ended = test.ended(&session);
    assert_eq!(ended["status"]["phase"], "Failed", "{:#}", ended["status"]);
    let error = ended["status"]["targets"][0]["stats"][0]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains(NODE), "{error}");
    test.storage.open();
    node.comes_back();
    test.wait_for_ready("web", 1);
    // It is unknown whether the mover on the lost node had ended: its lock stays, and is in nobody's way.
    test.run("BackupConfiguration", "nightly", "Succeeded");
    assert_eq!(test.backups("repo").len(), 1);
    test.assert_no_mover_is_left();
}
