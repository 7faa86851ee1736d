use std::collections::BTreeSet;

use jiff::Timestamp;
use lifeboat_api::common::GoDuration;
use lifeboat_api::stash::{BackupRepo, BackupRepoType};
use rstest::rstest;

use super::*;
use crate::stash::hosts::{HostOf, TargetKind};
use crate::stash::repository::SnapshotFacts;
use crate::stash::repository::samples::snapshot;

fn prefix(text: &str) -> DirPrefix {
    DirPrefix::of("spec.prefix", Some(text), "volumes").unwrap()
}

fn owner(namespace: &str, restic: &str, name: &str) -> DirOwner {
    DirOwner {
        namespace: namespace.into(),
        restic: restic.into(),
        kind: TargetKind::Deployment,
        name: name.into(),
        part: HostOf::Whole,
        prefix: prefix("volumes"),
    }
}

fn dir(text: &str) -> RepoDir {
    RepoDir::parse("repoDir", text).unwrap()
}

/// The record after these owners got their directories, one after the other.
fn record(owners: &[DirOwner]) -> Vec<BackupRepo> {
    let mut record = Vec::new();
    for owner in owners {
        if let Choice::New(directory) = choose(&record, owner, &BTreeSet::new()) {
            record.push(new_entry(owner, &directory));
        }
    }
    record
}

#[rstest]
#[case::deployment(
    TargetKind::Deployment,
    HostOf::Whole,
    "/volumes/deployment/app",
    "/volumes/shop/deployment/app"
)]
#[case::pod(
    TargetKind::StatefulSet,
    HostOf::Ordinal(2),
    "/volumes/statefulset/app-2",
    "/volumes/shop/statefulset/app-2"
)]
#[case::node(TargetKind::DaemonSet, HostOf::Node("n1".into()), "/volumes/daemonset/app/n1", "/volumes/shop/daemonset/app/n1")]
fn each_pod_and_node_has_a_directory(
    #[case] kind: TargetKind,
    #[case] part: HostOf,
    #[case] plain: &str,
    #[case] of_namespace: &str,
) {
    let found = prefix("volumes").candidates("shop", kind, "app", &part);
    assert_eq!(found.map(Result::unwrap), [dir(plain), dir(of_namespace)]);
}

#[rstest]
#[case::default(None, Some("/volumes/deployment/app"))]
#[case::empty(Some(""), Some("/volumes/deployment/app"))]
#[case::nested(Some("/team-a/volumes/"), Some("/team-a/volumes/deployment/app"))]
#[case::of_restic(Some("data"), None)]
#[case::begins_with_one_of_restic(Some("keys/a"), None)]
#[case::of_restic_further_down(Some("a/keys"), Some("/a/keys/deployment/app"))]
#[case::parent(Some("a/../b"), None)]
#[case::doubled_slash(Some("a//b"), None)]
#[case::slash_only(Some("/"), None)]
#[case::other_characters(Some("a b"), None)]
fn a_prefix_is_a_directory_that_no_repository_has(
    #[case] given: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let prefix = DirPrefix::of("spec.prefix", given, "volumes");
    let [plain, _] = match prefix {
        Ok(prefix) => prefix.candidates("shop", TargetKind::Deployment, "app", &HostOf::Whole),
        Err(error) => {
            assert!(error.to_string().starts_with("spec.prefix"), "{error}");
            return assert_eq!(expected, None);
        }
    };
    assert_eq!(Some(plain.unwrap().as_str()), expected);
}

#[test]
fn what_is_too_long_or_of_restic_is_named_with_its_field() {
    let long = DirPrefix::of("spec.prefix", Some(&"a".repeat(600)), "volumes").unwrap_err();
    assert!(long.to_string().contains("more than 512 bytes"), "{long}");
    let error = DirPrefix::of("spec.prefix", Some("locks"), "volumes").unwrap_err().to_string();
    assert_eq!(
        error,
        "spec.prefix \"locks\" begins with \"locks\", which restic itself uses in a repository; use another name, such as \"backups/locks\""
    );
}

#[test]
fn the_first_workload_gets_the_plain_directory_and_one_of_another_namespace_its_own() {
    let owners =
        [owner("shop", "nightly", "app"), owner("bank", "nightly", "app"), owner("shop", "nightly", "api")];
    let record = record(&owners);
    let found: Vec<_> = record.iter().filter_map(|entry| entry.repo_dir.as_deref()).collect();
    assert_eq!(found, ["/volumes/deployment/app", "/volumes/bank/deployment/app", "/volumes/deployment/api"]);
    for (owner, expected) in owners.iter().zip(found) {
        assert_eq!(
            choose(&record, owner, &BTreeSet::new()),
            Choice::Recorded(dir(expected)),
            "it is on record"
        );
    }
}

#[test]
fn the_directory_of_a_workload_is_refused_to_a_second_restic_while_the_first_exists() {
    let record = record(&[owner("shop", "nightly", "app")]);
    let second = owner("shop", "weekly", "app");
    let nightly = ("shop".to_owned(), "nightly".to_owned());
    assert_eq!(owners(&record, &second), BTreeSet::from([nightly.clone()]));
    let Choice::Refused(message) = choose(&record, &second, &BTreeSet::from([nightly])) else { panic!() };
    assert!(
        message.contains("/volumes/deployment/app") && message.contains("Restic shop/nightly"),
        "{message}"
    );
    let after = choose(&record, &second, &BTreeSet::new());
    assert_eq!(after, Choice::Recorded(dir("/volumes/deployment/app")), "the first Restic was deleted");
}

#[test]
fn no_directory_is_inside_of_another_one() {
    let mut inner = owner("bank", "weekly", "api");
    inner.prefix = prefix("volumes/deployment/app");
    let outer = owner("shop", "nightly", "app");
    let Choice::Refused(message) = choose(&record(std::slice::from_ref(&outer)), &inner, &BTreeSet::new())
    else {
        panic!()
    };
    assert!(message.contains("Restic shop/nightly for Deployment app"), "{message}");
    let after = choose(&record(&[inner]), &outer, &BTreeSet::new());
    assert_eq!(after, Choice::New(dir("/volumes/shop/deployment/app")));
    assert!(!dir("/volumes/app").overlaps(&dir("/volumes/app-2")), "a name may begin with another one");
}

#[test]
fn a_backup_counts_once() {
    let mut record = record(&[owner("shop", "nightly", "app")]);
    let at = |second| Timestamp::from_second(second).unwrap();
    let took = GoDuration::from(std::time::Duration::from_millis(3026));
    for started in [10, 10, 70] {
        note_backup(&mut record, &dir("/volumes/deployment/app"), "nightly", at(started), Some(took));
    }
    let entry = &record[0];
    assert_eq!(entry.backup_count, Some(2));
    let times = (entry.first_backup_time.as_ref(), entry.last_backup_time.as_ref());
    assert_eq!((times.0.map(|time| time.0), times.1.map(|time| time.0)), (Some(at(10)), Some(at(70))));
    assert_eq!(entry.last_backup_duration, Some(took));
}

fn tags(restic: &str) -> DirTags {
    DirTags {
        type_: BackupRepoType::Volumes,
        namespace: "shop".into(),
        kind: "Deployment".into(),
        name: "app".into(),
        restic: restic.into(),
    }
}

fn stored(id: &str, time: &str, session: &str, of: &[String]) -> SnapshotFacts {
    let mut stored = snapshot(id, time, "app", &[]);
    stored.tags = of.to_vec();
    stored.tags.extend([format!("lifeboat-session={session}"), format!("{VOLUME_TAG}vol-1")]);
    stored
}

#[test]
fn the_record_of_a_directory_is_made_again_from_the_tags_of_its_snapshots() {
    assert_eq!(DirTags::read(&tags("nightly").tags()), Some(tags("nightly")));
    let (old, new) = (tags("old").tags(), tags("nightly").tags());
    let snapshots = [
        stored("a", "2026-11-01T00:00:00Z", "1", &old),
        stored("b", "2026-11-01T00:00:05Z", "1", &old),
        stored("c", "2026-11-02T00:00:00Z", "2", &new),
        snapshot("d", "2026-11-03T00:00:00Z", "other", &[]),
    ];
    let entry = rebuilt(&dir("/volumes/deployment/app"), &snapshots).unwrap();
    assert_eq!((entry.restic_name.as_deref(), entry.backup_count), (Some("nightly"), Some(2)));
    let last = entry.last_backup_time.as_ref().map(|time| time.0.to_string());
    assert_eq!(last.as_deref(), Some("2026-11-02T00:00:00Z"));
    let owner = owner("shop", "nightly", "app");
    let found = choose(&[entry], &owner, &BTreeSet::new());
    assert_eq!(found, Choice::Recorded(dir("/volumes/deployment/app")), "it is that of the workload again");
}

#[rstest]
#[case::missing(&["lifeboat-type=Volumes", "lifeboat-namespace=shop"])]
#[case::unknown_type(&["lifeboat-type=Tapes", "lifeboat-namespace=a", "lifeboat-kind=b", "lifeboat-name=c", "lifeboat-restic=d"])]
#[case::no_name(&["lifeboat-type=Volumes", "lifeboat-namespace=a/b", "lifeboat-kind=b", "lifeboat-name=c", "lifeboat-restic=d"])]
#[case::empty(&["lifeboat-type=Volumes", "lifeboat-namespace=", "lifeboat-kind=b", "lifeboat-name=c", "lifeboat-restic=d"])]
fn tags_that_the_server_did_not_write_are_not_believed(#[case] tags: &[&str]) {
    let tags: Vec<String> = tags.iter().map(|&tag| tag.to_owned()).collect();
    assert_eq!(DirTags::read(&tags), None);
    let directory = dir("/volumes/deployment/app");
    assert_eq!(rebuilt(&directory, &[stored("a", "2026-11-01T00:00:00Z", "1", &tags)]), None);
}
