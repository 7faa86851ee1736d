//! Restoring over existing files.

use proptest::prelude::*;

use super::make::node;
use super::*;
use crate::node::NodeKind;

const KINDS: [&str; 6] = ["missing", "file", "directory", "full directory", "link", "fifo"];

fn put(kind: &str, path: &Path) {
    match kind {
        "file" => std::fs::write(path, b"old content that is longer").unwrap(),
        "directory" => std::fs::create_dir(path).unwrap(),
        "full directory" => {
            std::fs::create_dir_all(path.join("some/where")).unwrap();
            std::fs::write(path.join("some/thing"), b"x").unwrap();
        }
        "link" => std::os::unix::fs::symlink("elsewhere", path).unwrap(),
        "fifo" => rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap(),
        _ => {}
    }
}

fn wanted(kind: &str) -> Entry {
    match kind {
        "file" => file("x", &[b"new ", b"content"]),
        "directory" => directory("x", vec![file("inside", &[b"i"])]),
        "link" => link("x", "target"),
        _ => node("x", NodeKind::Fifo, 0o010_640),
    }
}

#[tokio::test]
async fn every_kind_takes_the_place_of_every_other() {
    for kind in ["file", "directory", "link", "fifo"] {
        let made = make(vec![wanted(kind)]).await;
        let clean = tempfile::tempdir().unwrap();
        run_well(&made, options(clean.path())).await;
        let expected = tree_of(clean.path());
        for there in KINDS {
            for delete in [false, true] {
                let target = tempfile::tempdir().unwrap();
                put(there, &target.path().join("x"));
                let outcome = run(&made, RestoreOptions { delete, ..options(target.path()) }).await.unwrap();
                let case = format!("{kind} over {there}, delete {delete}");
                let kept = there == "full directory" && !delete;
                if kept && kind != "directory" {
                    assert_eq!(outcome.problem_count, 1, "{case}");
                    let message = &outcome.problems[0].message;
                    assert!(message.contains("move the directory away, then restore again"), "{message}");
                    assert!(target.path().join("x/some/thing").exists(), "{case}");
                } else {
                    assert_eq!(outcome.problems, [], "{case}");
                    let mut tree = tree_of(target.path());
                    if kept {
                        tree.retain(|name, _| !name.contains("some"));
                    }
                    assert_eq!(tree, expected, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_changed_file_is_repaired_in_place_and_its_right_blobs_are_left_alone() {
    let chunks: Vec<Vec<u8>> = (0..4).map(|number| noise(600_000, number)).collect();
    let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
    let made = make(vec![file("f", &chunks)]).await;
    let target = tempfile::tempdir().unwrap();
    run_well(&made, options(target.path())).await;
    let path = target.path().join("f");
    let before = tree_of(target.path());
    let inode = path.metadata().unwrap().ino();
    let change = |at: u64, bytes: &[u8]| {
        std::fs::File::options().write(true).open(&path).unwrap().write_all_at(bytes, at).unwrap();
    };
    let length =
        |length: u64| std::fs::File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
    for spoil in [0, 1, 2, 3] {
        match spoil {
            0 => change(700_000, b"spoiled"),
            1 => length(1_000_000),
            2 => length(9_000_000),
            _ => change(0, b"spoiled"),
        }
        for sparse in [false, true] {
            let outcome = run_well(&made, RestoreOptions { sparse, ..options(target.path()) }).await;
            assert_eq!(tree_of(target.path()), before);
            assert_eq!(path.metadata().unwrap().ino(), inode);
            assert_eq!(outcome.files_skipped, u64::from(sparse), "the second time nothing is left to do");
        }
    }
}

#[tokio::test]
async fn if_changed_trusts_size_and_time_and_always_does_not() {
    let made = make(vec![file("f", &[b"right"])]).await;
    let target = tempfile::tempdir().unwrap();
    run_well(&made, options(target.path())).await;
    let path = target.path().join("f");
    let time = path.metadata().unwrap().modified().unwrap();
    let spoil = |time| {
        std::fs::write(&path, b"wrong").unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    };
    let with = |overwrite| RestoreOptions { overwrite, ..options(target.path()) };
    spoil(time);
    for (overwrite, content) in [
        (Overwrite::Never, "wrong"),
        (Overwrite::IfNewer, "wrong"),
        (Overwrite::IfChanged, "wrong"),
        (Overwrite::Always, "right"),
    ] {
        run_well(&made, with(overwrite)).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content, "{overwrite:?}");
    }
    for overwrite in [Overwrite::IfChanged, Overwrite::IfNewer] {
        spoil(time - std::time::Duration::from_secs(1));
        run_well(&made, with(overwrite)).await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "right", "{overwrite:?}");
    }
}

#[tokio::test]
async fn a_file_with_other_names_is_not_written_into() {
    let made = make(vec![file("f", &[b"new"])]).await;
    let target = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir_in(target.path().parent().unwrap()).unwrap();
    std::fs::write(other.path().join("kept"), b"old").unwrap();
    std::fs::hard_link(other.path().join("kept"), target.path().join("f")).unwrap();
    run_well(&made, options(target.path())).await;
    assert_eq!(std::fs::read(other.path().join("kept")).unwrap(), b"old");
    assert_eq!(std::fs::read(target.path().join("f")).unwrap(), b"new");
}

#[rstest::rstest]
#[case(Overwrite::Never, false)]
#[case(Overwrite::IfNewer, false)]
#[case(Overwrite::Never, true)]
#[tokio::test]
async fn a_name_that_was_left_alone_is_nothing_to_link_to(
    #[case] overwrite: Overwrite,
    #[case] dry_run: bool,
) {
    let linked = |name: &str| {
        file(name, &[b"right"]).with(|node| (node.links, node.inode, node.device_id) = (4, 77, 5))
    };
    let made = make(["a", "b", "c", "d"].map(linked).to_vec()).await;
    let target = tempfile::tempdir().unwrap();
    let path = |name: &str| target.path().join(name);
    for name in ["a", "c"] {
        std::fs::write(path(name), b"someone else's").unwrap();
    }
    let options = RestoreOptions { overwrite, dry_run, ..options(target.path()) };
    let outcome = run_well(&made, options).await;
    assert_eq!((outcome.total_files, outcome.files_restored, outcome.files_skipped), (4, 2, 2));
    assert_eq!((outcome.bytes_restored, outcome.bytes_skipped), (5, 5));
    if dry_run {
        return;
    }
    for (name, content) in [("a", "someone else's"), ("b", "right"), ("c", "someone else's"), ("d", "right")]
    {
        assert_eq!(std::fs::read_to_string(path(name)).unwrap(), content, "{name}");
    }
    let inode = |name: &str| path(name).metadata().unwrap().ino();
    assert_eq!(inode("b"), inode("d"));
    assert_ne!(inode("a"), inode("c"));
}

#[tokio::test]
async fn deletion_removes_what_is_not_in_the_snapshot_and_only_what_is_selected() {
    let made = make(vec![directory("d", vec![file("kept", &[b"k"])]), link("l", "x")]).await;
    let target = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("canary"), b"alive").unwrap();
    let fill = || {
        std::fs::create_dir_all(target.path().join("d/old/deep/er")).unwrap();
        std::fs::write(target.path().join("d/old/deep/f"), b"x").unwrap();
        std::fs::write(target.path().join("d/other"), b"x").unwrap();
        let _ = std::os::unix::fs::symlink(outside.path(), target.path().join("out"));
    };
    fill();
    let select: Select = Arc::new(|path, _| Selection { include: path != b"/d/other", descend: true });
    let some = RestoreOptions { delete: true, select: Some(select), ..options(target.path()) };
    let outcome = run_well(&made, some).await;
    assert_eq!(outcome.files_deleted, 5);
    assert_eq!(tree_of(target.path()).keys().collect::<Vec<_>>(), ["d", "d/kept", "d/other", "l"]);
    fill();
    run_well(&made, RestoreOptions { delete: true, ..options(target.path()) }).await;
    assert_eq!(tree_of(target.path()).keys().collect::<Vec<_>>(), ["d", "d/kept", "l"]);
    assert!(outside.path().join("canary").exists());
}

#[tokio::test]
async fn deletion_from_the_root_of_the_system_is_refused() {
    let made = make(Vec::new()).await;
    let error = run(&made, RestoreOptions { delete: true, ..options(Path::new("/tmp/..")) }).await;
    assert!(matches!(error, Err(Error::Refused { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_content_over_any_other_comes_out_as_in_the_snapshot(
        pieces in proptest::collection::vec((any::<bool>(), 1_usize..20_000, any::<u64>()), 0..6),
        old in proptest::collection::vec((0_usize..6, any::<bool>()), 0..8),
        extra in 0_usize..5000,
        sparse: bool,
    ) {
        let chunks: Vec<Vec<u8>> = pieces
            .iter()
            .map(|(zero, length, seed)| if *zero { vec![0; *length] } else { noise(*length, *seed) })
            .collect();
        let content = chunks.concat();
        let mut there: Vec<u8> = Vec::new();
        for (number, spoilt) in old {
            let chunk = chunks.get(number).cloned().unwrap_or_default();
            there.extend(if spoilt { vec![9; chunk.len()] } else { chunk });
        }
        there.resize(there.len() + extra, 3);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let made = make(vec![file("f", &chunks)]).await;
            let target = tempfile::tempdir().unwrap();
            std::fs::write(target.path().join("f"), &there).unwrap();
            run_well(&made, RestoreOptions { sparse, verify: true, ..options(target.path()) }).await;
            assert!(std::fs::read(target.path().join("f")).unwrap() == content);
        });
    }
}
