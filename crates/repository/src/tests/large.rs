//! A directory whose tree is streamed, given to operations that walk trees.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::blobs::BlobReader;
use crate::check::{CheckOptions, ReadData, check};
use crate::copy::copy;
use crate::id::BlobKind;
use crate::lock::LockOptions;
use crate::node::Node;
use crate::prune::plan::{self, MaxUnused};
use crate::prune::{PruneOptions, prune};
use crate::repository::Repository;
use crate::restore::tests::large::many;
use crate::restore::tests::make::{directory, file, make};
use crate::snapshot::Snapshot;
use crate::testing::memory_repository;
use crate::walk::{Step, Walk, find_directory, find_node};

async fn check_all(repository: &Repository) {
    let options = CheckOptions { read: ReadData::All, snapshots: None };
    let checked = check(repository, &options, None, Arc::default(), CancellationToken::new()).await.unwrap();
    assert!(checked.is_ok(), "{checked:?}");
}

async fn reader(repository: &Repository) -> BlobReader {
    BlobReader::new(repository, Arc::new(repository.load_index().await.unwrap()))
}

#[tokio::test]
async fn what_a_large_directory_needs_is_kept_checked_and_copied() {
    let mut entries = many();
    entries.insert(0, directory("below", vec![file("inner", &[b"i"])]));
    entries.push(file("z", &[b"con", b"tent"]));
    let made = make(vec![directory("gone", vec![file("a", &[b"gone"])]), directory("large", entries)]).await;
    let repository = &made.repository;
    let tree = find_directory(&reader(repository).await, made.snapshot.tree, "/large").await.unwrap();
    // The pack of the large tree has the trees of what is gone, so it is written again.
    let id = repository.save_snapshot(&Snapshot { tree, ..made.snapshot }).await.unwrap();
    let plan =
        plan::Options { grace: Duration::ZERO, max_unused: MaxUnused::Bytes(0), ..plan::Options::default() };
    let options = PruneOptions { plan, ..PruneOptions::default() };
    let none = CancellationToken::new();
    let pruned = prune(repository, &options, &LockOptions::default(), &<_>::default(), &none).await.unwrap();
    assert!(!pruned.plan.repack.is_empty());
    check_all(repository).await;
    let kept = reader(repository).await;
    assert_eq!(kept.index().len(), 5, "the large tree, the one below it and three pieces of files");

    let target = memory_repository().await;
    copy(repository, &target, &[id], None, &LockOptions::default(), Arc::default(), none).await.unwrap();
    check_all(&target).await;
    assert!(reader(&target).await.index().find(BlobKind::Tree, &tree).unwrap().is_some());
}

#[tokio::test]
async fn a_large_directory_is_listed_and_searched_like_a_small_one() {
    let made = make(many()).await;
    let (reader, tree, none) = (reader(&made.repository).await, made.snapshot.tree, CancellationToken::new());
    assert!(reader.is_large(&tree).unwrap());
    let whole = reader.load_tree(&tree).await.unwrap();
    let mut walk = Walk::start(&reader, b"/", &tree, &none).await.unwrap();
    let mut walked: Vec<Node> = Vec::new();
    while let Some(step) = walk.step().await.unwrap() {
        let Step::Enter { node, .. } = step else { panic!("{step:?}") };
        walked.push(node);
    }
    assert_eq!(walked, whole);
    assert_eq!(find_node(&reader, tree, b"link 4499").await.unwrap().as_ref(), whole.last());
    assert_eq!(find_node(&reader, tree, b"link 4500").await.unwrap(), None);
}
