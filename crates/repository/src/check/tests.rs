use std::collections::BTreeMap;

use lifeboat_store::Store;

use super::*;
use crate::config::Version;
use crate::error::Error;
use crate::files::FileKind;
use crate::id::BlobKind;
use crate::keys::NewKey;
use crate::repository::Options;
use crate::restore::{RestoreOptions, restore};
use crate::testing::{memory_repository, new_repository, password, save_snapshot};

async fn full(repository: &Repository) -> CheckOutcome {
    with(repository, ReadData::All).await
}

async fn with(repository: &Repository, read: ReadData) -> CheckOutcome {
    let options = CheckOptions { read, snapshots: None };
    check(repository, &options, None, Arc::default(), CancellationToken::new()).await.unwrap()
}

fn text(seed: u8, length: usize) -> Vec<u8> {
    (0..=u8::MAX)
        .cycle()
        .zip(0..length)
        .map(|(byte, at)| byte.wrapping_mul(seed) ^ u8::try_from(at >> 8).unwrap())
        .collect()
}

async fn small(store: Store, version: Version) -> Repository {
    let repository = new_repository(store, version).await;
    for second in [1, 2] {
        let files = files(second);
        let files: Vec<_> = files.iter().map(|(path, content)| (*path, content.as_slice())).collect();
        save_snapshot(&repository, second, &files).await;
    }
    repository
}

#[rstest::rstest]
#[case(Version::V1)]
#[case(Version::V2)]
#[tokio::test]
async fn a_whole_repository_has_no_errors(#[case] version: Version) {
    let repository = small(Store::memory(), version).await;
    let outcome = full(&repository).await;
    assert!(outcome.is_ok() && outcome.hints.is_empty(), "{outcome:?}");
    assert_eq!((outcome.snapshots, outcome.trees, outcome.packs, outcome.packs_read), (2, 5, 4, 4));
    let summary = serde_json::to_string(&outcome.summary()).unwrap();
    assert_eq!(
        summary,
        r#"{"message_type":"summary","num_errors":0,"broken_packs":null,"suggest_repair_index":false,"suggest_prune":false}"#
    );
}

#[tokio::test]
async fn a_check_holds_an_exclusive_lock_and_gives_it_back() {
    let repository = memory_repository().await;
    let options = LockOptions::default();
    let held = crate::lock::Lock::acquire(&repository, LockKind::Shared, &options).await.unwrap();
    let run = || {
        check(
            &repository,
            &CheckOptions { read: ReadData::All, snapshots: None },
            Some(&options),
            Arc::default(),
            CancellationToken::new(),
        )
    };
    assert!(matches!(run().await, Err(Error::Locked { .. })));
    held.release().await;
    assert!(run().await.unwrap().is_ok());
    assert_eq!(repository.list(FileKind::Lock).await.unwrap(), []);
}

/// Every object except locks, with its content.
async fn objects(store: &Store) -> Vec<(String, Vec<u8>)> {
    use futures::TryStreamExt;
    let infos: Vec<_> = store.list("").try_collect().await.unwrap();
    let mut objects = Vec::new();
    for info in infos {
        objects.push((info.key.clone(), store.get(&info.key).await.unwrap().to_vec()));
    }
    objects
}

/// The content of `small`, by the path in each snapshot.
fn files(second: i64) -> Vec<(&'static str, Vec<u8>)> {
    let shared = ("a/b", text(3, 3500));
    if second == 1 { vec![shared, ("c", b"x".to_vec())] } else { vec![shared, ("d/e/f", text(5, 1700))] }
}

/// Restores every snapshot that can be found: wrong bytes are only allowed if the outcome reports it.
async fn restores_the_truth_or_says_so(repository: &Repository, when: &str) {
    for file in repository.list(FileKind::Snapshot).await.unwrap_or_default() {
        let Ok(snapshot) = repository.load_snapshot(SnapshotId(file.id)).await else { continue };
        let target = tempfile::tempdir().unwrap();
        let options = RestoreOptions { target: target.path().to_owned(), ..RestoreOptions::default() };
        let outcome = restore(repository, &snapshot, options, Arc::default(), CancellationToken::new()).await;
        if outcome.is_ok_and(|outcome| !outcome.is_incomplete()) {
            for (path, content) in files(snapshot.time.timestamp().as_second() - 1_767_225_600) {
                assert!(std::fs::read(target.path().join(path)).unwrap() == content, "{when}: {path}");
            }
        }
    }
}

/// Opens the repository and reads everything; whatever is returned must be correct.
async fn finds_an_error(store: &Store, truth: &[(String, Vec<u8>)], when: &str) -> bool {
    let opened = Repository::open(store.clone(), &password(), Options::default()).await;
    let Ok(repository) = opened else { return true };
    let outcome = full(&repository).await;
    restores_the_truth_or_says_so(&repository, when).await;
    let Ok(index) = repository.load_index().await else { return !outcome.is_ok() };
    let reader = BlobReader::new(&repository, Arc::new(index));
    for (id, plain) in truth {
        for kind in [BlobKind::Data, BlobKind::Tree] {
            if let Ok(read) = reader.load(kind, &id.parse().unwrap()).await {
                assert_eq!(&read[..], plain, "wrong bytes for {id}");
            }
        }
    }
    !outcome.is_ok()
}

#[tokio::test]
async fn every_damage_to_every_object_is_found_and_never_gives_wrong_bytes() {
    let store = Store::memory();
    let repository = small(store.clone(), Version::V2).await;
    let cost = crate::testing::cheap(Version::V2).cost;
    let identity = &repository.options().identity;
    let new = NewKey { password: &password(), allow_empty: false, cost, identity };
    repository.add_key(&new).await.unwrap();
    let index = Arc::new(repository.load_index().await.unwrap());
    let reader = BlobReader::new(&repository, Arc::clone(&index));
    let mut blobs = Vec::new();
    index
        .for_each(&mut |entry| {
            blobs.push((entry.kind, entry.id));
            Ok(())
        })
        .unwrap();
    let mut truth = Vec::new();
    for (kind, id) in blobs {
        truth.push((id.to_string(), reader.load(kind, &id).await.unwrap().to_vec()));
    }
    let objects = objects(&store).await;
    assert!(objects.len() > 8);
    for (at, (key, content)) in objects.iter().enumerate() {
        let mut damages: Vec<(String, Option<Vec<u8>>)> = vec![
            ("deleted".to_owned(), None),
            ("emptied".to_owned(), Some(Vec::new())),
            ("cut".to_owned(), Some(content[..content.len() / 2].to_vec())),
            ("shorter by one".to_owned(), Some(content[..content.len() - 1].to_vec())),
            ("longer by one".to_owned(), Some([content.as_slice(), &[0]].concat())),
        ];
        for position in [0, content.len() / 3, content.len() / 2, content.len() - 1] {
            let mut flipped = content.clone();
            flipped[position] ^= 1;
            damages.push((format!("flipped at {position}"), Some(flipped)));
        }
        let kind = |key: &str| key.split('/').next().unwrap().to_owned();
        let others = objects[at + 1..].iter().chain(&objects[..at]);
        let others: BTreeMap<_, _> = others.map(|(other, content)| (kind(other), content)).collect();
        for (other, content) in others {
            damages.push((format!("swapped with one of {other}"), Some(content.clone())));
        }
        for (damage, replacement) in damages {
            match replacement {
                Some(replacement) => store.put(key, replacement).await.unwrap(),
                None => store.delete(key).await.unwrap(),
            }
            // A missing snapshot looks like a forgotten one, a missing key like a removed one: a check cannot
            // distinguish them.
            let removable = key.starts_with("snapshots/") || key.starts_with("keys/");
            let silent = damage == "deleted" && removable;
            let when = format!("{key} {damage}");
            assert_eq!(finds_an_error(&store, &truth, &when).await, !silent, "{when}");
            store.put(key, content.clone()).await.unwrap();
        }
    }
    assert!(full(&repository).await.is_ok());
}

#[tokio::test]
async fn damage_names_the_snapshots_that_it_hits() {
    let repository = memory_repository().await;
    let (one, _) = save_snapshot(&repository, 1, &[("a", b"first")]).await;
    let before = repository.list(FileKind::Pack).await.unwrap();
    let (two, _) = save_snapshot(&repository, 2, &[("b", b"second")]).await;
    let packs = repository.list(FileKind::Pack).await.unwrap();
    let index = repository.load_index().await.unwrap();
    let data =
        index.find(BlobKind::Data, &crate::id::BlobId(crate::id::Id::of(b"second"))).unwrap().unwrap().pack;
    assert!(!before.iter().any(|file| file.id == data.0) && packs.len() == 4);
    let key = FileKind::Pack.key(data.0);
    let whole = repository.store().get(&key).await.unwrap().to_vec();
    let mut broken = whole.clone();
    broken[20] ^= 1;
    repository.store().put(&key, broken).await.unwrap();
    assert!(with(&repository, ReadData::Nothing).await.is_ok(), "nothing but reading it shows it");
    let outcome = full(&repository).await;
    assert_eq!((&outcome.damaged_snapshots, &outcome.broken_packs), (&vec![two], &vec![data]));
    assert_eq!(outcome.errors.len(), 1);
    repository.store().delete(&key).await.unwrap();
    let outcome = with(&repository, ReadData::Nothing).await;
    assert_eq!((outcome.errors[0].kind, &outcome.damaged_snapshots), (ErrorKind::MissingPack, &vec![two]));
    let options = CheckOptions { read: ReadData::All, snapshots: Some(vec![one]) };
    let outcome = check(&repository, &options, None, Arc::default(), CancellationToken::new()).await.unwrap();
    assert_eq!((outcome.packs_read, &outcome.damaged_snapshots), (2, &vec![]));
}

#[tokio::test]
async fn a_pack_that_no_index_names_is_a_hint() {
    let repository = memory_repository().await;
    save_snapshot(&repository, 1, &[("a", b"first")]).await;
    repository.store().put(&FileKind::Pack.key(crate::id::Id([7; 32])), vec![1, 2, 3]).await.unwrap();
    let outcome = full(&repository).await;
    assert!(outcome.is_ok());
    assert_eq!(outcome.hints.len(), 1);
    assert!(outcome.summary().suggest_prune);
}

#[tokio::test]
async fn parts_together_read_every_pack_once() {
    let repository = small(Store::memory(), Version::V2).await;
    let mut read = 0;
    for part in 0..3 {
        read += with(&repository, ReadData::Subset(Subset::Part { part, of: 3 })).await.packs_read;
    }
    assert_eq!(read, 4);
    assert_eq!(with(&repository, ReadData::Subset(Subset::Percent(50.0))).await.packs_read, 2);
    assert_eq!(with(&repository, ReadData::Subset(Subset::Bytes(1))).await.packs_read, 1);
}

#[rstest::rstest]
#[case(FileKind::Snapshot)]
#[case(FileKind::Index)]
#[case(FileKind::Pack)]
#[tokio::test]
async fn a_cache_hides_no_damage(#[case] kind: FileKind) {
    let (store, cache) = (Store::memory(), tempfile::tempdir().unwrap());
    small(store.clone(), Version::V2).await;
    let options = Options { cache: Some(cache.path().to_owned()), ..Options::default() };
    let repository = Repository::open(store.clone(), &password(), options).await.unwrap();
    let index = Arc::new(repository.load_index().await.unwrap());
    let reader = BlobReader::new(&repository, index);
    for (_, snapshot) in repository.load_snapshots().await.unwrap() {
        reader.load_tree(&snapshot.tree).await.unwrap();
    }
    for file in repository.list(kind).await.unwrap() {
        let mut content = store.get(&kind.key(file.id)).await.unwrap().to_vec();
        content[20] ^= 1;
        store.put(&kind.key(file.id), content).await.unwrap();
    }
    assert!(!with(&repository, ReadData::Nothing).await.is_ok());
}

#[tokio::test]
async fn a_damaged_key_and_a_damaged_snapshot_hide_nothing_else() {
    let repository = memory_repository().await;
    let (one, _) = save_snapshot(&repository, 1, &[("a", b"first")]).await;
    let (two, _) = save_snapshot(&repository, 2, &[("b", b"second")]).await;
    let (three, _) = save_snapshot(&repository, 3, &[("c", b"third")]).await;
    let index = repository.load_index().await.unwrap();
    let id = crate::id::BlobId(crate::id::Id::of(b"second"));
    let pack = index.find(BlobKind::Data, &id).unwrap().unwrap().pack;
    let key = FileKind::Pack.key(pack.0);
    let mut broken = repository.store().get(&key).await.unwrap().to_vec();
    broken[20] ^= 1;
    repository.store().put(&key, broken).await.unwrap();
    repository.store().put(&FileKind::Key.key(crate::id::Id([7; 32])), "{}").await.unwrap();
    repository.store().put(&FileKind::Snapshot.key(three.0), "no snapshot").await.unwrap();

    let outcome = full(&repository).await;
    let kinds: Vec<_> = outcome.errors.iter().map(|error| error.kind).collect();
    assert_eq!(kinds, [ErrorKind::Snapshot, ErrorKind::Key, ErrorKind::PackContent], "{outcome:?}");
    assert_eq!((outcome.packs_read, &outcome.broken_packs), (6, &vec![pack]));
    let mut damaged = vec![two, three];
    damaged.sort_unstable();
    assert_eq!(outcome.damaged_snapshots, damaged);
    assert!(!outcome.damaged_snapshots.contains(&one));
}

#[tokio::test]
async fn a_damaged_index_stops_the_check_and_an_unreadable_snapshot_is_named_still() {
    let repository = memory_repository().await;
    let (id, _) = save_snapshot(&repository, 1, &[("a", b"first")]).await;
    repository.store().put(&FileKind::Snapshot.key(id.0), "no snapshot").await.unwrap();
    let file = repository.list(FileKind::Index).await.unwrap()[0];
    repository.store().put(&FileKind::Index.key(file.id), "no index").await.unwrap();
    let outcome = full(&repository).await;
    assert_eq!((outcome.total_errors, outcome.packs_read), (2, 0));
    assert_eq!(outcome.damaged_snapshots, [id]);
}
