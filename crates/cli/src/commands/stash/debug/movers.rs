//! The movers of a session: their Jobs, pods and the ends of their logs.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use lifeboat_cluster::Attempt;
use lifeboat_cluster::jobs::{self, Jobs};
use lifeboat_plan::transfer::movers::job;
use serde_json::Value;

use super::report::Report;
use crate::commands::stash::Tenant;
use crate::commands::stash::view::text;

/// How many lines of a log are shown.
const LINES: i64 = 40;

impl Report<'_> {
    /// Adds the movers of the object with this UID.
    pub(super) async fn movers(&mut self, uid: &str) {
        let tenant = self.tenant;
        let found = jobs::list(&tenant.client, Some(&tenant.namespace), &job::selector_of(uid)).await;
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.lines(&format!("movers cannot be listed: {}", error.chain())),
        };
        if found.is_empty() {
            self.lines(
                "no mover has a Job in this namespace now: the server deletes those that have ended, and movers that read node \
                 directories are in its own namespace",
            );
        }
        for mover in &found {
            self.mover(mover).await;
        }
    }

    async fn mover(&mut self, mover: &Value) {
        let name = text(&mover["metadata"]["name"]);
        self.heading(&format!("mover {name}"));
        self.conditions(&mover["status"]["conditions"]);
        self.events(text(&mover["metadata"]["uid"])).await;
        let tenant = self.tenant;
        match Jobs::new(&tenant.client, &tenant.namespace).pod(name).await {
            Ok(Some(pod)) => self.pod(&pod, job::CONTAINER).await,
            Ok(None) => self.lines("it has no pod yet"),
            Err(error) => self.lines(&format!("its pod cannot be read: {}", error.chain())),
        }
    }

    /// Adds a pod: its phase, its containers, its events and the end of a container's log.
    pub(super) async fn pod(&mut self, pod: &Value, container: &str) {
        let name = text(&pod["metadata"]["name"]);
        let (phase, node) = (text(&pod["status"]["phase"]), text(&pod["spec"]["nodeName"]));
        let message = text(&pod["status"]["message"]);
        let node = if node.is_empty() { "no node".to_owned() } else { format!("node {node}") };
        self.lines(&format!("pod {name}: {phase}, {node}{}", after_colon(message)));
        for found in pod["status"]["containerStatuses"].as_array().into_iter().flatten() {
            self.lines(&container_line(found));
        }
        self.events(text(&pod["metadata"]["uid"])).await;
        let log = log(self.tenant, name, container).await;
        self.lines(&log);
    }
}

/// `container mover: terminated Error (exit code 1), 2 restarts`.
fn container_line(status: &Value) -> String {
    let state = status["state"].as_object().and_then(|states| states.iter().next());
    let state = state.map_or_else(String::new, |(name, details)| {
        let code = details["exitCode"].as_i64().map(|code| format!(" (exit code {code})"));
        let reason = text(&details["reason"]);
        let gap = if reason.is_empty() { "" } else { " " };
        format!("{name}{gap}{reason}{}{}", code.unwrap_or_default(), after_colon(text(&details["message"])))
    });
    let restarts = status["restartCount"].as_i64().unwrap_or_default();
    let restarts = if restarts > 0 { format!(", {restarts} restarts") } else { String::new() };
    format!("container {}: {state}{restarts}", text(&status["name"]))
}

fn after_colon(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {}", message.trim_end()) }
}

/// The end of a container's log.
async fn log(tenant: &Tenant, pod: &str, container: &str) -> String {
    let api: Api<Pod> = Api::namespaced(tenant.client.clone(), &tenant.namespace);
    let asked =
        LogParams { container: Some(container.to_owned()), tail_lines: Some(LINES), ..LogParams::default() };
    match api.logs(pod, &asked).await.attempt(format!("read the log of pod {pod}")) {
        Ok(log) if log.is_empty() => "its log is empty".to_owned(),
        Ok(log) => log.lines().flat_map(|line| ["| ", line, "\n"]).collect(),
        Err(error) => format!("its log cannot be read: {}", error.chain()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_says_how_it_ended() {
        let ended = json!({"name": "mover", "restartCount": 2, "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}});
        assert_eq!(
            container_line(&ended),
            "container mover: terminated OOMKilled (exit code 137), 2 restarts"
        );
        let waiting = json!({"name": "mover", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}});
        assert_eq!(container_line(&waiting), "container mover: waiting ImagePullBackOff: no such image");
        assert_eq!(
            container_line(&json!({"name": "mover", "state": {"running": {}}})),
            "container mover: running"
        );
    }
}
