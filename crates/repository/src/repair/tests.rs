use std::sync::Arc;

use lifeboat_store::Memory;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::blobs::BlobReader;
use crate::check::{CheckOptions, CheckOutcome, ReadData, check};
use crate::config::Version;
use crate::files::FileKind;
use crate::id::{BlobId, BlobKind, Id, PackId, SnapshotId};
use crate::lock::LockOptions;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::testing::switchable::SwitchableBackend;
use crate::testing::unreliable::{Fault, ListingFault, Unreliable, copy, store};
use crate::testing::{memory_repository, new_repository, opened, save_snapshot};

async fn checked(repository: &Repository) -> CheckOutcome {
    let options = CheckOptions { read: ReadData::All, snapshots: None };
    check(repository, &options, None, Arc::default(), CancellationToken::new()).await.unwrap()
}

async fn mend_index(repository: &Repository, read_all_packs: bool) -> RepairIndexOutcome {
    let options = RepairIndexOptions { read_all_packs };
    let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
    repair_index(repository, options, &lock, &Progress::default(), &cancel).await.unwrap()
}

async fn mend_snapshots(
    repository: &Repository,
    ids: &[SnapshotId],
    forget: bool,
    dry_run: bool,
) -> RepairSnapshotsOutcome {
    let options = RepairSnapshotsOptions { snapshots: ids.to_vec(), forget, dry_run };
    let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
    repair_snapshots(repository, &options, &lock, &Progress::default(), &cancel).await.unwrap()
}

async fn pack_of(repository: &Repository, content: &[u8]) -> PackId {
    let index = repository.load_index().await.unwrap();
    index.find(BlobKind::Data, &BlobId(Id::of(content))).unwrap().unwrap().pack
}

#[rstest::rstest]
#[case::nothing(0, false)]
#[case::from_scratch(0, true)]
#[case::all_index_files_gone(1, false)]
#[case::one_damaged(2, false)]
#[case::named_twice(3, false)]
#[case::named_twice_from_scratch(3, true)]
#[tokio::test]
async fn the_index_is_whole_again(#[case] damage: u8, #[case] read_all: bool) {
    let repository = memory_repository().await;
    save_snapshot(&repository, 1, &[("a/b", &[1; 2500])]).await;
    save_snapshot(&repository, 2, &[("c", b"x")]).await;
    let files = repository.list(FileKind::Index).await.unwrap();
    let key = FileKind::Index.key(files[0].id);
    match damage {
        1 => {
            for file in &files {
                repository.remove_file(FileKind::Index, file.id).await.unwrap();
            }
        }
        2 => repository.store().put(&key, vec![0; 100]).await.unwrap(),
        3 => {
            let plain = repository.load_file(FileKind::Index, files[0].id).await.unwrap();
            repository.save_file(FileKind::Index, &plain).await.unwrap();
        }
        _ => {}
    }
    let before = checked(&repository).await;
    assert_eq!(before.is_ok() && before.hints.is_empty(), damage == 0);
    let outcome = mend_index(&repository, read_all).await;
    assert_eq!(outcome.changed_anything(), damage != 0 || read_all, "{outcome:?}");
    let after = checked(&repository).await;
    assert!(after.is_ok() && after.hints.is_empty(), "{after:?}");
    assert!(!mend_index(&repository, false).await.changed_anything(), "a second time there is nothing to do");
}

#[tokio::test]
async fn an_index_that_is_whole_is_read_once_and_of_a_damaged_one_only_the_files_to_rewrite_again() {
    let backend = SwitchableBackend::new();
    let repository = new_repository(backend.store(), Version::V2).await;
    for second in 1..=5 {
        let content = format!("content {second}");
        save_snapshot(&repository, second, &[("a", content.as_bytes())]).await;
    }
    let reads = async || {
        let before = backend.reads_of("index/");
        let outcome = mend_index(&repository, false).await;
        (outcome.changed_anything(), backend.reads_of("index/") - before)
    };
    assert_eq!(reads().await, (false, 5));
    let pack = pack_of(&repository, b"content 3").await;
    repository.remove_file(FileKind::Pack, pack.0).await.unwrap();
    assert_eq!(reads().await, (true, 6));
    assert_eq!(reads().await, (false, 5));
}

#[tokio::test]
async fn packs_that_are_gone_leave_the_index_and_what_is_no_pack_is_left_alone() {
    let repository = memory_repository().await;
    save_snapshot(&repository, 1, &[("a", b"first")]).await;
    let pack = pack_of(&repository, b"first").await;
    repository.remove_file(FileKind::Pack, pack.0).await.unwrap();
    let odd = PackId(Id([7; 32]));
    repository.store().put(&FileKind::Pack.key(odd.0), vec![1, 2, 3]).await.unwrap();
    let outcome = mend_index(&repository, false).await;
    assert_eq!(outcome.missing_packs, [pack]);
    assert_eq!(outcome.unreadable_packs[0].0, odd);
    assert!(repository.load_raw(FileKind::Pack, odd.0).await.is_ok());
    assert!(!repository.load_index().await.unwrap().packs().contains(&pack));
}

/// A pack that lost its end, which contains its header.
async fn cut_pack(repository: &Repository, content: &[u8], rest: impl Fn(usize) -> usize) -> PackId {
    let pack = pack_of(repository, content).await;
    let key = FileKind::Pack.key(pack.0);
    let raw = repository.store().get(&key).await.unwrap();
    repository.store().put(&key, raw.slice(..rest(raw.len()))).await.unwrap();
    pack
}

#[rstest::rstest]
#[case::as_it_was(false)]
#[case::believing_no_index(true)]
#[tokio::test]
async fn what_is_left_of_a_pack_without_its_header_stays_in_the_index_and_can_be_saved(
    #[case] read_all: bool,
) {
    let repository = memory_repository().await;
    save_snapshot(&repository, 1, &[("a", b"first"), ("b", b"second")]).await;
    let pack = cut_pack(&repository, b"first", |length| length - 10).await;
    let outcome = mend_index(&repository, read_all).await;
    let [cut] = outcome.cut_packs.as_slice() else { panic!("{outcome:?}") };
    assert_eq!((cut.id, cut.kept, cut.lost), (pack, 2, 0));

    let copies = tempfile::tempdir().unwrap();
    let options = RepairPacksOptions { packs: vec![pack], copies: Some(copies.path().to_owned()) };
    let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
    let saved = repair_packs(&repository, &options, &lock, &Progress::default(), &cancel).await.unwrap();
    assert_eq!((saved.salvaged, saved.lost.len()), (2, 0));
    assert!(checked(&repository).await.is_ok());
}

#[tokio::test]
async fn what_was_cut_off_a_pack_leaves_the_index_so_that_backups_store_it_again() {
    let repository = memory_repository().await;
    save_snapshot(&repository, 1, &[("a", b"first")]).await;
    let pack = cut_pack(&repository, b"first", |_| 3).await;
    let outcome = mend_index(&repository, false).await;
    assert_eq!((outcome.cut_packs[0].kept, outcome.cut_packs[0].lost), (0, 1));
    assert!(!repository.load_index().await.unwrap().packs().contains(&pack));

    let options = RepairPacksOptions { packs: vec![pack], copies: None };
    let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
    let refused = repair_packs(&repository, &options, &lock, &Progress::default(), &cancel).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    assert!(repository.load_raw(FileKind::Pack, pack.0).await.is_ok(), "the pack must stay");
}

#[tokio::test]
async fn whole_blobs_of_a_damaged_pack_are_saved_and_the_rest_is_cut_out_of_the_snapshots() {
    let repository = memory_repository().await;
    let content: Vec<u8> = [[1; 1000], [2; 1000], [3; 1000]].concat();
    let (id, snapshot) = save_snapshot(&repository, 1, &[("a/b", &content), ("c", b"x")]).await;
    let index = repository.load_index().await.unwrap();
    let hit = index.find(BlobKind::Data, &BlobId(Id::of(&content[1000..2000]))).unwrap().unwrap();
    let key = FileKind::Pack.key(hit.pack.0);
    let mut raw = repository.store().get(&key).await.unwrap().to_vec();
    raw[hit.offset as usize + 20] ^= 1;
    repository.store().put(&key, raw.clone()).await.unwrap();
    assert_eq!(checked(&repository).await.broken_packs, [hit.pack]);

    let copies = tempfile::tempdir().unwrap();
    let options = RepairPacksOptions { packs: vec![hit.pack], copies: Some(copies.path().to_owned()) };
    let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
    let outcome = repair_packs(&repository, &options, &lock, &Progress::default(), &cancel).await.unwrap();
    assert_eq!((outcome.salvaged, outcome.lost.len()), (3, 1));
    assert_eq!(std::fs::read(copies.path().join(format!("pack-{}", hit.pack))).unwrap(), raw);

    let dry = mend_snapshots(&repository, &[id], true, true).await;
    assert_eq!((dry.repaired.len(), dry.repaired[0].new), (1, None));
    assert!(repository.load_snapshot(id).await.is_ok());
    let beside = mend_snapshots(&repository, &[id], false, false).await;
    let new = repository.load_snapshot(beside.repaired[0].new.unwrap()).await.unwrap();
    assert_eq!((new.tags, new.original), (vec!["repaired".to_owned()], Some(id)));
    let instead = mend_snapshots(&repository, &[id], true, false).await;
    let repaired = &instead.repaired[0];
    assert_eq!(repaired.mended, [Mended { path: "/a/b".to_owned(), kind: MendedKind::ContentRemoved }]);
    assert!(repaired.old_was_removed && repository.load_snapshot(id).await.is_err());
    let after = checked(&repository).await;
    assert!(after.is_ok(), "{after:?}");
    let new = repository.load_snapshot(repaired.new.unwrap()).await.unwrap();
    assert_ne!(new.tree, snapshot.tree);
    let reader = BlobReader::new(&repository, Arc::new(repository.load_index().await.unwrap()));
    let nodes = reader.load_tree(&new.tree).await.unwrap();
    let file = &reader.load_tree(&nodes[0].subtree.unwrap()).await.unwrap()[0];
    assert_eq!((file.blobs().len(), file.size), (2, 2000));
}

#[tokio::test]
async fn a_directory_that_is_lost_becomes_empty_and_a_lost_root_goes_only_if_asked() {
    let repository = memory_repository().await;
    let (_, inner) = save_snapshot(&repository, 1, &[("b", b"x")]).await;
    let packs: Vec<_> = repository.list(FileKind::Pack).await.unwrap();
    let index = repository.load_index().await.unwrap();
    let tree_pack = index.find(BlobKind::Tree, &inner.tree).unwrap().unwrap().pack;
    assert!(packs.iter().any(|pack| pack.id == tree_pack.0));
    let (outer_id, _) = save_snapshot(&repository, 2, &[("a/b", b"x"), ("c", b"y")]).await;
    repository.remove_file(FileKind::Pack, tree_pack.0).await.unwrap();
    mend_index(&repository, false).await;
    let ids: Vec<_> =
        repository.list(FileKind::Snapshot).await.unwrap().iter().map(|f| SnapshotId(f.id)).collect();
    let outcome = mend_snapshots(&repository, &ids, false, false).await;
    assert_eq!(outcome.repaired.len(), 2);
    for repaired in &outcome.repaired {
        assert_eq!(repaired.root_is_lost, repaired.old != outer_id);
        assert_eq!(repaired.new.is_some(), repaired.old == outer_id);
    }
    assert_eq!(repository.list(FileKind::Snapshot).await.unwrap().len(), 3);
    mend_snapshots(&repository, &ids, true, false).await;
    let after = checked(&repository).await;
    assert!(after.is_ok(), "{after:?}");
}

#[tokio::test]
async fn a_repair_of_whole_snapshots_changes_nothing() {
    let repository = memory_repository().await;
    let (id, _) = save_snapshot(&repository, 1, &[("a/b", &[1; 2500])]).await;
    assert_eq!(mend_snapshots(&repository, &[id], true, false).await.repaired, []);
}

#[tokio::test]
async fn a_pack_that_was_read_wrong_once_loses_only_what_is_damaged() {
    let memory = Arc::new(Memory::new());
    let repository = new_repository(store(Arc::clone(&memory) as _), Version::V2).await;
    let content: Vec<u8> = [[1; 1000], [2; 1000], [3; 1000]].concat();
    save_snapshot(&repository, 1, &[("a/b", &content), ("c", b"x")]).await;
    let index = repository.load_index().await.unwrap();
    let hit = index.find(BlobKind::Data, &BlobId(Id::of(&content[1000..2000]))).unwrap().unwrap();
    assert!(hit.offset > 20, "what is flipped on the way is in another blob");
    let key = FileKind::Pack.key(hit.pack.0);
    let mut raw = repository.store().get(&key).await.unwrap().to_vec();
    raw[hit.offset as usize + 20] ^= 1;
    repository.store().put(&key, raw).await.unwrap();

    for read in [1, 2] {
        let copied = copy(&memory).await;
        let unreliable = Unreliable::new(&copied, Fault::Flip { read });
        let repository = opened(unreliable.store()).await.unwrap();
        let options = RepairPacksOptions { packs: vec![hit.pack], copies: None };
        let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
        let outcome =
            repair_packs(&repository, &options, &lock, &Progress::default(), &cancel).await.unwrap();
        assert!(unreliable.happened());
        let lost = vec![(BlobKind::Data, BlobId(Id::of(&content[1000..2000])))];
        assert_eq!((outcome.salvaged, outcome.lost), (3, lost), "read {read}");
    }
}

#[rstest::rstest]
#[case(ListingFault::LacksTheFirst, false)]
#[case(ListingFault::LacksTheLast, true)]
#[case(ListingFault::IsEmpty, false)]
#[case(ListingFault::IsEmpty, true)]
#[tokio::test]
async fn a_listing_that_lacks_packs_takes_none_out_of_the_index(
    #[case] fault: ListingFault,
    #[case] read_all_packs: bool,
) {
    let memory = Arc::new(Memory::new());
    let repository = new_repository(store(Arc::clone(&memory) as _), Version::V2).await;
    save_snapshot(&repository, 1, &[("a", b"first")]).await;
    let attempt = async |fault| {
        let copied = copy(&memory).await;
        let unreliable = Unreliable::new(&copied, fault);
        let repository = opened(unreliable.store()).await.unwrap();
        let (options, cancel) = (RepairIndexOptions { read_all_packs }, CancellationToken::new());
        let outcome =
            repair_index(&repository, options, &LockOptions::default(), &Progress::default(), &cancel).await;
        (unreliable, outcome, opened(store(copied)).await.unwrap())
    };
    let (quiet, _, _) = attempt(Fault::None).await;
    let number = (1..=quiet.listings()).find(|number| quiet.listed(*number) == "data/").unwrap();
    let (unreliable, outcome, after) = attempt(Fault::Listing { number, fault }).await;
    assert!(unreliable.happened());
    assert!(matches!(outcome, Err(Error::Refused { .. })), "{outcome:?}");
    let (before, after) = (repository.load_index().await.unwrap(), after.load_index().await.unwrap());
    assert_eq!((before.packs(), before.files()), (after.packs(), after.files()));
}

#[tokio::test]
async fn a_snapshot_object_that_is_damaged_goes_only_when_that_is_said() {
    let repository = memory_repository().await;
    let (whole, _) = save_snapshot(&repository, 1, &[("a", b"first")]).await;
    let (cut, _) = save_snapshot(&repository, 2, &[("a", b"second")]).await;
    let key = FileKind::Snapshot.key(cut.0);
    let raw = repository.store().get(&key).await.unwrap();
    repository.store().put(&key, raw.slice(..30)).await.unwrap();
    let loaded = repository.load_readable_snapshots().await.unwrap();
    assert_eq!((loaded.found[0].0, loaded.damaged[0].id), (whole, cut));
    assert!(matches!(repository.load_snapshots().await, Err(Error::Damaged { .. })));

    for (forget, dry_run) in [(true, true), (false, false)] {
        let outcome = mend_snapshots(&repository, &[whole, cut], forget, dry_run).await;
        assert_eq!((outcome.repaired.len(), outcome.repaired[0].old), (1, cut));
        assert!(outcome.repaired[0].root_is_lost && !outcome.repaired[0].old_was_removed);
        assert!(repository.store().exists(&key).await.unwrap());
    }
    let removed = mend_snapshots(&repository, &[whole, cut], true, false).await;
    assert!(removed.repaired[0].old_was_removed);
    assert_eq!(repository.load_snapshots().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_pack_that_is_nowhere_is_not_repaired() {
    let repository = memory_repository().await;
    save_snapshot(&repository, 1, &[("a", b"first")]).await;
    let pack = pack_of(&repository, b"first").await;
    let nowhere = PackId(Id([7; 32]));
    let options = RepairPacksOptions { packs: vec![pack, nowhere], copies: None };
    let (lock, cancel) = (LockOptions::default(), CancellationToken::new());
    let outcome = repair_packs(&repository, &options, &lock, &Progress::default(), &cancel).await;
    let Err(Error::NothingFound { what }) = outcome else { panic!("{outcome:?}") };
    assert!(what.contains(&nowhere.to_string()), "{what}");
    assert_eq!(pack_of(&repository, b"first").await, pack);
}
