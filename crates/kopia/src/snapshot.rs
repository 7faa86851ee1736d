//! Snapshots, and how users name them.

use std::collections::BTreeMap;
use std::fmt;

use lifeboat_repository::node::NodeTime;

use crate::error::{Error, Result};
use crate::tree::Entry;

/// Whose data a snapshot holds: `user@host:path`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    pub host: String,
    pub user: String,
    pub path: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.user, self.host, self.path)
    }
}

/// A snapshot.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The ID of its manifest, which Velero's documents name.
    pub id: String,
    pub source: Source,
    pub description: String,
    pub start: NodeTime,
    pub end: Option<NodeTime>,
    /// Why it is incomplete: "checkpoint" while an upload runs, "canceled", "limit reached".
    pub incomplete: Option<String>,
    pub size: u64,
    /// The files that its upload counted: unchanged ones may be missing.
    pub files: u64,
    pub directories: u64,
    pub errors: u64,
    pub tags: BTreeMap<String, String>,
    pub pins: Vec<String>,
    pub(crate) root: Option<Entry>,
    /// Why it has no root that can be read.
    pub(crate) problem: String,
}

impl Snapshot {
    /// Its root, which a snapshot that was stopped early does not have.
    pub fn root(&self) -> Result<&Entry> {
        self.root.as_ref().ok_or_else(|| Error::damaged(format!("snapshot {}", self.id), &self.problem))
    }
}

/// Restricts snapshots; empty for all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub host: Option<String>,
    pub user: Option<String>,
    pub path: Option<String>,
    /// `key` or `key:value`, all of them.
    pub tags: Vec<String>,
    /// Started at or before this time.
    pub until: Option<NodeTime>,
    /// Also incomplete ones, which are no backups.
    pub incomplete: bool,
}

impl Filter {
    pub fn matches(&self, snapshot: &Snapshot) -> bool {
        let same = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|text| text == found);
        let has_tag = |wanted: &String| {
            // kopia stores the tags of its own command line with a prefix.
            snapshot.tags.iter().any(|(key, value)| {
                let key = key.strip_prefix("tag:").unwrap_or(key);
                wanted == key || wanted.split_once(':') == Some((key, value))
            })
        };
        same(&self.host, &snapshot.source.host)
            && same(&self.user, &snapshot.source.user)
            && same(&self.path, &snapshot.source.path)
            && self.tags.iter().all(has_tag)
            && self.until.is_none_or(|until| snapshot.start <= until)
            && (self.incomplete || snapshot.incomplete.is_none())
    }
}

/// The snapshot with an ID, or the start of one that is unique, or the latest that matches.
pub(crate) fn select(all: Vec<Snapshot>, name: &str, filter: &Filter) -> Result<Snapshot> {
    if name == "latest" {
        let latest = all.into_iter().filter(|snapshot| filter.matches(snapshot)).max_by_key(|one| one.start);
        return latest.ok_or_else(|| Error::NothingFound { what: "no snapshot matches".to_owned() });
    }
    let mut named: Vec<Snapshot> =
        all.into_iter().filter(|snapshot| !name.is_empty() && snapshot.id.starts_with(name)).collect();
    if let Some(exact) = named.iter().position(|snapshot| snapshot.id == name) {
        return Ok(named.swap_remove(exact));
    }
    match (named.pop(), named.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => {
            Err(Error::NothingFound { what: format!("no snapshot has an ID that starts with '{name}'") })
        }
        (Some(_), others) => Err(Error::Invalid {
            what: format!("snapshot '{name}'"),
            problem: format!("{} snapshots have IDs that start so", others + 1),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(id: &str, start: i64, path: &str) -> Snapshot {
        Snapshot {
            id: id.to_owned(),
            source: Source { host: "h".into(), user: "u".into(), path: path.into() },
            description: String::new(),
            start: NodeTime::new(start, 0),
            end: None,
            incomplete: None,
            size: 0,
            files: 0,
            directories: 0,
            errors: 0,
            tags: [("tag:app".to_owned(), "shop".to_owned())].into(),
            pins: Vec::new(),
            root: None,
            problem: String::new(),
        }
    }

    fn chosen(name: &str, filter: &Filter) -> Result<String> {
        let cut = Snapshot { incomplete: Some("checkpoint".into()), ..snapshot("cc", 9, "/b") };
        let all = vec![snapshot("aa1", 1, "/a"), snapshot("aa12", 5, "/b"), snapshot("ab", 3, "/a"), cut];
        select(all, name, filter).map(|snapshot| snapshot.id)
    }

    #[rstest::rstest]
    #[case("aa1", Some("aa1"))]
    #[case("ab", Some("ab"))]
    #[case("aa12", Some("aa12"))]
    #[case("cc", Some("cc"))]
    #[case("aa", None)]
    #[case("x", None)]
    #[case("", None)]
    fn an_id_or_its_unique_start_names_a_snapshot(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(chosen(name, &Filter::default()).ok().as_deref(), expected);
    }

    #[rstest::rstest]
    #[case(Filter::default(), Some("aa12"))]
    #[case(Filter { incomplete: true, ..Filter::default() }, Some("cc"))]
    #[case(Filter { path: Some("/a".into()), ..Filter::default() }, Some("ab"))]
    #[case(Filter { until: Some(NodeTime::new(3, 0)), ..Filter::default() }, Some("ab"))]
    #[case(Filter { until: Some(NodeTime::new(0, 0)), ..Filter::default() }, None)]
    #[case(Filter { tags: vec!["app".into()], ..Filter::default() }, Some("aa12"))]
    #[case(Filter { tags: vec!["app:shop".into()], ..Filter::default() }, Some("aa12"))]
    #[case(Filter { tags: vec!["app:other".into()], ..Filter::default() }, None)]
    #[case(Filter { host: Some("other".into()), ..Filter::default() }, None)]
    fn latest_is_the_latest_complete_one_that_matches(
        #[case] filter: Filter,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(chosen("latest", &filter).ok().as_deref(), expected);
    }
}
