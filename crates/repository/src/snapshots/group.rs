//! Groups of snapshots by host, paths and tags, as in restic. Takes snapshots and sorts them into groups; forget
//! applies its policy to each group, `snapshots` prints them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{FoundSnapshot, newest_first};
use crate::error::Error;

/// The criteria for grouping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupBy {
    pub host: bool,
    pub paths: bool,
    pub tags: bool,
    /// Only the tags that begin with this text, in place of all tags.
    pub tags_with: Option<&'static str>,
}

impl GroupBy {
    /// All snapshots in one group.
    pub const NOTHING: Self = Self { host: false, paths: false, tags: false, tags_with: None };

    /// The tags that count, of those of a snapshot.
    pub(super) fn tags_of(self, all: &[String]) -> Vec<String> {
        let counts = |tag: &&String| match self.tags_with {
            Some(begin) => tag.starts_with(begin),
            None => self.tags,
        };
        let mut tags: Vec<String> = all.iter().filter(counts).cloned().collect();
        tags.sort_unstable();
        tags
    }
}

/// By host and paths, as restic does for forget and for the parent of a backup.
impl Default for GroupBy {
    fn default() -> Self {
        Self { host: true, paths: true, ..Self::NOTHING }
    }
}

impl FromStr for GroupBy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut by = Self::NOTHING;
        for word in text.split(',') {
            match word {
                "host" | "hosts" => by.host = true,
                "path" | "paths" => by.paths = true,
                "tag" | "tags" => by.tags = true,
                "" => {}
                _ => {
                    let problem = format!("'{word}' is not one of host, paths, tags");
                    return Err(Error::invalid(format!("grouping '{text}'"), problem));
                }
            }
        }
        Ok(by)
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(self.host, "host"), (self.paths, "paths"), (self.tags, "tags")];
        let given: Vec<_> = names.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
        f.write_str(&given.join(","))
    }
}

/// The common properties of the snapshots of one group; those that are not grouped by are empty. The JSON is
/// restic's.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupKey {
    pub hostname: String,
    pub paths: Option<Vec<String>>,
    pub tags: Option<Vec<String>>,
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.hostname.is_empty() {
            parts.push(format!("host {}", self.hostname));
        }
        for (word, list) in [("path", &self.paths), ("tags", &self.tags)] {
            if let Some(list) = list.as_ref().filter(|list| !list.is_empty()) {
                parts.push(format!("{word} [{}]", list.join(" ")));
            }
        }
        f.write_str(&parts.join(", "))
    }
}

/// Snapshots with the same key, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub key: GroupKey,
    pub snapshots: Vec<FoundSnapshot>,
}

/// Sorts snapshots into groups, ordered by their keys. The order of paths (and of tags, if grouped by them) does not
/// matter; as in restic, they are sorted in the result.
pub fn group(snapshots: Vec<FoundSnapshot>, by: GroupBy) -> Vec<Group> {
    let mut groups: BTreeMap<GroupKey, Vec<FoundSnapshot>> = BTreeMap::new();
    for (id, mut snapshot) in snapshots {
        snapshot.paths.sort_unstable();
        if by.tags {
            snapshot.tags.sort_unstable();
        }
        let tags = by.tags_of(&snapshot.tags);
        let key = GroupKey {
            hostname: if by.host { snapshot.hostname.clone() } else { String::new() },
            paths: by.paths.then(|| snapshot.paths.clone()),
            tags: Some(tags).filter(|tags| !tags.is_empty()),
        };
        groups.entry(key).or_default().push((id, snapshot));
    }
    groups
        .into_iter()
        .map(|(key, mut snapshots)| {
            newest_first(&mut snapshots);
            Group { key, snapshots }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::samples::snapshot;
    use super::*;

    #[rstest]
    #[case("", &[(r#"{"hostname":"","paths":null,"tags":null}"#, 4)])]
    #[case("host", &[
        (r#"{"hostname":"db","paths":null,"tags":null}"#, 1),
        (r#"{"hostname":"web","paths":null,"tags":null}"#, 3),
    ])]
    #[case("host,paths", &[
        (r#"{"hostname":"db","paths":["/a","/b"],"tags":null}"#, 1),
        (r#"{"hostname":"web","paths":["/a"],"tags":null}"#, 1),
        (r#"{"hostname":"web","paths":["/a","/b"],"tags":null}"#, 2),
    ])]
    #[case("tags", &[
        (r#"{"hostname":"","paths":null,"tags":null}"#, 2),
        (r#"{"hostname":"","paths":null,"tags":["x","y"]}"#, 2),
    ])]
    fn snapshots_are_grouped_whatever_the_order_of_paths_and_tags(
        #[case] by: GroupBy,
        #[case] expected: &[(&str, usize)],
    ) {
        let snapshots = vec![
            snapshot("1", "2026-01-01T00:00:00Z", "web", &["/b", "/a"], &["x", "y"]),
            snapshot("2", "2026-01-02T00:00:00Z", "web", &["/a", "/b"], &["y", "x"]),
            snapshot("3", "2026-01-03T00:00:00Z", "web", &["/a"], &[]),
            snapshot("4", "2026-01-04T00:00:00Z", "db", &["/a", "/b"], &[]),
        ];
        let groups = group(snapshots, by);
        let found: Vec<_> = groups
            .iter()
            .map(|group| (serde_json::to_string(&group.key).unwrap(), group.snapshots.len()))
            .collect();
        let found: Vec<_> = found.iter().map(|(key, count)| (key.as_str(), *count)).collect();
        assert_eq!(found, expected);
        for group in groups {
            assert!(group.snapshots.windows(2).all(|pair| pair[0].1.time > pair[1].1.time));
        }
    }

    #[test]
    fn tags_with_a_prefix_are_grouped_by_without_the_other_tags() {
        let snapshots = vec![
            snapshot("1", "2026-01-01T00:00:00Z", "web", &["/data"], &["task=1", "volume=a"]),
            snapshot("2", "2026-01-02T00:00:00Z", "web", &["/data"], &["task=2", "volume=b"]),
            snapshot("3", "2026-01-03T00:00:00Z", "web", &["/data"], &["task=3", "volume=a"]),
            snapshot("4", "2026-01-04T00:00:00Z", "web", &["/data"], &["task=4"]),
        ];
        let groups = group(snapshots, GroupBy { tags_with: Some("volume="), ..GroupBy::default() });
        let shown: Vec<_> =
            groups.iter().map(|group| (group.key.tags.clone(), group.snapshots.len())).collect();
        let tag = |tag: &str| Some(vec![tag.to_owned()]);
        assert_eq!(shown, [(None, 1), (tag("volume=a"), 2), (tag("volume=b"), 1)]);
    }

    #[test]
    fn a_key_is_shown_as_restic_shows_it() {
        let key = GroupKey {
            hostname: "web".into(),
            paths: Some(vec!["/a".into(), "/b".into()]),
            tags: Some(vec!["x".into()]),
        };
        assert_eq!(key.to_string(), "host web, path [/a /b], tags [x]");
    }

    #[test]
    fn an_unknown_criterion_is_refused() {
        assert!("host,time".parse::<GroupBy>().is_err());
        assert_eq!("hosts,tag,path".parse::<GroupBy>().unwrap().to_string(), "host,paths,tags");
    }
}
