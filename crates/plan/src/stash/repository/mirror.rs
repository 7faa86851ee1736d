//! Snapshots as objects: takes the snapshots of the repository and the existing objects, gives the objects to create,
//! to replace and to delete. Only the newest snapshots of each Repository are shown.

use std::collections::{BTreeMap, BTreeSet};

use lifeboat_api::common::Time;
use lifeboat_api::repositories::{Snapshot, SnapshotSpec, SnapshotStatus};
use lifeboat_api::stash::Repository;
use serde_json::json;

use super::SnapshotFacts;
use crate::label;

/// How many snapshots of a Repository are shown.
pub const SHOWN: usize = 50;
/// Upstream's labels.
pub const REPOSITORY_LABEL: &str = "repository";
pub const HOST_LABEL: &str = "hostname";
/// The most entries of a list, and the most bytes of an entry: a repository may have been written by anyone.
const MOST: usize = 64;
const LONGEST: usize = 1024;
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// The changes that bring the objects in line with the repository.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub create: Vec<Snapshot>,
    /// Objects that exist and show something else.
    pub replace: Vec<Snapshot>,
    /// Names of objects.
    pub delete: Vec<String>,
}

/// The label that selects the Snapshots of a Repository.
pub fn selector(repository: &str) -> String {
    format!("{REPOSITORY_LABEL}={}", label_value(repository))
}

/// What has to change. `existing`: the Snapshots that [`selector`] finds.
pub fn changes(repository: &Repository, snapshots: &[SnapshotFacts], existing: &[Snapshot]) -> Changes {
    let wanted = shown(repository, snapshots);
    let mut changes = Changes::default();
    let name = |snapshot: &Snapshot| snapshot.metadata.name.clone().unwrap_or_default();
    let there: BTreeMap<String, &Snapshot> =
        existing.iter().map(|snapshot| (name(snapshot), snapshot)).collect();
    let names: BTreeSet<String> = wanted.iter().map(name).collect();
    changes.delete = there.keys().filter(|name| !names.contains(*name)).cloned().collect();
    for snapshot in wanted {
        match there.get(&name(&snapshot)) {
            None => changes.create.push(snapshot),
            Some(old) if old.status != snapshot.status || old.metadata.labels != snapshot.metadata.labels => {
                changes.replace.push(snapshot);
            }
            Some(_) => {}
        }
    }
    changes
}

/// The objects of the newest snapshots.
fn shown(repository: &Repository, snapshots: &[SnapshotFacts]) -> Vec<Snapshot> {
    let mut newest: Vec<&SnapshotFacts> = snapshots.iter().collect();
    newest.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.id.cmp(&b.id)));
    let mut names = BTreeSet::new();
    let objects = newest.into_iter().take(SHOWN).map(|snapshot| object(repository, snapshot));
    // Two IDs may start with the same digits; then the newer snapshot is shown.
    objects.filter(|snapshot| names.insert(snapshot.metadata.name.clone())).collect()
}

fn object(repository: &Repository, snapshot: &SnapshotFacts) -> Snapshot {
    let name = repository.metadata.name.clone().unwrap_or_default();
    let short: String = snapshot.id.chars().take(8).collect();
    let begin: String = name.chars().take(LONGEST_NAME - short.len() - 1).collect();
    let metadata = json!({
        "name": format!("{begin}-{short}"),
        "namespace": repository.metadata.namespace,
        "labels": {REPOSITORY_LABEL: label_value(&name), HOST_LABEL: label_value(&snapshot.hostname)},
        "ownerReferences": [{
            "apiVersion": "stash.appscode.com/v1alpha1",
            "kind": "Repository",
            "name": name,
            "uid": repository.metadata.uid,
        }],
    });
    Snapshot {
        metadata: serde_json::from_value(metadata).unwrap_or_default(),
        spec: SnapshotSpec {},
        status: Some(SnapshotStatus {
            id: snapshot.id.clone(),
            time: Some(Time(snapshot.time)),
            repository: name,
            hostname: bounded(&snapshot.hostname),
            paths: list(&snapshot.paths),
            tags: list(&snapshot.tags),
            tree: snapshot.tree.clone(),
            username: bounded(&snapshot.username),
            uid: snapshot.uid.map(i64::from),
            gid: snapshot.gid.map(i64::from),
        }),
    }
}

fn list(texts: &[String]) -> Vec<String> {
    texts.iter().take(MOST).map(|text| bounded(text)).collect()
}

fn bounded(text: &str) -> String {
    let end = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].to_owned()
}

/// A text as a label's value: a digest if the API server would not accept it.
fn label_value(text: &str) -> String {
    let value = label::value(text);
    let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_end = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    if value.chars().all(is_inside) && is_end(value.chars().next()) && is_end(value.chars().next_back()) {
        value
    } else {
        label::digest(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::snapshot;
    use super::*;

    fn repository() -> Repository {
        let object = json!({
            "metadata": {"name": "gcs-repo", "namespace": "shop", "uid": "u"},
            "spec": {"backend": {"storageSecretName": "s"}},
        });
        serde_json::from_value(object).unwrap()
    }

    fn names(snapshots: &[Snapshot]) -> Vec<&str> {
        snapshots.iter().map(|snapshot| snapshot.metadata.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn an_object_has_upstreams_name_labels_and_status() {
        let found =
            changes(&repository(), &[snapshot("0123456789", "2026-11-01T00:00:00Z", "app-1", &["t"])], &[]);
        let object = &found.create[0];
        assert_eq!(names(&found.create), ["gcs-repo-01234567"]);
        let labels = object.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["repository"].as_str(), labels["hostname"].as_str()), ("gcs-repo", "app-1"));
        let status = object.status.as_ref().unwrap();
        assert_eq!(
            (status.id.len(), status.hostname.as_str(), status.repository.as_str()),
            (64, "app-1", "gcs-repo")
        );
        assert_eq!(
            (status.paths.as_slice(), status.tags.as_slice()),
            (&["/source/data".to_owned()][..], &["t".to_owned()][..])
        );
        assert_eq!(object.metadata.owner_references.as_ref().unwrap()[0].uid, "u");
    }

    #[test]
    fn the_newest_fifty_are_shown_and_what_is_gone_is_deleted() {
        let all: Vec<SnapshotFacts> = (0..60)
            .map(|number| {
                snapshot(&format!("{number:08}"), &format!("2026-11-01T00:{number:02}:00Z"), "app", &[])
            })
            .collect();
        let first = changes(&repository(), &all, &[]);
        assert_eq!(first.create.len(), SHOWN);
        assert_eq!(names(&first.create)[0], "gcs-repo-00000059");
        let second = changes(&repository(), &all[..59], &first.create);
        assert_eq!(
            (names(&second.create), second.delete.as_slice()),
            (vec!["gcs-repo-00000009"], &["gcs-repo-00000059".to_owned()][..])
        );
        assert_eq!(changes(&repository(), &all, &first.create), Changes::default());
    }

    #[test]
    fn an_object_that_shows_something_else_is_replaced() {
        let facts = [snapshot("a", "2026-11-01T00:00:00Z", "app", &[])];
        let mut existing = changes(&repository(), &facts, &[]).create;
        existing[0].status.as_mut().unwrap().hostname = "other".into();
        let found = changes(&repository(), &facts, &existing);
        assert_eq!((found.create.len(), found.replace.len(), found.delete.len()), (0, 1, 0));
    }

    #[test]
    fn whatever_a_repository_holds_becomes_a_valid_object() {
        let mut hostile = snapshot("a", "2026-11-01T00:00:00Z", &format!("../{}", "ü".repeat(5000)), &[]);
        hostile.paths = vec!["/x".repeat(5000); 500];
        let twin = SnapshotFacts { id: format!("{}f", &hostile.id[..63]), ..hostile.clone() };
        let found = changes(&repository(), &[hostile, twin], &[]).create;
        assert_eq!(found.len(), 1, "both IDs begin with the same digits");
        let labels = found[0].metadata.labels.as_ref().unwrap();
        assert!(labels["hostname"].len() <= 63 && labels["hostname"].is_ascii(), "{labels:?}");
        assert!(serde_json::to_string(&found[0]).unwrap().len() < 256 * 1024);
    }
}
