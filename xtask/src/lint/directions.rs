//! Which crate may use which: read from the manifests and compared with the table below. Dependencies point one way; a
//! decision that needs a client, or a repository engine that knows Kubernetes, would show up here as a new dependency.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::run;

/// The crates of ours that each crate may use.
const MAY_USE: [(&str, &[&str]); 24] = [
    ("lifeboat-api", &[]),
    ("lifeboat-plan", &["lifeboat-api"]),
    ("lifeboat-store", &[]),
    ("lifeboat-repository", &["lifeboat-store"]),
    // Shares the safe writing of restores, and the types of nodes.
    ("lifeboat-kopia", &["lifeboat-store", "lifeboat-repository"]),
    ("lifeboat-mover", &["lifeboat-store", "lifeboat-repository"]),
    ("lifeboat-archive", &["lifeboat-api", "lifeboat-store"]),
    ("lifeboat-plugin-protocol", &[]),
    ("lifeboat-plugin-sdk", &["lifeboat-plugin-protocol"]),
    ("lifeboat-plugin", &["lifeboat-api", "lifeboat-plan", "lifeboat-archive", "lifeboat-plugin-protocol"]),
    ("lifeboat-web", &[]),
    ("lifeboat-cluster", &["lifeboat-api", "lifeboat-plan"]),
    ("lifeboat-control", &["lifeboat-api", "lifeboat-plan", "lifeboat-cluster", "lifeboat-web"]),
    (
        "lifeboat-transfer",
        &[
            "lifeboat-api",
            "lifeboat-plan",
            "lifeboat-store",
            "lifeboat-repository",
            "lifeboat-mover",
            "lifeboat-cluster",
            "lifeboat-control",
            "lifeboat-web",
        ],
    ),
    ("lifeboat-items", &["lifeboat-api", "lifeboat-plan", "lifeboat-cluster", "lifeboat-control"]),
    (
        "lifeboat-velero",
        &[
            "lifeboat-api",
            "lifeboat-plan",
            "lifeboat-store",
            "lifeboat-repository",
            "lifeboat-mover",
            "lifeboat-archive",
            "lifeboat-plugin",
            "lifeboat-cluster",
            "lifeboat-control",
            "lifeboat-transfer",
            "lifeboat-items",
            "lifeboat-web",
        ],
    ),
    (
        "lifeboat-stash",
        &[
            "lifeboat-api",
            "lifeboat-plan",
            "lifeboat-store",
            "lifeboat-repository",
            "lifeboat-mover",
            "lifeboat-cluster",
            "lifeboat-control",
            "lifeboat-transfer",
            "lifeboat-items",
            "lifeboat-web",
        ],
    ),
    (
        "lifeboat-operator",
        &[
            "lifeboat-api",
            "lifeboat-plan",
            "lifeboat-cluster",
            "lifeboat-control",
            "lifeboat-transfer",
            "lifeboat-velero",
            "lifeboat-stash",
            "lifeboat-web",
        ],
    ),
    (
        "lifeboat-cli",
        &[
            "lifeboat-api",
            "lifeboat-plan",
            "lifeboat-store",
            "lifeboat-repository",
            "lifeboat-kopia",
            "lifeboat-mover",
            "lifeboat-archive",
            "lifeboat-cluster",
            "lifeboat-velero",
            "lifeboat-stash",
            "lifeboat-operator",
        ],
    ),
    ("lifeboat", &["lifeboat-cli"]),
    // Only with its feature `torture`.
    ("lifeboat-e2e", &["lifeboat-repository", "lifeboat-store", "lifeboat-transfer", "lifeboat-web"]),
    (
        "lifeboat-test-plugins",
        &["lifeboat-api", "lifeboat-archive", "lifeboat-plan", "lifeboat-plugin", "lifeboat-plugin-sdk"],
    ),
    // Uses the host only in its tests.
    ("lifeboat-example-plugins", &["lifeboat-plugin-sdk", "lifeboat-plugin", "lifeboat-test-plugins"]),
    ("xtask", &[]),
];

/// External crates that a crate must not use, and why.
const MUST_NOT_USE: [(&str, &[&str], &str); 10] = [
    ("lifeboat-api", &["tokio", "tokio-util", "futures", "rand"], "it holds types, not behaviour"),
    (
        "lifeboat-plan",
        &["kube", "tokio", "tokio-util", "futures", "rand", "object_store", "tracing"],
        "its functions are pure",
    ),
    ("lifeboat-store", &["kube", "k8s-openapi"], "it does not know Kubernetes"),
    ("lifeboat-repository", &["kube", "k8s-openapi"], "it does not know Kubernetes"),
    ("lifeboat-kopia", &["kube", "k8s-openapi"], "it does not know Kubernetes"),
    ("lifeboat-mover", &["kube", "k8s-openapi"], "it has no token and decides nothing"),
    ("lifeboat-archive", &["kube"], "it knows files, not clusters"),
    ("lifeboat-plugin", &["kube"], "actions ask through a trait"),
    ("lifeboat-web", &["kube", "k8s-openapi"], "it shows what it is given"),
    ("xtask", &["kube", "tokio"], "it is compiled by plugin authors"),
];

/// Crates that must not enable the feature that adds a client to a crate of types.
const CLIENT_FREE: [&str; 2] = ["lifeboat-api", "lifeboat-plan"];

/// Fails for every forbidden dependency in the workspace at `root`.
pub(crate) fn check(root: &Path) -> Result<()> {
    let found = forbidden(&packages(root)?);
    if !found.is_empty() {
        bail!("dependencies that the architecture does not allow:\n  {}", found.join("\n  "));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `dev` for dependencies of tests.
    kind: Option<String>,
    features: Vec<String>,
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    let mut command: Command = run::cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]);
    let text = run::output(command.arg(root.join("Cargo.toml")))?;
    let metadata: Metadata =
        serde_json::from_str(&text).context("cannot read what cargo metadata printed")?;
    Ok(metadata.packages)
}

fn forbidden(packages: &[Package]) -> Vec<String> {
    let may_use: BTreeMap<_, _> = MAY_USE.into_iter().collect();
    let mut found = Vec::new();
    for package in packages {
        let Some(allowed) = may_use.get(package.name.as_str()) else {
            found.push(format!(
                "{} is not in the table: add what it may use to xtask/src/lint/directions.rs",
                package.name
            ));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev")) {
            let ours = dependency.name.starts_with("lifeboat");
            if ours && !allowed.contains(&dependency.name.as_str()) {
                found.push(format!(
                    "{} must not use {}: dependencies point the other way",
                    package.name, dependency.name
                ));
            }
            for (name, banned, why) in MUST_NOT_USE {
                if name == package.name && banned.contains(&dependency.name.as_str()) {
                    found.push(format!("{name} must not use {}: {why}", dependency.name));
                }
            }
            if CLIENT_FREE.contains(&package.name.as_str())
                && dependency.features.iter().any(|f| f == "client")
            {
                found.push(format!("{} must not use the client of {}", package.name, dependency.name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn this_workspace_keeps_the_directions() {
        check(&run::checkout()).unwrap();
    }

    /// A copy of the workspace's manifests with one line added to one of them must fail the check.
    #[test]
    fn a_forbidden_dependency_turns_the_lint_red() {
        for (krate, line, expected) in [
            (
                "crates/plan",
                "kube = { workspace = true, features = [\"client\"] }",
                "lifeboat-plan must not use kube",
            ),
            ("crates/plan", "tokio.workspace = true", "lifeboat-plan must not use tokio"),
            (
                "crates/store",
                "lifeboat-cluster.workspace = true",
                "lifeboat-store must not use lifeboat-cluster",
            ),
            ("crates/api", "lifeboat-plan.workspace = true", "lifeboat-api must not use lifeboat-plan"),
            (
                "crates/velero",
                "lifeboat-stash.workspace = true",
                "lifeboat-velero must not use lifeboat-stash",
            ),
            (
                "crates/stash",
                "lifeboat-velero.workspace = true",
                "lifeboat-stash must not use lifeboat-velero",
            ),
            (
                "crates/transfer",
                "lifeboat-velero.workspace = true",
                "lifeboat-transfer must not use lifeboat-velero",
            ),
        ] {
            let copy = tempfile::tempdir().unwrap();
            copy_manifests(copy.path());
            check(copy.path()).unwrap();
            let manifest = copy.path().join(krate).join("Cargo.toml");
            let text = fs::read_to_string(&manifest).unwrap();
            fs::write(&manifest, text.replacen("[dependencies]\n", &format!("[dependencies]\n{line}\n"), 1))
                .unwrap();
            let error = check(copy.path()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Copies manifests and creates empty sources: all that `cargo metadata` needs.
    fn copy_manifests(to: &Path) {
        let from = run::checkout();
        fs::copy(from.join("Cargo.toml"), to.join("Cargo.toml")).unwrap();
        for package in packages(&from).unwrap() {
            let dir = directory(&package.name);
            fs::create_dir_all(to.join(&dir).join("src")).unwrap();
            let text = fs::read_to_string(from.join(&dir).join("Cargo.toml")).unwrap();
            // Named test targets would need their files.
            let text = text.split("\n[[").next().unwrap().to_owned();
            fs::write(to.join(&dir).join("Cargo.toml"), text).unwrap();
            // A package whose programs have explicit names gets a library, because cargo needs some target.
            let main = from.join(&dir).join("src/main.rs").exists();
            let file = if main { "src/main.rs" } else { "src/lib.rs" };
            fs::write(to.join(&dir).join(file), "fn main() {}\n").unwrap();
        }
    }

    fn directory(package: &str) -> String {
        match package {
            "lifeboat" | "xtask" => package.to_owned(),
            "lifeboat-e2e" => "e2e".to_owned(),
            "lifeboat-test-plugins" => "e2e/plugins".to_owned(),
            "lifeboat-example-plugins" => "examples/plugins".to_owned(),
            other => format!("crates/{}", other.trim_start_matches("lifeboat-")),
        }
    }
}
