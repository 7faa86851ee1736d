use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::backup::{BackupOptions, BackupOutcome, Source, backup};
use crate::lock::LockOptions;
use crate::restore::tests::noise;
use crate::testing::memory_repository;

const MIB: usize = 1024 * 1024;

async fn back_up(repository: &Repository, image: &Path) -> BackupOutcome {
    let source = Source::Device { file: std::fs::File::open(image).unwrap(), name: "volume.img".to_owned() };
    let options = BackupOptions { settle: Duration::ZERO, ..BackupOptions::new(source, "host") };
    let lock = LockOptions::default();
    backup(repository, options, &lock, Arc::default(), CancellationToken::new()).await.unwrap()
}

async fn put_back(repository: &Repository, snapshot: &Snapshot, target: &Path) -> Result<DeviceOutcome> {
    let target = DeviceTarget::open(target)?;
    restore_device(repository, snapshot, target, None, true, Arc::default(), CancellationToken::new()).await
}

/// Data, written zeros, data, and a hole to the end.
fn image(directory: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let mut content = noise(3 * MIB + 777, 1);
    content.extend(vec![0; 8 * MIB]);
    content.extend(noise(MIB, 2));
    let path = directory.join("image");
    std::fs::write(&path, &content).unwrap();
    content.resize(64 * MIB, 0);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(64 * MIB as u64).unwrap();
    (path, content)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_comes_back_and_its_zeros_take_no_room() {
    let directory = tempfile::tempdir().unwrap();
    let (path, content) = image(directory.path());
    let repository = memory_repository().await;
    let outcome = back_up(&repository, &path).await;
    let counts = outcome.snapshot.summary.as_ref().unwrap().counts;
    assert_eq!(counts.total_bytes_processed, 64 * MIB as u64);
    assert!(counts.data_added < 6 * MIB as u64, "zeros were stored: {}", counts.data_added);
    let target = directory.path().join("target");
    std::fs::File::create(&target).unwrap().set_len(64 * MIB as u64).unwrap();
    let restored = put_back(&repository, &outcome.snapshot, &target).await.unwrap();
    assert_eq!(restored, DeviceOutcome { bytes: 64 * MIB as u64, verified: true });
    assert!(std::fs::read(&target).unwrap() == content);
    assert!(target.metadata().unwrap().blocks() * 512 < 6 * MIB as u64, "zeros were written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_backup_stores_only_the_blocks_that_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mut content) = image(directory.path());
    let repository = memory_repository().await;
    back_up(&repository, &path).await;
    content[40 * MIB..40 * MIB + 4096].copy_from_slice(&noise(4096, 3));
    std::fs::write(&path, &content).unwrap();
    let outcome = back_up(&repository, &path).await;
    let counts = outcome.snapshot.summary.as_ref().unwrap().counts;
    assert!(counts.data_added < 3 * MIB as u64, "more was stored than changed: {}", counts.data_added);
    let target = directory.path().join("target");
    // Old data on the target must not remain.
    std::fs::write(&target, noise(64 * MIB, 4)).unwrap();
    put_back(&repository, &outcome.snapshot, &target).await.unwrap();
    assert!(std::fs::read(&target).unwrap() == content);
}

#[tokio::test]
async fn where_nothing_can_be_cleared_zeros_are_written_over_what_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("target");
    std::fs::write(&path, noise(MIB, 5)).unwrap();
    let target = DeviceTarget::open(&path).unwrap();
    let mut content = vec![0; MIB];
    content[5000..6000].fill(7);
    target.write(&content, 0).unwrap();
    assert!(std::fs::read(&path).unwrap() == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_too_small_is_refused_with_both_sizes() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = image(directory.path());
    let repository = memory_repository().await;
    let outcome = back_up(&repository, &path).await;
    let target = directory.path().join("target");
    std::fs::File::create(&target).unwrap().set_len(MIB as u64).unwrap();
    let error = put_back(&repository, &outcome.snapshot, &target).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("67108864") && text.contains("1048576"), "{text}");
    let Error::Local { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
}
