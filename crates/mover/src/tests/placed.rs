//! Directories at a path of the snapshot, where restic and Stash store them, backed up and restored.

use std::os::unix::fs::{PermissionsExt, symlink};

use lifeboat_repository::blobs::BlobReader;
use lifeboat_repository::dump::{DumpFormat, dump};
use lifeboat_repository::walk::find_directory;
use tokio_util::sync::CancellationToken;

use super::world::{World, tree};
use crate::report::Cause;
use crate::task::{BackupWork, RestoreWork, Source, Task, TaskWork};

fn fill(world: &World) {
    world.write("app/file", (0..=255).cycle().take(700_000).collect::<Vec<u8>>());
    world.write("app/deep/er/query.sql", "select");
    world.write("app/deep/note.txt", "note");
    world.write("app/cache/large", "left out");
    world.write(".velero/restore-uid", "");
    symlink("app/file", world.path("volume/link")).unwrap();
    std::fs::set_permissions(world.path("volume"), std::fs::Permissions::from_mode(0o2750)).unwrap();
}

fn backup(world: &World, change: impl FnOnce(&mut BackupWork)) -> Task {
    let mut task = world.backup("uid-1");
    let TaskWork::Backup(work) = &mut task.parts[0].work else { panic!() };
    work.at = Some("/source/data".to_owned());
    change(work);
    task
}

fn restore(world: &World, snapshot: &str, target: &str, change: impl FnOnce(&mut RestoreWork)) -> Task {
    let mut task = world.restore(snapshot, target);
    let TaskWork::Restore(work) = &mut task.parts[0].work else { panic!() };
    work.folder = Some("/source/data".to_owned());
    change(work);
    task
}

fn files(world: &World, target: &str) -> Vec<String> {
    let found = tree(&world.path(target)).into_keys();
    found
        .filter(|path| world.path(target).join(path).is_file())
        .map(|path| path.display().to_string())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_stored_at_a_path_comes_back_byte_for_byte() {
    let world = World::new().await;
    fill(&world);
    let mut expected = tree(&world.path("volume"));
    expected.retain(|path, _| !path.starts_with(".velero") && !path.starts_with("app/cache"));
    let backed_up =
        world.run(&backup(&world, |work| work.excludes = vec!["/source/data/app/cache".into()])).await;
    let id = backed_up.backed_up().snapshot;
    let repository = world.repository().await;
    let snapshot = repository.load_snapshot(id.parse().unwrap()).await.unwrap();
    assert_eq!(snapshot.paths, ["/source/data"]);
    assert!(
        !snapshot.tags.iter().any(|tag| tag.starts_with("lifeboat-root=")),
        "the entry of the directory has it"
    );
    let reader = BlobReader::new(&repository, repository.load_index().await.unwrap().into());
    let data = find_directory(&reader, snapshot.tree, "/source/data").await.unwrap();
    let names = reader.load_tree(&data).await.unwrap();
    assert_eq!(names.iter().map(|node| node.name.as_slice()).collect::<Vec<_>>(), [&b"app"[..], b"link"]);
    let out = world.path("out");
    let file = std::fs::File::create(&out).unwrap();
    let path = std::path::Path::new("/source/data/app/file");
    dump(&repository, &snapshot, path, DumpFormat::Raw, file, CancellationToken::new()).await.unwrap();
    assert!(std::fs::read(&out).unwrap() == std::fs::read(world.path("volume/app/file")).unwrap());
    // Restored into a volume, and in full beside it, where restic would restore it.
    world.run(&restore(&world, &id, "target", |_| {})).await.restored();
    assert_eq!(tree(&world.path("target")), expected);
    let mode = |path: &str| world.path(path).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("target"), 0o2750, "the root of the volume has its mode back");
    world.run(&restore(&world, &id, "whole", |work| work.folder = None)).await.restored();
    assert_eq!(tree(&world.path("whole/source/data")), expected);
    assert_eq!((mode("whole"), mode("whole/source"), mode("whole/source/data")), (0o755, 0o755, 0o2750));
    // A directory above the backed-up one was synthesized: the target keeps its own mode.
    world.run(&restore(&world, &id, "above", |work| work.folder = Some("/source".into()))).await.restored();
    assert_eq!((mode("above"), mode("above/data")), (0o755, 0o2750));
    world.assert_nothing_is_locked().await;
}

#[rstest::rstest]
#[case(|work: &mut RestoreWork| work.include = vec!["*.sql".into()], &["app/deep/er/query.sql"])]
#[case(|work: &mut RestoreWork| work.include = vec!["/source/data/app/deep".into()], &["app/deep/er/query.sql", "app/deep/note.txt"])]
#[case(|work: &mut RestoreWork| work.exclude = vec!["/source/data/app/file".into(), "cache".into()], &["app/deep/er/query.sql", "app/deep/note.txt", "link"])]
#[case(|work: &mut RestoreWork| (work.include, work.exclude) = (vec!["deep".into()], vec!["*.txt".into()]), &["app/deep/er/query.sql"])]
#[case(|work: &mut RestoreWork| (work.paths, work.exclude) = (vec!["/source/data/app".into()], vec!["cache".into(), "deep".into()]), &["app/file"])]
#[case(|work: &mut RestoreWork| (work.include, work.folder) = (vec!["note.txt".into()], None), &["source/data/app/deep/note.txt"])]
#[case(|work: &mut RestoreWork| work.include = vec!["/other".into()], &[])]
#[tokio::test(flavor = "multi_thread")]
async fn only_what_the_patterns_choose_comes_back(
    #[case] choose: fn(&mut RestoreWork),
    #[case] expected: &[&str],
) {
    let world = World::new().await;
    fill(&world);
    let id = world.run(&backup(&world, |_| {})).await.backed_up().snapshot;
    let end = world.run(&restore(&world, &id, "target", choose)).await;
    let warned = end.lines.iter().any(|line| format!("{line:?}").contains("match no file"));
    let restored = end.restored();
    assert!(restored.verified && restored.failed.count == 0, "{restored:?}");
    assert_eq!(warned, expected.is_empty());
    let link_leads_nowhere = |name: &&&str| **name != "link";
    assert_eq!(
        files(&world, "target"),
        expected.iter().filter(link_leads_nowhere).copied().collect::<Vec<_>>()
    );
    assert_eq!(world.path("target/link").is_symlink(), expected.contains(&"link"));
}

/// The application mounts the volume with a subPath: the directory that is read and filled is below the volume's
/// root.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_below_the_volume_is_stored_and_filled() {
    let world = World::new().await;
    fill(&world);
    world.write("app/.velero", "a file of the application");
    let id = world.run(&backup(&world, |work| work.sub_path = Some("app".into()))).await.backed_up().snapshot;
    let task = restore(&world, &id, "target", |work| {
        work.sub_path = Some("apps/one".into());
        work.done_file = Some(".velero/uid".into());
        work.paths = vec!["/source/data".into()];
    });
    world.run(&task).await.restored();
    assert!(world.path("target/.velero/uid").is_file());
    let names = files(&world, "target/apps/one");
    assert_eq!(names, [".velero", "cache/large", "deep/er/query.sql", "deep/note.txt", "file"]);
}

fn single(world: &World, sub_path: &str, at: &str) -> Task {
    backup(world, |work| (work.sub_path, work.at) = (Some(sub_path.to_owned()), Some(at.to_owned())))
}

/// As restic stores and restores a file that is named by its path.
#[rstest::rstest]
#[case::of_the_volume("app/deep/note.txt", "/source/data/app/deep/note.txt")]
#[case::mounted_alone("app/deep/note.txt", "/etc/note.txt")]
#[case::at_the_root("app/deep/note.txt", "/note.txt")]
#[tokio::test(flavor = "multi_thread")]
async fn a_single_file_is_stored_at_its_path_and_comes_back(#[case] sub_path: &str, #[case] at: &str) {
    let world = World::new().await;
    fill(&world);
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(world.path("volume").join(sub_path), mode).unwrap();
    let stored = world.run(&single(&world, sub_path, at)).await.backed_up();
    assert_eq!((stored.files, stored.bytes), (1, 4));
    let snapshot = world.repository().await.load_snapshots().await.unwrap().remove(0).1;
    assert_eq!(snapshot.paths, [at]);

    std::fs::create_dir_all(world.path("target/app/deep")).unwrap();
    std::fs::write(world.path("target/app/deep/other"), "stays").unwrap();
    let task = restore(&world, &stored.snapshot, "target", |work| {
        (work.folder, work.sub_path) = (Some(at.to_owned()), Some(sub_path.to_owned()));
    });
    let restored = world.run(&task).await.restored();
    assert!(restored.verified && restored.files == 1, "{restored:?}");
    assert_eq!(files(&world, "target"), ["app/deep/note.txt", "app/deep/other"]);
    let expected = tree(&world.path("volume/app/deep")).remove(std::path::Path::new("note.txt"));
    assert_eq!(tree(&world.path("target/app/deep")).remove(std::path::Path::new("note.txt")), expected);
    world.assert_nothing_is_locked().await;
}

/// A rule of a restore may name a file of a directory that was stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_stored_directory_comes_back_alone() {
    let world = World::new().await;
    fill(&world);
    let id = world.run(&backup(&world, |_| {})).await.backed_up().snapshot;
    let task = restore(&world, &id, "target", |work| {
        work.folder = Some("/source/data/app/deep/note.txt".into());
        work.sub_path = Some("app/deep/note.txt".into());
    });
    world.run(&task).await.restored();
    assert_eq!(files(&world, "target"), ["app/deep/note.txt"]);
    let task = restore(&world, &id, "target", |work| {
        work.folder = Some("/source/data/app/deep/note.txt".into());
        work.sub_path = Some("app/other.txt".into());
    });
    let failure = world.run(&task).await.failed();
    assert!(failure.message.contains("expected the same name"), "{}", failure.message);
}

type Spoil = fn(&mut BackupWork);

#[rstest::rstest]
#[case::link(|work: &mut BackupWork| work.sub_path = Some("away".into()), Cause::Source, "cannot open '/source/data': ")]
#[case::renamed(
    |work: &mut BackupWork| (work.sub_path, work.at) = (Some("app/deep/note.txt".into()), Some("/etc/app.txt".into())),
    Cause::Source,
    "another name than the file 'note.txt'"
)]
#[case::below_a_file(|work: &mut BackupWork| work.sub_path = Some("app/file/deeper".into()), Cause::Source, "cannot open '/source/data': ")]
#[case::missing(|work: &mut BackupWork| work.sub_path = Some("none".into()), Cause::Source, "cannot open '/source/data': No such file")]
#[case::up(|work: &mut BackupWork| work.sub_path = Some("../other".into()), Cause::Task, "subPath: '../other'")]
#[case::relative(|work: &mut BackupWork| work.at = Some("source".into()), Cause::Source, "'source'")]
#[case::command(
    |work: &mut BackupWork| work.source = Source::Command { argv: vec!["true".into()], name: "x".into() },
    Cause::Task,
    "at: only allowed with a directory"
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_stored_there_is_refused(
    #[case] spoil: Spoil,
    #[case] cause: Cause,
    #[case] problem: &str,
) {
    let world = World::new().await;
    fill(&world);
    symlink(world.path("scratch"), world.path("volume/away")).unwrap();
    let failure = world.run(&backup(&world, spoil)).await.failed();
    assert_eq!(failure.cause, cause, "{}", failure.message);
    assert!(failure.message.contains(problem), "{}", failure.message);
    assert!(world.repository().await.load_snapshots().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_and_folders_are_for_directories_only_and_a_missing_folder_is_named() {
    let world = World::new().await;
    fill(&world);
    let id = world.run(&backup(&world, |_| {})).await.backed_up().snapshot;
    let failure =
        world.run(&restore(&world, &id, "target", |work| work.folder = Some("/other".into()))).await;
    let failure = failure.failed();
    assert_eq!(failure.cause, Cause::NotStored);
    assert!(failure.message.contains("'/other'"), "{}", failure.message);
    let task = restore(&world, &id, "target", |work| {
        work.target = crate::task::Target::Command { argv: vec!["cat".into()] };
    });
    let failure = world.run(&task).await.failed();
    assert_eq!(failure.cause, Cause::Task);
    assert!(failure.message.contains("folder: "), "{}", failure.message);
}
