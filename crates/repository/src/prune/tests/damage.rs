//! Prune on repositories that are damaged.

use super::*;
use crate::id::BlobKind;

#[tokio::test]
async fn a_missing_or_damaged_tree_stops_the_prune_before_it_changes_anything() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    let index = repository.load_index().await.unwrap();
    let mut trees = BTreeSet::new();
    index
        .for_each(&mut |entry| {
            if entry.kind == BlobKind::Tree {
                trees.insert(entry.location.pack);
            }
            Ok(())
        })
        .unwrap();
    let key = FileKind::Pack.key(trees.first().unwrap().0);
    let content = repository.store().get(&key).await.unwrap();
    for pack in &trees {
        let size = repository.store().head(&FileKind::Pack.key(pack.0)).await.unwrap().size;
        repository
            .store()
            .put(&FileKind::Pack.key(pack.0), vec![7; usize::try_from(size).unwrap()])
            .await
            .unwrap();
    }
    assert!(matches!(run(&repository, &options(Duration::ZERO)).await, Err(Error::Damaged { .. })));
    for pack in &trees {
        repository.store().delete(&FileKind::Pack.key(pack.0)).await.unwrap();
    }
    assert!(run(&repository, &options(Duration::ZERO)).await.is_err());
    assert!(!content.is_empty());
    assert_eq!(indexed(&repository).await.len(), index.packs().len());
}

#[tokio::test]
async fn a_used_blob_that_the_index_does_not_name_stops_the_prune() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    let files = repository.list(FileKind::Index).await.unwrap();
    repository.remove_file(FileKind::Index, files[0].id).await.unwrap();
    let before = packs(&repository).await;
    assert!(matches!(run(&repository, &options(Duration::ZERO)).await, Err(Error::Refused { .. })));
    assert_eq!(packs(&repository).await, before);
}

/// Flips bytes of one copy of a blob.
async fn damage(repository: &Repository, entry: &crate::index::Entry) {
    let key = FileKind::Pack.key(entry.location.pack.0);
    let mut content = repository.store().get(&key).await.unwrap().to_vec();
    content[entry.location.offset as usize + 20] ^= 1;
    repository.store().put(&key, content).await.unwrap();
}

/// The entries of a repository that a prune would write again.
async fn to_repack(repository: &Repository) -> Vec<crate::index::Entry> {
    let plan = dry_run(repository, &options(SHORT), &Progress::default()).await.unwrap();
    let mut entries = Vec::new();
    let index = repository.load_index().await.unwrap();
    index
        .for_each(&mut |entry| {
            entries.extend(plan.copies_to_repack.contains(entry.number).then_some(entry));
            Ok(())
        })
        .unwrap();
    entries
}

#[tokio::test]
async fn a_damaged_blob_to_repack_stops_the_prune_before_anything_is_removed() {
    let repository = memory_repository().await;
    half_forgotten(&repository).await;
    damage(&repository, &to_repack(&repository).await[0]).await;
    let before = (packs(&repository).await, indexed(&repository).await);
    assert!(matches!(run(&repository, &options(Duration::ZERO)).await, Err(Error::Damaged { .. })));
    assert!(packs(&repository).await.is_superset(&before.0));
    assert!(indexed(&repository).await.is_superset(&before.1));
}

#[tokio::test]
async fn a_damaged_blob_to_repack_is_taken_from_its_other_copy() {
    let repository = memory_repository().await;
    let shared = file("shared", 5000);
    // The second backup does not see the first's index, so that both have a pack with the shared file in it.
    let both = Files::from([shared.clone(), file("a", 900), file("b", 700)]);
    let forgotten = backup(&repository, 1, &both).await.unwrap();
    let one = backup(&repository, 2, &Files::from([shared.clone(), file("a", 900)])).await.unwrap();
    let hidden = repository.list(FileKind::Index).await.unwrap();
    let mut contents = Vec::new();
    for file in &hidden {
        contents.push(repository.load_file(FileKind::Index, file.id).await.unwrap());
        repository.remove_file(FileKind::Index, file.id).await.unwrap();
    }
    let others = Files::from([shared.clone(), file("c", 900), file("d", 700)]);
    let also_forgotten = backup(&repository, 3, &others).await.unwrap();
    let two = backup(&repository, 4, &Files::from([shared.clone(), file("c", 900)])).await.unwrap();
    for content in contents {
        repository.save_file(FileKind::Index, &content).await.unwrap();
    }
    for id in [forgotten, also_forgotten] {
        repository.remove_file(FileKind::Snapshot, id.0).await.unwrap();
    }
    let copies = to_repack(&repository).await;
    let twice = copies.iter().find(|entry| entry.location.plain_length() == 5000).unwrap();
    damage(&repository, twice).await;
    run(&repository, &options(Duration::ZERO)).await.unwrap();
    for (id, name, length) in [(one, "a", 900), (two, "c", 900)] {
        let expected = Files::from([shared.clone(), file(name, length)]);
        assert_eq!(restore(&repository, id).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_damaged_snapshot_stops_the_prune_until_it_is_forgotten() {
    let repository = memory_repository().await;
    let (stays, _) = half_forgotten(&repository).await;
    let cut = backup(&repository, 3, &Files::from([file("d", 2000)])).await.unwrap();
    repository.store().put(&FileKind::Snapshot.key(cut.0), "damaged").await.unwrap();
    let before = (packs(&repository).await, indexed(&repository).await);
    let stopped = run(&repository, &options(Duration::ZERO)).await.unwrap_err();
    assert!(matches!(stopped, Error::Refused { .. }) && stopped.hint().unwrap().contains("forget"));
    assert!(stopped.to_string().contains(&cut.to_string()), "{stopped}");
    assert_eq!((packs(&repository).await, indexed(&repository).await), before);
    let without = PruneOptions { without: HashSet::from([cut]), ..options(Duration::ZERO) };
    assert!(dry_run(&repository, &without, &Progress::default()).await.is_ok());
    assert!(run(&repository, &without).await.is_err());
    repository.remove_file(FileKind::Snapshot, cut.0).await.unwrap();
    run(&repository, &options(Duration::ZERO)).await.unwrap();
    assert!(repository.load_snapshot(stays).await.is_ok());
}
