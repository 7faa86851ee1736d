use std::sync::Arc;

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::blobs::BlobReader;
use crate::config::Version;
use crate::files::FileKind;
use crate::repository::Options;
use crate::restore::tests::noise;
use crate::testing::switchable::SwitchableBackend;
use crate::testing::{memory_repository, new_repository};

async fn saver(repository: &Repository) -> Arc<Saver> {
    let index = Arc::new(Index::load(repository).await.unwrap());
    Arc::new(Saver::start(repository, index, None, CancellationToken::new()))
}

async fn save(saver: &Arc<Saver>, kind: BlobKind, plain: Vec<u8>) -> Saved {
    let saver = Arc::clone(saver);
    tokio::task::spawn_blocking(move || saver.save(kind, &plain)).await.unwrap().unwrap()
}

#[rstest::rstest]
#[case(Version::V1)]
#[case(Version::V2)]
#[tokio::test]
async fn blobs_come_back_and_are_stored_once(#[case] version: Version) {
    let repository = new_repository(lifeboat_store::Store::memory(), version).await;
    let writer = saver(&repository).await;
    let text = b"some text that repeats ".repeat(100);
    let first = save(&writer, BlobKind::Data, text.clone()).await;
    assert!(first.new && (first.stored < 200) == (version == Version::V2));
    assert!(!save(&writer, BlobKind::Data, text.clone()).await.new);
    let tree = save(&writer, BlobKind::Tree, text.clone()).await;
    assert!(tree.new, "a tree and a file with the same bytes are two blobs");
    let empty = save(&writer, BlobKind::Data, Vec::new()).await;
    let totals = Arc::into_inner(writer).unwrap().finish().await.unwrap();
    assert_eq!((totals.data_blobs, totals.tree_blobs, totals.packs), (2, 1, 2));

    let index = Arc::new(Index::load(&repository).await.unwrap());
    assert_eq!((index.len(), index.packs().len(), index.files().len()), (3, 2, 1));
    let reader = BlobReader::new(&repository, Arc::clone(&index));
    assert_eq!(reader.load(BlobKind::Data, &first.id).await.unwrap(), text);
    assert_eq!(reader.load(BlobKind::Tree, &tree.id).await.unwrap(), text);
    assert_eq!(reader.load(BlobKind::Data, &empty.id).await.unwrap(), b"".as_slice());
    for pack in repository.list(FileKind::Pack).await.unwrap() {
        let listed = repository.load_pack_header(crate::id::PackId(pack.id), pack.size).await.unwrap();
        assert!(
            listed.iter().all(|blob| index.find(blob.kind, &blob.id).unwrap().unwrap().offset == blob.offset)
        );
    }
    let again = saver(&repository).await;
    assert!(!save(&again, BlobKind::Data, text).await.new);
    assert_eq!(Arc::into_inner(again).unwrap().finish().await.unwrap(), SaverTotals::default());
    assert_eq!(repository.list(FileKind::Index).await.unwrap().len(), 1);
}

#[tokio::test]
async fn nothing_is_indexed_before_the_end_and_nothing_is_written_without_the_lock() {
    let repository = memory_repository().await;
    let options = crate::lock::LockOptions::default();
    let lock = Lock::acquire(&repository, crate::lock::LockKind::Shared, &options).await.unwrap();
    let lock = Arc::new(lock);
    let index = Arc::new(Index::load(&repository).await.unwrap());
    let saver = Arc::new(Saver::start(&repository, index, Some(Arc::clone(&lock)), CancellationToken::new()));
    save(&saver, BlobKind::Data, b"x".to_vec()).await;
    assert_eq!(repository.list(FileKind::Index).await.unwrap(), []);
    crate::lock::remove_all_locks(&repository).await.unwrap();
    let outcome = Arc::into_inner(saver).unwrap().finish().await;
    assert!(matches!(outcome, Err(Error::LockLost { .. })), "{outcome:?}");
    assert_eq!(repository.list(FileKind::Index).await.unwrap(), []);
}

#[tokio::test]
async fn an_upload_whose_task_panics_fails_the_whole_and_leaves_no_index() {
    let backend = SwitchableBackend::new();
    let repository = new_repository(backend.store(), Version::V2).await;
    let saver = saver(&repository).await;
    save(&saver, BlobKind::Data, b"x".to_vec()).await;
    backend.faults().packs_panic = true;
    let outcome = Arc::into_inner(saver).unwrap().finish().await;
    assert!(matches!(outcome, Err(Error::Local { .. })), "{outcome:?}");
    assert_eq!(repository.list(FileKind::Index).await.unwrap(), []);
}

#[tokio::test]
async fn a_blob_that_no_index_file_has_is_noticed_at_the_end() {
    let repository = memory_repository().await;
    let saver = saver(&repository).await;
    save(&saver, BlobKind::Data, b"x".to_vec()).await;
    saver.shared.counters.tree_blobs.fetch_add(1, Ordering::Relaxed);
    let outcome = Arc::into_inner(saver).unwrap().finish().await;
    assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_saver_that_is_dropped_stops_its_uploads() {
    let backend = SwitchableBackend::new();
    let repository = new_repository(backend.store(), Version::V2).await;
    let index = Arc::new(Index::load(&repository).await.unwrap());
    let cancel = CancellationToken::new();
    let saver = Saver::start(&repository, index, None, cancel.clone());
    assert!(!cancel.is_cancelled());
    drop(saver);
    assert!(cancel.is_cancelled());
}

/// A repository whose packs are full after 4 MiB, with two uploads that never end, and a saver for it.
async fn stuck() -> (Arc<SwitchableBackend>, Arc<Saver>) {
    let backend = SwitchableBackend::new();
    new_repository(backend.store(), Version::V2).await;
    let options = Options { pack_size: 4 << 20, uploads: 2, ..Options::default() };
    let repository = Repository::open(backend.store(), &crate::testing::password(), options).await.unwrap();
    let saver = saver(&repository).await;
    backend.faults().puts_hang = true;
    (backend, saver)
}

/// Fails if the saver does not take the blob soon.
async fn save_soon(saver: &Arc<Saver>, kind: BlobKind, plain: Vec<u8>) {
    let limit = std::time::Duration::from_secs(20);
    let saving = tokio::time::timeout(limit, save(saver, kind, plain)).await;
    if saving.is_err() {
        saver.shared.cancel.cancel();
        panic!("the saver waits although it has room for another pack");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn packs_that_are_being_filled_do_not_count_as_uploads() {
    let (backend, saver) = stuck().await;
    save_soon(&saver, BlobKind::Tree, b"a tree, whose pack is not full".to_vec()).await;
    for seed in 1..=2 {
        save_soon(&saver, BlobKind::Data, noise(5_000_000, seed)).await;
    }
    save_soon(&saver, BlobKind::Data, b"in the third pack of data".to_vec()).await;
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let uploads = async || backend.store().list("data/").count().await;
    while uploads().await < 2 && std::time::Instant::now() < limit {
        tokio::task::yield_now().await;
    }
    // The third one waits for its turn, however many packs may be in memory.
    save_soon(&saver, BlobKind::Data, noise(5_000_000, 3)).await;
    assert_eq!((uploads().await, saver.shared.uploads.available_permits()), (2, 0));
    saver.shared.cancel.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_waits_for_an_upload_does_not_hold_the_pack() {
    let (_backend, saver) = stuck().await;
    for seed in 1..=saver.shared.room.available_permits() as u64 {
        save_soon(&saver, BlobKind::Data, noise(5_000_000, seed)).await;
    }
    assert_eq!(saver.shared.room.available_permits(), 0);
    let waiting = {
        let saver = Arc::clone(&saver);
        std::thread::spawn(move || saver.save(BlobKind::Data, b"there is no room"))
    };
    let id = BlobId(Id::of(b"there is no room"));
    while !saver.has(BlobKind::Data, &id).unwrap() {
        std::thread::yield_now();
    }
    // The thread is about to wait, or waits: from now on the mutex stays free.
    let is_free = || saver.packers[0].try_lock().is_ok();
    let mut free = false;
    for _ in 0..100_000 {
        free = is_free();
        std::thread::yield_now();
    }
    saver.shared.cancel.cancel();
    drop(waiting.join().unwrap());
    assert!(free, "it waits with the mutex of the pack");
}

#[rstest::rstest]
#[case(Version::V1)]
#[case(Version::V2)]
#[tokio::test]
async fn a_blob_that_changed_after_its_id_was_made_is_not_stored(#[case] version: Version) {
    let repository = new_repository(lifeboat_store::Store::memory(), version).await;
    let saver = saver(&repository).await;
    let id = BlobId(Id::of(b"as it was when it was hashed"));
    let writer = Arc::clone(&saver);
    let save = move || writer.save_known(BlobKind::Data, id, b"as it was when it was stored");
    let outcome = tokio::task::spawn_blocking(save).await.unwrap();
    assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}");
    Arc::into_inner(saver).unwrap().finish().await.unwrap();
    assert_eq!(repository.list(FileKind::Pack).await.unwrap(), []);
}
