//! Files with holes.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::chunker::LONG_ZEROS;
use crate::restore::{RestoreOptions, restore};

/// Without the time for which a file must not have changed.
fn at_once(path: &Path) -> BackupOptions {
    BackupOptions { settle: Duration::ZERO, ..of_paths(&[path]) }
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_are_stored_as_the_zeros_they_read_as() {
    let source = tempfile::tempdir().unwrap();
    let path = source.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.write_all_at(&noise(700_000, 3), 20_000_000).unwrap();
    file.set_len(40_000_000).unwrap();
    drop(file);
    let repository = memory_repository().await;
    let outcome = make(&repository, at_once(&path)).await.unwrap();
    let reader = reader(&repository).await;
    let node = node_at(&reader, outcome.snapshot.tree, &path).await;
    assert!(content(&reader, &node).await == std::fs::read(&path).unwrap());
    // The same bytes without holes are the same blobs: skipping holes must not change how files are split.
    let dense = source.path().join("dense");
    std::fs::write(&dense, std::fs::read(&path).unwrap()).unwrap();
    let outcome = make(&repository, at_once(&dense)).await.unwrap();
    let reader = self::reader(&repository).await;
    assert_eq!(node_at(&reader, outcome.snapshot.tree, &dense).await.content, node.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_very_large_hole_is_stored_in_the_largest_chunks_and_comes_back() {
    const GIB: u64 = 1 << 30;
    let source = tempfile::tempdir().unwrap();
    let path = source.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    let data = noise(700_000, 3);
    let places = [3, 40 * GIB + 12_345, 80 * GIB];
    for at in places {
        file.write_all_at(&data, at).unwrap();
    }
    drop(file);
    let repository = memory_repository().await;
    let outcome = make(&repository, at_once(&path)).await.unwrap();
    let node = node_at(&reader(&repository).await, outcome.snapshot.tree, &path).await;
    let long = node.blobs().iter().filter(|blob| **blob == LONG_ZEROS).count();
    let others = node.blobs().len() - long;
    assert!((10_000..10_240).contains(&long) && others < 50, "{long} long chunks of zeros, {others} others");

    let target = tempfile::tempdir().unwrap();
    let options = RestoreOptions { target: target.path().to_owned(), sparse: true, ..Default::default() };
    let cancel = CancellationToken::new();
    let restored = restore(&repository, &outcome.snapshot, options, Arc::default(), cancel).await.unwrap();
    assert_eq!(restored.problems, []);
    let restored = std::fs::File::open(target.path().join(path.strip_prefix("/").unwrap())).unwrap();
    let metadata = restored.metadata().unwrap();
    assert_eq!(metadata.len(), 80 * GIB + 700_000);
    assert!(metadata.blocks() * 512 < 4_000_000, "{} blocks", metadata.blocks());
    for at in places {
        let mut read = vec![0; data.len()];
        restored.read_exact_at(&mut read, at).unwrap();
        assert!(read == data, "the data at {at}");
    }
}
