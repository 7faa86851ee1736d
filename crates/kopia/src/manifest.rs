//! Manifests: small JSON documents in contents with the prefix `m`. They have no directory, so all are read.
//! If several have the same ID, the one that was modified last is valid; if that one is marked as deleted,
//! the ID does not exist. Only snapshots are kept.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt};
use lifeboat_repository::node::NodeTime;
use serde::Deserialize;

use crate::compress;
use crate::error::{Error, Result, blocking, shown};
use crate::repository::Repository;
use crate::snapshot::{Filter, Snapshot, Source, select};
use crate::tree::{self, RawEntry};

/// The longest unpacked content of manifests.
const LONGEST: usize = 256 * 1024 * 1024;
const SNAPSHOT: &str = "snapshot";

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    entries: Option<Vec<Manifest>>,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    id: String,
    #[serde(default)]
    labels: Option<HashMap<String, String>>,
    #[serde(default)]
    modified: String,
    #[serde(default)]
    deleted: bool,
    #[serde(default)]
    data: Option<Data>,
}

/// The data of a snapshot's manifest; that of other types is empty here, because all fields have defaults.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Data {
    source: Option<RawSource>,
    description: String,
    #[serde(rename = "startTime")]
    start: String,
    #[serde(rename = "endTime")]
    end: String,
    stats: Option<Stats>,
    incomplete: String,
    #[serde(rename = "rootEntry")]
    root: Option<RawEntry>,
    tags: Option<HashMap<String, String>>,
    pins: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawSource {
    host: String,
    #[serde(rename = "userName")]
    user: String,
    path: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stats {
    #[serde(rename = "totalSize")]
    size: u64,
    #[serde(rename = "fileCount")]
    files: u64,
    #[serde(rename = "dirCount")]
    directories: u64,
    #[serde(rename = "errorCount")]
    errors: u64,
}

/// One version of a manifest during the merge. Deleted ones and those of other types are kept, too: they may
/// be newer than a snapshot with the same ID.
struct Version {
    modified: NodeTime,
    snapshot: Option<Box<Snapshot>>,
}

/// All snapshots that match, in the order of their start.
pub async fn snapshots(repository: &Repository, filter: &Filter) -> Result<Vec<Snapshot>> {
    let all = load(repository).await?;
    Ok(all.into_iter().filter(|snapshot| filter.matches(snapshot)).collect())
}

/// Finds a snapshot by `name`: an ID, a unique prefix of an ID, or `latest`.
pub async fn find(repository: &Repository, name: &str, filter: &Filter) -> Result<Snapshot> {
    select(load(repository).await?, name, filter)
}

async fn load(repository: &Repository) -> Result<Vec<Snapshot>> {
    let contents = repository.index().with_prefix(b'm');
    let mut reading = futures::stream::iter(contents)
        .map(|id| async move {
            let content = repository.read(&id).await?;
            blocking(move || {
                let what = || format!("manifest content {id}");
                let text = compress::gunzip(&content, LONGEST).map_err(|problem| problem.of(what))?;
                parse(&text).map_err(|error| Error::damaged(what(), error))
            })
            .await
        })
        .buffer_unordered(repository.options().reads.max(1));
    let mut versions: HashMap<String, Version> = HashMap::new();
    while let Some(manifests) = reading.try_next().await? {
        for (id, version) in manifests {
            let later = versions.get(&id).is_none_or(|known| known.modified < version.modified);
            if later {
                versions.insert(id, version);
            }
        }
    }
    let mut snapshots: Vec<Snapshot> =
        versions.into_values().filter_map(|version| version.snapshot).map(|snapshot| *snapshot).collect();
    snapshots.sort_by(|one, two| (one.start, &one.id).cmp(&(two.start, &two.id)));
    Ok(snapshots)
}

fn parse(text: &[u8]) -> std::result::Result<Vec<(String, Version)>, Error> {
    let document: Document =
        serde_json::from_slice(text).map_err(|error| Error::damaged("its JSON", error))?;
    document.entries.unwrap_or_default().into_iter().map(version).collect()
}

fn version(manifest: Manifest) -> Result<(String, Version)> {
    let modified = NodeTime::parse(&manifest.modified)
        .ok_or_else(|| Error::damaged("its time", format!("'{}'", shown(&manifest.modified))))?;
    let labels = manifest.labels.unwrap_or_default();
    let is_snapshot = labels.get("type").is_some_and(|kind| kind == SNAPSHOT) && !manifest.deleted;
    let snapshot =
        is_snapshot.then(|| snapshot(&manifest.id, manifest.data.unwrap_or_default())).transpose()?;
    Ok((manifest.id, Version { modified, snapshot: snapshot.map(Box::new) }))
}

fn snapshot(id: &str, data: Data) -> Result<Snapshot> {
    let what = || format!("the manifest of snapshot {}", shown(id));
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) || id.len() > 64 {
        return Err(Error::damaged(what(), "its ID is not one"));
    }
    let time =
        |text: &str| NodeTime::parse(text).ok_or_else(|| Error::damaged(what(), "its time is not one"));
    let source = data.source.unwrap_or_default();
    let stats = data.stats.unwrap_or_default();
    // A root that cannot be read must not hide the other snapshots.
    let (root, problem) = match data.root.map(tree::root) {
        // A snapshot that was stopped before its root was written has none.
        None => (None, "it has no root".to_owned()),
        Some(Ok(root)) => (Some(root), String::new()),
        Some(Err(error)) => (None, error.to_string()),
    };
    Ok(Snapshot {
        id: id.to_owned(),
        source: Source { host: source.host, user: source.user, path: source.path },
        description: data.description,
        start: time(&data.start)?,
        end: NodeTime::parse(&data.end),
        incomplete: (!data.incomplete.is_empty()).then_some(data.incomplete),
        size: stats.size,
        files: stats.files,
        directories: stats.directories,
        errors: stats.errors,
        tags: data.tags.unwrap_or_default().into_iter().collect(),
        pins: data.pins.unwrap_or_default(),
        root,
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, Version)> {
        parse(text.as_bytes()).unwrap()
    }

    const ROOT: &str =
        r#"{"name":"data","type":"d","mode":"0755","mtime":"2026-01-01T00:00:00Z","obj":"kaa"}"#;

    #[test]
    fn a_snapshot_is_read_with_its_labels_and_tags() {
        let text = format!(
            r#"{{"entries":[{{"id":"a1","labels":{{"type":"snapshot"}},"modified":"2026-01-02T00:00:00.5Z","data":{{
            "id":"","source":{{"host":"h","userName":"u","path":"/p"}},"startTime":"2026-01-01T00:00:00Z",
            "endTime":"2026-01-01T00:00:05Z","stats":{{"totalSize":7,"fileCount":2,"dirCount":1}},
            "tags":{{"tag:x":"y"}},"pins":["velero-pin"],"rootEntry":{ROOT}}}}}]}}"#
        );
        let (id, version) = parsed(&text).pop().unwrap();
        let snapshot = version.snapshot.unwrap();
        assert_eq!((id.as_str(), snapshot.source.to_string().as_str(), snapshot.size), ("a1", "u@h:/p", 7));
        assert_eq!(snapshot.tags, [("tag:x".to_owned(), "y".to_owned())].into());
        assert_eq!(snapshot.root().unwrap().object.unwrap().to_string(), "kaa");
    }

    #[test]
    fn other_types_and_deleted_manifests_are_versions_without_a_snapshot() {
        let text = r#"{"entries":[{"id":"a","labels":{"type":"policy"},"modified":"2026-01-02T00:00:00Z","data":{"x":1}},
            {"id":"b","labels":{"type":"snapshot"},"modified":"2026-01-02T00:00:00Z","deleted":true}]}"#;
        assert!(parsed(text).iter().all(|(_, version)| version.snapshot.is_none()));
        assert!(parsed(r#"{"entries":null}"#).is_empty());
    }

    #[rstest::rstest]
    #[case("5")]
    #[case(r#"{"entries":[{"id":"a","modified":"yesterday"}]}"#)]
    #[case(r#"{"entries":[{"id":"../a","labels":{"type":"snapshot"},"modified":"2026-01-02T00:00:00Z"}]}"#)]
    #[case(r#"{"entries":[{"id":"a","labels":{"type":"snapshot"},"modified":"2026-01-02T00:00:00Z","data":{}}]}"#)]
    fn wrong_manifests_are_errors(#[case] text: &str) {
        assert!(parse(text.as_bytes()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn random_documents_never_panic(text in r#"\{"entries":\[[{}",:a-z0-9T-]{0,60}\]\}"#) {
            let _ = parse(text.as_bytes());
        }
    }
}
