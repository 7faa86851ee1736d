//! Filters by host, path and tag with restic's rules, and its lists of tags. Decides whether a snapshot matches.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::snapshot::Snapshot;

/// Tags that a snapshot must all have: `a,b` on the command line. The empty tag means "has no tags".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagList(pub Vec<String>);

impl TagList {
    pub fn matches(&self, snapshot: &Snapshot) -> bool {
        for tag in &self.0 {
            if tag.is_empty() && snapshot.tags.is_empty() {
                return true;
            }
            if !snapshot.tags.contains(tag) {
                return false;
            }
        }
        true
    }
}

impl FromStr for TagList {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.split(',').map(|tag| tag.trim().to_owned()).collect()))
    }
}

impl fmt::Display for TagList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(", "))
    }
}

/// Lists of which one must match: `--tag a,b --tag c`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagLists(pub Vec<TagList>);

impl TagLists {
    /// Without any list, every snapshot matches.
    pub fn matches(&self, snapshot: &Snapshot) -> bool {
        self.0.is_empty() || self.0.iter().any(|list| list.matches(snapshot))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All tags, for a command that sets tags.
    pub fn flatten(&self) -> Vec<String> {
        self.0.iter().flat_map(|list| &list.0).filter(|tag| !tag.is_empty()).cloned().collect()
    }
}

impl FromIterator<TagList> for TagLists {
    fn from_iter<I: IntoIterator<Item = TagList>>(lists: I) -> Self {
        Self(lists.into_iter().collect())
    }
}

impl fmt::Display for TagLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (number, list) in self.0.iter().enumerate() {
            write!(f, "{}{list}", if number == 0 { "" } else { " " })?;
        }
        f.write_str("]")
    }
}

/// Selects snapshots. The default matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The snapshot must have one of these; empty for any.
    pub hosts: Vec<String>,
    pub tags: TagLists,
    /// The snapshot must have all of these, spelled as in the snapshot: absolute and cleaned.
    pub paths: Vec<String>,
    pub not_after: Option<Timestamp>,
}

impl Filter {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.tags.is_empty() && self.paths.is_empty()
    }

    pub fn matches(&self, snapshot: &Snapshot) -> bool {
        (self.hosts.is_empty() || self.hosts.contains(&snapshot.hostname))
            && self.tags.matches(snapshot)
            && self.paths.iter().all(|path| snapshot.paths.contains(path))
            && self.not_after.is_none_or(|limit| snapshot.time.timestamp() <= limit)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.hosts.is_empty() {
            parts.push(format!("host '{}'", self.hosts.join("' or '")));
        }
        if !self.paths.is_empty() {
            parts.push(format!("path '{}'", self.paths.join("' and '")));
        }
        if !self.tags.is_empty() {
            parts.push(format!("tags {}", self.tags));
        }
        if let Some(limit) = self.not_after {
            parts.push(format!("a time up to {limit}"));
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::samples::snapshot;
    use super::*;

    #[rstest]
    #[case(&[], &[], true)]
    #[case(&[], &["a"], true)]
    #[case(&["a"], &["a", "b"], true)]
    #[case(&["a,b"], &["a", "b"], true)]
    #[case(&[" a , b "], &["b", "a"], true)]
    #[case(&["a,c"], &["a", "b"], false)]
    #[case(&["c", "a"], &["a", "b"], true)]
    #[case(&[""], &[], true)]
    #[case(&[""], &["a"], false)]
    #[case(&["", "a"], &["a"], true)]
    #[case(&["a,"], &[], false)]
    #[case(&[",a"], &[], true)]
    fn a_comma_means_and_a_second_list_means_or_and_the_empty_tag_means_untagged(
        #[case] lists: &[&str],
        #[case] tags: &[&str],
        #[case] expected: bool,
    ) {
        let lists: TagLists = lists.iter().map(|list| list.parse().unwrap()).collect();
        let (_, snapshot) = snapshot("x", "2026-01-01T00:00:00Z", "", &[], tags);
        assert_eq!(lists.matches(&snapshot), expected);
    }

    #[rstest]
    #[case(&[], &[], true)]
    #[case(&["web"], &[], true)]
    #[case(&["db", "web"], &[], true)]
    #[case(&["db"], &[], false)]
    #[case(&[], &["/b"], true)]
    #[case(&[], &["/b", "/a"], true)]
    #[case(&[], &["/a", "/c"], false)]
    #[case(&["db"], &["/a"], false)]
    fn one_host_is_enough_but_all_paths_must_be_there(
        #[case] hosts: &[&str],
        #[case] paths: &[&str],
        #[case] expected: bool,
    ) {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let filter = Filter { hosts: owned(hosts), paths: owned(paths), ..Filter::default() };
        let (_, snapshot) = snapshot("x", "2026-01-01T00:00:00Z", "web", &["/a", "/b"], &[]);
        assert_eq!(filter.matches(&snapshot), expected);
    }

    #[test]
    fn lists_of_tags_are_shown_as_restic_shows_them() {
        let lists: TagLists = ["a,b", "c"].iter().map(|list| list.parse().unwrap()).collect();
        assert_eq!(lists.to_string(), "[[a, b] [c]]");
        assert_eq!(lists.flatten(), ["a", "b", "c"]);
    }
}
