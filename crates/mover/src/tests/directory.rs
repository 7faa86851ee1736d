//! A repository in a directory of a volume that the mover mounts.

use super::world::{World, backup_of, restore_to, tree};
use crate::report::{Cause, Outcome};
use crate::task::{LookWork, Source, Target, TaskWork};

#[tokio::test(flavor = "multi_thread")]
async fn only_init_creates_the_repository_and_data_comes_back_from_it() {
    let world = World::bare();
    std::fs::create_dir(world.path("mounted")).unwrap();
    world.write("a", "content");
    let source = Source::Path { path: world.path("volume"), proof: None };
    let backup = world.in_directory("uid-1", TaskWork::Backup(backup_of(source)));
    assert_eq!(world.run(&backup).await.failed().cause, Cause::NoRepository);
    assert!(!world.path("mounted/team").exists(), "only Init creates directories");
    let Outcome::Initialized(made) = world.run(&world.in_directory("init", TaskWork::Init)).await.done()
    else {
        panic!()
    };
    assert!(made.created);
    let snapshot = world.run(&backup).await.backed_up().snapshot;
    let look = world.in_directory("look", TaskWork::Look(LookWork::new(5)));
    let Outcome::Looked(looked) = world.run(&look).await.done() else { panic!() };
    assert_eq!((looked.repository, looked.snapshots, looked.listed), (made.repository, 1, 1));
    assert!(looked.bytes > 0);
    std::fs::create_dir(world.path("target")).unwrap();
    let target = Target::Path { path: world.path("target"), proof: None };
    let restore = world.in_directory("restore", TaskWork::Restore(restore_to(&snapshot, target)));
    assert_eq!(world.run(&restore).await.restored().owners.count, 0);
    assert_eq!(tree(&world.path("volume")), tree(&world.path("target")));
}

/// A task may create its repository and store into it.
#[tokio::test(flavor = "multi_thread")]
async fn the_parts_after_init_use_the_new_repository() {
    let world = World::bare();
    world.write("a", "content");
    let source = Source::Path { path: world.path("volume"), proof: None };
    let works = [("init", TaskWork::Init), ("backup", TaskWork::Backup(backup_of(source)))];
    let task = world.in_directory("task", TaskWork::Init);
    let task = crate::task::Task { parts: world.tasks("task", works).parts, ..task };
    let (code, parts) = world.run(&task).await.parts();
    assert_eq!(code, 0, "{parts:?}");
    assert!(matches!(&parts[1].1, Outcome::BackedUp(backed_up) if backed_up.files == 1), "{parts:?}");
}
