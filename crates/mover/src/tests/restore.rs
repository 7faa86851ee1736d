use std::os::unix::fs::{PermissionsExt, symlink};

use super::world::{World, backup_of, restore_to, tree};
use crate::report::{Cause, Outcome};
use crate::task::{Source, Target, Task, TaskWork};

async fn stored(world: &World) -> String {
    world.write("a/file", vec![1; 700_000]);
    world.write("a/other", "other");
    world.write("b/deep/file", "deep");
    symlink("a/file", world.path("volume/link")).unwrap();
    let mode = std::fs::Permissions::from_mode(0o2750);
    std::fs::set_permissions(world.path("volume"), mode).unwrap();
    world.run(&world.backup("uid-1")).await.backed_up().snapshot
}

fn with(mut task: Task, change: impl FnOnce(&mut crate::task::RestoreWork)) -> Task {
    let TaskWork::Restore(work) = &mut task.parts[0].work else { panic!() };
    change(work);
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_comes_back_and_then_the_file_that_a_pod_waits_for() {
    let world = World::new().await;
    let snapshot = stored(&world).await;
    let task =
        with(world.restore(&snapshot, "target"), |work| work.done_file = Some(".velero/restore-uid".into()));
    let restored = world.run(&task).await.restored();
    assert!(restored.verified && restored.failed.count == 0 && restored.bytes == 700_009, "{restored:?}");
    assert!(world.path("target/.velero/restore-uid").is_file());
    let file = world.path("target/a/file");
    let before = std::fs::read(&file).unwrap();
    std::fs::write(&file, "the pod's own").unwrap();
    let again = world.run(&task).await.restored();
    assert_eq!((again.verified, again.bytes), (true, 700_009));
    assert_eq!(std::fs::read(&file).unwrap(), b"the pod's own", "a second mover touches nothing");
    std::fs::remove_dir_all(world.path("target")).unwrap();
    let task =
        with(world.restore(&snapshot, "target"), |work| work.done_file = Some(".velero/restore-uid".into()));
    world.run(&task).await.restored();
    assert_eq!(std::fs::read(&file).unwrap(), before);
    std::fs::remove_dir_all(world.path("target/.velero")).unwrap();
    assert_eq!(tree(&world.path("target")), tree(&world.path("volume")));
    let mode = world.path("target").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o2750, "the volume's own root has its mode back");
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_repeated_over_its_first_half_ends_well() {
    let world = World::new().await;
    let snapshot = stored(&world).await;
    std::fs::create_dir_all(world.path("target/a")).unwrap();
    std::fs::write(world.path("target/a/file"), vec![2; 300_000]).unwrap();
    world.run(&world.restore(&snapshot, "target")).await.restored();
    assert_eq!(tree(&world.path("target")), tree(&world.path("volume")));
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_paths_come_back_with_what_is_below_them() {
    let world = World::new().await;
    let snapshot = stored(&world).await;
    let task = with(world.restore(&snapshot, "target"), |work| {
        work.paths = vec!["/a/other".to_owned(), "b".to_owned()];
    });
    world.run(&task).await.restored();
    let found: Vec<_> = tree(&world.path("target")).into_keys().collect();
    assert_eq!(found, ["a", "a/other", "b", "b/deep", "b/deep/file"].map(std::path::PathBuf::from));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_the_snapshot_does_not_have_fails_and_no_done_file_is_written() {
    let world = World::new().await;
    let snapshot = stored(&world).await;
    let task = with(world.restore(&snapshot, "target"), |work| {
        work.paths = vec!["/a".to_owned(), "/none".to_owned()];
        work.done_file = Some(".velero/uid".into());
    });
    let left = world.run(&task).await;
    let Outcome::Restored(restored) = left.result.outcome else { panic!("{:?}", left.result) };
    assert_eq!((left.code, restored.failed.count, restored.verified), (1, 1, false));
    assert_eq!(restored.failed.first, ["/none: the snapshot does not have it"]);
    assert!(!world.path("target/.velero").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_the_snapshot_does_not_have_is_named_with_what_is_there_and_nothing_is_written() {
    let world = World::new().await;
    let snapshot = stored(&world).await;
    for (folder, there) in [("/a/none", "'/a' has file, other;"), ("/a/file/none", "'/a' has file, other;")] {
        let task = with(world.restore(&snapshot, "target"), |work| work.folder = Some(folder.to_owned()));
        let failure = world.run(&task).await.failed();
        assert_eq!(failure.cause, Cause::NotStored, "{}", failure.message);
        assert!(
            failure.message.contains(there) && failure.message.ends_with("nothing was written"),
            "{failure:?}"
        );
        assert!(tree(&world.path("target")).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_cannot_be_read_fails_and_no_done_file_is_written() {
    let world = World::new().await;
    let snapshot = stored(&world).await;
    let data = world.path("bucket/cluster/restic/shop/data");
    // The larger pack contains the files.
    let mut packs: Vec<_> = std::fs::read_dir(&data)
        .unwrap()
        .flat_map(|directory| std::fs::read_dir(directory.unwrap().path()).unwrap())
        .map(|file| file.unwrap())
        .collect();
    packs.sort_by_key(|pack| pack.metadata().unwrap().len());
    for pack in packs {
        let mut content = std::fs::read(pack.path()).unwrap();
        content[40] ^= 1;
        std::fs::remove_file(pack.path()).unwrap();
        std::fs::write(pack.path(), content).unwrap();
    }
    // The cache would hide the damage.
    std::fs::remove_dir_all(world.path("scratch")).unwrap();
    std::fs::create_dir(world.path("scratch")).unwrap();
    let task = with(world.restore(&snapshot, "target"), |work| work.done_file = Some(".velero/uid".into()));
    let left = world.run(&task).await;
    assert_eq!(left.code, 1);
    match left.result.outcome {
        Outcome::Failed(failure) => assert_eq!(failure.cause, Cause::Damaged, "{}", failure.message),
        Outcome::Restored(restored) => assert!(restored.failed.count > 0),
        other => panic!("{other:?}"),
    }
    assert!(!world.path("target/.velero").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_snapshot_and_a_missing_target_are_distinguished() {
    let world = World::new().await;
    let snapshot = stored(&world).await;
    let failure = world.run(&world.restore(&"0".repeat(64), "target")).await.failed();
    assert_eq!(failure.cause, Cause::NotStored);
    assert!(failure.message.contains("is not in the repository"), "{}", failure.message);
    let task = world.restore(&snapshot, "target");
    std::fs::remove_dir(world.path("target")).unwrap();
    let failure = world.run(&task).await.failed();
    assert_eq!(failure.cause, Cause::WrongVolume);
    assert!(!world.path("target").exists(), "nothing is made in its place");
}

#[rstest::rstest]
#[case("cat > out", None)]
#[case("exit 4", Some("exit status: 4"))]
#[case(
    "head -c 9 >&2; echo '; relation is missing' >&2; exit 3",
    Some("(exit status: 3): 3; 4; 5; relation is missing")
)]
#[case("tail -c 14 >&2; exit 5", Some("(exit status: 5): 199999; 200000"))]
#[tokio::test(flavor = "multi_thread")]
async fn a_command_gets_the_one_file(#[case] script: &str, #[case] problem: Option<&str>) {
    let world = World::new().await;
    let argv = ["sh", "-c", "seq 1 200000"].map(str::to_owned).to_vec();
    let source = Source::Command { argv, name: "db/dump.sql".to_owned() };
    let snapshot =
        world.run(&world.task("uid-1", TaskWork::Backup(backup_of(source)))).await.backed_up().snapshot;
    let script = format!("cd '{}'; {script}", world.path("scratch").display());
    let target = Target::Command { argv: ["sh", "-c", &script].map(str::to_owned).to_vec() };
    let left = world.run(&world.task("restore", TaskWork::Restore(restore_to(&snapshot, target)))).await;
    match problem {
        None => {
            let bytes = left.restored().bytes;
            let out = std::fs::read_to_string(world.path("scratch/out")).unwrap();
            assert_eq!(out.len() as u64, bytes);
            assert!(out.ends_with("\n199999\n200000\n"));
        }
        Some(problem) => {
            let failure = left.failed();
            assert_eq!(failure.cause, Cause::Target);
            assert!(failure.message.contains(problem), "{}", failure.message);
        }
    }
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn into_a_volume_that_is_in_use_files_come_beside_what_is_there() {
    let world = World::new().await;
    let snapshot = stored(&world).await;
    std::fs::create_dir_all(world.path("target/a")).unwrap();
    std::fs::write(world.path("target/a/other"), "newer").unwrap();
    let into = |name: &str| {
        with(world.restore(&snapshot, "target"), |work| {
            work.paths = vec!["/a/other".to_owned()];
            work.into = Some(name.to_owned());
        })
    };
    for _ in 0..2 {
        world.run(&into("back")).await.restored();
        let found: Vec<_> = tree(&world.path("target")).into_keys().collect();
        let expected = ["a", "a/other", "back", "back/a", "back/a/other"];
        assert_eq!(found, expected.map(std::path::PathBuf::from));
    }
    assert_eq!(std::fs::read(world.path("target/a/other")).unwrap(), b"newer");
    assert_eq!(std::fs::read(world.path("target/back/a/other")).unwrap(), b"other");
    // A symbolic link would lead elsewhere.
    symlink(world.path("volume"), world.path("target/link")).unwrap();
    for name in ["link", "../volume", "a/b", "", ".."] {
        let left = world.run(&into(name)).await;
        assert!(matches!(left.result.outcome, Outcome::Failed(_)), "{name}: {:?}", left.result);
    }
    assert_eq!(std::fs::read(world.path("volume/a/other")).unwrap(), b"other");
}
