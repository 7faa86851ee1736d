//! Backups of one open directory, and what is asked before the snapshot is written.

use super::*;
use crate::source::patterns::{Case, Patterns};

fn of_root(directory: &std::path::Path) -> BackupOptions {
    let directory = std::fs::File::open(directory).unwrap().into();
    BackupOptions::new(Source::Root { directory, path: "/".to_owned() }, "host")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_of_a_snapshot_is_what_the_directory_holds_wherever_it_is() {
    let source = tempfile::tempdir().unwrap();
    let first = source.path().join("first");
    std::fs::create_dir_all(first.join("deep/er")).unwrap();
    std::fs::create_dir_all(first.join(".velero")).unwrap();
    for name in ["a", "deep/er/b", ".velero/waits", "deep/.velero"] {
        std::fs::write(first.join(name), noise(5000, 1)).unwrap();
    }
    let repository = memory_repository().await;
    let excluding = |directory: &std::path::Path| {
        let patterns = Patterns::parse(["/.velero"], Case::default()).unwrap();
        let filter = Filter { patterns: vec![patterns], ..Filter::default() };
        BackupOptions { filter, scan: true, ..of_root(directory) }
    };
    let one = make(&repository, excluding(&first)).await.unwrap();
    assert_eq!(one.snapshot.paths, ["/"]);
    let reader = reader(&repository).await;
    let names =
        |nodes: Vec<Node>| nodes.into_iter().map(|node| node.display_name().into_owned()).collect::<Vec<_>>();
    assert_eq!(names(reader.load_tree(&one.snapshot.tree).await.unwrap()), ["a", "deep"]);
    let deep = node_at(&reader, one.snapshot.tree, "/deep".as_ref()).await.subtree.unwrap();
    assert_eq!(names(reader.load_tree(&deep).await.unwrap()), [".velero", "er"]);
    // The same volume, mounted elsewhere: the snapshot before is its parent.
    let second = source.path().join("second");
    std::fs::rename(&first, &second).unwrap();
    let two = make(&repository, excluding(&second)).await.unwrap();
    assert_eq!(two.snapshot.parent, one.snapshot_id);
    assert_eq!(two.snapshot.tree, one.snapshot.tree);
    assert_eq!(two.snapshot.summary.unwrap().counts.files_unmodified, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_root_is_a_snapshot_only_where_that_is_allowed() {
    let source = tempfile::tempdir().unwrap();
    let repository = memory_repository().await;
    let refused = make(&repository, of_root(source.path())).await.unwrap_err();
    assert!(matches!(refused, Error::NothingFound { .. }), "{refused}");
    let allowed = BackupOptions { allow_empty: true, ..of_root(source.path()) };
    assert!(make(&repository, allowed).await.unwrap().snapshot_id.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_confirmed_becomes_no_snapshot() {
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("a"), "a").unwrap();
    let repository = memory_repository().await;
    let unmounted = || Error::invalid("volume", "it is another one now");
    let confirm: Confirm = Box::new(move || Box::pin(async move { Err(unmounted()) }));
    let options = BackupOptions { confirm: Some(confirm), ..of_root(source.path()) };
    let refused = make(&repository, options).await.unwrap_err();
    assert_eq!(refused.to_string(), unmounted().to_string());
    assert!(repository.load_snapshots().await.unwrap().is_empty());
    assert!(repository.list(crate::files::FileKind::Lock).await.unwrap().is_empty());
}
