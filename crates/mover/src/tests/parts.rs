//! Tasks with several parts: each has its own snapshot, tag and result, and a failed part does not stop the others.

use lifeboat_repository::lock::{Lock, LockKind, LockOptions};
use tokio_util::sync::CancellationToken;

use super::world::{World, access, backup_of, restore_to, tree};
use crate::report::{Cause, LogLine, Outcome};
use crate::task::{BackupWork, Proof, RestoreWork, Source, Target, Task, TaskWork, VOLUME_TAG};

fn backup(world: &World, directory: &str, at: &str) -> TaskWork {
    let source = Source::Path { path: world.path(directory), proof: Some(Proof::Directory) };
    TaskWork::Backup(BackupWork { at: Some(at.to_owned()), ..backup_of(source) })
}

fn write(world: &World, path: &str, content: &str) {
    let path = world.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn three(world: &World) -> Task {
    let works = [
        ("part-1", backup(world, "one", "/data")),
        ("part-2", backup(world, "missing", "/logs")),
        ("part-3", backup(world, "two", "/config")),
    ];
    world.tasks("task", works)
}

fn snapshot(outcome: &Outcome) -> String {
    let Outcome::BackedUp(backed_up) = outcome else { panic!("{outcome:?}") };
    backed_up.snapshot.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_fails_does_not_stop_the_others_and_only_it_is_done_again() {
    let world = World::new().await;
    write(&world, "one/a", "first");
    write(&world, "two/b", "second");
    let end = world.run(&three(&world)).await;
    let progress = end.lines.iter().filter_map(|line| match line {
        LogLine::Progress(reading) => reading.part.clone(),
        _ => None,
    });
    let progress: Vec<_> = progress.collect();
    assert!(progress.contains(&"part-1".to_owned()) && progress.contains(&"part-3".to_owned()));
    let is_failure =
        |line: &LogLine| matches!(line, LogLine::Message { text, .. } if text.contains("part part-2: "));
    assert!(end.lines.iter().any(is_failure), "{:?}", end.lines);
    let (code, first) = end.parts();
    assert_eq!(code, 1, "a task is done only if all of its parts are");
    let Outcome::Failed(failure) = &first[1].1 else { panic!("{first:?}") };
    assert_eq!(failure.cause, Cause::WrongVolume, "{}", failure.message);
    let repository = world.repository().await;
    for (number, path) in [(0, "/data"), (2, "/config")] {
        let (uid, outcome) = &first[number];
        let snapshot = repository.load_snapshot(snapshot(outcome).parse().unwrap()).await.unwrap();
        assert_eq!(
            (&*snapshot.paths, &*snapshot.tags[0]),
            (&[path.to_owned()][..], &*format!("lifeboat-task={uid}"))
        );
    }
    write(&world, "one/more", "written later");
    write(&world, "missing/c", "third");
    let (code, second) = world.run(&three(&world)).await.parts();
    assert_eq!((code, second.len()), (0, 3));
    for number in [0, 2] {
        assert_eq!(snapshot(&second[number].1), snapshot(&first[number].1), "its snapshot exists already");
    }
    assert_eq!(repository.load_snapshots().await.unwrap().len(), 3);
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_before_the_first_part_is_the_result_of_the_task() {
    let world = World::new().await;
    let mut task = three(&world);
    access(&mut task).passwords.truncate(1);
    let end = world.run(&task).await;
    assert_eq!((end.result.version, end.result.uid.as_str()), (1, "task"));
    assert_eq!(end.failed().cause, Cause::Password);
}

/// The second part waits for a lock when the mover is stopped: the first is done, the others report why they are not.
#[tokio::test(flavor = "multi_thread")]
async fn parts_that_are_stopped_or_never_begun_say_so() {
    let world = World::new().await;
    write(&world, "one/a", "first");
    write(&world, "two/b", "second");
    world.run(&world.tasks("earlier", [("part-1", backup(&world, "one", "/data"))])).await.parts();
    let mut task = three(&world);
    task.parts.swap(1, 2);
    task.lock.wait_seconds = 3600;
    let repository = world.repository().await;
    let lock = Lock::acquire(&repository, LockKind::Exclusive, &LockOptions::default()).await.unwrap();
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    let on_line = move |line: &LogLine| {
        if matches!(line, LogLine::Waiting { .. }) {
            stopping.cancel();
        }
    };
    let (code, parts) = world.run_with(&task, stop, on_line).await.parts();
    lock.release().await;
    assert_eq!((code, parts[0].1.is_done()), (1, true), "{parts:?}");
    for (uid, outcome) in &parts[1..] {
        let Outcome::Failed(failure) = outcome else { panic!("{uid}: {outcome:?}") };
        assert_eq!(failure.cause, Cause::Stopped);
    }
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_volumes_come_back_each_from_its_own_snapshot() {
    let world = World::new().await;
    write(&world, "one/deep/a", "first");
    write(&world, "two/b", "second");
    let works = [("part-1", backup(&world, "one", "/data")), ("part-2", backup(&world, "two", "/config"))];
    let (_, stored) = world.run(&world.tasks("task", works)).await.parts();
    let restore = |number: usize, target: &str, folder: &str| {
        let path = world.path(target);
        std::fs::create_dir_all(&path).unwrap();
        let target = Target::Path { path, proof: Some(Proof::Directory) };
        let work = restore_to(&snapshot(&stored[number].1), target);
        TaskWork::Restore(RestoreWork { folder: Some(folder.to_owned()), ..work })
    };
    let works = [("back-1", restore(0, "target-1", "/data")), ("back-2", restore(1, "target-2", "/config"))];
    let (code, restored) = world.run(&world.tasks("restore", works)).await.parts();
    assert_eq!(code, 0, "{restored:?}");
    for (from, to) in [("one", "target-1"), ("two", "target-2")] {
        assert_eq!(tree(&world.path(from)), tree(&world.path(to)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_of_several_paths_writes_none_of_them_if_one_is_not_stored() {
    let world = World::new().await;
    write(&world, "one/a", "first");
    let (_, stored) =
        world.run(&world.tasks("task", [("part-1", backup(&world, "one", "/data"))])).await.parts();
    let target = world.path("target");
    std::fs::create_dir_all(&target).unwrap();
    let restore = |folder: &str| {
        let target = Target::Path { path: target.clone(), proof: Some(Proof::Directory) };
        let work = restore_to(&snapshot(&stored[0].1), target);
        TaskWork::Restore(RestoreWork { folder: Some(folder.to_owned()), ..work })
    };
    let works = [("back-1", restore("/data")), ("back-2", restore("/data/none"))];
    let failure = world.run(&world.tasks("restore", works)).await.failed();
    assert_eq!(failure.cause, Cause::NotStored, "{}", failure.message);
    assert!(failure.message.contains("'/data' has a;"), "{}", failure.message);
    assert!(tree(&target).is_empty());
}

/// Two volumes of one host may be stored at one path. A parent of the other volume could have a file of the same name, size and
/// time with other content.
#[tokio::test(flavor = "multi_thread")]
async fn the_parent_of_a_volume_with_a_tag_is_its_own_last_snapshot() {
    let world = World::new().await;
    write(&world, "one/a", "first");
    write(&world, "two/b", "second");
    let of_volume = |directory: &str| {
        let TaskWork::Backup(mut work) = backup(&world, directory, "/source/data") else { panic!() };
        work.tags = vec![format!("{VOLUME_TAG}{directory}")];
        TaskWork::Backup(work)
    };
    let task = |one: &str, two: &str| world.tasks(one, [(one, of_volume("one")), (two, of_volume("two"))]);
    let first = world.run(&task("1.0", "1.1")).await.parts().1;
    let second = world.run(&task("2.0", "2.1")).await.parts().1;
    let repository = world.repository().await;
    for number in [0, 1] {
        let stored = repository.load_snapshot(snapshot(&second[number].1).parse().unwrap()).await.unwrap();
        assert_eq!(stored.parent.unwrap().to_string(), snapshot(&first[number].1), "part {number}");
    }
}
