use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// The sample of the batch document: of five pods two get the data of another one.
#[test]
fn a_stateful_set_of_five_is_restored_from_three() {
    let backed_up = ["app-0", "app-1", "app-2"];
    let snapshots =
        backed_up.iter().zip(["a9", "a1", "a2"]).map(|(host, id)| snapshot(id, host, "/source/data", 1));
    let paths = list(&["/source/data"]);
    let to_new = RestoreRule { paths: paths.clone(), ..rule(&["app-3", "app-4"], "app-1") };
    let to_own = RestoreRule { paths, ..rule(&[], "") };
    let hosts = ["app-0", "app-1", "app-2", "app-3", "app-4"];
    let request = request(&hosts, &["/source/data"], vec![to_new, to_own], snapshots.collect());
    let selection = select(&request);
    assert_eq!(
        shown(&selection),
        [
            "app-0 <- /source/data@a9",
            "app-1 <- /source/data@a1",
            "app-2 <- /source/data@a2",
            "app-3 <- /source/data@a1",
            "app-4 <- /source/data@a1",
        ]
    );
    assert_eq!((selection.problem(), selection.left_alone.len()), (None, 0));
}

/// The RestoreBatch of the batch document restores a path that was never backed up and is below no mount.
#[test]
fn the_batch_documents_wordpress_fails_as_written() {
    let as_written = RestoreRule { paths: list(&["/source/data"]), ..RestoreRule::default() };
    let stored = vec![snapshot("aa", "app", "/var/www/html", 1), snapshot("bb", "db", "/dumpfile.sql", 2)];
    let mut request = request(&["app"], &["/var/www/html"], vec![as_written], stored);
    let problem = select(&request).problem().unwrap();
    assert!(
        problem
            .contains("host app: path /source/data is below no mount of the target, which has /var/www/html"),
        "{problem}"
    );
    assert!(
        problem.contains(
            "host app: /var/www/html (snapshot aa000000 of 2026-01-01T00:01:00Z); host db: /dumpfile.sql"
        ),
        "{problem}"
    );
    request.rules[0].paths = list(&["/var/www/html/"]);
    assert_eq!(shown(&select(&request)), ["app <- /var/www/html@aa"]);
}

#[rstest]
#[case::the_newest(&[], vec![snapshot("aa", "app", "/data", 1), snapshot("bb", "app", "/data", 3), snapshot("cc", "app", "/data", 2)], "/data@bb")]
#[case::of_each_path(&[], vec![snapshot("aa", "app", "/data", 3), snapshot("bb", "app", "/data/db", 2), snapshot("cc", "app", "/data/db", 1)], "/data@aa /data/db@bb")]
#[case::of_the_host(&[], vec![snapshot("aa", "app", "/data", 1), snapshot("bb", "other", "/data", 3)], "/data@aa")]
#[case::complete(&[], vec![snapshot("aa", "app", "/data", 1), tagged(INCOMPLETE_TAG, snapshot("bb", "app", "/data", 3))], "/data@aa")]
#[case::no_safety_copy(&[], vec![snapshot("aa", "app", "/data", 1), tagged(SAFETY_TAG, snapshot("bb", "app", "/data", 3))], "/data@aa")]
#[case::one_of_equal_times(&[], vec![snapshot("bb", "app", "/data", 1), snapshot("aa", "app", "/data", 1)], "/data@bb")]
#[case::latest(&["latest"], vec![snapshot("aa", "app", "/data", 1), snapshot("bb", "app", "/data", 3)], "/data@bb")]
#[case::by_id(&["aa"], vec![snapshot("aa", "app", "/data", 1), snapshot("bb", "app", "/data", 3)], "/data@aa")]
#[case::in_their_order(&["bb", "aa"], vec![snapshot("aa", "app", "/data", 1), snapshot("bb", "app", "/data", 3)], "/data@bb /data@aa")]
#[case::capitals(&["AA"], vec![snapshot("aa", "app", "/data", 1)], "/data@aa")]
#[case::incomplete_if_named(&["aa"], vec![tagged(INCOMPLETE_TAG, snapshot("aa", "app", "/data", 1))], "/data@aa")]
#[case::a_safety_copy_if_named(&["aa"], vec![tagged(SAFETY_TAG, snapshot("aa", "app", "/data", 1))], "/data@aa")]
#[case::a_path_that_is_not_mounted_stays(&[], vec![snapshot("aa", "app", "/data", 1), snapshot("bb", "app", "/etc", 2)], "/data@aa")]
fn hosts_get_snapshots(#[case] ids: &[&str], #[case] snapshots: Vec<SnapshotFact>, #[case] expected: &str) {
    let rule = RestoreRule { snapshots: list(ids), ..RestoreRule::default() };
    let selection = select(&request(&["app"], &["/data"], vec![rule], snapshots));
    assert_eq!(shown(&selection), [format!("app <- {expected}")]);
    assert_eq!(selection.problem(), None);
}

#[rstest]
#[case::newest_that_has_it("/data", vec![snapshot("aa", "app", "/data", 1), snapshot("bb", "app", "/data", 2)], Ok("/data@bb"))]
#[case::below_what_was_stored("/data/db", vec![snapshot("aa", "app", "/data", 1)], Ok("/data/db@aa"))]
#[case::newest_of_both("/data/db", vec![snapshot("aa", "app", "/data", 2), snapshot("bb", "app", "/data/db", 1)], Ok("/data/db@aa"))]
#[case::not_of_an_incomplete_one("/data", vec![snapshot("aa", "app", "/data", 1), tagged(INCOMPLETE_TAG, snapshot("bb", "app", "/data", 2))], Ok("/data@aa"))]
#[case::above_what_was_stored("/data", vec![snapshot("aa", "app", "/data/db", 1)], Err("path /data is in no complete snapshot of source host app"))]
#[case::a_longer_name("/data2", vec![snapshot("aa", "app", "/data", 1)], Err("path /data2 is below no mount of the target, which has /data"))]
#[case::of_another_host("/data", vec![snapshot("aa", "other", "/data", 1)], Err("no complete snapshot of source host app"))]
#[case::relative("data", vec![snapshot("aa", "app", "/data", 1)], Err("rules[].paths \"data\" is not an absolute path"))]
fn a_path_comes_from_its_newest_snapshot(
    #[case] path: &str,
    #[case] snapshots: Vec<SnapshotFact>,
    #[case] expected: Result<&str, &str>,
) {
    let rule = RestoreRule { paths: list(&[path]), ..RestoreRule::default() };
    let selection = select(&request(&["app"], &["/data"], vec![rule], snapshots));
    match expected {
        Ok(expected) => assert_eq!(shown(&selection), [format!("app <- {expected}")]),
        Err(part) => {
            let problem = selection.problem().unwrap();
            assert!(problem.contains(part) && problem.contains("The repository has host"), "{problem}");
        }
    }
}

#[rstest]
#[case::unknown("ff", "the repository has no snapshot \"ff\"")]
#[case::ambiguous("a", "begin with \"a\"; write more digits")]
#[case::no_id("newest", "\"newest\" is not the id of a snapshot; expected hexadecimal digits or \"latest\"")]
#[case::empty("", "\"\" is not the id of a snapshot")]
#[case::of_another_host(
    "cc",
    "snapshot cc000000 is of host other, and the rule takes data of source host app; set sourceHost to other"
)]
#[case::not_mounted("ee", "path /etc is below no mount")]
fn snapshots_that_cannot_be_restored_are_named(#[case] id: &str, #[case] expected: &str) {
    let snapshots = vec![
        snapshot("a1", "app", "/data", 1),
        snapshot("a2", "app", "/data", 2),
        snapshot("cc", "other", "/data", 3),
        snapshot("ee", "app", "/etc", 4),
    ];
    let rule = RestoreRule { snapshots: list(&[id]), ..RestoreRule::default() };
    let problem = select(&request(&["app"], &["/data"], vec![rule], snapshots)).problem().unwrap();
    assert!(problem.contains(expected) && problem.contains("host app"), "{problem}");
}

#[test]
fn a_part_says_what_goes_where() {
    let mut wanted = rule(&["app"], "old");
    wanted.paths = list(&["/data/db/"]);
    wanted.include = list(&["*.sql"]);
    wanted.exclude = list(&["*.tmp"]);
    let mut request = request(&["app"], &["/data"], vec![wanted], vec![snapshot("aa", "old", "/data", 1)]);
    let RestoreInto::Mounts(mounts) = &mut request.into else { panic!() };
    mounts[0].sub_path = Some("app".into());
    let selection = select(&request);
    let path = CleanPath::stored("/data/db").unwrap();
    let expected = RestorePart {
        snapshot: request.snapshots[0].id.clone(),
        time: request.snapshots[0].time,
        data: request.snapshots[0].data(),
        path: path.clone(),
        folder: path,
        target: Some(PartTarget { volume: "data".into(), sub_path: Some("app/db".into()) }),
        include: vec!["*.sql".into()],
        exclude: vec!["*.tmp".into()],
    };
    assert_eq!(selection.hosts[0].parts, Ok(vec![expected]));
    assert_eq!(selection.hosts[0].source, HostName::from("old"));
}

#[test]
fn hosts_without_a_rule_are_left_alone_and_listed() {
    let snapshots = vec![snapshot("aa", "app-0", "/data", 1)];
    let selection = select(&request(&["app-0", "app-1"], &["/data"], vec![rule(&["app-0"], "")], snapshots));
    assert_eq!(shown(&selection), ["app-0 <- /data@aa"]);
    assert_eq!(selection.left_alone, [HostName::from("app-1")]);
    assert_eq!(selection.problem(), None);
}

#[rstest]
#[case::no_host_has_a_rule(&["app"], "no rule applies to a host of the target: its hosts are app-0, app-1, the rules list app;")]
#[case::one_host_is_unknown(&["app-0", "app-7"], "targetHosts names app-7, which the target does not have; its hosts are app-0, app-1; correct targetHosts")]
fn rules_for_hosts_that_do_not_exist_fail_the_restore(#[case] listed: &[&str], #[case] expected: &str) {
    let snapshots = vec![snapshot("aa", "app-0", "/data", 1), snapshot("bb", "app", "/data", 1)];
    let problem = select(&request(&["app-0", "app-1"], &["/data"], vec![rule(listed, "")], snapshots))
        .problem()
        .unwrap();
    assert!(
        problem.contains(expected) && problem.contains("host app-0: /data (snapshot aa000000"),
        "{problem}"
    );
}

#[test]
fn a_wrong_alias_fails_with_what_there_is() {
    let snapshots =
        vec![snapshot("aa", "host-0", "/data", 1), tagged(INCOMPLETE_TAG, snapshot("bb", "old", "/data", 2))];
    let problem = select(&request(&["app"], &["/data"], vec![], snapshots)).problem().unwrap();
    assert!(
        problem.contains("no complete snapshot of source host app; correct sourceHost or target.alias"),
        "{problem}"
    );
    assert!(
        problem.contains("host host-0: /data (snapshot aa000000 of 2026-01-01T00:01:00Z); host old: /data"),
        "{problem}"
    );
    assert!(problem.ends_with(", incomplete)"), "{problem}");
    let nothing = select(&request(&["app"], &["/data"], vec![], vec![])).problem().unwrap();
    assert!(nothing.ends_with("The repository has no snapshots"), "{nothing}");
}

#[test]
fn a_long_list_is_cut() {
    let snapshots = (0..12).map(|host| snapshot("aa", &format!("h{host:02}"), "/data", 1)).collect();
    let shown = select(&request(&["app"], &["/data"], vec![], snapshots)).existing.to_string();
    assert!(
        shown.contains("host h07") && !shown.contains("host h08") && shown.ends_with("and 4 more hosts"),
        "{shown}"
    );
}

#[test]
fn what_is_unusual_is_noted() {
    let session = |uid: &str, made: SnapshotFact| tagged(&format!("{SESSION_TAG}{uid}"), made);
    let snapshots = vec![
        session("one", snapshot("aa", "app", "/data/old", 1)),
        session("two", snapshot("bb", "app", "/data", 2)),
        session("two", snapshot("cc", "app", "/etc", 3)),
    ];
    let selection = select(&request(&["app"], &["/data"], vec![], snapshots));
    let notes: Vec<String> = selection.hosts[0].notes.iter().map(RestoreNote::to_string).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].contains("path /data/old is restored from snapshot aa000000"), "{notes:?}");
    assert!(notes[1].contains("stored path /etc is below no mount"), "{notes:?}");
}

#[test]
fn a_task_gets_the_newest_dump_whatever_its_name() {
    let snapshots = vec![snapshot("aa", "db", "/dumpfile.sql", 1), snapshot("bb", "db", "all.sql", 2)];
    let request = RestoreRequest { into: RestoreInto::Task, ..request(&["db"], &[], vec![], snapshots) };
    let selection = select(&request);
    assert_eq!(shown(&selection), ["db <- /all.sql@bb"]);
    assert_eq!(selection.hosts[0].parts.as_ref().unwrap()[0].target, None);
}

#[test]
fn a_rollback_takes_the_oldest_safety_copy_of_each_path() {
    let copy = |id: &str, uid: &str, path: &str, minute: u32| SnapshotFact {
        tags: vec![SAFETY_TAG.into(), format!("{SESSION_TAG}{uid}")],
        ..snapshot(id, "app", path, minute)
    };
    let snapshots = vec![
        copy("aa", "one", "/data", 5),
        copy("bb", "one", "/data", 4),
        copy("cc", "one", "/data/db", 6),
        copy("dd", "two", "/data", 1),
        snapshot("ee", "app", "/data", 2),
    ];
    let request = request(&["app", "untouched"], &["/data"], vec![], snapshots);
    let selection = rollback(&request, "one");
    assert_eq!(shown(&selection), ["app <- /data@bb /data/db@cc"]);
    assert_eq!(selection.left_alone, [HostName::from("untouched")]);
    let problem = rollback(&request, "three").problem().unwrap();
    assert!(problem.contains("no safety copy of the restore with UID three"), "{problem}");
}

proptest! {
    /// Whatever the repository has, a host gets each path once, from a complete snapshot of its own than which no other is newer.
    #[test]
    fn the_newest_of_each_path_is_restored(
        made in proptest::collection::vec((0..3_usize, 0..3_usize, 0..4_u32, 0..4_usize), 0..20),
    ) {
        let hosts = ["a", "b", "c"];
        let paths = ["/data", "/data/x", "/other"];
        let tags = ["", INCOMPLETE_TAG, SAFETY_TAG, "mine"];
        let snapshots: Vec<SnapshotFact> = made.iter().enumerate().map(|(number, (host, path, minute, tag))| {
            tagged(tags[*tag], snapshot(&format!("{number:02x}f"), hosts[*host], paths[*path], *minute))
        }).collect();
        let selection = select(&request(&["a"], &["/data"], vec![], snapshots.clone()));
        let own: Vec<&SnapshotFact> = snapshots.iter()
            .filter(|one| one.host.as_str() == "a" && one.counts_as_latest()).collect();
        match &selection.hosts[0].parts {
            Err(_) => prop_assert!(!own.iter().any(|one| one.paths[0].starts_with("/data"))),
            Ok(parts) => {
                let found: Vec<&str> = parts.iter().map(|part| part.path.as_str()).collect();
                let mut stored: Vec<&str> = own.iter().map(|one| one.paths[0].as_str()).filter(|path| *path != "/other").collect();
                stored.sort_unstable();
                stored.dedup();
                prop_assert_eq!(found, stored);
                for part in parts {
                    let of_path = own.iter().filter(|one| one.paths[0] == part.path.as_str());
                    prop_assert_eq!(of_path.clone().map(|one| one.time).max(), Some(part.time));
                    prop_assert!(of_path.clone().any(|one| one.id == part.snapshot));
                }
            }
        }
    }
}
