//! Restores of hostile content that only a user with the keys could have written: nothing outside of the
//! target is changed, memory stays bounded, and everything else is restored.

use std::path::Path;

use super::*;
use crate::error::Result;
use crate::repository::forged::Forger;
use crate::snapshot::Source;
use crate::tree;

fn file(name: &str, size: u64, object: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"f","mode":"0644","size":{size},"mtime":"2026-01-01T00:00:00Z","obj":"{object}"}}"#
    )
}

fn directory(name: &str, object: &str) -> String {
    format!(r#"{{"name":"{name}","type":"d","mode":"0755","mtime":"2026-01-01T00:00:00Z","obj":"{object}"}}"#)
}

fn snapshot(root: &str) -> Snapshot {
    let raw = serde_json::from_str(&directory("root", root)).unwrap();
    Snapshot {
        id: "a1".to_owned(),
        source: Source::default(),
        description: String::new(),
        start: lifeboat_repository::node::NodeTime::default(),
        end: None,
        incomplete: None,
        size: 0,
        files: 0,
        directories: 0,
        errors: 0,
        tags: std::collections::BTreeMap::new(),
        pins: Vec::new(),
        root: Some(tree::root(raw).unwrap()),
        problem: String::new(),
    }
}

async fn restored(forger: Forger, root: &str, target: &Path) -> Result<RestoreOutcome> {
    let repository = forger.open().await;
    let options = RestoreOptions { target: target.to_owned(), ..RestoreOptions::default() };
    restore(&repository, &snapshot(root), options, Arc::default(), CancellationToken::new()).await
}

/// Restores a directory with a good file and one bad entry; returns the problem that was named.
async fn problem_of(mut forger: Forger, entry: &str) -> String {
    let good = forger.add("", b"good");
    let root = forger.directory(&[file("good", 4, &good), entry.to_owned()].join(","));
    let target = tempfile::tempdir().unwrap();
    let outcome = restored(forger, &root, target.path()).await.unwrap();
    assert_eq!(std::fs::read(target.path().join("good")).unwrap(), b"good");
    assert_eq!(outcome.problem_count, 1, "{:?}", outcome.problems);
    outcome.problems[0].message.clone()
}

#[tokio::test]
async fn a_list_of_a_terabyte_needs_no_memory() {
    let mut forger = Forger::new();
    let part = forger.add("", &[7; 1000]);
    let lie = forger.list(&format!(r#"{{"l":1099511627776,"o":"{part}"}}"#));
    let message = problem_of(forger, &file("bad", 1 << 40, &lie)).await;
    assert!(message.contains("1000 bytes, but 1099511627776 were expected"), "{message}");
}

#[rstest::rstest]
#[case::gap(r#"{"l":10,"o":"PART"},{"s":11,"l":10,"o":"PART"}"#)]
#[case::overlap(r#"{"l":10,"o":"PART"},{"s":9,"l":10,"o":"PART"}"#)]
#[case::nothing(r#"{"l":0,"o":"PART"}"#)]
#[case::too_long(r#"{"l":10,"o":"PART"},{"s":10,"l":10,"o":"PART"},{"s":20,"l":10,"o":"PART"}"#)]
#[case::other_length(r#"{"l":9,"o":"PART"},{"s":9,"l":11,"o":"PART"}"#)]
#[case::unknown(r#"{"l":10,"o":"PART"},{"s":10,"l":10,"o":"00112233445566778899aabbccddeeff"}"#)]
#[tokio::test]
async fn a_list_whose_parts_do_not_fit_is_named(#[case] entries: &str) {
    let mut forger = Forger::new();
    let part = forger.add("", &[7; 10]);
    let list = forger.list(&entries.replace("PART", &part));
    problem_of(forger, &file("bad", 20, &list)).await;
}

#[tokio::test]
async fn lists_are_not_followed_without_end() {
    let mut forger = Forger::new();
    let mut object = forger.add("", &[7; 10]);
    for _ in 0..6 {
        object = forger.list(&format!(r#"{{"l":10,"o":"{object}"}}"#));
    }
    let message = problem_of(forger, &file("bad", 10, &object)).await;
    assert!(message.contains("nested too deeply"), "{message}");
}

#[tokio::test]
async fn a_bomb_and_a_wrong_length_are_named() {
    let zeros = vec![0; 32 << 20];
    let mut forger = Forger::new();
    let packed = [0x1101_u32.to_be_bytes().to_vec(), zstd::bulk::compress(&zeros, 1).unwrap()].concat();
    let bomb = forger.add_lying("", &zeros, &packed, 0x1101, 1000);
    problem_of(forger, &file("bad", 1000, &bomb)).await;
    let mut forger = Forger::new();
    let lie = forger.add_lying("", b"short", b"short", 0, 6);
    problem_of(forger, &file("bad", 6, &lie)).await;
    let mut forger = Forger::new();
    let other = forger.add_lying("", b"these bytes", b"other bytes", 0, 11);
    let message = problem_of(forger, &file("bad", 11, &other)).await;
    assert!(message.contains("do not have its hash"), "{message}");
}

#[tokio::test]
async fn a_size_that_is_not_the_files_is_named() {
    let mut forger = Forger::new();
    let content = forger.add("", b"12345");
    let message = problem_of(forger, &file("bad", 4, &content)).await;
    assert!(message.contains("5 bytes"), "{message}");
}

#[rstest::rstest]
#[case("..")]
#[case(".")]
#[case("a/b")]
#[case("/etc/passwd")]
#[case("../outside")]
#[tokio::test]
async fn a_directory_with_a_name_that_leads_elsewhere_is_not_restored(#[case] name: &str) {
    let mut forger = Forger::new();
    let content = forger.add("", b"hostile");
    let bad = forger.directory(&[file(name, 7, &content), file("beside", 7, &content)].join(","));
    let message = problem_of(forger, &directory("bad", &bad)).await;
    assert!(message.contains("no file can be"), "{message}");
}

#[tokio::test]
async fn equal_names_are_restored_under_two_names() {
    let mut forger = Forger::new();
    let (one, two) = (forger.add("", b"one"), forger.add("", b"two"));
    let root = forger.directory(&[file("a\u{fffd}", 3, &one), file("a\u{fffd}", 3, &two)].join(","));
    let target = tempfile::tempdir().unwrap();
    assert!(!restored(forger, &root, target.path()).await.unwrap().is_incomplete());
    assert_eq!(std::fs::read(target.path().join("a\u{fffd}")).unwrap(), b"one");
    assert_eq!(std::fs::read(target.path().join("a\u{fffd}~2")).unwrap(), b"two");
}

#[tokio::test]
async fn a_path_that_is_too_long_is_named_and_the_rest_restored() {
    let mut forger = Forger::new();
    let content = forger.add("", b"deep");
    let mut object = forger.directory(&file("file", 4, &content));
    for _ in 0..2100 {
        object = forger.directory(&directory("dd", &object));
    }
    let target = tempfile::tempdir().unwrap();
    let outcome = restored(forger, &object, target.path()).await.unwrap();
    assert_eq!(outcome.problem_count, 1);
    assert!(outcome.problems[0].message.contains("too long"));
    // Deeper than the number of directories that the library's own removal may have open.
    let removed = std::process::Command::new("rm").arg("-rf").arg(target.path()).status();
    assert!(removed.unwrap().success());
}

#[tokio::test]
async fn another_kind_of_directory_is_refused_by_name() {
    let mut forger = Forger::new();
    let disk = forger.add("k", br#"{"stream":"kopia:disk","entries":[]}"#);
    let message = problem_of(forger, &directory("bad", &disk)).await;
    assert!(message.contains("'kopia:disk'"), "{message}");
    let mut forger = Forger::new();
    let root = forger.add("k", br#"{"stream":"kopia:disk","entries":[]}"#);
    let target = tempfile::tempdir().unwrap();
    assert!(matches!(restored(forger, &root, target.path()).await, Err(Error::Unsupported { .. })));
}

#[tokio::test]
async fn a_content_that_many_files_share_is_written_to_each() {
    let mut forger = Forger::new();
    let content = forger.add("", b"shared");
    let files: Vec<String> = (0..500).map(|number| file(&format!("f{number}"), 6, &content)).collect();
    let root = forger.directory(&files.join(","));
    let target = tempfile::tempdir().unwrap();
    let outcome = restored(forger, &root, target.path()).await.unwrap();
    assert_eq!((outcome.files_restored, outcome.bytes_restored), (500, 3000));
    assert!(
        (0..500).all(|number| std::fs::read(target.path().join(format!("f{number}"))).unwrap() == b"shared")
    );
}

#[tokio::test]
async fn a_pack_that_was_replaced_meanwhile_is_looked_up_again() {
    let mut forger = Forger::new();
    let (one, two) = (forger.add("", b"one"), forger.add("", b"two"));
    let root = forger.directory(&[file("one", 3, &one), file("two", 3, &two)].join(","));
    let repository = forger.open_and_move().await;
    let target = tempfile::tempdir().unwrap();
    let options = RestoreOptions { target: target.path().to_owned(), ..RestoreOptions::default() };
    let snapshot = snapshot(&root);
    let work = restore(&repository, &snapshot, options, Arc::default(), CancellationToken::new());
    assert!(!work.await.unwrap().is_incomplete());
    assert_eq!(std::fs::read(target.path().join("two")).unwrap(), b"two");
}
