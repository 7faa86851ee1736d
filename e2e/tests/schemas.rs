//! The custom resource definitions on a real API server: a second one with its own prefix in etcd and without nodes, so
//! that the cluster itself never has a kind without a controller.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

use std::fs;
use std::path::{Path, PathBuf};

use lifeboat_e2e::{Program, lifeboat, variable, wait_for};
use serde_json::Value;

/// `kubectl` on the bare API server.
fn kubectl() -> Program {
    Program::new("kubectl").args(["--kubeconfig", &variable("LIFEBOAT_BARE_KUBECONFIG")])
}

/// Applies every kind and waits until all are served; returns their definitions.
fn every_kind() -> Vec<Value> {
    let crds = lifeboat().args(["crds", "--all"]).ok();
    kubectl().args(["apply", "--server-side", "--force-conflicts", "-f", "-"]).input(&crds).ok();
    for namespace in ["demo", "velero"] {
        kubectl().args(["create", "namespace", namespace]).run();
    }
    wait_for("every kind", 60, || {
        let list: Value = serde_json::from_str(&kubectl().args(["get", "crds", "-o", "json"]).ok()).unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let waiting: Vec<_> = items
            .iter()
            .filter(|crd| condition(crd, "Established") != "True")
            .map(|crd| crd["metadata"]["name"].to_string())
            .collect();
        if waiting.is_empty() && !items.is_empty() { Ok(items) } else { Err(format!("{waiting:?}")) }
    })
}

fn condition(crd: &Value, kind: &str) -> String {
    let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}

fn fixtures(directory: &str) -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(directory);
    let mut files: Vec<_> = fs::read_dir(&root)
        .unwrap_or_else(|error| panic!("{}: {error}", root.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", root.display());
    files
}

/// Sends the manifest as `kubectl apply` would, with strict validation, and stores nothing.
fn dry_run(manifest: &Path) -> Program {
    let path = manifest.to_string_lossy();
    kubectl().args(["apply", "--dry-run=server", "--validate=strict", "-f", &path])
}

fn assert_accepted(files: &[PathBuf]) {
    let refused: Vec<_> = files
        .iter()
        .map(|file| (file, dry_run(file).run()))
        .filter(|(_, output)| output.code != 0)
        .map(|(file, output)| format!("{}: {}", file.display(), output.stderr.trim()))
        .collect();
    assert!(refused.is_empty(), "{} of {} refused:\n{}", refused.len(), files.len(), refused.join("\n"));
}

#[test]
fn every_definition_is_structural_and_served() {
    for crd in every_kind() {
        let name = &crd["metadata"]["name"];
        assert_eq!(condition(&crd, "NamesAccepted"), "True", "{name}");
        assert_ne!(condition(&crd, "NonStructuralSchema"), "True", "{name}");
    }
}

#[test]
fn accepts_every_sample_of_the_users_documents_unchanged() {
    every_kind();
    assert_accepted(&fixtures("seeds"));
}

#[test]
fn accepts_manifests_written_for_velero_and_stash() {
    every_kind();
    let files = [fixtures("accepted/velero"), fixtures("accepted/stash")].concat();
    assert!(files.len() >= 30, "only {} manifests", files.len());
    assert_accepted(&files);
}

#[test]
fn rejects_wrong_missing_and_contradictory_fields_by_name() {
    every_kind();
    let mut wrong = Vec::new();
    for file in fixtures("rejected/stash") {
        let text = fs::read_to_string(&file).unwrap();
        let expected =
            text.lines().next().and_then(|line| line.strip_prefix("# expect: ")).unwrap_or_else(|| {
                panic!("{} does not start with \"# expect: \"", file.display());
            });
        let output = dry_run(&file).run();
        if output.code == 0 || !output.stderr.contains(expected.trim()) {
            wrong.push(format!("{}: expected {expected:?}, got: {}", file.display(), output.stderr.trim()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_stash_kind_has_manifests_that_are_rejected() {
    let kinds = every_kind();
    let rejected: Vec<String> =
        fixtures("rejected/stash").iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for crd in kinds.iter().filter(|crd| crd["spec"]["group"].as_str().unwrap().ends_with("appscode.com")) {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        let count = rejected.iter().filter(|text| text.contains(&format!("\nkind: {kind}\n"))).count();
        assert!(count >= 2, "{kind} has {count} rejected manifests");
    }
}

#[test]
fn kubectl_explain_describes_the_kinds() {
    every_kind();
    for path in [
        "backup.spec.orderedResources",
        "backupbatches.spec.members.target.alias",
        "restic.spec.volumeSelector",
    ] {
        let text = wait_for(path, 30, || {
            let output = kubectl().args(["explain", path]).run();
            if output.code == 0 { Ok(output.stdout) } else { Err(output.stderr) }
        });
        assert!(text.contains("DESCRIPTION:") && !text.contains("<empty>"), "{text}");
    }
}
