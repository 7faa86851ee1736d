//! Stock Velero's command line with Lifeboat: its users find what they expect.
#![allow(clippy::unwrap_used)] // tests end by panicking

mod backups;
mod locations;
mod schedules;
mod server;

use lifeboat_e2e::{apply, kubectl, s3};
use serde_json::json;

/// An object in Lifeboat's namespace that a test creates; deleted with the test, and before it if an earlier run was
/// aborted.
struct Own<'a> {
    kind: &'a str,
    name: &'a str,
}

impl<'a> Own<'a> {
    fn new(kind: &'a str, name: &'a str) -> Self {
        let own = Self { kind, name };
        own.remove();
        own
    }

    /// A Secret with credentials in Velero's form under key `cloud`.
    fn credentials(name: &'a str, text: &str) -> Self {
        let own = Self::new("secret", name);
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "lifeboat"},
            "stringData": {"cloud": text},
        });
        apply(&secret.to_string());
        own
    }

    /// A Secret with the storage's valid credentials.
    fn good_credentials(name: &'a str) -> Self {
        Self::credentials(name, &s3().credentials())
    }

    fn remove(&self) {
        kubectl()
            .args(["--namespace", "lifeboat", "delete", "--ignore-not-found", self.kind, self.name])
            .run();
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The cells of a row in a table as kubectl and velero print it: three spaces between columns, one within a cell.
fn cells(line: &str) -> Vec<&str> {
    line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// The row that starts with `name`.
fn row<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    table.lines().map(cells).find(|row| row.first() == Some(&name)).unwrap_or_default()
}
