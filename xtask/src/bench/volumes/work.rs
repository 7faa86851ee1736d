//! Runs one Backup or Restore: creates it, waits for its final phase, and returns how long that took.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{Work, app};
use crate::run;
use crate::servers::Home;

/// The final phases.
const END: [&str; 4] = ["Completed", "PartiallyFailed", "Failed", "FailedValidation"];
/// How long a Backup or Restore may take.
const PATIENCE: &str = "--request-timeout=3600s";

/// The seconds from its creation to its final phase; a final phase other than Completed is an error.
pub(super) fn run(home: &Home, work: Work) -> Result<f64> {
    let object = object(&home.namespace, work);
    let (kind, name) = (kind(work), &object["metadata"]["name"]);
    let began = Instant::now();
    run::with_input(home.kubectl().args(["create", "-f", "-"]), &object.to_string())?;
    let phase = wait(home, kind, name.as_str().unwrap_or_default())?;
    let wall_s = began.elapsed().as_secs_f64();
    if phase != "Completed" {
        let get = ["get", kind, name.as_str().unwrap_or_default(), "-o", "jsonpath={.status}"];
        bail!("{kind} {name} ended {phase}: {}", run::output(home.kubectl().args(get))?);
    }
    Ok(wall_s)
}

fn wait(home: &Home, kind: &str, name: &str) -> Result<String> {
    let mut child = home
        .kubectl()
        .args(["get", kind, name, "--watch", PATIENCE, "-o", "jsonpath={.status.phase}{\"\\n\"}"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start kubectl")?;
    let output = child.stdout.take().context("a pipe was asked for")?;
    let phase =
        BufReader::new(output).lines().map_while(Result::ok).find(|line| END.contains(&line.as_str()));
    let _ = child.kill();
    let _ = child.wait();
    phase.with_context(|| format!("{kind} {name} did not end"))
}

fn kind(work: Work) -> &'static str {
    if work == Work::Restore { "restores.velero.io" } else { "backups.velero.io" }
}

fn object(namespace: &str, work: Work) -> Value {
    let (kind, spec) = match work {
        Work::First | Work::Second => (
            "Backup",
            json!({
                "includedNamespaces": [app::NAMESPACE],
                "excludedResources": ["events", "events.events.k8s.io"],
                "storageLocation": "default",
                "snapshotVolumes": false,
                "defaultVolumesToFsBackup": true,
                "ttl": "720h0m0s",
            }),
        ),
        Work::Restore => ("Restore", json!({"backupName": Work::Second.name(), "includedNamespaces": ["*"]})),
    };
    let metadata = json!({"name": work.name(), "namespace": namespace});
    json!({"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_backup_is_restored() {
        let restore = object("n", Work::Restore);
        assert_eq!(restore["spec"]["backupName"], object("n", Work::Second)["metadata"]["name"]);
    }
}
