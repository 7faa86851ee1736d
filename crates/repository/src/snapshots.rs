//! Selects snapshots: by ID, prefix, `latest` and filters, in groups, and the parent of a new one. Takes loaded
//! snapshots and returns some of them; no I/O. Every command that works on snapshots calls it.

mod filter;
mod group;
mod loaded;
mod select;

pub use filter::{Filter, TagList, TagLists};
pub use group::{Group, GroupBy, GroupKey, group};
pub use loaded::{DamagedSnapshot, Loaded};
pub use select::{Selection, Selector, by_prefix};

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::error::{Error, Result};
use crate::id::SnapshotId;
use crate::snapshot::Snapshot;

/// A snapshot and its ID, as `Repository::load_snapshots` returns them.
pub type FoundSnapshot = (SnapshotId, Snapshot);

/// Newest first. Snapshots of the same time are ordered by ID, so that the order is always the same.
pub fn newest_first(snapshots: &mut [FoundSnapshot]) {
    snapshots.sort_by_cached_key(|(id, snapshot)| (Reverse(snapshot.time.timestamp()), *id));
}

/// The newest snapshot that matches the filter.
pub fn latest<'a>(snapshots: &'a [FoundSnapshot], filter: &Filter) -> Option<&'a FoundSnapshot> {
    nth_latest(snapshots, filter, 0)
}

/// The snapshot that `selector` names; the filter is only used for `latest`, as in restic.
pub fn find<'a>(
    snapshots: &'a [FoundSnapshot],
    selector: &Selector,
    filter: &Filter,
) -> Result<&'a FoundSnapshot> {
    match selector {
        Selector::Latest { back } => nth_latest(snapshots, filter, *back).ok_or_else(|| {
            let of = if filter.is_empty() { String::new() } else { format!(" with {filter}") };
            Error::NothingFound { what: format!("there is no snapshot '{selector}'{of}") }
        }),
        Selector::Id(id) => at(snapshots, *id),
        Selector::Prefix(prefix) => {
            at(snapshots, by_prefix(&snapshots.iter().map(|(id, _)| *id).collect::<Vec<_>>(), prefix)?)
        }
    }
}

/// The snapshots that `selectors` name, each once, in the given order; without selectors, all that match the filter.
/// A selector that matches nothing is an error: a snapshot that the user named is never skipped silently.
pub fn find_all<'a>(
    snapshots: &'a [FoundSnapshot],
    selectors: &[Selector],
    filter: &Filter,
) -> Result<Vec<&'a FoundSnapshot>> {
    if selectors.is_empty() {
        return Ok(snapshots.iter().filter(|(_, snapshot)| filter.matches(snapshot)).collect());
    }
    let mut seen = std::collections::HashSet::new();
    let mut chosen = Vec::new();
    for selector in selectors {
        let found = find(snapshots, selector, filter)?;
        if seen.insert(found.0) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

/// The criteria for the parent of a new snapshot.
#[derive(Debug, Clone)]
pub struct ParentQuery<'a> {
    pub host: &'a str,
    /// Absolute and cleaned.
    pub paths: &'a [String],
    pub tags: &'a [String],
    /// The time of the new snapshot: the parent is not newer.
    pub time: Timestamp,
    pub group_by: GroupBy,
}

/// The newest snapshot of the same group: of the same host, with at least the same paths, and (only when grouped by
/// tags) with at least the same tags, as far as they count for the group. This is restic's rule; a parent only saves work and never changes content.
pub fn parent<'a>(snapshots: &'a [FoundSnapshot], query: &ParentQuery<'_>) -> Option<&'a FoundSnapshot> {
    let mut filter = Filter { not_after: Some(query.time), ..Filter::default() };
    if query.group_by.host {
        filter.hosts = vec![query.host.to_owned()];
    }
    if query.group_by.paths {
        filter.paths = query.paths.to_vec();
    }
    let tags = query.group_by.tags_of(query.tags);
    if query.group_by.tags || !tags.is_empty() {
        filter.tags = TagLists(vec![TagList(tags)]);
    }
    latest(snapshots, &filter)
}

fn nth_latest<'a>(snapshots: &'a [FoundSnapshot], filter: &Filter, back: usize) -> Option<&'a FoundSnapshot> {
    let mut matching: Vec<&FoundSnapshot> =
        snapshots.iter().filter(|(_, snapshot)| filter.matches(snapshot)).collect();
    matching.sort_by_cached_key(|(id, snapshot)| (Reverse(snapshot.time.timestamp()), *id));
    matching.get(back).copied()
}

fn at(snapshots: &[FoundSnapshot], id: SnapshotId) -> Result<&FoundSnapshot> {
    snapshots
        .iter()
        .find(|(this, _)| *this == id)
        .ok_or_else(|| Error::NothingFound { what: format!("there is no snapshot '{id}'") })
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::id::{BlobId, Id};

    /// A snapshot whose ID is derived from `name`.
    pub(crate) fn snapshot(
        name: &str,
        time: &str,
        host: &str,
        paths: &[&str],
        tags: &[&str],
    ) -> FoundSnapshot {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let snapshot = Snapshot {
            time: crate::time::parse(time).unwrap(),
            parent: None,
            tree: BlobId(Id::of(name.as_bytes())),
            paths: owned(paths),
            hostname: host.to_owned(),
            username: String::new(),
            uid: 0,
            gid: 0,
            excludes: Vec::new(),
            tags: owned(tags),
            original: None,
            program_version: String::new(),
            summary: None,
        };
        (SnapshotId(Id::of(name.as_bytes())), snapshot)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::samples::snapshot;
    use super::*;

    fn some() -> Vec<FoundSnapshot> {
        vec![
            snapshot("b", "2026-01-02T00:00:00Z", "web", &["/etc"], &["nightly"]),
            snapshot("a", "2026-01-01T00:00:00Z", "web", &["/etc", "/srv"], &[]),
            // The same day in another zone: later than "b" although its text sorts lower.
            snapshot("c", "2026-01-01T23:30:00-01:00", "db", &["/srv"], &["nightly", "full"]),
        ]
    }

    fn name(found: &FoundSnapshot) -> &'static str {
        ["a", "b", "c"]
            .into_iter()
            .find(|name| snapshot(name, "2026-01-01T00:00:00Z", "", &[], &[]).0 == found.0)
            .unwrap()
    }

    #[rstest]
    #[case("latest", "", Some("c"))]
    #[case("latest~1", "", Some("b"))]
    #[case("latest~2", "", Some("a"))]
    #[case("latest~3", "", None)]
    #[case("latest", "web", Some("b"))]
    #[case("latest~1", "web", Some("a"))]
    #[case("latest", "other", None)]
    fn latest_is_the_newest_moment_that_the_filter_lets_through(
        #[case] selector: Selector,
        #[case] host: &str,
        #[case] expected: Option<&str>,
    ) {
        let hosts = if host.is_empty() { vec![] } else { vec![host.to_owned()] };
        let filter = Filter { hosts, ..Filter::default() };
        assert_eq!(find(&some(), &selector, &filter).ok().map(name), expected);
    }

    #[test]
    fn a_prefix_must_be_of_one_snapshot_and_the_error_names_the_candidates() {
        let snapshots = some();
        for found in &snapshots {
            let selector = found.0.short().parse().unwrap();
            assert_eq!(find(&snapshots, &selector, &Filter::default()).unwrap(), found);
        }
        let twins = [snapshot("x", "2026-01-01T00:00:00Z", "", &[], &[]), {
            let mut other = snapshot("x", "2026-01-01T00:00:00Z", "", &[], &[]);
            other.0.0.0[31] ^= 1;
            other
        }];
        let error = find(&twins, &twins[0].0.short().parse().unwrap(), &Filter::default()).unwrap_err();
        let text = error.to_string();
        assert!(twins.iter().all(|(id, _)| text.contains(&id.to_string())), "{text}");
    }

    #[test]
    fn snapshots_named_twice_are_found_once_and_an_unknown_one_is_an_error() {
        let snapshots = some();
        let selectors: Vec<Selector> =
            [snapshots[2].0.short(), "latest".to_owned(), snapshots[0].0.to_string()]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        let found = find_all(&snapshots, &selectors, &Filter::default()).unwrap();
        assert_eq!(found.into_iter().map(name).collect::<Vec<_>>(), ["c", "b"]);
        let unknown = ["ffffffff".parse().unwrap()];
        assert!(matches!(
            find_all(&snapshots, &unknown, &Filter::default()),
            Err(Error::NothingFound { .. })
        ));
    }

    #[rstest]
    #[case("web", &["/etc"], &[], "2026-01-03T00:00:00Z", "host,paths", Some("b"))]
    #[case("web", &["/srv"], &[], "2026-01-03T00:00:00Z", "host,paths", Some("a"))]
    #[case("web", &["/etc", "/srv"], &[], "2026-01-03T00:00:00Z", "host,paths", Some("a"))]
    #[case("web", &["/etc"], &[], "2026-01-02T00:00:00Z", "host,paths", Some("b"))]
    #[case("web", &["/etc"], &[], "2026-01-01T12:00:00Z", "host,paths", Some("a"))]
    #[case("web", &["/home"], &[], "2026-01-03T00:00:00Z", "host,paths", None)]
    #[case("web", &["/home"], &[], "2026-01-03T00:00:00Z", "", Some("c"))]
    #[case("web", &["/srv"], &["full"], "2026-01-03T00:00:00Z", "tags", Some("c"))]
    #[case("web", &["/srv"], &[], "2026-01-03T00:00:00Z", "host,tags", Some("b"))]
    fn the_parent_is_the_newest_of_its_group_that_is_not_newer(
        #[case] host: &str,
        #[case] paths: &[&str],
        #[case] tags: &[&str],
        #[case] time: Timestamp,
        #[case] group_by: GroupBy,
        #[case] expected: Option<&str>,
    ) {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let query = ParentQuery { host, paths: &owned(paths), tags: &owned(tags), time, group_by };
        assert_eq!(parent(&some(), &query).map(name), expected);
    }

    #[rstest]
    #[case::of_the_volume(&["task=9", "volume=a"], Some("a"))]
    #[case::of_no_volume(&["task=9"], Some("b"))]
    #[case::of_a_new_volume(&["volume=c"], None)]
    fn the_parent_has_the_tags_that_the_grouping_counts(
        #[case] tags: &[&str],
        #[case] expected: Option<&str>,
    ) {
        let stored = |name, time, tags: &[&str]| samples::snapshot(name, time, "web", &["/data"], tags);
        let snapshots = [
            stored("a", "2026-01-01T00:00:00Z", &["task=1", "volume=a"]),
            stored("b", "2026-01-02T00:00:00Z", &["task=2", "volume=b"]),
        ];
        let tags: Vec<String> = tags.iter().map(|&tag| tag.to_owned()).collect();
        let query = ParentQuery {
            host: "web",
            paths: &["/data".to_owned()],
            tags: &tags,
            time: "2026-01-03T00:00:00Z".parse().unwrap(),
            group_by: GroupBy { tags_with: Some("volume="), ..GroupBy::default() },
        };
        assert_eq!(parent(&snapshots, &query).map(name), expected);
    }
}
