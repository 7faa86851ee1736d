//! The repository password: every location reports that it was not exported, until a user exports it; other users
//! cannot read it.

use lifeboat_e2e::{Installation, get, kubectl, lifeboat, s3, wait_for};
use serde_json::Value;

/// The condition of the default location, from its status.
fn exported_condition() -> Option<String> {
    let location = get(&["-n", "lifeboat", "bsl", "default"]);
    let conditions = location["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == "RepositoryPasswordExported");
    found.and_then(|condition| condition["status"].as_str().map(str::to_owned))
}

fn wait_for_condition(status: &str) {
    wait_for(&format!("RepositoryPasswordExported={status}"), 40, || {
        let seen = exported_condition();
        if seen.as_deref() == Some(status) { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}

#[test]
fn every_location_says_that_the_password_was_never_exported_until_it_was() {
    let installation = Installation::ensure();
    let annotation = "lifeboat.io/password-exported-at-";
    installation.kubectl().args(["annotate", "secret", "velero-repo-credentials", annotation]).run();
    wait_for_condition("False");
    wait_for("the leader's metric", 10, || {
        let metrics = metrics(&installation.leader());
        let reported = metrics.contains("\nlifeboat_repository_password_exported 0\n");
        if reported { Ok(()) } else { Err(metrics) }
    });

    let exported = lifeboat().args(["repository-password", "export"]).ok();
    let secret = get(&["-n", "lifeboat", "secret", "velero-repo-credentials"]);
    let stored = secret["data"]["repository-password"].as_str().unwrap();
    let decoded = lifeboat_e2e::Program::new("base64").args(["-d"]).input(stored).ok();
    assert_eq!(exported.trim_end(), decoded);
    assert!(decoded.len() >= 24, "a short password");
    wait_for_condition("True");
}

#[test]
fn a_second_installation_keeps_the_password() {
    Installation::ensure();
    let read = || get(&["-n", "lifeboat", "secret", "velero-repo-credentials"])["data"].clone();
    let before = read();
    assert_ne!(before, Value::Null);
    Installation::ensure();
    assert_eq!(read(), before);
}

#[test]
fn neither_logs_nor_events_nor_status_hold_a_secret() {
    let installation = Installation::ensure();
    installation.wait_for_phase("default", "Available", 30);
    let password = lifeboat().args(["repository-password", "export"]).ok();
    let logs = installation.kubectl().args(["logs", "-l", "component=velero", "--tail=-1", "--prefix"]).ok();
    let events = installation.kubectl().args(["get", "events", "-o", "yaml"]).ok();
    let locations = installation.kubectl().args(["get", "bsl,deploy,pods", "-o", "yaml"]).ok();
    for (place, text) in [("logs", logs), ("events", events), ("objects", locations)] {
        assert!(!text.contains(password.trim_end()), "the repository password is in the {place}");
        assert!(!text.contains(&s3().secret_key), "the storage key is in the {place}");
    }
}

fn metrics(pod: &str) -> String {
    let path = format!("/api/v1/namespaces/lifeboat/pods/{pod}:8085/proxy/metrics");
    kubectl().args(["get", "--raw", &path]).ok()
}
