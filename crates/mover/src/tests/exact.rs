//! Restores after which a directory has exactly what the snapshot has.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use super::world::{World, tree};
use crate::report::{Cause, LogLine};
use crate::task::{BackupWork, RestoreWork, Target, Task, TaskWork};

fn backup(world: &World, change: impl FnOnce(&mut BackupWork)) -> Task {
    let mut task = world.backup("uid-1");
    let TaskWork::Backup(work) = &mut task.parts[0].work else { panic!() };
    work.at = Some("/data".to_owned());
    change(work);
    task
}

fn restore(world: &World, snapshot: &str, change: impl FnOnce(&mut RestoreWork)) -> Task {
    let mut task = world.restore(snapshot, "volume");
    let TaskWork::Restore(work) = &mut task.parts[0].work else { panic!() };
    (work.folder, work.exact) = (Some("/data".to_owned()), true);
    change(work);
    task
}

/// A volume and its snapshot, then what a restore of other data leaves in the volume.
async fn mixed(world: &World) -> String {
    world.write("app/file", "old");
    world.write("app/deep/note", "old");
    let snapshot = world.run(&backup(world, |_| {})).await.backed_up().snapshot;
    world.write("app/file", "newer");
    for extra in ["app/extra", "dir/extra", ".velero/uid-of-another-restore"] {
        world.write(extra, "extra");
    }
    world.write("../outside", "kept");
    std::fs::remove_dir_all(world.path("volume/app/deep")).unwrap();
    symlink(world.path("outside"), world.path("volume/out")).unwrap();
    snapshot
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_as_it_was_with_the_time_of_its_root() {
    let world = World::new().await;
    world.write("app/file", "old");
    world.write("app/deep/note", "old");
    let root = world.path("volume").metadata().unwrap();
    let before = tree(&world.path("volume"));
    let snapshot = mixed(&world).await;
    let end = world.run(&restore(&world, &snapshot, |_| {})).await;
    let told = |line: &LogLine| matches!(line, LogLine::Message { text, .. } if text.starts_with("removed 4 entries"));
    assert!(end.lines.iter().any(told), "{:?}", end.lines);
    let restored = end.restored();
    assert!(restored.verified && restored.failed.count == 0, "{restored:?}");
    let mut after = tree(&world.path("volume"));
    after.retain(|path, _| !path.starts_with(".velero"));
    let paths = |tree: &std::collections::BTreeMap<_, _>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&after), paths(&before));
    assert!(world.path("volume/.velero/uid-of-another-restore").exists());
    assert_eq!(std::fs::read_to_string(world.path("volume/app/file")).unwrap(), "old");
    assert_eq!(std::fs::read_to_string(world.path("outside")).unwrap(), "kept");
    let now = world.path("volume").metadata().unwrap();
    assert_eq!((now.mtime(), now.mtime_nsec()), (root.mtime(), root.mtime_nsec()));
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_restore_removes_nothing() {
    let world = World::new().await;
    let snapshot = mixed(&world).await;
    world.run(&restore(&world, &snapshot, |work| work.exact = false)).await.restored();
    assert!(world.path("volume/app/extra").exists() && world.path("volume/dir/extra").exists());
}

#[rstest::rstest]
#[case(|work: &mut RestoreWork| work.paths = vec!["/data/app".into()])]
#[case(|work: &mut RestoreWork| work.exclude = vec!["*.tmp".into()])]
#[case(|work: &mut RestoreWork| work.into = Some("beside".into()))]
#[case(|work: &mut RestoreWork| (work.folder, work.target) = (None, Target::Command { argv: vec!["cat".into()] }))]
#[tokio::test(flavor = "multi_thread")]
async fn only_a_whole_directory_is_made_exactly_like_the_snapshot(#[case] change: fn(&mut RestoreWork)) {
    let world = World::new().await;
    let snapshot = mixed(&world).await;
    let before = tree(&world.path("volume"));
    let failure = world.run(&restore(&world, &snapshot, change)).await.failed();
    assert_eq!(failure.cause, Cause::Task);
    assert!(failure.message.contains("exact: "), "{}", failure.message);
    assert_eq!(tree(&world.path("volume")), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_with_missing_files_removes_nothing() {
    let world = World::new().await;
    world.write("file", "old");
    let tags = vec![format!("{}2", crate::task::UNREADABLE_TAG)];
    let snapshot = world.run(&backup(&world, |work| work.tags = tags)).await.backed_up().snapshot;
    world.write("file", "newer");
    let failure = world.run(&restore(&world, &snapshot, |_| {})).await.failed();
    assert!(failure.message.contains("lacks 2 files"), "{}", failure.message);
    assert_eq!(std::fs::read_to_string(world.path("volume/file")).unwrap(), "newer");
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_single_file_nothing_is_removed() {
    let world = World::new().await;
    world.write("app/file", "old");
    let single = backup(&world, |work| {
        (work.sub_path, work.at) = (Some("app/file".into()), Some("/etc/file".into()));
    });
    let snapshot = world.run(&single).await.backed_up().snapshot;
    world.write("app/file", "newer");
    world.write("app/other", "stays");
    let task = restore(&world, &snapshot, |work| {
        (work.folder, work.sub_path) = (Some("/etc/file".into()), Some("app/file".into()));
    });
    world.run(&task).await.restored();
    let names = |path: &Path| tree(path).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&world.path("volume/app")), [Path::new("file"), Path::new("other")]);
}
