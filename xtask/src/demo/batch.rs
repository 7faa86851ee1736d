//! The demo's batch: two workloads are backed up together by Stash's API, destroyed with their claims, and recovered together. Only where the
//! installed server serves that API. The manifests are in `examples/demo-batch`.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{ledgers, prove_data, sample_app, stamp, wait_for_app};
use crate::run;
use crate::target::{Cluster, Target};

const FILES: &str = "examples/demo-batch";
const NAMESPACE: &str = "demo-app";
const NOTE: &str = "/notes/note.txt";

/// Backs the batch up, destroys it and recovers it, with proof; says so where the API is not served.
pub(super) fn batch(target: &Target) -> Result<()> {
    let cluster = &target.cluster;
    if !is_served(cluster)? {
        println!(
            "Skipped: this installation does not serve Stash's API (it was installed with --stash=false)."
        );
        return Ok(());
    }
    let stamp = stamp().to_string();
    put_notes(target)?;
    write_note(cluster, &stamp)?;
    put_repository(cluster, &stamp)?;
    apply(cluster, "backup-batch.yaml")?;
    let ready = ["wait", "backupbatch/demo", "--for=jsonpath={.status.phase}=Ready", "--timeout=120s"];
    run::run(cluster.kubectl().args(["-n", NAMESPACE]).args(ready))?;
    let before = ledgers(cluster)?;
    stash(cluster, &["trigger", "backupbatch/demo", "--wait"])?;
    destroy(cluster)?;
    sample_app(target)?;
    put_notes(target)?;
    // A restore is made once: one of an earlier demo would be in the way.
    let delete = ["delete", "restorebatch", "demo", "--ignore-not-found", "--timeout=60s"];
    run::run(cluster.kubectl().args(["-n", NAMESPACE]).args(delete))?;
    apply(cluster, "restore-batch.yaml")?;
    stash(cluster, &["watch", "restorebatch/demo"])?;
    wait_for_app(cluster)?;
    wait_for_notes(cluster)?;
    prove_data(cluster, &before)?;
    let note = run::output(&mut in_notes(cluster, &["cat", NOTE]))?;
    ensure!(note.trim() == stamp, "the note is {note:?}, expected {stamp:?}");
    println!("notes: the note from before the disaster was restored");
    Ok(())
}

/// Whether the installed server serves Stash's API, by the arguments of its Deployment.
fn is_served(cluster: &Cluster) -> Result<bool> {
    let arguments = "jsonpath={.spec.template.spec.containers[*].args}";
    let get = ["-n", "lifeboat", "get", "deployment", "lifeboat", "-o", arguments];
    Ok(serves(&run::output(cluster.kubectl().args(get))?))
}

/// Whether a server with these arguments serves it; of several that contradict each other the last one counts.
fn serves(arguments: &str) -> bool {
    let arguments = arguments.split(['"', ',', ' ', '[', ']']);
    let decides = |argument: &str| match argument {
        "--stash" | "--stash=true" | "--experimental-stash" => Some(true),
        "--stash=false" => Some(false),
        _ => None,
    };
    arguments.filter_map(decides).next_back().unwrap_or(true)
}

fn put_notes(target: &Target) -> Result<()> {
    let file = run::checkout().join(FILES).join("notes.yaml");
    let manifests = std::fs::read_to_string(file)?.replace(crate::image::DEBIAN, &target.test_image);
    print!("{}", run::with_input(target.cluster.kubectl().args(["apply", "-f", "-"]), &manifests)?);
    wait_for_notes(&target.cluster)
}

fn wait_for_notes(cluster: &Cluster) -> Result<()> {
    let wait = ["-n", NAMESPACE, "rollout", "status", "deployment/notes", "--timeout=180s"];
    run::run(cluster.kubectl().args(wait))
}

fn write_note(cluster: &Cluster, text: &str) -> Result<()> {
    let write = format!("echo {text} > {NOTE}; sync");
    run::output(&mut in_notes(cluster, &["sh", "-c", &write])).map(drop)
}

fn in_notes(cluster: &Cluster, command: &[&str]) -> std::process::Command {
    let mut kubectl = cluster.kubectl();
    kubectl.args(["-n", NAMESPACE, "exec", "deployment/notes", "--"]).args(command);
    kubectl
}

/// The Repository and its Secret, with a place in the bucket for each run: the bucket outlives the demo's cluster. Keys are passed on
/// standard input, never as arguments.
fn put_repository(cluster: &Cluster, stamp: &str) -> Result<()> {
    let environment = &cluster.environment;
    let metadata = json!({"name": "demo", "namespace": NAMESPACE});
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "stringData": {
            "RESTIC_PASSWORD": format!("demo-{stamp}"),
            "AWS_ACCESS_KEY_ID": environment["AWS_ACCESS_KEY_ID"],
            "AWS_SECRET_ACCESS_KEY": environment["AWS_SECRET_ACCESS_KEY"],
        },
    });
    let s3 = json!({
        "endpoint": environment["LIFEBOAT_S3_ENDPOINT"],
        "region": environment["AWS_REGION"],
        "bucket": "lifeboat",
        "prefix": format!("demo-batch-{stamp}"),
    });
    let repository = json!({
        "apiVersion": "stash.appscode.com/v1alpha1",
        "kind": "Repository",
        "metadata": metadata,
        "spec": {"backend": {"storageSecretName": "demo", "s3": s3}},
    });
    // One of an earlier demo has another repository on record.
    let delete = ["delete", "repository.stash.appscode.com", "demo", "--ignore-not-found", "--timeout=60s"];
    run::run(cluster.kubectl().args(["-n", NAMESPACE]).args(delete))?;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [secret, repository]});
    // Server-side, so that no annotation has a copy of the keys.
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    print!("{}", run::with_input(cluster.kubectl().args(apply), &list.to_string())?);
    Ok(())
}

fn apply(cluster: &Cluster, file: &str) -> Result<()> {
    run::run(cluster.kubectl().args(["apply", "-f", &format!("{FILES}/{file}")]))
}

/// `lifeboat stash` in the app's namespace.
fn stash(cluster: &Cluster, arguments: &[&str]) -> Result<()> {
    run::run(cluster.lifeboat().arg("stash").args(arguments).args(["-n", NAMESPACE]))
}

/// Deletes both workloads with their claims, and with them all their data.
fn destroy(cluster: &Cluster) -> Result<()> {
    let delete = ["-n", NAMESPACE, "delete", "--timeout=180s", "statefulset/ledger", "deployment/notes"];
    run::run(cluster.kubectl().args(delete))?;
    let claims = ["pvc/data-ledger-0", "pvc/data-ledger-1", "pvc/notes"];
    run::run(cluster.kubectl().args(["-n", NAMESPACE, "delete", "--timeout=180s"]).args(claims))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_argument_decides_whether_the_api_is_served() {
        assert!(serves(r#"["server","--namespace=lifeboat","--stash=true"]"#));
        assert!(serves(r#"["server","--stash=false","--experimental-stash"]"#));
        assert!(!serves(r#"["server","--stash=true","--stash=false"]"#));
        assert!(serves(r#"["server","--namespace=lifeboat"]"#), "it is on by default");
    }

    /// The restore takes what the backup stored: the same hosts, workloads and volumes.
    #[test]
    fn the_restore_has_the_targets_of_the_backup() {
        let read = |file: &str| {
            let text = std::fs::read_to_string(run::checkout().join(FILES).join(file)).expect("there");
            let lines = text.lines().map(str::trim);
            let kept = lines.filter(|line| {
                line.starts_with("alias:") || line.starts_with("ref:") || line.starts_with("- {name:")
            });
            kept.map(str::to_owned).collect::<Vec<_>>()
        };
        let backup = read("backup-batch.yaml");
        assert_eq!(backup.len(), 6, "{backup:?}");
        assert_eq!(backup, read("restore-batch.yaml"));
    }
}
