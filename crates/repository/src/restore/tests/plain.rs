use std::collections::HashSet;
use std::sync::Mutex;

use super::make::node;
use super::*;
use crate::node::{NodeKind, Xattr};

/// Every kind of entry that needs no root privileges.
fn everything() -> Vec<Entry> {
    let big: Vec<Vec<u8>> = (0..9).map(|number| noise(700_000, number)).collect();
    let big: Vec<&[u8]> = big.iter().map(Vec::as_slice).collect();
    let linked = |name: &str| {
        file(name, &[b"linked"]).with(|node| (node.links, node.inode, node.device_id) = (3, 77, 5))
    };
    vec![
        file("a", &[b"hello ", b"world"]),
        file("big", &big),
        directory(
            "d",
            vec![
                directory("empty", vec![]).with(|node| node.mode = crate::node::Mode::from_unix(0o040_500)),
                file("e", &[]),
                linked("l1"),
                directory("more", vec![file("a", &[b"hello "]), linked("l2"), link("up", "../../a")]),
            ],
        ),
        node("fifo", NodeKind::Fifo, 0o010_600),
        linked("l3"),
        link("link", "/nowhere/at all"),
        file(b"odd \xff name\n", &[b"x"]),
        file("setuid", &[b"#!"]).with(|node| node.mode = crate::node::Mode::from_unix(0o106_711)),
        node("socket", NodeKind::Socket, 0o140_777),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_comes_back_with_its_metadata() {
    let made = make(everything()).await;
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("made/for it");
    let outcome = run_well(&made, RestoreOptions { verify: true, ..options(&target) }).await;
    let tree = tree_of(&target);
    let names: Vec<_> = tree.keys().map(String::as_str).collect();
    let expected = [
        "a",
        "big",
        "d",
        "d/e",
        "d/empty",
        "d/l1",
        "d/more",
        "d/more/a",
        "d/more/l2",
        "d/more/up",
        "fifo",
        "l3",
        "link",
        "odd \u{fffd} name\n",
        "setuid",
    ];
    assert_eq!(names, expected);
    for (name, line) in &tree {
        assert!(line.ends_with(" 1600000000.123456789"), "{name}: {line}");
    }
    assert!(tree["a"].starts_with("file 640 11 "));
    assert!(tree["d"].starts_with("directory 750 "));
    assert!(tree["d/empty"].starts_with("directory 500 "));
    assert!(tree["fifo"].starts_with("fifo 600 "));
    assert!(tree["setuid"].starts_with("file 6711 2 "));
    assert!(tree["link"].starts_with("link to /nowhere/at all "));
    assert_eq!(std::fs::read(target.join("a")).unwrap(), b"hello world");
    for number in 0..9 {
        assert_eq!(read_at(&target.join("big"), number * 700_000, 700_000), noise(700_000, number));
    }
    let inode = |name: &str| target.join(name).metadata().unwrap().ino();
    assert_eq!(inode("d/l1"), inode("d/more/l2"));
    assert_eq!(inode("d/l1"), inode("l3"));
    assert_eq!(target.join("l3").metadata().unwrap().nlink(), 3);
    assert_eq!((outcome.total_files, outcome.files_restored, outcome.files_skipped), (15, 15, 0));
    assert_eq!(outcome.bytes_restored, 11 + 9 * 700_000 + 6 + 6 + 1 + 2);
    assert_eq!((outcome.total_bytes, outcome.files_verified), (outcome.bytes_restored, Some(9)));
}

#[tokio::test]
async fn a_second_restore_over_the_first_changes_nothing_and_reads_no_data() {
    let made = make(everything()).await;
    let target = tempfile::tempdir().unwrap();
    run_well(&made, options(target.path())).await;
    let before = tree_of(target.path());
    for overwrite in [Overwrite::Always, Overwrite::IfChanged, Overwrite::IfNewer, Overwrite::Never] {
        let outcome = run_well(&made, RestoreOptions { overwrite, ..options(target.path()) }).await;
        assert_eq!(tree_of(target.path()), before);
        assert_eq!(outcome.bytes_restored, 0, "{overwrite:?}");
        assert_eq!(outcome.bytes_skipped, outcome.total_bytes, "{overwrite:?}");
    }
}

#[tokio::test]
async fn a_dry_run_tells_everything_and_writes_nothing() {
    let made = make(everything()).await;
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("missing");
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = Arc::clone(&reported);
    let notify: Notify = Arc::new(move |event| {
        listener.lock().unwrap().push(format!("{:?} {}", event.action, event.path.display()));
    });
    let dry = RestoreOptions { dry_run: true, notify: Some(notify), ..options(&target) };
    let outcome = run_well(&made, dry.clone()).await;
    assert!(!target.exists());
    assert_eq!((outcome.total_files, outcome.files_restored), (15, 15));
    let wet = run_well(&made, options(&target)).await;
    assert_eq!(outcome, wet);

    reported.lock().unwrap().clear();
    std::fs::write(target.join("a"), b"hello there").unwrap();
    std::fs::remove_file(target.join("link")).unwrap();
    std::fs::create_dir_all(target.join("extra/inner")).unwrap();
    let before = tree_of(&target);
    run_well(&made, RestoreOptions { delete: true, ..dry }).await;
    assert_eq!(tree_of(&target), before);
    let reported = reported.lock().unwrap();
    for line in [
        "Updated /a",
        "Unchanged /big",
        "Restored /link",
        "Deleted /extra/inner",
        "Deleted /extra",
        "Restored /d",
    ] {
        assert!(reported.iter().any(|entry| entry == line), "{line} in {reported:?}");
    }
}

#[tokio::test]
async fn a_subfolder_becomes_the_target_and_a_filter_brings_only_what_it_selects() {
    let made = make(everything()).await;
    let target = tempfile::tempdir().unwrap();
    run_well(&made, RestoreOptions { subfolder: Some("/d/more".into()), ..options(target.path()) }).await;
    assert_eq!(tree_of(target.path()).keys().collect::<Vec<_>>(), ["a", "l2", "up"]);

    let target = tempfile::tempdir().unwrap();
    let select: Select = Arc::new(|path, _| Selection {
        include: path == b"/d/more/a",
        descend: b"/d/more/a".starts_with(path),
    });
    let outcome = run_well(&made, RestoreOptions { select: Some(select), ..options(target.path()) }).await;
    let tree = tree_of(target.path());
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["d", "d/more", "d/more/a"]);
    assert!(tree["d/more"].starts_with("directory 750 1600000000.123"), "parents get their metadata, too");
    assert_eq!((outcome.total_files, outcome.files_restored), (3, 3));

    for (folder, word) in [("/x", "no '/x'"), ("/a", "not a directory"), ("/d/../d", "'..'")] {
        let error =
            run(&made, RestoreOptions { subfolder: Some(folder.into()), ..options(target.path()) }).await;
        assert!(error.unwrap_err().to_string().contains(word), "{folder}");
    }
}

#[tokio::test]
async fn extended_attributes_are_set_replaced_and_taken_away() {
    let wanted = [Xattr { name: "user.one".to_owned(), value: b"1".to_vec() }];
    let made = make(vec![
        directory("d", vec![]).with(|node| node.xattrs = wanted.to_vec()),
        file("f", &[b"x"]).with(|node| node.xattrs = wanted.to_vec()),
    ])
    .await;
    let target = tempfile::tempdir().unwrap();
    let path = |name: &str| target.path().join(name);
    let set = |name: &str, attribute: &str| {
        rustix::fs::setxattr(path(name), attribute, b"0", rustix::fs::XattrFlags::empty())
    };
    std::fs::write(path("probe"), b"").unwrap();
    if set("probe", "user.probe").is_err() {
        return; // This file system has no attributes.
    }
    std::fs::write(path("f"), b"x").unwrap();
    set("f", "user.one").unwrap();
    set("f", "user.two").unwrap();
    set("f", "user.kept").unwrap();
    let select_xattr: SelectXattr = Arc::new(|name| name != "user.kept");
    run_well(&made, RestoreOptions { select_xattr: Some(select_xattr), ..options(target.path()) }).await;
    let get = |name: &str, attribute: &str| {
        let mut value = [0; 10];
        rustix::fs::getxattr(path(name), attribute, &mut value).ok().map(|length| value[..length].to_vec())
    };
    for name in ["d", "f"] {
        assert_eq!(get(name, "user.one"), Some(b"1".to_vec()));
    }
    assert_eq!(get("f", "user.two"), None);
    assert_eq!(get("f", "user.kept"), Some(b"0".to_vec()));
}

#[tokio::test]
async fn zeros_become_holes_if_wanted() {
    let zeros = vec![0; crate::chunker::MAX_SIZE];
    let data = noise(100_000, 1);
    let made = make(vec![
        file("sparse", &[&zeros, &data, &zeros, &zeros]),
        file("tail", &[b"x", &zeros[..1_000_000]]),
        file("zero", &[&zeros[..50_000]]),
    ])
    .await;
    let target = tempfile::tempdir().unwrap();
    run_well(&made, RestoreOptions { sparse: true, verify: true, ..options(target.path()) }).await;
    let blocks = |name: &str| target.path().join(name).metadata().unwrap().blocks() * 512;
    assert!(blocks("sparse") < 300_000 && blocks("tail") < 100_000 && blocks("zero") < 10_000);
    assert_eq!(read_at(&target.path().join("sparse"), zeros.len() as u64, data.len()), data);
    assert_eq!(std::fs::read(target.path().join("zero")).unwrap(), &zeros[..50_000]);
    let full = tempfile::tempdir().unwrap();
    run_well(&made, RestoreOptions { verify: true, ..options(full.path()) }).await;
    assert_eq!(tree_of(full.path()), tree_of(target.path()));
    let taken = full.path().join("sparse").metadata().unwrap().blocks() * 512;
    assert!(taken >= 3 * zeros.len() as u64, "without holes the room is taken: {taken}");
}

#[rstest::rstest]
#[case::holes(true)]
#[case::room_taken(false)]
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_zeros_as_a_backup_stores_it_is_restored_without_reading_them(#[case] sparse: bool) {
    use crate::backup::{BackupOptions, Source, backup};
    let source = tempfile::tempdir().unwrap();
    let length = 8 * crate::chunker::MIN_SIZE;
    std::fs::write(source.path().join("zeros"), vec![0; length]).unwrap();
    let repository = crate::testing::memory_repository().await;
    let options = BackupOptions::new(Source::Paths(vec![source.path().to_owned()]), "host");
    let (lock, cancel) = (crate::lock::LockOptions::default(), CancellationToken::new());
    let snapshot = backup(&repository, options, &lock, Arc::default(), cancel).await.unwrap().snapshot;
    let mut packs = HashSet::new();
    let index = repository.load_index().await.unwrap();
    index
        .for_each(&mut |entry| {
            packs.extend((entry.kind == crate::id::BlobKind::Data).then_some(entry.location.pack));
            Ok(())
        })
        .unwrap();
    assert_eq!((packs.len(), index.len() > 1), (1, true));
    for pack in packs {
        repository.remove_file(crate::files::FileKind::Pack, pack.0).await.unwrap();
    }
    let target = tempfile::tempdir().unwrap();
    let subfolder = Some(source.path().to_owned());
    let made = TestSnapshot { repository, snapshot };
    run_well(&made, RestoreOptions { subfolder, sparse, ..self::options(target.path()) }).await;
    let restored = target.path().join("zeros");
    assert!(std::fs::read(&restored).unwrap() == vec![0; length]);
    assert_eq!(restored.metadata().unwrap().blocks() == 0, sparse);
}

#[tokio::test]
async fn a_cancelled_restore_ends_as_cancelled() {
    let made = make(everything()).await;
    let target = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let notify: Notify = Arc::new(move |_| stop.cancel());
    let options = RestoreOptions { notify: Some(notify), ..options(target.path()) };
    let error =
        restore(&made.repository, &made.snapshot, options.clone(), Arc::default(), cancel.clone()).await;
    assert!(matches!(error, Err(Error::Cancelled)));
    let again = restore(&made.repository, &made.snapshot, options, Arc::default(), cancel).await;
    assert!(matches!(again, Err(Error::Cancelled)));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_files_in_many_directories_need_few_handles() {
    let mut directories = Vec::new();
    for number in 0..400 {
        let files = (0..5).map(|each| file(format!("f{each}"), &[format!("{number} {each}").as_bytes()]));
        directories.push(directory(format!("d{number:03}"), files.collect()));
    }
    // A blob that every file has, so that all directories are open at the same time.
    let shared: Vec<Entry> = (0..600)
        .map(|each| file(format!("s{each:03}"), &[b"shared", format!("{each}").as_bytes()]))
        .collect();
    directories.extend(shared);
    let made = make(directories).await;
    let target = tempfile::tempdir().unwrap();
    let outcome = run_well(&made, RestoreOptions { verify: true, ..options(target.path()) }).await;
    assert_eq!(outcome.files_verified, Some(2600));
    assert_eq!(std::fs::read(target.path().join("d399/f4")).unwrap(), b"399 4");
    assert_eq!(std::fs::read(target.path().join("s599")).unwrap(), b"shared599");
}
