//! Backup and restore of objects on a real cluster, through our own command line.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod faults;
mod order;
mod round_trip;

use lifeboat_e2e::{Installation, assert_restores, get, lifeboat, wait_for};
use serde_json::Value;

/// Lifeboat with an available location.
fn installed() -> Installation {
    let installation = Installation::ensure();
    installation.wait_for_phase("default", "Available", 60);
    installation
}

/// A name that no other test run uses, because buckets outlive clusters.
fn unique(prefix: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{prefix}-{}", now.as_millis())
}

/// Creates a backup and waits for its end; returns the object.
fn backup(name: &str, arguments: &[&str]) -> Value {
    lifeboat().args(["backup", "create", name, "--wait"]).args(arguments).run();
    ended("backup", name)
}

/// Backs namespaces up, which must end Completed, restores them under other names and compares the objects.
fn backup_and_compare(name: &str, namespaces: &[&str], arguments: &[&str]) -> Value {
    let included = namespaces.join(",");
    let made = backup(name, &[&["--include-namespaces", included.as_str()][..], arguments].concat());
    assert_phase(&made, "Completed");
    assert_restores(&lifeboat, "lifeboat", &made, namespaces);
    made
}

/// Restores and waits for the end; returns the object.
fn restore(name: &str, from: &str, arguments: &[&str]) -> Value {
    lifeboat().args(["restore", "create", name, "--from-backup", from, "--wait"]).args(arguments).run();
    ended("restore", name)
}

fn ended(kind: &str, name: &str) -> Value {
    wait_for(&format!("the end of {kind} {name}"), 120, || {
        let object = get(&["-n", "lifeboat", &format!("{kind}s.velero.io"), name]);
        match object["status"]["phase"].as_str() {
            Some("Completed" | "PartiallyFailed" | "Failed" | "FailedValidation") => Ok(object),
            _ => Err(object["status"].to_string()),
        }
    })
}

/// Fails unless the object ended in this phase; prints its log and results.
fn assert_phase(object: &Value, phase: &str) {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let name = object["metadata"]["name"].as_str().unwrap();
    if object["status"]["phase"] != phase {
        let described = lifeboat().args([kind.as_str(), "describe", name, "--details"]).run();
        let logs = lifeboat().args([kind.as_str(), "logs", name]).run();
        panic!("{kind} {name}: {}\n{}\n{}", object["status"], described.stdout, logs.stdout);
    }
}
