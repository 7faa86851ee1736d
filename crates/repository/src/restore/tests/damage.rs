//! Packs that are damaged or missing.

use super::make::make_in;
use super::*;
use crate::files::FileKind;
use crate::id::BlobKind;
use crate::testing::memory_repository;

async fn data_pack(made: &TestSnapshot) -> crate::id::PackId {
    let index = made.repository.load_index().await.unwrap();
    let mut pack = None;
    index
        .for_each(&mut |entry| {
            if entry.kind == BlobKind::Data {
                pack = Some(entry.location.pack);
            }
            Ok(())
        })
        .unwrap();
    pack.unwrap()
}

#[tokio::test]
async fn damaged_blobs_hit_their_files_and_no_others() {
    let name = |name| {
        file(name, &[b"second", b"first"]).with(|node| {
            node.links = 2;
            node.inode = 7;
        })
    };
    let made = make(vec![file("a", &[b"first"]), name("b"), name("b-too"), file("c", &[])]).await;
    let pack = data_pack(&made).await;
    let key = FileKind::Pack.key(pack.0);
    let mut content = made.repository.store().get(&key).await.unwrap().to_vec();
    let index = made.repository.load_index().await.unwrap();
    let hit = index.find(BlobKind::Data, &crate::id::BlobId(crate::id::Id::of(b"second"))).unwrap().unwrap();
    content[hit.offset as usize + 20] ^= 1;
    made.repository.store().put(&key, content).await.unwrap();
    let target = tempfile::tempdir().unwrap();
    let outcome = run(&made, options(target.path())).await.unwrap();
    let paths: Vec<_> = outcome.problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["/b", "/b-too"]);
    let message = &outcome.problems[0].message;
    assert!(message.contains("damaged") && message.contains("incomplete"), "{message}");
    // The rest of it has all its names.
    let inode = |name| target.path().join(name).metadata().unwrap().ino();
    assert_eq!(inode("b"), inode("b-too"));
    assert_eq!(std::fs::read(target.path().join("a")).unwrap(), b"first");
    assert_eq!(outcome.files_restored, 2);
}

#[tokio::test]
async fn a_pack_that_is_gone_or_cut_is_a_problem_of_every_file_in_it() {
    for cut in [false, true] {
        let made = make(vec![file("a", &[b"first"]), file("b", &[b"second"])]).await;
        let key = FileKind::Pack.key(data_pack(&made).await.0);
        if cut {
            made.repository.store().put(&key, b"short".to_vec()).await.unwrap();
        } else {
            made.repository.store().delete(&key).await.unwrap();
        }
        let target = tempfile::tempdir().unwrap();
        let outcome = run(&made, options(target.path())).await.unwrap();
        let mut hit: Vec<_> = outcome.problems.iter().map(|problem| problem.path.as_str()).collect();
        hit.sort_unstable();
        assert_eq!(hit, ["/a", "/b"]);
        assert_eq!(outcome.files_restored, 0);
    }
}

#[tokio::test]
async fn another_copy_is_used_where_one_is_damaged() {
    let repository = memory_repository().await;
    let entries = || vec![file("a", &[b"first"]), file("b", &[b"second"])];
    // Both write the same blobs; neither knows the other's index.
    let made = make_in(repository.clone(), entries()).await;
    let first = data_pack(&made).await;
    let saver = {
        let empty = Arc::new(crate::index::Index::default());
        Arc::new(crate::saver::Saver::start(&repository, empty, None, CancellationToken::new()))
    };
    let worker = Arc::clone(&saver);
    let saving = tokio::task::spawn_blocking(move || {
        worker.save(BlobKind::Data, b"second").unwrap();
        worker.save(BlobKind::Data, b"first").unwrap();
    });
    saving.await.unwrap();
    Arc::into_inner(saver).unwrap().finish().await.unwrap();
    repository.store().put(&FileKind::Pack.key(first.0), vec![1; 2000]).await.unwrap();
    let target = tempfile::tempdir().unwrap();
    run_well(&made, RestoreOptions { verify: true, ..options(target.path()) }).await;
    assert_eq!(std::fs::read(target.path().join("b")).unwrap(), b"second");
}

#[rstest::rstest]
#[case::before_the_right_one([0; 32])]
#[case::behind_it([255; 32])]
#[tokio::test]
async fn an_index_that_lies_about_lengths_gives_the_right_bytes_or_a_problem(#[case] pack: [u8; 32]) {
    let made = make(vec![file("a", &[b"first", b"second"])]).await;
    let index = made.repository.load_index().await.unwrap();
    // One blob longer, the other shorter: the sum is correct.
    let lie = |content: &[u8], length: i32| {
        let id = crate::id::BlobId(crate::id::Id::of(content));
        let place = index.find(BlobKind::Data, &id).unwrap().unwrap();
        let uncompressed_length = place.plain_length().checked_add_signed(length).unwrap();
        let (offset, length) = (place.offset, place.length);
        crate::pack::PackedBlob { kind: BlobKind::Data, id, offset, length, uncompressed_length }
    };
    let lies = [lie(b"first", 1), lie(b"second", -1)];
    let missing = crate::id::PackId(crate::id::Id(pack));
    let file = crate::index::IndexFile { packs: vec![crate::index::IndexedPack::new(missing, &lies)] };
    made.repository.save_file(FileKind::Index, &file.json().unwrap()).await.unwrap();
    let target = tempfile::tempdir().unwrap();
    let outcome = run(&made, options(target.path())).await.unwrap();
    if outcome.problems.is_empty() {
        assert_eq!(std::fs::read(target.path().join("a")).unwrap(), b"firstsecond");
    } else {
        assert_eq!(outcome.files_restored, 0);
    }
}
