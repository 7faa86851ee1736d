//! What is in a repository, as genuine restic sees it.

use std::path::Path;

use serde_json::Value;

use super::StashTest;
use crate::tree::Listing;
use crate::{Engine, Repository, contents};

impl StashTest {
    /// The snapshots of a repository as `host path`, sorted.
    pub fn snapshots(&self, repository: &str) -> Vec<String> {
        self.repository(repository).hosts_and_paths()
    }

    /// The snapshots of a repository that are backups: without the safety copies of restores.
    pub fn backups(&self, repository: &str) -> Vec<Value> {
        let is_backup = |one: &Value| !one["tags"].to_string().contains("lifeboat-safety");
        self.repository(repository).list().into_iter().filter(is_backup).collect()
    }

    /// Fails unless genuine restic restores this content from a host's newest snapshot of a path.
    pub fn assert_stored(&self, repository: &str, host: &str, path: &str, expected: &Listing) {
        self.repository(repository).assert_holds(host, path, expected);
    }
}

impl Repository {
    /// All snapshots, as genuine restic lists them.
    pub fn list(&self) -> Vec<Value> {
        let text = self.ok(Engine::Restic, &["snapshots", "--json", "--no-lock"]);
        serde_json::from_str(&text).unwrap()
    }

    /// All snapshots as `host path`, sorted.
    pub fn hosts_and_paths(&self) -> Vec<String> {
        let shown = |one: &Value| {
            format!("{} {}", one["hostname"].as_str().unwrap(), one["paths"][0].as_str().unwrap())
        };
        let mut shown: Vec<String> = self.list().iter().map(shown).collect();
        shown.sort();
        shown
    }

    /// Fails unless genuine restic restores this content from a host's newest snapshot of a path.
    pub fn assert_holds(&self, host: &str, path: &str, expected: &Listing) {
        self.assert_restores(&["latest", "--host", host, "--path", path], path, expected);
    }

    /// Fails unless genuine restic restores this content at a path; `snapshot`: its id, or `latest` and flags.
    pub fn assert_restores(&self, snapshot: &[&str], path: &str, expected: &Listing) {
        let target = tempfile::tempdir().unwrap();
        let into = ["--target", target.path().to_str().unwrap(), "--no-lock"];
        self.ok(Engine::Restic, &[&["restore"], snapshot, &into].concat());
        let restored = contents(&target.path().join(path.trim_start_matches('/')));
        let (mut expected, mut found) = (expected.clone(), restored);
        for listing in [&mut expected, &mut found] {
            listing.0.remove(Path::new(""));
        }
        expected.assert_same(&found, &format!("{} {path}", snapshot.join(" ")));
    }
}
