use lifeboat_repository::files::FileKind;
use lifeboat_repository::prune::plan;

use super::world::World;
use crate::report::{Maintained, Outcome};
use crate::task::{MaintainWork, TaskWork};

async fn maintained(world: &World) -> Maintained {
    maintained_by(world, MaintainWork { prune: true, check: true, empty_is_meant: false }).await
}

async fn maintained_by(world: &World, work: MaintainWork) -> Maintained {
    let task = world.task("maintain", TaskWork::Maintain(work));
    let left = world.run(&task).await;
    match (left.code, left.result.outcome) {
        (0, Outcome::Maintained(maintained)) => maintained,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_snapshot_needs_leaves_the_index_and_what_is_whole_has_no_problems() {
    let world = World::new().await;
    world.write("a", vec![3; 50_000]);
    let first = world.run(&world.backup("uid-1")).await.backed_up().snapshot;
    world.write("a", vec![4; 60_000]);
    world.run(&world.backup("uid-2")).await.backed_up();
    let repository = world.repository().await;
    repository.remove_file(FileKind::Snapshot, first.parse().unwrap()).await.unwrap();
    let blobs = repository.load_index().await.unwrap().len();
    assert_eq!(maintained(&world).await.problems.count, 0);
    let left = repository.load_index().await.unwrap().len();
    // Packs that were removed from the index are deleted later, not at once.
    assert!(left < blobs, "{left} of {blobs} blobs are left");
    assert!(!plan::Options::default().grace.is_zero());
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_without_snapshots_is_pruned_only_where_that_is_meant() {
    let world = World::new().await;
    world.write("a", vec![3; 50_000]);
    let only = world.run(&world.backup("uid-1")).await.backed_up().snapshot;
    let repository = world.repository().await;
    repository.remove_file(FileKind::Snapshot, only.parse().unwrap()).await.unwrap();
    assert_eq!(maintained(&world).await, Maintained::default());
    assert!(!repository.load_index().await.unwrap().is_empty());
    let meant = MaintainWork { prune: true, check: true, empty_is_meant: true };
    assert_eq!(maintained_by(&world, meant).await.problems.count, 0);
    assert_eq!(repository.load_index().await.unwrap().len(), 0);
    world.assert_nothing_is_locked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_is_gone_is_a_problem() {
    let world = World::new().await;
    world.write("a", vec![3; 50_000]);
    world.run(&world.backup("uid-1")).await.backed_up();
    let repository = world.repository().await;
    let packs = repository.list(FileKind::Pack).await.unwrap();
    let task =
        world.task("check", TaskWork::Maintain(MaintainWork { check: true, ..MaintainWork::default() }));
    repository.remove_file(FileKind::Pack, packs[0].id).await.unwrap();
    let left = world.run(&task).await;
    let Outcome::Maintained(maintained) = left.result.outcome else { panic!("{:?}", left.result) };
    assert!(maintained.problems.count > 0 && !maintained.problems.first.is_empty());
}
