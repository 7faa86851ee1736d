mod root;
mod sparse;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::blobs::BlobReader;
use crate::error::Error;
use crate::id::{BlobId, BlobKind};
use crate::node::Node;
use crate::testing::memory_repository;

/// Waits for the next tick of the clock of files, so that files which were just made count as older than the backup.
async fn make(repository: &Repository, options: BackupOptions) -> Result<BackupOutcome> {
    let clock = || rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let before = clock();
    while clock() == before {
        tokio::task::yield_now().await;
    }
    backup(repository, options, &LockOptions::default(), Arc::default(), CancellationToken::new()).await
}

fn of_paths(paths: &[&std::path::Path]) -> BackupOptions {
    BackupOptions::new(Source::Paths(paths.iter().map(|path| path.to_path_buf()).collect()), "host")
}

async fn reader(repository: &Repository) -> BlobReader {
    BlobReader::new(repository, Arc::new(repository.load_index().await.unwrap()))
}

async fn node_at(reader: &BlobReader, tree: BlobId, path: &std::path::Path) -> Node {
    let mut tree = tree;
    let mut found = None;
    for name in path.components().skip(1) {
        let nodes = reader.load_tree(&tree).await.unwrap();
        let wanted = name.as_os_str().as_encoded_bytes();
        let node = nodes.into_iter().find(|node| node.name == wanted).unwrap();
        tree = node.subtree.unwrap_or(tree);
        found = Some(node);
    }
    found.unwrap()
}

async fn content(reader: &BlobReader, node: &Node) -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in node.blobs() {
        bytes.extend_from_slice(&reader.load(BlobKind::Data, id).await.unwrap());
    }
    bytes
}

/// Bytes that do not repeat and do not compress.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_large_and_small_come_back_and_a_second_backup_reads_none_of_them() {
    let source = tempfile::tempdir().unwrap();
    let files = [("empty", 0), ("small", 1000), ("deep/er/large", 9_000_001), ("exact", 512 * 1024)];
    for (number, (name, length)) in (1..).zip(files) {
        let path = source.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, noise(length, number)).unwrap();
    }
    let repository = memory_repository().await;
    let first = make(&repository, of_paths(&[source.path()])).await.unwrap();
    assert!(!first.is_incomplete());
    let counts = first.snapshot.summary.as_ref().unwrap().counts;
    assert_eq!((counts.files_new, counts.total_bytes_processed), (4, 9_525_289));
    let reader = reader(&repository).await;
    for (number, (name, length)) in (1..).zip(files) {
        let node = node_at(&reader, first.snapshot.tree, &source.path().join(name)).await;
        assert_eq!(node.size, length as u64);
        assert!(content(&reader, &node).await == noise(length, number), "{name}");
    }
    let second = make(&repository, of_paths(&[source.path()])).await.unwrap();
    // The directories above belong to others, which change them; the source itself is the same tree.
    let again = self::reader(&repository).await;
    let old = node_at(&again, first.snapshot.tree, source.path()).await;
    assert_eq!(node_at(&again, second.snapshot.tree, source.path()).await.subtree, old.subtree);
    assert_eq!(second.snapshot.parent, first.snapshot_id);
    let counts = second.snapshot.summary.unwrap().counts;
    assert_eq!((counts.files_unmodified, counts.data_blobs), (4, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_becomes_a_file_and_an_empty_one_is_refused() {
    let repository = memory_repository().await;
    let stream = |bytes: Vec<u8>| {
        let reader = Box::new(std::io::Cursor::new(bytes));
        BackupOptions::new(Source::Stream { name: "db/dump.sql".to_owned(), reader }, "host")
    };
    let outcome = make(&repository, stream(noise(5_000_000, 9))).await.unwrap();
    assert_eq!(outcome.snapshot.paths, ["/db/dump.sql"]);
    let reader = reader(&repository).await;
    let node = node_at(&reader, outcome.snapshot.tree, "/db/dump.sql".as_ref()).await;
    assert!(content(&reader, &node).await == noise(5_000_000, 9));
    let refused = make(&repository, stream(Vec::new())).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    let allowed = BackupOptions { allow_empty: true, ..stream(Vec::new()) };
    assert!(make(&repository, allowed).await.unwrap().snapshot_id.is_some());
    assert_eq!(repository.load_snapshots().await.unwrap().len(), 2);
}

#[rstest::rstest]
#[case("exit 1")]
#[case("printf x; exit 1")]
#[case("head -c 9000000 /dev/urandom; exit 3")]
#[case("head -c 3000000 /dev/urandom; kill -9 $$")]
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_leaves_no_snapshot(#[case] script: &str) {
    let repository = memory_repository().await;
    let argv = ["sh", "-c", script].map(std::ffi::OsString::from).to_vec();
    let options = BackupOptions::new(Source::Command { name: "dump".to_owned(), argv }, "host");
    let outcome = make(&repository, options).await;
    assert!(matches!(outcome, Err(Error::Invalid { .. })), "{outcome:?}");
    assert_eq!(repository.load_snapshots().await.unwrap(), []);
    assert_eq!(repository.list(crate::files::FileKind::Lock).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_makes_the_backup_incomplete() {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("there"), "x").unwrap();
    let repository = memory_repository().await;
    let missing = source.path().join("missing");
    let incomplete_tag = Some("missing=".to_owned());
    let there = source.path().join("there");
    let options = BackupOptions {
        incomplete_tag: incomplete_tag.clone(),
        incomplete_tags: vec!["incomplete".to_owned()],
        ..of_paths(&[&there, &missing])
    };
    let outcome = make(&repository, options).await.unwrap();
    assert!(outcome.is_incomplete());
    assert_eq!(outcome.snapshot.tags, ["missing=1", "incomplete"]);
    let incomplete_tags = vec!["incomplete".to_owned()];
    let whole = BackupOptions { incomplete_tag, incomplete_tags, ..of_paths(&[&there]) };
    assert!(make(&repository, whole).await.unwrap().snapshot.tags.is_empty());
    assert_eq!(outcome.unreadable[0].path, missing.display().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_counts_and_writes_nothing() {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("file"), noise(3_000_000, 1)).unwrap();
    let repository = memory_repository().await;
    let outcome =
        make(&repository, BackupOptions { dry_run: true, ..of_paths(&[source.path()]) }).await.unwrap();
    assert_eq!(outcome.snapshot_id, None);
    assert!(outcome.snapshot.summary.unwrap().counts.data_added_packed > 2_900_000);
    for kind in
        [crate::files::FileKind::Pack, crate::files::FileKind::Index, crate::files::FileKind::Snapshot]
    {
        assert_eq!(repository.list(kind).await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_backup_leaves_no_snapshot_and_no_lock() {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("file"), noise(3_000_000, 1)).unwrap();
    let repository = memory_repository().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let options = of_paths(&[source.path()]);
    let outcome = backup(&repository, options, &LockOptions::default(), Arc::default(), cancel).await;
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    assert_eq!(repository.load_snapshots().await.unwrap(), []);
    assert_eq!(repository.list(crate::files::FileKind::Lock).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_snapshot_is_committed_only_under_the_lock_it_was_made_under() {
    let repository = memory_repository().await;
    let lock = Lock::acquire(&repository, LockKind::Shared, &LockOptions::default()).await.unwrap();
    let host = repository.options().identity.host.clone();
    let owner = LockOwner { host, process: i64::from(std::process::id()) };
    let stream = || {
        let reader = Box::new(std::io::Cursor::new(b"dump".to_vec()));
        BackupOptions::new(Source::Stream { name: "dump".to_owned(), reader }, "host")
    };
    let cancel = CancellationToken::new();
    let options = LockOptions::default();
    let prepared =
        prepare(&repository, stream(), owner.clone(), &options, Arc::default(), cancel.clone()).await;
    let (prepared, _) = prepared.unwrap();
    assert_eq!(repository.load_snapshots().await.unwrap(), []);
    let prepared: Prepared = serde_json::from_str(&serde_json::to_string(&prepared).unwrap()).unwrap();
    commit(&repository, &prepared, &cancel).await.unwrap();
    assert_eq!(repository.load_snapshots().await.unwrap().len(), 1);
    lock.release().await;
    let refused = commit(&repository, &prepared, &cancel).await;
    assert!(matches!(refused, Err(Error::LockLost { .. })), "{refused:?}");
    let other = memory_repository().await;
    assert!(matches!(commit(&other, &prepared, &cancel).await, Err(Error::Invalid { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_prepared_under_an_exclusive_lock() {
    let repository = memory_repository().await;
    let _lock = Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap();
    let host = repository.options().identity.host.clone();
    let owner = LockOwner { host, process: i64::from(std::process::id()) };
    let reader = Box::new(std::io::Cursor::new(b"dump".to_vec()));
    let options = BackupOptions::new(Source::Stream { name: "dump".to_owned(), reader }, "host");
    let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
    let refused = prepare(&repository, options, owner, &lock, Arc::default(), cancel).await;
    let Err(error @ Error::Refused { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.hint().unwrap().contains("--exclusive"));
}

#[rstest::rstest]
#[case::silent("exec sleep 1000")]
#[case::after_some_output("printf x; exec sleep 1000")]
#[case::with_its_output_closed("printf x; exec >&-; exec sleep 1000")]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_backup_ends_although_its_command_goes_on(#[case] script: &str) {
    let repository = memory_repository().await;
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    let script = format!("echo $$ > '{}'; {script}", started.display());
    let argv = ["sh", "-c", &script].map(std::ffi::OsString::from).to_vec();
    let options = BackupOptions::new(Source::Command { name: "dump".to_owned(), argv }, "host");
    let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
    let cancelling = async {
        while std::fs::read_to_string(&started).unwrap_or_default().trim().is_empty() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let backing_up = backup(&repository, options, &lock, Arc::default(), cancel.clone());
    let (outcome, ()) = tokio::join!(backing_up, cancelling);
    assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
    let process = std::fs::read_to_string(&started).unwrap();
    assert!(!std::path::Path::new("/proc").join(process.trim()).exists(), "the command was ended");
    assert_eq!(repository.load_snapshots().await.unwrap(), []);
    assert_eq!(repository.list(crate::files::FileKind::Lock).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_nothing_is_refused() {
    let repository = memory_repository().await;
    let mut options = of_paths(&[std::path::Path::new("/")]);
    let everything = crate::source::patterns::Patterns::parse(["*"], crate::source::patterns::Case::Matters);
    options.filter.patterns = vec![everything.unwrap()];
    let outcome = make(&repository, options).await;
    assert!(matches!(&outcome, Err(Error::NothingFound { .. })), "{outcome:?}");
    assert_eq!(repository.load_snapshots().await.unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_file_without_its_signature_leaves_nothing_out_and_the_backup_is_complete() {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("CACHEDIR.TAG"), b"no signature").unwrap();
    std::fs::write(source.path().join("file"), b"x").unwrap();
    let repository = memory_repository().await;
    let mut options = of_paths(&[source.path()]);
    options.filter.tag_files = vec![crate::source::filter::TagFile::of_caches()];
    let outcome = make(&repository, options).await.unwrap();
    assert!(outcome.unreadable.is_empty(), "{:?}", outcome.unreadable);
    let reader = reader(&repository).await;
    node_at(&reader, outcome.snapshot.tree, &source.path().join("file")).await;
}

/// Files in /proc have size 0 but content: like a file that was written to after it was opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_grows_is_read_only_so_far() {
    let repository = memory_repository().await;
    let path = std::path::Path::new("/proc/version");
    let options = BackupOptions { growth: Some(10), ..of_paths(&[path]) };
    let outcome = make(&repository, options).await.unwrap();
    assert_eq!(outcome.changed_while_read, ["/proc/version"]);
    let reader = reader(&repository).await;
    let node = node_at(&reader, outcome.snapshot.tree, path).await;
    assert_eq!(node.size, 10);
    assert_eq!(content(&reader, &node).await, &std::fs::read(path).unwrap()[..10]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_very_large_directory_is_the_same_tree_as_one_that_is_kept_in_memory() {
    let source = tempfile::tempdir().unwrap();
    for number in 0..16_000 {
        std::fs::write(source.path().join(format!("file {number:05}")), b"x").unwrap();
    }
    let (one, other) = (memory_repository().await, memory_repository().await);
    let large = || BackupOptions { large_tree: 100_000, ..of_paths(&[source.path()]) };
    let small = make(&other, of_paths(&[source.path()])).await.unwrap();
    let first = make(&one, large()).await.unwrap();
    let reader = self::reader(&one).await;
    assert_eq!(
        node_at(&reader, first.snapshot.tree, source.path()).await.subtree,
        node_at(&self::reader(&other).await, small.snapshot.tree, source.path()).await.subtree
    );
    assert_eq!(one.list(crate::files::FileKind::Pack).await.unwrap().len(), 3, "data, trees, the large tree");
    // The second backup reads the tree as a stream, because it has more than 4 MiB, and finds every file in it.
    let second = make(&one, large()).await.unwrap();
    let counts = second.snapshot.summary.unwrap().counts;
    assert_eq!((counts.files_unmodified, counts.data_blobs), (16_000, 0));
    let checked = crate::check::CheckOptions { read: crate::check::ReadData::All, snapshots: None };
    let cancel = CancellationToken::new();
    let checked = crate::check::check(&one, &checked, None, Arc::default(), cancel).await.unwrap();
    assert!(checked.is_ok(), "{checked:?}");
}
