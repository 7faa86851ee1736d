//! What the items of a restore wait for, and since when: written by the server into an annotation of the Restore
//! while it runs, read by the CLI for `describe` and `watch`. Backups have it while storage is away. The size is bounded
//! regardless of what plugins name.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Annotation of a Restore or Backup: its current waits, as JSON; absent if it waits for nothing.
pub const WAITING: &str = "lifeboat.io/waiting";

/// How many waits are shown, the longest ones first.
const MOST: usize = 20;
/// How many objects are shown per waiting item.
const MOST_THINGS: usize = 5;
/// How long the answer may take that an item gets whose time was over before its server was restarted.
const LAST_ANSWER: Duration = Duration::from_mins(1);
/// The maximum length of a name that is shown.
const LONGEST: usize = 300;

/// One item that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The item as named in the cluster: `pods/shop/web`.
    pub item: String,
    /// The objects it waits for, as named in the backup.
    #[serde(rename = "for")]
    pub things: Vec<String>,
    /// How many further objects it waits for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The action that requested the wait; empty if the server itself waits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    pub since: Timestamp,
}

/// All waits of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    pub waits: Vec<Wait>,
    /// How many further items wait.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape that serde wants
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Wait {
    pub fn new(item: &str, things: &[String], action: &str, since: Timestamp) -> Self {
        let shown: Vec<String> = things.iter().take(MOST_THINGS).map(|thing| cut(thing)).collect();
        Self { item: cut(item), more: things.len() - shown.len(), things: shown, action: cut(action), since }
    }

    /// Whether both are the same action's wait for the same item.
    pub fn is_of_same(&self, other: &Self) -> bool {
        self.item == other.item && self.action == other.action
    }

    /// Whether this item waits; `item` may be too long to be shown as a whole.
    pub fn is_item(&self, item: &str) -> bool {
        self.item == cut(item)
    }
}

impl Wait {
    /// A backup or restore (`what`) waits because its storage is away; `problem` is the failure.
    pub fn for_storage(what: &str, storage: &str, problem: &str, since: Timestamp) -> Self {
        Self::new(what, &[format!("{storage} ({problem})")], "", since)
    }

    /// Whether an item waits, and not the backup or restore as a whole.
    pub fn is_of_item(&self) -> bool {
        self.item.contains('/')
    }
}

impl fmt::Display for Wait {
    /// `pods/shop/web waits for services/shop/db since 2026-11-16T08:00:00Z (example.io/x)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let things =
            if self.things.is_empty() { "what its action needs".to_owned() } else { self.things.join(", ") };
        write!(f, "{} waits for {things}", self.item)?;
        if self.more > 0 {
            write!(f, " and {} more", self.more)?;
        }
        write!(f, " since {}", lifeboat_api::common::time::seconds(self.since))?;
        if !self.action.is_empty() {
            write!(f, " ({})", self.action)?;
        }
        Ok(())
    }
}

impl Waits {
    /// Keeps the longest waits; the others are counted.
    pub fn new(mut all: Vec<Wait>) -> Self {
        all.sort_by(|one, other| (one.since, &one.item).cmp(&(other.since, &other.item)));
        let more = all.len().saturating_sub(MOST);
        all.truncate(MOST);
        Self { waits: all, more }
    }

    /// With one more wait.
    #[must_use]
    pub fn and(self, wait: Option<Wait>) -> Self {
        let more = self.more;
        let all = Self::new(self.waits.into_iter().chain(wait).collect());
        Self { more: all.more + more, ..all }
    }

    /// The annotation's value; None if nothing waits.
    pub fn annotation(&self) -> Option<String> {
        if self.waits.is_empty() { None } else { serde_json::to_string(self).ok() }
    }

    /// Parses the annotation; empty if it is missing or invalid.
    pub fn read(annotation: Option<&str>) -> Self {
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// How long an item may still wait for its additional items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    pub wait: Duration,
    /// How long the first answer may take. It is asked for in any case: after a restart that outlasted the wait, the
    /// items may be ready.
    pub first_answer: Duration,
}

/// `before`: how long the item waited until the server was restarted, and for the restart.
pub fn remaining(limit: Duration, before: Duration) -> Remaining {
    let wait = limit.saturating_sub(before);
    Remaining { wait, first_answer: wait.max(limit.min(LAST_ANSWER)) }
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn wait(item: &str, things: usize, since: i64) -> Wait {
        let things: Vec<String> = (0..things).map(|number| format!("secrets/shop/s{number}")).collect();
        Wait::new(item, &things, "example.io/x", Timestamp::from_second(since).unwrap())
    }

    #[test]
    fn a_wait_says_who_waits_for_what_since_when_and_for_whom() {
        assert_eq!(
            wait("pods/shop/web", 2, 0).to_string(),
            "pods/shop/web waits for secrets/shop/s0, secrets/shop/s1 since 1970-01-01T00:00:00Z (example.io/x)"
        );
        assert!(wait("a", 7, 0).to_string().contains("s4 and 2 more since"));
        assert!(wait("a", 0, 0).to_string().starts_with("a waits for what its action needs since"));
    }

    #[test]
    fn the_annotation_stays_small_and_shows_the_longest_waits() {
        let all = (0..5000).rev().map(|at| wait(&"x".repeat(4000), 10_000, at)).collect();
        let waits = Waits::new(all);
        assert_eq!((waits.waits.len(), waits.more), (20, 4980));
        assert_eq!(waits.waits[0].since.as_second(), 0);
        let text = waits.annotation().unwrap();
        assert!(text.len() < 32 * 1024, "{}", text.len());
        assert_eq!(Waits::read(Some(&text)), waits);
    }

    #[rstest]
    #[case::no_restart(600, 0, 600, 600)]
    #[case::in_the_middle(600, 400, 200, 200)]
    #[case::near_its_end(600, 590, 10, 60)]
    #[case::over(600, 10_000, 0, 60)]
    #[case::a_short_wait_that_is_over(5, 60, 0, 5)]
    fn the_time_before_a_restart_counts_and_there_is_one_more_question(
        #[case] limit: u64,
        #[case] before: u64,
        #[case] wait: u64,
        #[case] first_answer: u64,
    ) {
        let seconds = Duration::from_secs;
        let expected = Remaining { wait: seconds(wait), first_answer: seconds(first_answer) };
        assert_eq!(remaining(seconds(limit), seconds(before)), expected);
    }

    #[test]
    fn storage_that_is_away_is_one_of_the_waits() {
        let since = Timestamp::from_second(5).unwrap();
        let storage =
            Wait::for_storage("the restore", "storage location default", "connection refused", since);
        assert_eq!(
            storage.to_string(),
            "the restore waits for storage location default (connection refused) since 1970-01-01T00:00:05Z"
        );
        let full = Waits::new((0..25).map(|at| wait("a", 1, at)).collect());
        assert_eq!((full.clone().and(None), full.clone().and(Some(storage.clone())).more), (full, 6));
        assert_eq!(Waits::default().and(Some(storage.clone())).waits, [storage]);
    }

    #[test]
    fn nothing_that_waits_is_no_annotation_and_nonsense_is_nothing() {
        assert_eq!(Waits::default().annotation(), None);
        for text in [None, Some("{"), Some("[]")] {
            assert_eq!(Waits::read(text), Waits::default());
        }
    }
}
