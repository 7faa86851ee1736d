//! A namespace for one test: created with the value, deleted when it is dropped, described when the test fails.

use std::{fs, thread};

use crate::{Program, kubectl, unique, variable};

/// Removed when dropped.
#[derive(Debug)]
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    /// Creates a namespace whose name starts with `prefix`. Privileged pods are allowed in it.
    pub fn new(prefix: &str) -> Self {
        Self::with(&unique(prefix), &[])
    }

    /// Creates a namespace, which must not exist, with labels as `key=value`.
    pub fn with(name: &str, labels: &[&str]) -> Self {
        let namespace = Self { name: name.to_owned() };
        namespace.create(labels);
        namespace
    }

    /// Creates it again, or for the first time. It has its labels from the beginning.
    pub fn create(&self, labels: &[&str]) {
        let labels: Vec<String> = labels
            .iter()
            .filter_map(|label| label.split_once('='))
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        let manifest = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {}, labels: {{{}}}}}}}",
            self.name,
            labels.join(", ")
        );
        kubectl().args(["create", "-f", "-"]).input(&manifest).ok();
    }

    /// `kubectl` in this namespace.
    pub fn kubectl(&self) -> Program {
        kubectl().args(["--namespace", &self.name])
    }

    /// Applies manifests in this namespace; `TEST_IMAGE` in the text is replaced by the test image.
    pub fn apply(&self, manifests: &str) {
        let manifests = manifests.replace("TEST_IMAGE", &variable("LIFEBOAT_TEST_IMAGE"));
        self.kubectl().args(["apply", "-f", "-"]).input(&manifests).ok();
    }

    /// Creates ConfigMaps with random text: a backup of them is an archive of several parts.
    pub fn fill_with_large_objects(&self) {
        for number in 0..24 {
            let text = Program::new("sh").args(["-c", "head -c 675000 /dev/urandom | base64 -w0"]).ok();
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), text).unwrap();
            let from = format!("--from-file=data={}", file.path().display());
            self.kubectl().args(["create", "configmap", &format!("large-{number}"), &from]).ok();
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if thread::panicking() {
            // The usual first steps of an investigation.
            for arguments in [&["get", "all,pvc,events"][..], &["describe", "pods"][..]] {
                eprintln!("{}", self.kubectl().args(arguments).run().stdout);
            }
        }
        kubectl().args(["delete", "namespace", &self.name, "--wait=false"]).run();
    }
}

/// Deletes a namespace and waits until it no longer exists.
pub fn delete_namespace(name: &str) {
    kubectl().args(["delete", "namespace", name, "--timeout=180s"]).ok();
}
