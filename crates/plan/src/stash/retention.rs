//! Retention: which snapshots of an invoker are candidates, in which groups, and what each group keeps. The engine's own policy
//! (`forget::policy` of crate `repository`) decides within a group; the caller maps [`KeepPolicy`] to it.
//!
//! - [`Retention::of`]: the policy of a spec. Without any `keep…` field everything is kept.
//! - [`Policies`]: the policy of each group: one for all, or one for each directory of a volume.
//! - [`groups`]: the snapshots of the invoker's own hosts, by host and paths, and by the volume that a tag names. Upstream applies a policy to the whole repository,
//!   also to other invokers' snapshots.
//! - [`expired_safety_copies`]: copies that restores made before they overwrote data.
//! - [`would_remove`]: the message of a session with `dryRun`, which removes nothing.
//! - [`prune_is_due`], [`check_is_due`]: when maintenance is requested.
//!
//! Safety copies are in no group: policies neither count nor remove them. Snapshots with missing files are in
//! separate groups: they never displace a complete snapshot, and the same policy limits their number.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::stash::RetentionPolicy;

use super::hosts::HostName;
use super::repo_dirs::VOLUME_TAG;
use super::rules::{INCOMPLETE_TAG, SAFETY_TAG, SnapshotFact};

/// How long a safety copy is kept.
pub const SAFETY_COPIES_KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The shortest time between two prunes that retention requests.
const PRUNE_INTERVAL: SignedDuration = SignedDuration::from_hours(1);
/// The shortest time between two checks.
const CHECK_INTERVAL: SignedDuration = SignedDuration::from_hours(24);

/// How many snapshots the message about a dry run names, and how many characters of a host and its paths.
const NAMED: usize = 20;
const LONGEST_NAME: usize = 80;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retention {
    /// No `keep…` field is set: everything is kept.
    KeepAll,
    Keep(KeepPolicy),
}

/// The numbers and tags of a policy, as `forget::policy::Policy` of crate `repository` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepPolicy {
    pub last: u64,
    pub hourly: u64,
    pub daily: u64,
    pub weekly: u64,
    pub monthly: u64,
    pub yearly: u64,
    /// Each entry is a list as restic has it: tags that a snapshot must all have, separated by commas.
    pub tags: Vec<String>,
}

/// Snapshots that the policy is applied to together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionGroup {
    pub host: HostName,
    pub paths: Vec<String>,
    /// The name of the volume, if the snapshots have a tag with it.
    pub volume: Option<String>,
    /// Whether these are the snapshots that lack files.
    pub incomplete: bool,
    /// Whole ids, the newest first.
    pub snapshots: Vec<String>,
}

/// The policies of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policies {
    /// One for all of its snapshots.
    One(KeepPolicy),
    /// One for each directory; what no entry is about is kept.
    ByDirectory(Vec<DirectoryPolicy>),
}

/// The policy for the snapshots of a directory of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryPolicy {
    pub volume: String,
    pub path: String,
    pub keep: KeepPolicy,
}

impl Policies {
    /// The policy of a group; None if all of its snapshots are kept.
    pub fn of(&self, group: &RetentionGroup) -> Option<&KeepPolicy> {
        match self {
            Self::One(keep) => Some(keep),
            Self::ByDirectory(all) => {
                let found = all.iter().find(|one| {
                    group.volume.as_deref() == Some(one.volume.as_str()) && group.paths == [one.path.as_str()]
                });
                found.map(|found| &found.keep)
            }
        }
    }
}

impl Retention {
    /// The policy of a spec. Negative numbers, which the API server refuses, count as zero.
    pub fn of(policy: &RetentionPolicy) -> Self {
        let number = |number: Option<i64>| u64::try_from(number.unwrap_or(0)).unwrap_or(0);
        let keep = KeepPolicy {
            last: number(policy.keep_last),
            hourly: number(policy.keep_hourly),
            daily: number(policy.keep_daily),
            weekly: number(policy.keep_weekly),
            monthly: number(policy.keep_monthly),
            yearly: number(policy.keep_yearly),
            tags: policy.keep_tags.iter().filter(|tag| !tag.trim().is_empty()).cloned().collect(),
        };
        if keep == KeepPolicy::default() { Self::KeepAll } else { Self::Keep(keep) }
    }
}

/// The groups of the snapshots of these hosts, by host, paths and volume.
pub fn groups(snapshots: &[SnapshotFact], own_hosts: &BTreeSet<HostName>) -> Vec<RetentionGroup> {
    let mut groups: BTreeMap<_, Vec<&SnapshotFact>> = BTreeMap::new();
    for snapshot in snapshots.iter().filter(|snapshot| own_hosts.contains(&snapshot.host)) {
        if snapshot.has_tag(SAFETY_TAG) {
            continue;
        }
        let mut paths = snapshot.paths.clone();
        paths.sort();
        let volume = snapshot.tags.iter().find_map(|tag| tag.strip_prefix(VOLUME_TAG));
        let key = (&snapshot.host, paths, volume, snapshot.has_tag(INCOMPLETE_TAG));
        groups.entry(key).or_default().push(snapshot);
    }
    let mut found = Vec::new();
    for ((host, paths, volume, incomplete), mut members) in groups {
        members.sort_by(|one, other| (other.time, &one.id).cmp(&(one.time, &other.id)));
        let snapshots = members.into_iter().map(|snapshot| snapshot.id.clone()).collect();
        let volume = volume.map(str::to_owned);
        found.push(RetentionGroup { host: host.clone(), paths, volume, incomplete, snapshots });
    }
    found
}

/// The ids of the safety copies of these hosts that are old enough to be forgotten. `needed`: the UIDs of the restores whose copies are
/// still offered for a rollback, or put back by one; they stay.
pub fn expired_safety_copies(
    snapshots: &[SnapshotFact],
    own_hosts: &BTreeSet<HostName>,
    needed: &BTreeSet<String>,
    now: Timestamp,
) -> Vec<String> {
    let is_old = |snapshot: &SnapshotFact| now.duration_since(snapshot.time) > SAFETY_COPIES_KEPT;
    let copies = snapshots.iter().filter(|snapshot| snapshot.has_tag(SAFETY_TAG));
    let is_needed =
        |snapshot: &SnapshotFact| snapshot.session().is_some_and(|restore| needed.contains(restore));
    let own = copies.filter(|snapshot| own_hosts.contains(&snapshot.host) && !is_needed(snapshot));
    own.filter(|snapshot| is_old(snapshot)).map(|snapshot| snapshot.id.clone()).collect()
}

/// What a policy with `dryRun` would have removed: how many snapshots, and the first of them with host and paths.
pub fn would_remove(snapshots: &[SnapshotFact]) -> String {
    if snapshots.is_empty() {
        return "dryRun: nothing was removed, and the policy would remove no snapshot".to_owned();
    }
    let name = |snapshot: &SnapshotFact| {
        let place = format!("{}:{}", snapshot.host, snapshot.paths.join(","));
        let plain = place.chars().map(|c| if c.is_control() { '?' } else { c });
        format!("{} ({})", snapshot.short(), plain.take(LONGEST_NAME).collect::<String>())
    };
    let named: Vec<String> = snapshots.iter().take(NAMED).map(name).collect();
    let more = snapshots.len() - named.len();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "dryRun: nothing was removed; the policy would remove {} snapshots: {}{more}",
        snapshots.len(),
        named.join(", ")
    )
}

/// Whether a policy with `prune: true` requests a prune now: at most once an hour.
pub fn prune_is_due(policy: &RetentionPolicy, last: Option<Timestamp>, now: Timestamp) -> bool {
    policy.prune && !policy.dry_run && is_due(last, PRUNE_INTERVAL, now)
}

/// Whether a session requests a check now: at most once a day.
pub fn check_is_due(last: Option<Timestamp>, now: Timestamp) -> bool {
    is_due(last, CHECK_INTERVAL, now)
}

/// Whether the interval has passed. A time in the future was written by a wrong clock and does not count.
fn is_due(last: Option<Timestamp>, interval: SignedDuration, now: Timestamp) -> bool {
    last.is_none_or(|last| last > now || now.duration_since(last) >= interval)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn snapshot(id: &str, second: i64, host: &str, paths: &[&str], tags: &[&str]) -> SnapshotFact {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        SnapshotFact {
            id: id.to_owned(),
            host: HostName::from(host),
            paths: owned(paths),
            tags: owned(tags),
            time: at(second),
        }
    }

    fn hosts(names: &[&str]) -> BTreeSet<HostName> {
        names.iter().map(|&name| HostName::from(name)).collect()
    }

    #[test]
    fn a_policy_without_numbers_and_tags_keeps_everything() {
        let policy =
            RetentionPolicy { keep_last: Some(0), keep_tags: vec![" ".into()], ..RetentionPolicy::default() };
        assert_eq!(Retention::of(&policy), Retention::KeepAll);
        assert_eq!(
            Retention::of(&RetentionPolicy { keep_daily: Some(7), keep_tags: vec!["a,b".into()], ..policy }),
            Retention::Keep(KeepPolicy { daily: 7, tags: vec!["a,b".into()], ..KeepPolicy::default() })
        );
    }

    #[test]
    fn snapshots_are_grouped_by_host_and_paths_without_those_of_others() {
        let snapshots = [
            snapshot("1", 10, "app", &["/data"], &[]),
            snapshot("2", 20, "app", &["/data"], &["nightly"]),
            snapshot("3", 30, "app", &["/logs"], &[]),
            snapshot("4", 40, "db", &["/data"], &[]),
            snapshot("5", 50, "app", &["/data"], &[SAFETY_TAG]),
            snapshot("6", 60, "app", &["/data"], &[INCOMPLETE_TAG]),
            snapshot("7", 70, "app", &["/b", "/a"], &[]),
            snapshot("8", 80, "app", &["/a", "/b"], &[]),
        ];
        let groups = groups(&snapshots, &hosts(&["app", "gone"]));
        let shown: Vec<_> = groups
            .iter()
            .map(|group| (group.paths.join("+"), group.incomplete, group.snapshots.join(",")))
            .collect();
        let expected =
            [("/a+/b", false, "8,7"), ("/data", false, "2,1"), ("/data", true, "6"), ("/logs", false, "3")];
        let expected =
            expected.map(|(paths, incomplete, ids)| (paths.to_owned(), incomplete, ids.to_owned()));
        assert_eq!(shown, expected);
    }

    #[test]
    fn two_volumes_at_one_path_are_two_groups_each_with_its_own_policy() {
        let tag = |volume: &str| format!("{VOLUME_TAG}{volume}");
        let (first, second) = (tag("vol-1"), tag("vol-2"));
        let snapshots = [
            snapshot("1", 10, "app", &["/data"], &[&first]),
            snapshot("2", 20, "app", &["/data"], &[&second]),
            snapshot("3", 30, "app", &["/data"], &[&first]),
            snapshot("4", 40, "app", &["/data"], &[]),
        ];
        let groups = groups(&snapshots, &hosts(&["app"]));
        let keep = KeepPolicy { last: 1, ..KeepPolicy::default() };
        let policy = DirectoryPolicy { volume: "vol-1".into(), path: "/data".into(), keep: keep.clone() };
        let policies = Policies::ByDirectory(vec![policy]);
        let found: Vec<_> =
            groups.iter().map(|group| (group.snapshots.join(","), policies.of(group).is_some())).collect();
        let expected = [("4", false), ("3,1", true), ("2", false)];
        assert_eq!(found, expected.map(|(ids, has)| (ids.to_owned(), has)));
        assert!(groups.iter().all(|group| Policies::One(keep.clone()).of(group) == Some(&keep)));
    }

    #[test]
    fn a_safety_copy_is_kept_for_seven_days_and_while_it_is_needed() {
        let week = SAFETY_COPIES_KEPT.as_secs();
        let snapshots = [
            snapshot("old", 0, "app", &["/data"], &[SAFETY_TAG, "lifeboat-session=repaired"]),
            snapshot("needed", 0, "app", &["/data"], &[SAFETY_TAG, "lifeboat-session=held"]),
            snapshot("young", 2, "app", &["/data"], &[SAFETY_TAG]),
            snapshot("of-others", 0, "db", &["/data"], &[SAFETY_TAG]),
            snapshot("backup", 0, "app", &["/data"], &[]),
        ];
        let needed = ["held".to_owned()].into();
        let expired = |now| expired_safety_copies(&snapshots, &hosts(&["app"]), &needed, at(now));
        assert_eq!(expired(week), Vec::<String>::new());
        assert_eq!(expired(week + 1), ["old"]);
    }

    #[test]
    fn a_dry_run_says_how_many_snapshots_it_would_remove_and_names_the_first() {
        assert!(would_remove(&[]).contains("would remove no snapshot"));
        let old = snapshot("0123456789abcdef", 1, "app", &["/data", "/logs"], &[]);
        let message = would_remove(std::slice::from_ref(&old));
        assert!(message.ends_with("would remove 1 snapshots: 01234567 (app:/data,/logs)"), "{message}");
        let hostile = SnapshotFact { paths: vec!["/x\n".repeat(5000)], ..old };
        let message = would_remove(&vec![hostile; 700]);
        assert!(message.contains("700 snapshots") && message.ends_with("and 680 more"), "{message}");
        assert!(message.len() < 4096 && !message.contains('\n'), "a condition has room for it");
    }

    #[rstest]
    #[case::never(None, true, "none was made")]
    #[case::just_now(Some(9_000), false, "hourly at most")]
    #[case::an_hour_ago(Some(6_400), true, "the hour has passed")]
    #[case::future(Some(99_999), true, "a wrong clock does not stop it")]
    fn a_prune_is_due_hourly(#[case] last: Option<i64>, #[case] due: bool, #[case] reason: &str) {
        let policy = RetentionPolicy { prune: true, ..RetentionPolicy::default() };
        assert_eq!(prune_is_due(&policy, last.map(at), at(10_000)), due, "{reason}");
        let without = RetentionPolicy::default();
        assert!(!prune_is_due(&without, last.map(at), at(10_000)), "prune: false");
        let dry = RetentionPolicy { dry_run: true, ..policy };
        assert!(!prune_is_due(&dry, last.map(at), at(10_000)), "a dry run changes nothing");
    }

    #[test]
    fn a_check_is_due_daily() {
        assert!(check_is_due(None, at(0)));
        assert!(!check_is_due(Some(at(0)), at(86_399)));
        assert!(check_is_due(Some(at(0)), at(86_400)));
    }

    fn a_snapshot() -> impl Strategy<Value = SnapshotFact> {
        let host = prop::sample::select(vec!["app", "db", "other"]);
        let path = prop::sample::select(vec!["/data", "/logs"]);
        let tag = prop::option::of(prop::sample::select(vec![SAFETY_TAG, INCOMPLETE_TAG, "nightly"]));
        (0..1_000_000i64, host, path, tag)
            .prop_map(|(second, host, path, tag)| snapshot("", second, host, &[path], tag.as_slice()))
    }

    fn some_snapshots() -> impl Strategy<Value = Vec<SnapshotFact>> {
        proptest::collection::vec(a_snapshot(), 0..30).prop_map(|mut snapshots| {
            for (number, snapshot) in snapshots.iter_mut().enumerate() {
                snapshot.id = format!("{number:064}");
            }
            snapshots
        })
    }

    proptest! {
        /// A policy that is applied to the groups can touch neither snapshots of others nor safety copies, and never counts a
        /// complete snapshot together with an incomplete one.
        #[test]
        fn only_own_snapshots_are_candidates_each_once(snapshots in some_snapshots()) {
            let own = hosts(&["app", "db"]);
            let groups = groups(&snapshots, &own);
            let of = |id: &String| snapshots.iter().find(|snapshot| snapshot.id == *id).unwrap();
            for group in &groups {
                prop_assert!(!group.snapshots.is_empty() && own.contains(&group.host));
                prop_assert!(group.snapshots.is_sorted_by(|one, other| of(one).time >= of(other).time));
            }
            let listed: usize = groups.iter().map(|group| group.snapshots.len()).sum();
            let candidates = snapshots.iter().filter(|snapshot| own.contains(&snapshot.host) && !snapshot.has_tag(SAFETY_TAG));
            prop_assert_eq!(listed, candidates.count());
        }
    }
}
