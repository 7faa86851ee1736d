//! A node is lost while a mover works on it. These tests stop the kubelet of the second node, which disturbs everything
//! that runs there: they run alone, one after another, and always bring the node back. The table of faults is in
//! `volume_faults.rs`.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::fs;

use lifeboat_e2e::{OneVolume, Program, Way, get, kubectl, mover_process, signal, wait_for, xtask};
use serde_json::Value;

/// The node, and its components beside its pods.
pub(crate) const NODE: &str = "box-2";
const KUBELET: &str = "kubelet-2";
const RUNTIME: &str = "containerd-2";

/// The node without its kubelet; the kubelet is started again when this is dropped.
#[derive(Default)]
pub(crate) struct LostNode {
    stopped: Vec<&'static str>,
}

impl LostNode {
    /// Stops the kubelet: the status of its pods is no longer reported, and they get no more commands. They keep
    /// running.
    fn without_kubelet() -> Self {
        let mut node = Self::default();
        node.stop(KUBELET);
        node.wait_until_lost()
    }

    /// Stops the kubelet and kills everything that ran on the node, which is not reported.
    pub(crate) fn gone() -> Self {
        let mut node = Self::default();
        node.stop(KUBELET);
        node.stop(RUNTIME);
        for process in processes_of_pods() {
            // It may have ended together with another process.
            Program::new("kill").args(["-KILL", &process]).run();
        }
        node.wait_until_lost()
    }

    fn wait_until_lost(self) -> Self {
        wait_for(
            "the loss of the node",
            90,
            || {
                if is_ready() { Err("it is ready".to_owned()) } else { Ok(()) }
            },
        );
        self
    }

    fn stop(&mut self, component: &'static str) {
        self.stopped.push(component);
        xtask().args(["box", "stop", component]).ok();
    }

    pub(crate) fn comes_back(self) {
        drop(self);
        assert!(is_ready(), "the node does not come back");
    }
}

impl Drop for LostNode {
    fn drop(&mut self) {
        for component in self.stopped.iter().rev() {
            xtask().args(["box", "start", component]).run();
        }
        let ready = ["wait", &format!("node/{NODE}"), "--for=condition=Ready", "--timeout=90s"];
        kubectl().args(ready).run();
    }
}

fn is_ready() -> bool {
    let node = get(&["node", NODE]);
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Processes of containers on the node, by their control groups.
fn processes_of_pods() -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let of_node = |pid: &String| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        groups.lines().any(|line| line.contains(&format!("/lifeboat-box/{NODE}/")))
    };
    names.filter(|name| name.parse::<u32>().is_ok()).filter(of_node).collect()
}

/// A pod that runs on the node and is not evicted while the node is lost.
const PINNED: &str = "spec:
  nodeSelector: {kubernetes.io/hostname: box-2}
  tolerations: [{operator: Exists}]
  containers:";

fn start(way: Way) -> OneVolume {
    let pod = OneVolume::manifests(way, "box-csi", "ReadWriteOnce");
    let pod = pod.replace("spec:\n  containers:", PINNED);
    assert!(pod.contains(PINNED), "{pod}");
    OneVolume::with(way, &pod, &["--mover-node-timeout", "10s"])
}

#[test]
fn a_mover_without_its_kubelet_goes_on_and_its_copy_counts() {
    let test = start(Way::Files);
    test.begin_and_hold("unheard");
    let node = LostNode::without_kubelet();
    test.server.storage.open();
    let (backup, copy) = test.ended("unheard");
    test.server.assert_phase(&backup, &["Completed"]);
    assert_eq!(copy["status"]["phase"], "Completed", "{copy}");
    assert_eq!(test.snapshots().len(), 1, "{:?}", test.snapshots());
    node.comes_back();
    test.assert_stored("unheard");
    test.assert_nothing_is_left();
    test.assert_next_run_succeeds("next");
}

#[test]
fn a_mover_without_reports_fails_with_the_node_and_its_late_copy_is_forgotten() {
    let test = start(Way::Files);
    let mover = mover_process(&test.begin_and_hold("silent"));
    let node = LostNode::without_kubelet();
    let (backup, copy) = test.ended("silent");
    test.server.assert_phase(&backup, &["PartiallyFailed"]);
    assert_eq!(copy["status"]["phase"], "Failed", "{copy}");
    let message = copy["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(NODE) && message.contains("not ready"), "{message}");
    test.assert_described(&backup, &[NODE]);
    // It continues after it was given up, and completes its work.
    test.server.storage.open();
    wait_for("the end of the mover's process", 60, || {
        if fs::exists(format!("/proc/{mover}")).unwrap() { Err("it is there".to_owned()) } else { Ok(()) }
    });
    node.comes_back();
    test.assert_nothing_is_left();
    test.assert_next_run_succeeds("next");
    let of_next = |one: &Value| one["tags"].to_string().contains("backup=next");
    wait_for("the end of the late copy", 120, || {
        let snapshots = test.snapshots();
        if snapshots.iter().all(of_next) { Ok(()) } else { Err(format!("{snapshots:?}")) }
    });
    assert_eq!(test.snapshots().len(), 1, "the copy that is wanted stays");
}

#[test]
fn a_machine_that_is_gone_is_named_and_the_next_run_succeeds_when_it_is_back() {
    let test = start(Way::Files);
    test.begin_and_hold("gone");
    let node = LostNode::gone();
    let (backup, copy) = test.ended("gone");
    test.server.assert_phase(&backup, &["PartiallyFailed"]);
    assert_eq!(copy["status"]["phase"], "Failed", "{copy}");
    let message = copy["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(NODE) && message.contains("not ready"), "{message}");
    test.assert_described(&backup, &[NODE]);
    test.server.storage.open();
    node.comes_back();
    test.assert_nothing_is_left();
    test.wait_until_running();
    // It is unknown whether the mover on a lost node has ended: its lock stays, and does not delay other copies.
    test.assert_backup_succeeds("next");
}

#[test]
fn while_data_is_moved_is_named_and_leaves_nothing() {
    let test = start(Way::Moved);
    test.begin_and_hold("gone");
    let node = LostNode::gone();
    let (backup, upload) = test.ended("gone");
    test.server.storage.open();
    node.comes_back();
    // If the snapshot can be read on the other node, the second mover runs there and succeeds.
    match upload["status"]["phase"].as_str() {
        Some("Completed") => test.assert_stored("gone"),
        Some("Failed") => test.assert_described(&backup, &[NODE]),
        other => panic!("{other:?}: {upload}"),
    }
    test.assert_nothing_is_left();
    test.wait_until_running();
    test.assert_backup_succeeds("next");
}

#[test]
fn a_restore_is_not_written_twice_and_says_what_to_do() {
    let test = start(Way::Files);
    let before = test.listing();
    test.assert_next_run_succeeds("kept");
    let mover = test.restore_and_hold("unheard", "kept");
    let node = LostNode::without_kubelet();
    let restore = test.server.ended("restore", "unheard");
    test.server.assert_phase(&restore, &["PartiallyFailed"]);
    let filling = test.filling("unheard");
    assert_eq!(filling["status"]["phase"], "Failed", "{filling}");
    let message = filling["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(NODE) && message.contains("restore again"), "{message}");
    // Killed, so that it writes nothing when it would continue later.
    signal("-KILL", &mover_process(&mover));
    test.server.storage.open();
    node.comes_back();
    test.assert_nothing_is_left();
    test.assert_restore_succeeds("again", "kept", &before);
}
