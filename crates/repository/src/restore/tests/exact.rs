//! Restores that end with exactly what the snapshot has (`delete_last`).

use super::*;

fn exact(target: &Path) -> RestoreOptions {
    RestoreOptions { delete_last: true, verify: true, ..options(target) }
}

/// A target that has what a restore of another snapshot may leave behind; `outside` is where a link leads.
fn fill(target: &Path, outside: &Path) {
    std::fs::write(outside.join("canary"), b"alive").unwrap();
    for directory in ["d/closed", "new/deep/er", "in the way/deep"] {
        std::fs::create_dir_all(target.join(directory)).unwrap();
    }
    for file in ["more", "d/more", "d/closed/more", "new/deep/file", "in the way/deep/file"] {
        std::fs::write(target.join(file), file).unwrap();
    }
    std::os::unix::fs::symlink(outside, target.join("new/out")).unwrap();
    std::os::unix::fs::symlink(outside, target.join("out")).unwrap();
    let closed = std::fs::Permissions::from_mode(0o555);
    std::fs::set_permissions(target.join("new/deep"), closed).unwrap();
}

fn snapshot(size: u64) -> Vec<Entry> {
    let closed = directory("closed", vec![file("kept", &[b"k"])]).with(|node| {
        node.mode = crate::node::Mode::from_unix(0o040_555);
    });
    vec![
        directory("d", vec![closed, file("kept", &[b"k"])]),
        file("in the way", &[b"a file"]).with(|node| node.size = size),
        link("l", "x"),
    ]
}

#[tokio::test]
async fn only_what_the_snapshot_has_is_left_with_its_times() {
    let made = make(snapshot(6)).await;
    let clean = tempfile::tempdir().unwrap();
    run_well(&made, options(clean.path())).await;
    let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(target.path(), outside.path());
    let outcome = run_well(&made, exact(target.path())).await;
    assert_eq!(tree_of(target.path()), tree_of(clean.path()));
    assert_eq!(outcome.files_deleted, 12, "{outcome:?}");
    assert!(outside.path().join("canary").exists(), "a link is removed, not followed");
    assert_eq!(run_well(&made, exact(target.path())).await.files_deleted, 0);
}

#[tokio::test]
async fn nothing_is_removed_when_anything_could_not_be_restored() {
    let made = make(snapshot(7)).await;
    let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(target.path(), outside.path());
    let outcome = run(&made, exact(target.path())).await.unwrap();
    assert_eq!((outcome.problem_count, outcome.files_deleted), (1, 0), "{outcome:?}");
    for kept in ["more", "d/more", "d/closed/more", "new/deep/file"] {
        assert_eq!(std::fs::read_to_string(target.path().join(kept)).unwrap(), kept);
    }
    let aside = target.path().join(".lifeboat-aside-0/deep/file");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "in the way/deep/file", "it was only moved");
    let whole = make(snapshot(6)).await;
    run_well(&whole, exact(target.path())).await;
    assert!(!target.path().join(".lifeboat-aside-0").exists(), "the next attempt removes it");
}

#[tokio::test]
async fn what_is_not_selected_stays() {
    let made = make(snapshot(6)).await;
    let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(target.path(), outside.path());
    let select: Select = Arc::new(|path, _| Selection { include: path != b"/more", descend: true });
    run_well(&made, RestoreOptions { select: Some(select), ..exact(target.path()) }).await;
    let left: Vec<_> = tree_of(target.path()).into_keys().collect();
    assert_eq!(left, ["d", "d/closed", "d/closed/kept", "d/kept", "in the way", "l", "more"]);
}

#[tokio::test]
async fn a_hostile_name_keeps_everything() {
    let mut entries = snapshot(6);
    entries.push(file("../up", &[b"x"]));
    let made = make(entries).await;
    let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(target.path(), outside.path());
    let outcome = run(&made, exact(target.path())).await.unwrap();
    assert_eq!((outcome.problem_count, outcome.files_deleted), (1, 0));
}

#[tokio::test]
async fn without_verification_and_at_the_root_of_the_system_it_is_refused() {
    let made = make(Vec::new()).await;
    let target = tempfile::tempdir().unwrap();
    for wrong in [
        RestoreOptions { verify: false, ..exact(target.path()) },
        RestoreOptions { delete: true, ..exact(target.path()) },
    ] {
        assert!(matches!(run(&made, wrong).await, Err(Error::Invalid { .. })));
    }
    let error = run(&made, exact(Path::new("/usr/.."))).await;
    assert!(matches!(error, Err(Error::Refused { .. })), "{error:?}");
}
