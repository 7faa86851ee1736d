//! Backups of one open directory, and the confirmation before the snapshot is written.

use super::*;
use crate::source::patterns::{Case, Patterns};

fn of_root(directory: &std::path::Path) -> BackupOptions {
    stored_at(directory, "/")
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
    // The same volume, mounted elsewhere: the previous snapshot is its parent.
    let second = source.path().join("second");
    std::fs::rename(&first, &second).unwrap();
    let two = make(&repository, excluding(&second)).await.unwrap();
    assert_eq!(two.snapshot.parent, one.snapshot_id);
    assert_eq!(two.snapshot.tree, one.snapshot.tree);
    assert_eq!(two.snapshot.summary.unwrap().counts.files_unmodified, 3);
}

fn stored_at(directory: &std::path::Path, path: &str) -> BackupOptions {
    let directory = std::fs::File::open(directory).unwrap().into();
    BackupOptions::new(Source::Root { directory, path: path.to_owned() }, "host")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_stored_at_a_path_is_in_the_snapshot_as_if_it_had_been_read_there() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let source = tempfile::tempdir().unwrap();
    std::fs::create_dir(source.path().join("deep")).unwrap();
    for name in ["a", "deep/b", "deep/cache"] {
        std::fs::write(source.path().join(name), noise(5000, 1)).unwrap();
    }
    std::fs::set_permissions(source.path(), std::fs::Permissions::from_mode(0o2750)).unwrap();
    let repository = memory_repository().await;
    let placed = |path: &str| {
        let patterns = ["/source/data/deep/cache", "/a"];
        let patterns = Patterns::parse(patterns, Case::Matters);
        let filter = Filter { patterns: vec![patterns.unwrap()], ..Filter::default() };
        BackupOptions { filter, scan: true, ..stored_at(source.path(), path) }
    };
    let one = make(&repository, placed("/source//data/")).await.unwrap();
    assert_eq!(one.snapshot.paths, ["/source/data"]);
    let reader = reader(&repository).await;
    let tree = one.snapshot.tree;
    let above = node_at(&reader, tree, "/source".as_ref()).await;
    assert_eq!((above.mode, above.uid, above.gid), (crate::node::Mode::from_unix(0o040_755), 0, 0));
    let data = node_at(&reader, tree, "/source/data".as_ref()).await;
    let about = source.path().metadata().unwrap();
    assert_eq!((data.mode, data.uid), (crate::node::Mode::from_unix(about.mode()), about.uid()));
    let b = node_at(&reader, tree, "/source/data/deep/b".as_ref()).await;
    assert_eq!(content(&reader, &b).await, noise(5000, 1));
    // Patterns start at the root of the snapshot, as restic's would.
    let deep = node_at(&reader, tree, "/source/data/deep".as_ref()).await.subtree.unwrap();
    assert_eq!(reader.load_tree(&deep).await.unwrap().len(), 1);
    // Reading the directory at its own path gives the same tree for it.
    let mut own = of_paths(&[source.path()]);
    own.filter.patterns = vec![Patterns::parse(["cache"], Case::Matters).unwrap()];
    let own = make(&repository, own).await.unwrap();
    let reader = super::reader(&repository).await;
    assert_eq!(node_at(&reader, own.snapshot.tree, source.path()).await.subtree, data.subtree);
    // An unchanged source gives the same tree.
    let two = make(&repository, placed("/source/data")).await.unwrap();
    assert_eq!((two.snapshot.parent, two.snapshot.tree), (one.snapshot_id, tree));
    assert_eq!(two.snapshot.summary.unwrap().counts.files_unmodified, 2);
}

#[rstest::rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_place_in_the_snapshot_has_to_be_absolute_and_plain(
    #[values("", "source", "/a/../b", "/./a", "/a\0")] path: &str,
) {
    let source = tempfile::tempdir().unwrap();
    let refused = make(&memory_repository().await, stored_at(source.path(), path)).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
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
    let unmounted = || Error::NotConfirmed("it is another volume now".into());
    let confirm: Confirm = Box::new(move || Box::pin(async move { Err(unmounted()) }));
    let options = BackupOptions { confirm: Some(confirm), ..of_root(source.path()) };
    let refused = make(&repository, options).await.unwrap_err();
    assert_eq!(refused.to_string(), unmounted().to_string());
    let Error::NotConfirmed(reason) = refused else { panic!("{refused}") };
    assert_eq!(reason.to_string(), "it is another volume now", "the caller's own reason comes back");
    assert!(repository.load_snapshots().await.unwrap().is_empty());
    assert!(repository.list(crate::files::FileKind::Lock).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_entry_of_a_directory_is_stored_without_the_others() {
    let source = tempfile::tempdir().unwrap();
    for name in ["app.db", "other"] {
        std::fs::write(source.path().join(name), noise(5000, 1)).unwrap();
    }
    let repository = memory_repository().await;
    let entry = |path: &str| {
        let directory = std::fs::File::open(source.path()).unwrap().into();
        BackupOptions::new(Source::Entry { directory, path: path.to_owned() }, "host")
    };
    let first = make(&repository, entry("/source/data/app.db")).await.unwrap();
    assert_eq!(first.snapshot.paths, ["/source/data/app.db"]);
    let reader = reader(&repository).await;
    let data = node_at(&reader, first.snapshot.tree, "/source/data".as_ref()).await.subtree.unwrap();
    let names: Vec<_> = reader.load_tree(&data).await.unwrap().into_iter().map(|node| node.name).collect();
    assert_eq!(names, [b"app.db"]);
    // The next one finds it again.
    let second = make(&repository, entry("/source/data/app.db")).await.unwrap();
    assert_eq!((second.snapshot.parent, second.snapshot.tree), (first.snapshot_id, first.snapshot.tree));
    assert_eq!(second.snapshot.summary.unwrap().counts.files_unmodified, 1);
    let gone = make(&repository, entry("/source/data/gone")).await.unwrap_err();
    assert!(gone.to_string().contains("/source/data/gone"), "{gone}");
    assert!(make(&repository, entry("/")).await.is_err());
}
