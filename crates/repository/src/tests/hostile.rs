//! Trees that no backup writes, given to every operation that walks them: it ends, in time and without a panic.

use std::sync::Arc;

use rstest::rstest;
use tokio_util::sync::CancellationToken;

use crate::check::{CheckOptions, CheckOutcome, ReadData, check};
use crate::copy::copy;
use crate::diff::{Side, diff};
use crate::dump::{DumpFormat, dump};
use crate::error::{Error, Result};
use crate::files::FileKind;
use crate::find::{Wanted, find};
use crate::id::{BlobId, BlobKind, Id, SnapshotId};
use crate::index::{IndexFile, IndexedPack};
use crate::lock::LockOptions;
use crate::ls::{LsOptions, ls};
use crate::pack::PackedBlob;
use crate::prune::{PruneOptions, dry_run};
use crate::repair::{RepairSnapshotsOptions, repair_snapshots};
use crate::restore::tests::make::{TestSnapshot, directory, make, make_deep, make_in, make_wide};
use crate::restore::{RestoreOptions, restore};
use crate::source::patterns::{Case, Patterns};
use crate::stats::{StatsMode, stats};
use crate::testing::memory_repository;

async fn saved(made: &TestSnapshot) -> SnapshotId {
    made.repository.save_snapshot(&made.snapshot).await.unwrap()
}

async fn checked(made: &TestSnapshot) -> CheckOutcome {
    let options = CheckOptions { read: ReadData::All, snapshots: None };
    check(&made.repository, &options, None, Arc::default(), CancellationToken::new()).await.unwrap()
}

/// Operations that visit each tree once.
async fn by_tree(made: &TestSnapshot, id: SnapshotId) -> Result<()> {
    let (repository, none) = (&made.repository, CancellationToken::new());
    dry_run(repository, &PruneOptions::default(), &<_>::default()).await?;
    stats(repository, &[id], StatsMode::RawData, None, &<_>::default(), &none).await?;
    let target = memory_repository().await;
    copy(repository, &target, &[id], None, &LockOptions::default(), Arc::default(), none.clone()).await?;
    let options = RepairSnapshotsOptions { snapshots: vec![id], dry_run: true, ..<_>::default() };
    repair_snapshots(repository, &options, &LockOptions::default(), &<_>::default(), &none).await?;
    Ok(())
}

/// Operations that visit each path.
async fn by_path(made: &TestSnapshot, id: SnapshotId) -> Result<()> {
    let (repository, tree, none) = (&made.repository, made.snapshot.tree, CancellationToken::new());
    let mut listed = 0;
    let mut count = |_| {
        listed += 1;
        Ok(())
    };
    ls(repository, tree, &LsOptions::default(), None, &mut count, &none).await?;
    assert!(listed > 0);
    for mode in [StatsMode::RestoreSize, StatsMode::FilesByContents, StatsMode::BlobsPerFile] {
        stats(repository, &[id], mode, None, &<_>::default(), &none).await?;
    }
    let patterns = Patterns::parse(["f"], Case::Matters).unwrap();
    let wanted = Wanted::Names { patterns, oldest: None, newest: None };
    find(repository, &[id], &wanted, None, &mut |_| Ok(()), &<_>::default(), &none).await?;
    let side = |tree| Side { name: String::new(), tree, subfolder: None };
    diff(repository, &side(tree), &side(empty_tree(made).await), true, None, &mut |_| Ok(()), &none).await?;
    Ok(())
}

/// An empty tree of the same repository.
async fn empty_tree(made: &TestSnapshot) -> BlobId {
    make_in(made.repository.clone(), Vec::new()).await.snapshot.tree
}

#[tokio::test]
async fn a_tree_deeper_than_a_stack_is_walked_to_its_end() {
    let made = make_deep(5_000).await;
    let id = saved(&made).await;
    assert!(checked(&made).await.is_ok());
    by_tree(&made, id).await.unwrap();
    by_path(&made, id).await.unwrap();
    for format in [DumpFormat::Tar, DumpFormat::Zip] {
        let cancel = CancellationToken::new();
        let dumped = dump(&made.repository, &made.snapshot, "/", format, std::io::sink(), cancel).await;
        assert!(matches!(dumped, Err(Error::Damaged { .. })), "no archive holds such a path");
    }
}

#[tokio::test]
async fn trees_with_more_paths_than_anyone_can_list_are_read_once() {
    let made = make_wide(60).await;
    let id = saved(&made).await;
    assert!(checked(&made).await.is_ok());
    by_tree(&made, id).await.unwrap();
}

/// A tree that contains itself as a directory, as far as that is possible: an index claims that the tree is the blob
/// that it names.
async fn in_itself(depth: usize) -> TestSnapshot {
    let claimed = BlobId(Id([9; 32]));
    let mut entry = directory("d", Vec::new()).with(|node| node.subtree = Some(claimed));
    for _ in 0..depth {
        entry = directory("d", vec![entry]);
    }
    let made = make(vec![entry]).await;
    let index = made.repository.load_index().await.unwrap();
    let root = index.find(BlobKind::Tree, &made.snapshot.tree).unwrap().unwrap();
    let blob = PackedBlob {
        kind: BlobKind::Tree,
        id: claimed,
        offset: root.offset,
        length: root.length,
        uncompressed_length: root.uncompressed_length,
    };
    let file = IndexFile { packs: vec![IndexedPack::new(root.pack, &[blob])] };
    made.repository.save_file(FileKind::Index, &file.json().unwrap()).await.unwrap();
    made
}

#[rstest]
#[case(0)]
#[case(3)]
#[tokio::test]
async fn a_tree_that_is_said_to_hold_itself_is_damage(#[case] depth: usize) {
    let made = in_itself(depth).await;
    let id = saved(&made).await;
    assert!(!checked(&made).await.is_ok());
    let pruning = dry_run(&made.repository, &PruneOptions::default(), &<_>::default()).await;
    assert!(matches!(pruning, Err(Error::Damaged { .. } | Error::Refused { .. })), "{pruning:?}");
    assert!(by_tree(&made, id).await.is_err());
    let _ = by_path(&made, id).await;
    let target = tempfile::tempdir().unwrap();
    let options = RestoreOptions { target: target.path().to_owned(), ..RestoreOptions::default() };
    let outcome =
        restore(&made.repository, &made.snapshot, options, Arc::default(), CancellationToken::new())
            .await
            .unwrap();
    assert!(outcome.is_incomplete());
}
