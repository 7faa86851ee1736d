//! Lifeboat and genuine Velero's server on one bucket: each restores backups of the other, and both write the same
//! files. `cargo xtask test interop` starts Velero and passes its namespace in the environment.
#![allow(clippy::unwrap_used, clippy::panic)] // tests end by panicking

mod app;
mod bucket;
mod files;
mod plugins;
mod restores;

use lifeboat_e2e::{Program, get, variable, wait_for};

/// One of the two products, through its own command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    Lifeboat,
    Velero,
}

impl Product {
    fn namespace(self) -> String {
        match self {
            Self::Lifeboat => variable("LIFEBOAT_OWN_NAMESPACE"),
            Self::Velero => variable("LIFEBOAT_PEER_NAMESPACE"),
        }
    }

    fn run(self, arguments: &[&str]) {
        let program = match self {
            Self::Lifeboat => lifeboat_e2e::lifeboat(),
            Self::Velero => Program::new(&variable("VELERO_BIN")),
        };
        program.args(arguments).args(["--namespace", &self.namespace()]).ok();
    }

    /// Backs up a namespace into the shared location.
    fn backup(self, name: &str, namespace: &str) {
        self.run(&["backup", "create", name, "--include-namespaces", namespace]);
        self.ended("backups.velero.io", name);
    }

    /// Waits until the backup was synced from the bucket, and restores it.
    fn restore(self, name: &str) {
        wait_for(&format!("{name} in {}", self.namespace()), 90, || {
            let found = get(&["-n", &self.namespace(), "backups.velero.io", name]);
            if found["status"]["phase"] == "Completed" { Ok(()) } else { Err(found.to_string()) }
        });
        self.run(&["restore", "create", name, "--from-backup", name]);
        self.ended("restores.velero.io", name);
    }

    fn ended(self, kind: &str, name: &str) {
        let status = wait_for(&format!("the end of {kind} {name}"), 180, || {
            let object = get(&["-n", &self.namespace(), kind, name]);
            match object["status"]["phase"].as_str() {
                Some("Completed" | "PartiallyFailed" | "Failed" | "FailedValidation") => {
                    Ok(object["status"].clone())
                }
                _ => Err(object["status"].to_string()),
            }
        });
        assert_eq!(status["phase"], "Completed", "{self:?}: {kind} {name}: {status}");
    }
}

/// A name that no other test run uses, because buckets outlive clusters.
fn unique(prefix: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{prefix}-{}", now.as_millis())
}
