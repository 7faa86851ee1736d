//! Restores of the fixtures, compared with what they were made of.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use lifeboat_kopia::restore::device::{DeviceOutcome, restore_device};
use lifeboat_kopia::restore::{Overwrite, RestoreOptions, Selection};
use lifeboat_kopia::{COMPRESSIONS, Filter, find};
use lifeboat_store::Store;
use tokio_util::sync::CancellationToken;

use crate::fixtures::{all, open, restore_latest, restore_with, store, try_open};
use crate::tree::{below, expected, lines};

/// Fixtures that were made of another tree.
const OTHERS: [&str; 4] = ["compress", "device", "epochs", "indirect"];

#[tokio::test]
async fn every_format_hash_encryption_and_correction_gives_back_the_tree() {
    for name in all().keys().filter(|name| !OTHERS.contains(&name.as_str())) {
        let target = tempfile::tempdir().unwrap();
        let outcome = restore_latest(&open(name).await, target.path()).await.unwrap();
        assert!(!outcome.is_incomplete(), "{name}: {:?}", outcome.problems);
        assert_eq!(below(target.path()), expected(), "{name}");
        assert_eq!((outcome.files_restored, outcome.files_verified), (10, Some(7)), "{name}");
    }
}

#[tokio::test]
async fn every_compression_gives_back_its_text() {
    let target = tempfile::tempdir().unwrap();
    let outcome = restore_latest(&open("compress").await, target.path()).await.unwrap();
    assert!(!outcome.is_incomplete(), "{:?}", outcome.problems);
    for (_, name) in COMPRESSIONS {
        let text = std::fs::read_to_string(target.path().join(name).join("text")).unwrap();
        let expected = lines(400, |line| format!("{name} line {line} of the text"));
        assert!(text == expected, "{name}");
    }
}

#[tokio::test]
async fn lists_of_parts_and_lists_of_lists_are_restored_with_holes() {
    let target = tempfile::tempdir().unwrap();
    let options = RestoreOptions {
        target: target.path().to_owned(),
        sparse: true,
        verify: true,
        ..RestoreOptions::default()
    };
    let outcome = restore_with(&open("indirect").await, options).await.unwrap();
    assert!(!outcome.is_incomplete(), "{:?}", outcome.problems);
    let rows = lines(30_000, |row| format!("row {row}"));
    assert!(std::fs::read_to_string(target.path().join("rows")).unwrap() == rows);
    let zeros = target.path().join("zeros").metadata().unwrap();
    assert_eq!(zeros.len(), 420 * 1024 * 1024 + 3);
    assert!(zeros.blocks() * 512 < 8 * 1024 * 1024, "{} blocks", zeros.blocks());
}

#[tokio::test]
async fn after_compactions_and_a_checkpoint_the_latest_state_is_restored() {
    let target = tempfile::tempdir().unwrap();
    restore_latest(&open("epochs").await, target.path()).await.unwrap();
    let text = |number: u32| std::fs::read_to_string(target.path().join(format!("f{number}"))).unwrap();
    assert_eq!([0, 1, 2, 3, 4].map(text), ["6 9\n", "6 10\n", "6 11\n", "6 7\n", "6 8\n"]);
}

#[tokio::test]
async fn a_device_is_restored_to_a_device_only() {
    let repository = open("device").await;
    let directory = tempfile::tempdir().unwrap();
    let error = restore_latest(&repository, directory.path()).await.unwrap_err().to_string();
    assert!(error.contains("block device"), "{error}");
    let snapshot = find(&repository, "latest", &Filter::default()).await.unwrap();
    let image = directory.path().join("image");
    let to = |length: usize| {
        std::fs::write(&image, vec![0xaa; length]).unwrap();
        restore_device(&repository, &snapshot, &image, true, Arc::default(), CancellationToken::new())
    };
    let blocks = lines(1000, |block| format!("block {block}"));
    let mut expected = blocks.into_bytes();
    expected.extend(vec![0; 20_000]);
    let size = expected.len();
    assert_eq!(to(size + 5).await.unwrap(), DeviceOutcome { bytes: size as u64, verified: true });
    expected.extend([0xaa; 5]);
    assert!(std::fs::read(&image).unwrap() == expected);
    assert!(to(size - 1).await.is_err());
}

#[tokio::test]
async fn a_part_of_a_snapshot_is_restored() {
    let repository = open("v3").await;
    let target = tempfile::tempdir().unwrap();
    let options = RestoreOptions {
        target: target.path().to_owned(),
        select: Some(Arc::new(|path: &[u8], is_directory| Selection {
            include: !is_directory && path.ends_with(b"file"),
            descend: true,
        })),
        ..RestoreOptions::default()
    };
    restore_with(&repository, options).await.unwrap();
    let paths: Vec<String> = below(target.path()).into_keys().collect();
    assert_eq!(paths, ["dir", "dir/sub", "dir/sub/file", "empty-file"]);
    let folder = tempfile::tempdir().unwrap();
    let subfolder = Some("dir/sub".into());
    let options = RestoreOptions { target: folder.path().to_owned(), subfolder, ..RestoreOptions::default() };
    restore_with(&repository, options).await.unwrap();
    assert_eq!(below(folder.path()).into_keys().collect::<Vec<_>>(), ["file"]);
}

#[tokio::test]
async fn what_exists_is_repaired_kept_or_replaced() {
    let repository = open("v3").await;
    let target = tempfile::tempdir().unwrap();
    let path = |name: &str| target.path().join(name);
    restore_latest(&repository, target.path()).await.unwrap();
    std::fs::write(path("text"), "line 1 of another text").unwrap();
    std::fs::remove_file(path("one")).unwrap();
    std::fs::remove_file(path("dangling")).unwrap();
    std::os::unix::fs::symlink("elsewhere", path("dangling")).unwrap();
    std::fs::hard_link(path("empty-file"), path("other")).unwrap();
    std::fs::write(path("other"), "not empty").unwrap();
    let options = |overwrite| RestoreOptions {
        target: target.path().to_owned(),
        overwrite,
        ..RestoreOptions::default()
    };
    let kept = restore_with(&repository, options(Overwrite::Never)).await.unwrap();
    assert_eq!(kept.files_skipped, 6);
    assert_eq!(std::fs::read_to_string(path("text")).unwrap(), "line 1 of another text");
    assert_eq!(std::fs::read_to_string(path("one")).unwrap(), "x");
    let repaired = restore_with(&repository, options(Overwrite::Always)).await.unwrap();
    assert!(!repaired.is_incomplete(), "{:?}", repaired.problems);
    assert_eq!(std::fs::read_to_string(path("other")).unwrap(), "not empty");
    std::fs::remove_file(path("other")).unwrap();
    assert_eq!(below(target.path()), expected());
    // Nothing is read from the packs when everything is there already.
    let dry = RestoreOptions { dry_run: true, ..options(Overwrite::Always) };
    assert_eq!(restore_with(&repository, dry).await.unwrap().files_restored, 10);
    assert_eq!(below(target.path()), expected());
}

#[tokio::test]
async fn links_in_the_target_are_not_followed() {
    let repository = open("v3").await;
    let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), target.path().join("dir")).unwrap();
    std::fs::write(outside.path().join("victim"), "untouched").unwrap();
    std::os::unix::fs::symlink(outside.path().join("victim"), target.path().join("one")).unwrap();
    let outcome = restore_latest(&repository, target.path()).await.unwrap();
    assert!(!outcome.is_incomplete(), "{:?}", outcome.problems);
    assert_eq!(below(target.path()), expected());
    assert_eq!(std::fs::read_to_string(outside.path().join("victim")).unwrap(), "untouched");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_cancelled_restore_ends_as_cancelled() {
    let repository = open("v3").await;
    let snapshot = find(&repository, "latest", &Filter::default()).await.unwrap();
    let target = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let options = RestoreOptions { target: target.path().to_owned(), ..RestoreOptions::default() };
    let restored =
        lifeboat_kopia::restore::restore(&repository, &snapshot, options, Arc::default(), cancel).await;
    assert!(matches!(restored, Err(lifeboat_kopia::Error::Cancelled)));
}

/// Indexes that were written after the repository was opened are found when a content is missing.
#[tokio::test]
async fn contents_that_were_written_meanwhile_are_found() {
    let objects = &all()["epochs"];
    let indexes: Vec<&String> = objects.keys().filter(|key| key.starts_with("x/n5_/")).collect();
    let store: Store = store(objects).await;
    let mut kept = Vec::new();
    for key in indexes {
        kept.push((key.clone(), store.get(key).await.unwrap()));
        store.delete(key).await.unwrap();
    }
    // Opened before the latest indexes were written.
    let repository = try_open(store.clone()).await.unwrap();
    let fresh = open("epochs").await;
    let latest = find(&fresh, "latest", &Filter::default()).await.unwrap();
    for (key, content) in kept {
        store.put(&key, content).await.unwrap();
    }
    let target = tempfile::tempdir().unwrap();
    let options = RestoreOptions { target: target.path().to_owned(), ..RestoreOptions::default() };
    let work = lifeboat_kopia::restore::restore(
        &repository,
        &latest,
        options,
        Arc::default(),
        CancellationToken::new(),
    );
    assert!(!work.await.unwrap().is_incomplete());
}
