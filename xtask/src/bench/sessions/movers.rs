//! Counts the movers at work from a watch of their pods: from the moment the pod is there until its container has ended. The pod's phase and
//! its Job say so only later, when the kubelet has removed the pod's directories; by then the server has rightly sent the next mover.

use std::collections::BTreeSet;
use std::io::BufReader;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::site::{Site, TENANT};

const LABEL: &str = "app.kubernetes.io/name=lifeboat-mover";
const CONTAINER: &str = "mover";

pub(super) struct Movers {
    kubectl: Child,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    at_work: BTreeSet<String>,
    most: usize,
    /// Whether the watch has ended: then later movers were not counted.
    is_over: bool,
}

impl Seen {
    /// An event of the watch. Movers of other servers do not count.
    fn look(&mut self, event: &Value) {
        let pod = &event["object"];
        let text = |at: &str| pod.pointer(at).and_then(Value::as_str).unwrap_or_default();
        if !text("/metadata/namespace").starts_with(TENANT) {
            return;
        }
        let mut containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let has_ended = event["type"] == "DELETED"
            || ["Succeeded", "Failed"].contains(&text("/status/phase"))
            || containers.any(|one| one["name"] == CONTAINER && one["state"]["terminated"].is_object());
        if has_ended {
            self.at_work.remove(text("/metadata/uid"));
        } else {
            self.at_work.insert(text("/metadata/uid").to_owned());
        }
        self.most = self.most.max(self.at_work.len());
    }
}

impl Movers {
    pub(super) fn watch(site: &Site) -> Result<Self> {
        let mut kubectl = site
            .kubectl(TENANT)
            .command()
            .args(["get", "pods", "--all-namespaces", "-l", LABEL, "--watch", "--output-watch-events"])
            .args(["--request-timeout=3600s", "-o", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start kubectl")?;
        let output = kubectl.stdout.take().context("a pipe was asked for")?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let of_thread = Arc::clone(&seen);
        thread::spawn(move || {
            let events = serde_json::Deserializer::from_reader(BufReader::new(output)).into_iter::<Value>();
            for event in events.map_while(Result::ok) {
                locked(&of_thread).look(&event);
            }
            locked(&of_thread).is_over = true;
        });
        Ok(Self { kubectl, seen })
    }

    /// The largest number of movers at the same time. An error if the watch did not last until now, or saw nothing.
    pub(super) fn most(&self) -> Result<usize> {
        let seen = locked(&self.seen);
        ensure!(!seen.is_over, "the watch of the movers' pods ended early, so not all of them were counted");
        ensure!(seen.most > 0, "no pod of a mover was seen (label {LABEL})");
        Ok(seen.most)
    }
}

impl Drop for Movers {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

fn locked(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mover_counts_from_its_pod_to_the_end_of_that() {
        let mut seen = Seen::default();
        let namespace = format!("{TENANT}-00");
        for (kind, uid, phase) in [
            ("ADDED", "a", "Pending"),
            ("ADDED", "b", "Pending"),
            ("MODIFIED", "a", "Running"),
            ("MODIFIED", "a", "Succeeded"),
            ("ADDED", "c", "Pending"),
            ("DELETED", "a", "Succeeded"),
            ("DELETED", "b", "Running"),
            ("ADDED", "d", "Failed"),
        ] {
            let metadata = json!({"namespace": namespace, "uid": uid});
            seen.look(&json!({"type": kind, "object": {"metadata": metadata, "status": {"phase": phase}}}));
        }
        let other = json!({"metadata": {"namespace": "shop", "uid": "x"}, "status": {"phase": "Running"}});
        seen.look(&json!({"type": "ADDED", "object": other}));
        assert_eq!(seen.most, 2);
        assert_eq!(seen.at_work.iter().collect::<Vec<_>>(), ["c"]);
        let containers = json!([{"name": CONTAINER, "state": {"terminated": {"exitCode": 0}}}]);
        let status = json!({"phase": "Running", "containerStatuses": containers});
        let metadata = json!({"namespace": namespace, "uid": "c"});
        seen.look(&json!({"type": "MODIFIED", "object": {"metadata": metadata, "status": status}}));
        assert!(seen.at_work.is_empty(), "its container has ended");
    }
}
